// What a seed is run with, and what came of it.
import type { Violation } from "../checkers/checker.ts";
import type { BrokerConfig } from "../model/config.ts";
import type { Codecs } from "../ports/codecs.ts";
import type { SwarmConfig } from "./swarm.ts";
import type { TraceEvent, WorldHost } from "./world.ts";

export interface SeedOptions {
  readonly host: WorldHost;
  readonly codecs: Codecs;
  /** Every key with its default. */
  readonly baseConfig: BrokerConfig;
  readonly onTrace?: (event: TraceEvent) => void;
  readonly adjust?: (swarm: SwarmConfig) => SwarmConfig;
  /** Fails on purpose: shows that the alarm works. */
  readonly isCanary?: boolean;
}

export interface SeedResult {
  readonly seed: number;
  readonly violations: readonly Violation[];
  /** A defect that is no invariant of the history: an assertion, an unexpected error. */
  readonly failure: string | undefined;
  /** Why the seed proves too little to be counted; undefined when it counts. */
  readonly notCounted: string | undefined;
  readonly hash: string;
  readonly checkpoints: readonly string[];
  readonly events: number;
  readonly simulatedMs: number;
  readonly nodes: number;
  readonly batches: number;
  readonly commands: number;
  readonly controllerMoves: number;
  /** Times that a partition got another leader. */
  readonly leadershipMoves: number;
  /** Partitions may have several replicas. */
  readonly hasReplicas: boolean;
  readonly reads: number;
  readonly starts: number;
  readonly faults: ReadonlyMap<string, number>;
  readonly marks: ReadonlyMap<string, number>;
  /** What the nemesis did, by name (see `SwarmConfig.acts`). */
  readonly acts: readonly string[];
  readonly swarm: string;
}
