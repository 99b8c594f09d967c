// What one seed tries: drawn once, printed first. Each kind of fault is off in half of the seeds.
import type { Rng } from "../../base/rng.ts";
import { PRODUCERS_MAX } from "../../model/producer-table.ts";

/** Kinds of faults, each with its mean time between two in ms; 0 = off. */
export const FAULTS = [
  "isolate",
  "halves",
  "oneWay",
  "fromController",
  "breakLinks",
  "crash",
  "crashLeader",
  "powerLoss",
  "powerLossOfAll",
  "quickRestart",
  "restartInOrder",
  "pause",
  "pauseLeader",
  "slowDisk",
  "fullDisk",
  "wipe",
  "oldDisk",
  "damage",
  "controllerOutage",
  "minIsr",
  "preferred",
  "unclean",
] as const;
export type FaultKind = (typeof FAULTS)[number];

export interface ReplicationSwarm {
  readonly nodes: number;
  readonly partitions: number;
  readonly replicationFactor: number;
  /** undefined: the majority of the replication factor. */
  readonly minIsr: number | undefined;
  readonly safetyMs: number;
  readonly faultMeanMs: Readonly<Record<FaultKind, number>>;
  // The control connections: to the controller and back.
  readonly controlDelayMsMean: number;
  readonly controlLossChance: number;
  readonly controlLateChance: number;
  /** How late a committed record reaches a broker. */
  readonly metadataDelayMsMean: number;
  /** A broker looks at each applied record; otherwise only at the last of those that came together. */
  readonly isStepwise: boolean;
  // The bulk connections: from followers to leaders and back.
  readonly bulkDelayMsMean: number;
  /** Chance that what was on its way on a connection that broke comes late, not never (N3). */
  readonly lateBytesChance: number;
  /** What belongs to older sessions reaches the cores, which must tell by themselves. */
  readonly passesOldSessions: boolean;
  /** Chance that a core is given a record once more that is not the newest any more. */
  readonly staleRecordChance: number;
  /** What a leader cannot serve yet waits for its role instead of being refused. */
  readonly holdsBack: boolean;
  readonly batchesPerAnswer: number;
  // Disks.
  readonly writeMs: number;
  readonly syncMsMean: number;
  readonly slowSyncChance: number;
  readonly checkpointMsMean: number;
  // Producers.
  readonly produceMeanMs: number;
  readonly deadlineMs: number;
  /** Chance that a batch is sent with acks=1; another one in ten of these with acks=0. */
  readonly acksOneChance: number;
  readonly zombieChance: number;
  /** Producers with an id, and the chance that a batch is one of theirs. */
  readonly producersPerPartition: number;
  readonly idempotentChance: number;
  /** How long such a producer sends a batch again. */
  readonly deliveryMs: number;
  readonly producerLifeMsMean: number;
  /**
   * A partition remembers so many. Where these are fewer than PRODUCERS_MAX, what was sent first never comes after what was sent again, or after the
   * epoch that follows it: no request is on its way for as long as ten thousand others take to write.
   */
  readonly producersMax: number;
  /** Others send batches under the numbers of what was acknowledged. Only where that is never lost or forgotten. 0: nobody does. */
  readonly forgeMeanMs: number;
  /** The checker looks into the tables of producers; otherwise at what producers are told and what is committed alone. */
  readonly checksTables: boolean;
  /** 0: no log start is raised. */
  readonly trimMeanMs: number;
  /** Infinity: no producer expires. Else as with few `producersMax`: no first batch comes that late. */
  readonly producerExpirationMs: number;
  // Brokers and the controller.
  readonly lagMaxMs: number;
  readonly backoffMs: number;
  readonly heartbeatMs: number;
  readonly sessionMs: number;
  /** Chance that a dead process is noticed at once by its refused connections (D-22). */
  readonly refusedChance: number;
  readonly balanceMs: number;
  /** Chances of a crash at the moments that matter. */
  readonly crashAtLead: number;
  readonly crashAtTruncate: number;
  readonly crashAtReport: number;
  /** Seeds in which even the last good copy may be lost: then the partition must stop, and an operator goes on. */
  readonly goesBeyondAtlas: boolean;
}

