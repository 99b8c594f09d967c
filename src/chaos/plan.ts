// Which cells a chaos run has, and how long each part of one lasts.
import type { CellName } from "./report.ts";

export interface ChaosPlan {
  readonly nodes: number;
  /** Strikes in their order, those of one kind of cluster and of one workload together. */
  readonly cells: readonly CellName[];
  /** Of each workload, before its first cell. */
  readonly warmUpMs: number;
  /** Before each fault. */
  readonly steadyMs: number;
  readonly faultMs: number;
  /** Bound of the time from the heal until all is well. */
  readonly recoveryMs: number;
  readonly seed: number;
  /** Cells of one cluster, at most: its history is held in memory when it is judged. */
  readonly cellsPerCluster: number;
  /** How often all of it is done, each time with clusters of its own. */
  readonly rounds: number;
  /** Configuration keys of every node. */
  readonly settings: Readonly<Record<string, string | number>>;
  /** Fewest records acknowledged by one cluster: less shows nothing. */
  readonly sendsMin: number;
}

const cell = (workload: string, fault: string, target: CellName["target"]): CellName => ({ workload, fault, target });

/** What CI runs: three minutes at most. */
export const QUICK_CELLS: readonly CellName[] = [
  cell("acks-all", "kill", "leader"),
  cell("acks-all", "pause", "controller"),
];

export const QUICK_PLAN: Omit<ChaosPlan, "seed"> = {
  nodes: 3,
  cells: QUICK_CELLS,
  warmUpMs: 1_500,
  steadyMs: 1_000,
  faultMs: 6_000,
  recoveryMs: 30_000,
  cellsPerCluster: 12,
  rounds: 1,
  settings: {},
  sendsMin: 500,
};

/** What `--hour` runs: the same cells with more of them and longer, again and again. */
export const HOUR_PLAN: Omit<ChaosPlan, "seed"> = {
  ...QUICK_PLAN,
  warmUpMs: 5_000,
  steadyMs: 5_000,
  faultMs: 15_000,
  recoveryMs: 60_000,
  cellsPerCluster: 10,
  rounds: 4,
  sendsMin: 10_000,
};
