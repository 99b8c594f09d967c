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
  /** Cells that need less than others share their cluster: fewer clusters, of which some have more than they need. */
  readonly sharesClusters: boolean;
  /** How often all of it is done, each time with clusters of its own. */
  readonly rounds: number;
  /** Configuration keys of every node. */
  readonly settings: Readonly<Record<string, string | number>>;
  /** Fewest requests acknowledged by a cluster of ten cells, of fewer in proportion: less shows nothing. */
  readonly sendsMin: number;
}

const cell = (workload: string, fault: string, target: CellName["target"]): CellName => ({ workload, fault, target });

/** What CI runs, with the self-test before it: three minutes at most on two cores that have nothing else to do. */
export const QUICK_CELLS: readonly CellName[] = [
  cell("acks-all", "kill", "leader"),
  cell("acks-all", "pause", "controller"),
  cell("acks-all", "cut-out", "leader"),
  cell("acks-all", "failpoint", "leader"),
  cell("acks-all", "power-loss", "all"),
  cell("acks-all", "sync-error", "follower"),
  cell("acks-mix", "kill", "leader"),
  cell("metadata", "kill", "controller"),
  cell("acks-all", "chunk", "leader"),
  cell("acks-all", "reset", "follower"),
];

export const QUICK_PLAN: Omit<ChaosPlan, "seed"> = {
  nodes: 3,
  cells: QUICK_CELLS,
  warmUpMs: 1_000,
  steadyMs: 500,
  faultMs: 5_000,
  recoveryMs: 30_000,
  cellsPerCluster: 12,
  sharesClusters: true,
  rounds: 1,
  settings: {},
  sendsMin: 500,
};

type Strike = readonly [fault: string, ...targets: CellName["target"][]];

/** Every kind, at whom it tells most. */
const STRIKES: readonly Strike[] = [
  ["kill", "leader", "controller", "majority", "all"],
  ["kill-restart", "leader", "all"],
  ["crash-loop", "leader", "follower"],
  ["failpoint", "leader", "follower"],
  ["failpoint-start", "one"],
  ["failpoint-stop", "follower"],
  ["pause", "leader", "controller", "follower", "majority"],
  ["stutter", "leader", "follower"],
  ["rolling-restart", "all"],
  ["lone-leader", "leader"],
  ["return-stale", "leader"],
  ["power-loss", "leader", "controller", "all"],
  ["power-loss-loop", "one"],
  ["power-loss-behind", "leader"],
  ["slow-sync", "leader", "follower"],
  ["slow-write", "follower"],
  ["short-write", "leader"],
  ["sync-error", "leader", "follower"],
  ["sync-error-lost", "leader"],
  ["write-error", "leader"],
  ["disk-full", "leader", "follower"],
  ["full-tmpfs", "leader"],
  ["full-ext4", "leader"],
  ["clock-forward", "leader"],
  ["clock-back", "controller"],
  ["clock-strobe", "all"],
  ["cut", "leader", "controller"],
  ["cut-peers", "leader"],
  ["cut-out", "leader", "follower"],
  ["cut-in", "leader", "follower"],
  ["delay", "leader"],
  ["stall", "leader"],
  ["stall-out", "follower"],
  ["chunk", "leader"],
  ["reset", "leader"],
  ["half-close", "follower"],
  ["corrupt-segment", "follower", "leader"],
  ["corrupt-cold", "leader", "follower"],
  ["corrupt-journal", "one"],
  ["lose-caches", "one"],
  ["corrupt-slot", "one"],
  ["lose-image", "one"],
  ["lose-superblock", "one"],
  ["lose-vote", "one"],
  ["corrupt-metadata", "one"],
  ["new-disk", "follower"],
  ["old-disk", "follower"],
];

/** Other workloads, where a fault tells something else. */
const OTHERS: readonly CellName[] = [
  cell("acks-all-pair", "kill", "leader"),
  cell("acks-all-pair", "return-stale", "leader"),
  cell("acks-mix", "kill", "leader"),
  cell("acks-mix", "pause", "leader"),
  cell("acks-mix", "power-loss", "all"),
  cell("big-batches", "kill", "leader"),
  cell("big-batches", "power-loss", "all"),
  cell("big-batches", "chunk", "leader"),
  cell("big-batches", "rolling-restart", "all"),
  cell("metadata", "kill", "controller"),
  cell("metadata", "pause", "controller"),
  cell("metadata", "cut", "controller"),
  cell("metadata", "power-loss", "all"),
  cell("metadata", "rolling-restart", "all"),
];

/** What `--hour` runs. */
export const HOUR_PLAN: Omit<ChaosPlan, "seed"> = {
  ...QUICK_PLAN,
  cells: [
    ...STRIKES.flatMap(([fault, ...targets]) => targets.map((target) => cell("acks-all", fault, target))),
    ...OTHERS,
  ],
  warmUpMs: 5_000,
  steadyMs: 4_000,
  faultMs: 12_000,
  recoveryMs: 60_000,
  cellsPerCluster: 10,
  sharesClusters: false,
  rounds: 2,
  sendsMin: 1_000,
};
