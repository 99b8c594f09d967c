// What the reliability benchmark found out, as docs/reliability.json keeps it. null: not known, or does not apply.
import type { Machine } from "../result.ts";

/** Raised when a field is taken away or means something else. */
export const RELIABILITY_VERSION = 1;

export interface ReliabilityResult {
  readonly version: typeof RELIABILITY_VERSION;
  readonly machine: Machine;
  readonly commit: string;
  /** ISO 8601, UTC. */
  readonly startedAt: string;
  /** The command line to run it again. */
  readonly command: string;
  /** False: it was ended early, and holds what was measured so far. */
  readonly isComplete: boolean;
  readonly settings: ReliabilitySettings;
  /** By fault, then acks 0, 1, all. */
  readonly cells: readonly ReliabilityCell[];
}

export interface ReliabilitySettings {
  readonly nodes: number;
  readonly replicas: number;
  readonly minInSync: number;
  /** Of each fault, each after the cluster is whole again. */
  readonly rounds: number;
  readonly beforeMs: number;
  readonly faultMs: number;
  /** From the moment that the cluster is whole again. */
  readonly afterMs: number;
  /** Of each level of acknowledgement; by a schedule, whatever is answered. */
  readonly recordsPerSecond: number;
  readonly valueBytesMax: number;
  readonly seed: number;
}

export interface ReliabilityCell {
  /** Id of the fault. */
  readonly fault: string;
  /** The fault, for people. */
  readonly says: string;
  readonly acks: "0" | "1" | "all";
  /** Why the fault cannot be struck on this machine. */
  readonly notRun: string | null;
  /** Why it was tried and nothing was measured. */
  readonly failed: string | null;
  /** Null with either of these reasons. */
  readonly figures: CellFigures | null;
}

export interface CellFigures {
  /** Evidence that the fault struck, one line per round; fewer lines than rounds: it was not seen to strike. */
  readonly observed: readonly string[];
  readonly sent: number;
  /** With acks=0: handed over, nobody answers. */
  readonly acknowledged: number;
  readonly failed: number;
  readonly unknown: number;
  /** Acknowledged, and not to be read in the end from each of the replicas. */
  readonly lost: number;
  readonly duplicated: number;
  readonly outOfOrder: number;
  /** Acknowledged, and never looked for. */
  readonly unjudged: number;
  /** Without an acknowledgement, while the fault was on or after it. */
  readonly longestGapMs: number;
  readonly latencyMs: {
    readonly before: CellLatency | null;
    readonly during: CellLatency | null;
    readonly after: CellLatency | null;
  };
  /** What the checkers found broken. */
  readonly violations: readonly string[];
  /** What else was wrong in the end, and makes the figures worth less. */
  readonly doubts: readonly string[];
}

export interface CellLatency {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}
