// What a failover measurement and its client processes tell each other. Times are of the machine's monotonic clock.

export interface ProbePlan {
  readonly kind: "probe";
  readonly topic: string;
  readonly partition: number;
  readonly brokers: readonly string[];
}

export interface SteadyPlan {
  readonly kind: "load";
  readonly topic: string;
  readonly partitions: number;
  readonly recordsPerSecond: number;
  readonly recordBytes: number;
  readonly brokers: readonly string[];
}

export type ClientPlan = ProbePlan | SteadyPlan;

export type FromClient =
  /** It listens. */
  | { readonly kind: "hello" }
  /** A probe's record was acknowledged; `dueMs`: when it was to be sent. */
  | { readonly kind: "acknowledged"; readonly dueMs: number; readonly atMs: number }
  | { readonly kind: "failed"; readonly what: string }
  /** Of the load, since its start. */
  | { readonly kind: "progress"; readonly atMs: number; readonly acknowledged: number; readonly failed: number };