export function drawSwarm(rng: Rng): ReplicationSwarm {
  const shortestMs = rng.pick([700, 2000, 5000]);
  const faultMeanMs = Object.fromEntries(
    FAULTS.map((kind) => [kind, rng.chance(0.5) ? 0 : Math.round(shortestMs * 16 ** (rng.below(1000) / 1000))]),
  ) as Record<FaultKind, number>;
  // What an operator seldom does: in a seed with it most of the other checks hold their breath.
  if (rng.chance(0.7)) faultMeanMs.unclean = 0;
  const nodes = rng.pick([1, 2, 3, 3, 3, 3, 4, 5]);
  const replicationFactor = rng.chance(0.8) ? nodes : rng.between(1, nodes);
  const drawn = {
    nodes,
    partitions: rng.pick([1, 1, 2, 3]),
    replicationFactor,
    minIsr: rng.chance(0.5) ? undefined : rng.between(1, Math.min(3, replicationFactor)),
    safetyMs: rng.between(15_000, 30_000),
    faultMeanMs,
    controlDelayMsMean: rng.pick([0.5, 2, 20]),
    controlLossChance: rng.chance(0.5) ? 0 : rng.pick([0.02, 0.2]),
    controlLateChance: rng.chance(0.5) ? 0 : rng.pick([0.02, 0.2]),
    metadataDelayMsMean: rng.pick([1, 5, 50, 300]),
    isStepwise: rng.chance(0.5),
    bulkDelayMsMean: rng.pick([0.3, 1, 5, 30]),
    lateBytesChance: rng.chance(0.5) ? 0 : rng.pick([0.2, 0.8]),
    passesOldSessions: rng.chance(0.5),
    staleRecordChance: rng.chance(0.5) ? 0 : 0.3,
    holdsBack: rng.chance(0.5),
    batchesPerAnswer: rng.pick([1, 3, 20]),
    writeMs: rng.pick([0.05, 0.3, 2]),
    syncMsMean: rng.pick([0.5, 3, 15]),
    slowSyncChance: rng.chance(0.5) ? 0 : 0.02,
    checkpointMsMean: rng.pick([300, 2000]),
    produceMeanMs: rng.pick([15, 40, 120]),
    deadlineMs: rng.pick([500, 3000]),
    acksOneChance: rng.pick([0, 0.1, 0.5]),
    zombieChance: rng.pick([0.1, 0.5]),
    lagMaxMs: rng.pick([300, 1000, 3000]),
    backoffMs: rng.pick([100, 1000]),
    heartbeatMs: rng.pick([100, 500]),
    sessionMs: rng.pick([600, 1500, 3000]),
    refusedChance: rng.chance(0.5) ? 0 : 0.8,
    balanceMs: rng.pick([0, 500, 2000]),
    crashAtLead: rng.chance(0.6) ? 0 : rng.pick([0.2, 0.6]),
    crashAtTruncate: rng.chance(0.6) ? 0 : rng.pick([0.2, 0.6]),
    crashAtReport: rng.chance(0.8) ? 0 : 0.01,
    goesBeyondAtlas: rng.chance(0.05),
    producersPerPartition: rng.pick([1, 1, 2, 4]),
    idempotentChance: rng.pick([0.2, 0.7, 1]),
    deliveryMs: rng.pick([1_000, 5_000, 20_000]),
    producerLifeMsMean: rng.pick([500, 3_000]),
    checksTables: true,
    producersMax: rng.chance(0.7) ? PRODUCERS_MAX : rng.pick([1, 2, 3, 4]),
  };
  const forges = rng.fork("forged batches");
  const mayForge = drawn.producersMax === PRODUCERS_MAX && faultMeanMs.unclean === 0 && !drawn.goesBeyondAtlas;
  const forgeMeanMs = mayForge && forges.chance(0.3) ? forges.pick([50, 300]) : 0;
  const trims = rng.fork("trims");
  const never = Number.POSITIVE_INFINITY;
  if (!trims.chance(0.2)) return { ...drawn, forgeMeanMs, trimMeanMs: 0, producerExpirationMs: never };
  const producerExpirationMs = trims.pick([never, never, 300, 3_000]);
  return { ...drawn, forgeMeanMs: 0, trimMeanMs: trims.pick([200, 1_000, 4_000]), producerExpirationMs };
}
