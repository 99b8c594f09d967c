// What the command and its load processes tell each other. A load process has some of the run's connections; times are the machine's clock.
import type { LoadMode } from "../result.ts";

export type LoadVerb = "produce" | "consume" | "e2e";
export type LoadAcks = 0 | 1 | "all";

/** One process's share of a run. */
export interface LoadPlan {
  readonly verb: LoadVerb;
  readonly brokers: readonly string[];
  readonly topic: string;
  readonly partitions: number;
  readonly acks: LoadAcks;
  readonly recordBytes: number;
  readonly batchBytes: number;
  readonly lingerMs: number;
  /** Batches that a connection may have under way. */
  readonly inFlight: number;
  readonly mode: LoadMode;
  /** Open loop: records per second of all connections together. */
  readonly ratePerSecond: number;
  /** Closed loop: adds what was omitted while a record was waited for, as if one had been due so often; 0: adds nothing. */
  readonly expectedIntervalMs: number;
  /** Of all processes. */
  readonly connections: number;
  /** Numbers of the connections of this process. */
  readonly own: readonly number[];
  /** Partitions that this process reads (e2e). */
  readonly read: readonly number[];
  /** Length of an entry of the timeline. */
  readonly windowMs: number;
  /** Sequences are kept and compared (e2e). */
  readonly isChecked: boolean;
}

/** Warm-up from `beginMs`; what counts lies in [startMs, untilMs). */
export interface Span {
  readonly beginMs: number;
  readonly startMs: number;
  readonly untilMs: number;
}

/** Counted as a failure: the schedule did not get to send them. */
export const NOT_SENT = "NOT_SENT";

export type ToLoad =
  | { readonly kind: "plan"; readonly plan: LoadPlan }
  | { readonly kind: "go"; readonly span: Span }
  /** Every producer of all processes has ended: read what is left. At least so many records are in each partition. */
  | { readonly kind: "drain"; readonly acknowledged: readonly PartitionCount[] }
  /** End the measured time now. */
  | { readonly kind: "stop" };

export type FromLoad =
  | { readonly kind: "hello" }
  /** Connected, and the topic is known. */
  | { readonly kind: "ready" }
  | WindowMessage
  /** Nothing more will be sent, and everything that was has its answer. */
  | { readonly kind: "sent"; readonly acknowledged: readonly PartitionCount[] }
  | DoneMessage
  | { readonly kind: "failed"; readonly code: string; readonly message: string };

/** What one window of time brought; sent for each window, also for an empty one. */
export interface WindowMessage {
  readonly kind: "window";
  /** From 0 at the start of the measured time. */
  readonly index: number;
  readonly records: number;
  readonly bytes: number;
  /** "" when nothing was timed. */
  readonly histogram: string;
}

export interface DoneMessage {
  readonly kind: "done";
  readonly cpuSeconds: number;
  /** Records of the measured time that failed, by code. */
  readonly errors: Readonly<Record<string, number>>;
  /** How late a record was handed to its producer (open loop); "" without. */
  readonly late: string;
  readonly sent: readonly SentLane[];
  readonly received: readonly ReceivedLane[];
  /** Partitions whose end was not reached (e2e). */
  readonly unread: readonly number[];
}

export type PartitionCount = readonly [partition: number, records: number];

export type SequenceRange = readonly [from: number, to: number];

/** What one connection sent to one partition: sequences 0 to count - 1. */
export interface SentLane {
  readonly connection: number;
  readonly partition: number;
  readonly count: number;
  /** Not acknowledged, both ends included. */
  readonly failed: readonly SequenceRange[];
}

/** What was read of one lane. */
export interface ReceivedLane {
  readonly connection: number;
  readonly partition: number;
  /** One more than the highest sequence. */
  readonly next: number;
  /** Below `next` and not received, both ends included. */
  readonly gaps: readonly SequenceRange[];
  readonly duplicates: number;
  /** Came after a higher one. */
  readonly outOfOrder: number;
}
