// What one seed tries: drawn once, printed first. Each kind of fault is off in half of the seeds.
import type { Rng } from "../../base/rng.ts";
import { DEFAULT_SETTINGS, type RaftSettings } from "../../raft/settings.ts";

/** Kinds of faults, each with its mean time between two in ms; 0 = off. */
export const FAULTS = [
  "isolate",
  "halves",
  "oneWay",
  "bridge",
  "crash",
  "powerLoss",
  "pause",
  "diskFailure",
  "transfer",
  "member",
  "wipe",
  "crashLeader",
] as const;
export type FaultKind = (typeof FAULTS)[number];

export interface RaftSwarm {
  readonly founders: number;
  /** Nodes with empty disks that membership changes may bring in. */
  readonly spares: number;
  readonly safetyMs: number;
  readonly faultMeanMs: Readonly<Record<FaultKind, number>>;
  readonly lossChance: number;
  readonly duplicateChance: number;
  readonly delayMsMean: number;
  /** Chance of a delay up to 100 times as long: what reorders. */
  readonly lateChance: number;
  readonly syncMsMean: number;
  readonly slowSyncChance: number;
  readonly tickSkipChance: number;
  /** Of each node's clock, in both directions. */
  readonly driftMax: number;
  readonly proposalMeanMs: number;
  readonly snapshotEvery: number;
  readonly snapshotBytes: number;
  /** Chances of a crash at the moments that matter: a vote just given, a leader just elected, a snapshot just received. */
  readonly crashAtVote: number;
  readonly crashAtLead: number;
  readonly crashAtInstall: number;
  /** Chance that somebody else campaigns at about the same time. */
  readonly rivalChance: number;
  /** Chance that a crash is noticed by the others as refused connections (D-22). */
  readonly refusedChance: number;
  readonly settings: RaftSettings;
}

export function drawSwarm(rng: Rng): RaftSwarm {
  const faultMeanMs = Object.fromEntries(
    FAULTS.map((kind) => [kind, rng.chance(0.5) ? 0 : Math.round(500 * 16 ** (rng.below(1000) / 1000))]),
  ) as Record<FaultKind, number>;
  const isSmall = rng.chance(0.5);
  return {
    founders: rng.pick([3, 3, 5, 4]),
    spares: faultMeanMs.member > 0 || faultMeanMs.wipe > 0 ? rng.below(3) : 0,
    safetyMs: rng.between(20_000, 30_000),
    faultMeanMs,
    lossChance: rng.chance(0.5) ? 0 : rng.pick([0.01, 0.05, 0.2]),
    duplicateChance: rng.chance(0.5) ? 0 : rng.pick([0.02, 0.2]),
    delayMsMean: rng.pick([1, 3, 10]),
    lateChance: rng.chance(0.5) ? 0 : rng.pick([0.01, 0.1]),
    syncMsMean: rng.pick([0.5, 3, 15]),
    slowSyncChance: rng.chance(0.5) ? 0 : 0.02,
    tickSkipChance: rng.chance(0.5) ? 0 : rng.pick([0.02, 0.1]),
    driftMax: rng.chance(0.5) ? 0 : 0.1,
    proposalMeanMs: isSmall ? rng.pick([25, 50]) : rng.pick([10, 25, 50]),
    snapshotEvery: rng.pick([5, 25, 100, 1000]),
    snapshotBytes: rng.pick([8, 24, 60]),
    crashAtVote: rng.chance(0.6) ? 0 : rng.pick([0.2, 0.7]),
    crashAtLead: rng.chance(0.6) ? 0 : rng.pick([0.2, 0.6]),
    crashAtInstall: rng.chance(0.6) ? 0 : 0.3,
    rivalChance: rng.chance(0.5) ? 0 : 0.7,
    refusedChance: rng.chance(0.5) ? 0 : 0.7,
    settings: {
      ...DEFAULT_SETTINGS,
      entriesPerMessageMax: isSmall ? 1 : rng.pick([2, 8, 64]),
      bytesPerMessageMax: rng.pick([80, 1000, 100_000]),
      inFlightMessagesMax: isSmall ? rng.pick([3, 16]) : rng.pick([1, 3, 16]),
      inFlightBytesMax: rng.pick([300, 1000, 100_000]),
      uncommittedEntriesMax: rng.pick([4, 32, 1024]),
      waitingReadsMax: rng.pick([2, 64]),
      applyEntriesMax: rng.pick([1, 8, 256]),
      retainedEntries: rng.pick([0, 3, 50]),
      snapshotChunkBytes: rng.pick([4, 16, 1024]),
      promotionLagMax: rng.pick([0, 5, 64]),
    },
  };
}
