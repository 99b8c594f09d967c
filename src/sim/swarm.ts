// The configuration of one seed. Each fault class is off in half of the seeds, else its rate is drawn log-uniformly: seeds
// without a fault reach states that a storm of faults never lets appear.
import type { Rng } from "../base/rng.ts";
import type { Acks } from "../client/types.ts";
import type { BrokerConfig } from "../model/config.ts";
import type { CompressionName } from "../ports/codecs.ts";
import type { RaftSettings } from "../raft/settings.ts";
import type { DiskOptions } from "./disk.ts";
import type { LinkQuality } from "./pipe.ts";
import { drawMetadataPlan, type MetadataPlan } from "./workload/metadata-clients.ts";

/** Mean milliseconds between two faults of a class; 0 = off. */
export interface FaultRates {
  /** D3, P1. */
  readonly processDeathMs: number;
  /** D1, D2. */
  readonly powerLossMs: number;
  /** P1: chance that a start is crashed again while it recovers, up to five times in a row. */
  readonly crashInRecovery: number;
  /** D7. */
  readonly failedSyncMs: number;
  /** D9. */
  readonly fullDiskMs: number;
  /** N2. */
  readonly cutMs: number;
  /** N5. */
  readonly slowLinkMs: number;
  /** N3. */
  readonly lateBytesMs: number;
  /** N4. */
  readonly partitionMs: number;
  /** P2. */
  readonly pauseMs: number;
  /** C1. */
  readonly clockMs: number;
  /** Of the node that leads the quorum; P1. */
  readonly controllerDeathMs: number;
  /** D4: several machines, or all, within a millisecond. */
  readonly correlatedLossMs: number;
  /** D5, in files of the metadata log. */
  readonly rotMs: number;
  /** D11. */
  readonly wipeMs: number;
  /** D11: the state of the disk of some time ago. */
  readonly oldDiskMs: number;
  /** P3: chance that a dead process is back within its session. */
  readonly quickRestart: number;
  /** Of a node that leads a partition. */
  readonly leaderDeathMs: number;
  /** An ordered stop and a start. */
  readonly orderedRestartMs: number;
  /** D10. */
  readonly slowDiskMs: number;
  /** D5, in files of partitions. */
  readonly partitionRotMs: number;
  /** D5, in the journal. */
  readonly journalRotMs: number;
  /** D8: a page of a segment that cannot be read. */
  readonly unreadableMs: number;
  /** D5, D6: files of partitions, of nodes that run and of some that are down. */
  readonly atRestMs: number;
  /** More than 0: D5, D8 and D11 may take the last good copy of a partition. */
  readonly recklessness: number;
}

/** What an operator does to a cluster (R1), and how often. Mean milliseconds; 0 = never. */
export interface OperatorPlan {
  readonly membersMs: number;
  readonly transferMs: number;
  /** Unclean elections of partitions without an intact replica; now and then of others that nobody leads. */
  readonly uncleanMs: number;
  readonly preferredMs: number;
  readonly minIsrMs: number;
  /** DeleteRecords. */
  readonly trimMs: number;
  /** Nodes begin with software of the older metadata version, and are upgraded one by one. */
  readonly isUpgrade: boolean;
}

export interface ClusterPlan {
  /** Listed in the configuration of each. */
  readonly voters: number;
  readonly observers: number;
}

export interface ClientPlan {
  readonly acks: readonly Acks[];
  readonly lingerMs: number;
  readonly batchBytes: number;
  readonly compression: CompressionName;
  readonly maxInFlight: number;
  readonly thinkMs: number;
  readonly burstMax: number;
  readonly valueBytesMax: number;
  readonly fetchBytes: number;
  /** Of each life one of these: until a send is given up. */
  readonly deliveryMs: readonly number[];
  /** Batches of acks=all have numbers and are sent again until they are acknowledged. */
  readonly isIdempotent: boolean;
  /** The producer has a name, over all its lives. */
  readonly isNamed: boolean;
  /** Mean time until the process dies or, of a named one, another one takes its name; 0 = never. */
  readonly deathMs: number;
}

export interface SwarmConfig {
  readonly safetyMs: number;
  /** When a node is stopped in order, so that every run sees a restart. */
  readonly restartAtMs: number;
  /** Of the nemesis, only what has these names happens; undefined: everything. */
  readonly acts?: readonly string[];
  readonly cluster: ClusterPlan;
  readonly faults: FaultRates;
  readonly operator: OperatorPlan;
  /** Of the clients that quarrel about topics and configuration. */
  readonly metadata: MetadataPlan;
  readonly raft: Partial<RaftSettings>;
  readonly link: LinkQuality;
  readonly disk: DiskOptions;
  readonly topics: number;
  readonly partitionsMax: number;
  /** Most replicas of a partition; each topic draws its own. */
  readonly replicasMax: number;
  readonly clients: readonly ClientPlan[];
  /** B1: clients that keep no rule. */
  readonly badClients: number;
  /** Of a topic to have records that are deleted or compacted within the run. */
  readonly lifeChance: number;
  /** Mean milliseconds between deletions of a topic; 0 = never. */
  readonly deleteTopicMs: number;
  readonly broker: BrokerConfig;
}

const KiB = 1024;

function logUniform(rng: Rng, low: number, high: number): number {
  return low * (high / low) ** (rng.u32() / 2 ** 32);
}

function rate(rng: Rng, lowMs: number, highMs: number): number {
  const drawn = Math.round(logUniform(rng, lowMs, highMs));
  return rng.chance(0.5) ? 0 : drawn;
}

/** One node alone in a tenth of the seeds: what step by step became a cluster must go on working by itself. */
function drawCluster(rng: Rng): ClusterPlan {
  const voters = rng.pick([1, 3, 3, 3, 3, 3, 3, 3, 5, 5]);
  const observers = voters === 1 ? 0 : rng.pick([0, 0, 0, 1, 2]);
  return { voters, observers: voters === 5 ? 0 : observers };
}

/** Off where there is one node. */
const SEVERAL_NEEDED = {
  controllerDeathMs: 0,
  correlatedLossMs: 0,
  rotMs: 0,
  wipeMs: 0,
  oldDiskMs: 0,
  leaderDeathMs: 0,
  partitionRotMs: 0,
  journalRotMs: 0,
  unreadableMs: 0,
  atRestMs: 0,
  recklessness: 0,
};

function drawFaults(rng: Rng, { voters, observers }: ClusterPlan): FaultRates {
  const single = {
    processDeathMs: rate(rng, 1000, 10_000),
    powerLossMs: rate(rng, 1000, 10_000),
    crashInRecovery: rng.chance(0.5) ? 0 : 0.3,
    failedSyncMs: rate(rng, 1500, 10_000),
    fullDiskMs: rate(rng, 2000, 10_000),
    cutMs: rate(rng, 300, 10_000),
    slowLinkMs: rate(rng, 2000, 10_000),
    lateBytesMs: rate(rng, 1000, 10_000),
    pauseMs: rate(rng, 1500, 10_000),
    clockMs: rate(rng, 1000, 10_000),
    partitionMs: rate(rng, 1500, 10_000),
    quickRestart: rng.chance(0.5) ? 0 : 0.7,
    orderedRestartMs: rate(rng, 2000, 15_000),
    slowDiskMs: rate(rng, 2000, 15_000),
  };
  const several = {
    controllerDeathMs: rate(rng, 2000, 10_000),
    correlatedLossMs: rate(rng, 4000, 20_000),
    rotMs: rate(rng, 4000, 20_000),
    wipeMs: rate(rng, 5000, 20_000),
    oldDiskMs: rate(rng, 5000, 20_000),
    leaderDeathMs: rate(rng, 1500, 10_000),
    partitionRotMs: rate(rng, 3000, 15_000),
    journalRotMs: rate(rng, 3000, 15_000),
    unreadableMs: rate(rng, 3000, 15_000),
    recklessness: rng.chance(0.1) ? 1 : 0,
    atRestMs: rate(rng, 500, 8000),
  };
  return voters + observers === 1 ? { ...single, ...SEVERAL_NEEDED } : { ...single, ...several };
}

export const NO_OPERATOR: OperatorPlan = {
  membersMs: 0,
  transferMs: 0,
  uncleanMs: 0,
  preferredMs: 0,
  minIsrMs: 0,
  trimMs: 0,
  isUpgrade: false,
};

function drawOperator(rng: Rng, { voters, observers }: ClusterPlan): OperatorPlan {
  const plan = {
    membersMs: rate(rng, 1500, 8000),
    transferMs: rate(rng, 1000, 8000),
    uncleanMs: rate(rng, 1000, 5000),
    preferredMs: rate(rng, 1000, 8000),
    minIsrMs: rate(rng, 1000, 8000),
    isUpgrade: rng.chance(0.2),
    trimMs: rate(rng, 500, 5000),
  };
  return voters + observers === 1 ? NO_OPERATOR : plan;
}

/** Small, so that followers fall behind a snapshot and messages carry little. */
function drawRaft(rng: Rng): Partial<RaftSettings> {
  return {
    entriesPerMessageMax: rng.pick([1, 8, 256]),
    inFlightMessagesMax: rng.pick([1, 4, 16]),
    retainedEntries: rng.pick([0, 8, 64, 1024]),
    snapshotChunkBytes: rng.pick([512, 4 * KiB, 256 * KiB]),
    promotionLagMax: rng.pick([4, 64]),
  };
}

function drawClient(rng: Rng): ClientPlan {
  return {
    acks: rng.pick<readonly Acks[]>([["all"], ["all"], ["all", 1], ["all", 1, 0]]),
    lingerMs: rng.pick([0, 1, 5, 20]),
    batchBytes: rng.pick([512, 1024, 4096]),
    compression: rng.chance(0.8) ? "none" : rng.pick<CompressionName>(["gzip", "snappy", "lz4", "zstd"]),
    maxInFlight: rng.pick([1, 2, 8]),
    thinkMs: logUniform(rng, 20, 100),
    burstMax: rng.pick([1, 4, 8]),
    valueBytesMax: rng.pick([40, 200, 400]),
    fetchBytes: rng.pick([1 * KiB, 16 * KiB, 256 * KiB]),
    deliveryMs: [3000, 10_000, 30_000],
    isIdempotent: rng.chance(0.85),
    isNamed: rng.chance(0.3),
    deathMs: rate(rng, 2000, 15_000),
  };
}

/** Up to five, as many as there are nodes; one alone now and then, as before there were replicas. */
function drawReplicas(rng: Rng, { voters, observers }: ClusterPlan): number {
  const most = Math.min(5, voters + observers);
  return rng.chance(0.1) ? 1 : rng.pick([most, most, Math.min(3, most), Math.min(2, most)]);
}

function drawBroker(rng: Rng, base: BrokerConfig, replicasMax: number): BrokerConfig {
  return {
    ...base,
    "segment.bytes": rng.pick([2 * KiB, 4 * KiB, 16 * KiB, 64 * KiB]),
    "index.interval.bytes": rng.pick([128, 1024, 4096]),
    "max.message.bytes": 2 * KiB,
    "journal.bytes": rng.pick([16 * KiB, 32 * KiB, 128 * KiB]),
    "journal.pinned.bytes": rng.pick([64 * KiB, 256 * KiB]),
    "checkpoint.interval.ms": rng.pick([200, 1000, 5000]),
    "tail.cache.bytes": rng.pick([0, 4 * KiB, 256 * KiB]),
    "disk.low.space.bytes": 64 * KiB,
    "disk.reserve.bytes": rng.pick([0, 16 * KiB, 64 * KiB]),
    "open.files.max": rng.pick([8, 64]),
    "connection.unsent.bytes": 64 * KiB,
    "connection.inflight.bytes": 1024 * KiB,
    "produce.inflight.bytes": 1024 * KiB,
    "unsent.bytes": 1024 * KiB,
    "request.timeout.ms": 2000,
    "shutdown.timeout.ms": 5000,
    "broker.heartbeat.interval.ms": rng.pick([100, 500]),
    "broker.session.timeout.ms": rng.pick([1000, 3000]),
    "metadata.log.max.record.bytes.between.snapshots": rng.pick([1 * KiB, 8 * KiB, 64 * KiB]),
    "default.replication.factor": rng.pick([1, replicasMax]),
    "replica.lag.time.max.ms": rng.pick([1000, 3000, 3000, 10_000]),
    "replica.fetch.wait.max.ms": rng.pick([50, 500]),
    "replica.fetch.max.bytes": rng.pick([4 * KiB, 16 * KiB, 1024 * KiB]),
    "replica.fetch.response.max.bytes": rng.pick([16 * KiB, 64 * KiB, 1024 * KiB]),
    "replica.fetch.backoff.ms": rng.pick([100, 1000]),
    "auto.leader.rebalance.enable": rng.chance(0.7) ? 1 : 0,
    "leader.imbalance.check.interval.seconds": rng.pick([1, 2, 5]),
  };
}

/** What brokers do with segments by themselves: often, and as slowly as they like. */
function drawUpkeep(rng: Rng) {
  return {
    "log.retention.check.interval.ms": rng.pick([100, 500, 2000]),
    "log.cleaner.backoff.ms": rng.pick([50, 500, 2000]),
    "log.cleaner.dedupe.buffer.size": 64 * KiB,
    "log.cleaner.io.max.bytes.per.second": rng.pick([16 * KiB, 256 * KiB, 16 * KiB * KiB]),
    "log.scrub.period.ms": rng.pick([2000, 4000, 8000]),
    "log.scrub.io.max.bytes.per.second": rng.pick([64 * KiB, 1024 * KiB]),
    // Longer than any producer tries to send one batch.
    "producer.id.expiration.ms": rng.pick([40_000, Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER]),
  };
}

export function drawSwarm(rng: Rng, base: BrokerConfig): SwarmConfig {
  const link = rng.fork("link");
  const disk = rng.fork("disk");
  const load = rng.fork("load");
  const cluster = drawCluster(rng.fork("cluster"));
  const replicasMax = drawReplicas(rng.fork("replicas"), cluster);
  return {
    safetyMs: 30_000,
    restartAtMs: rng.fork("restart").below(30_000),
    cluster,
    faults: drawFaults(rng.fork("faults"), cluster),
    operator: drawOperator(rng.fork("operator"), cluster),
    metadata: drawMetadataPlan(rng.fork("metadata")),
    raft: drawRaft(rng.fork("raft")),
    link: {
      delayMs: logUniform(link, 0.2, 4),
      bandwidth: logUniform(link, 2000, 100_000),
      windowBytes: link.pick([16 * KiB, 256 * KiB]),
    },
    disk: {
      latencies: {
        readMs: logUniform(disk, 0.05, 1),
        writeMs: logUniform(disk, 0.05, 2),
        syncMs: logUniform(disk, 0.5, 15),
        directoryMs: logUniform(disk, 0.02, 0.5),
      },
      capacityBytes: 64 * KiB * KiB,
    },
    topics: load.between(1, 3),
    partitionsMax: load.between(1, 4),
    replicasMax,
    clients: Array.from({ length: load.between(1, 4) }, (_, index) => drawClient(load.fork(`client ${index}`))),
    badClients: load.fork("bad").pick([0, 1, 1, 2]),
    lifeChance: rng.fork("lives").pick([0, 0.7, 1]),
    deleteTopicMs: rate(load.fork("delete"), 2000, 10_000),
    broker: { ...drawBroker(rng.fork("broker"), base, replicasMax), ...drawUpkeep(rng.fork("upkeep")) },
  };
}

/** For people: what the seed drew. */
export function describeSwarm(swarm: SwarmConfig): string {
  const faults = Object.entries(swarm.faults)
    .filter(([, value]) => value !== 0)
    .map(([name, value]) => `${name}=${value}`);
  const { broker, link, cluster, operator } = swarm;
  return [
    `voters ${cluster.voters}, observers ${cluster.observers}, operator ${Object.entries(operator)
      .map(([name, value]) => `${name} ${String(value)}`)
      .join(", ")}`,
    `metadata clients ${swarm.metadata.clients}, one operation in ${swarm.metadata.thinkMs} ms`,
    `clients ${swarm.clients.length} and ${swarm.badClients} bad ones, topics ${swarm.topics}, partitions up to ${swarm.partitionsMax}, replicas up to ${swarm.replicasMax}, lag ${broker["replica.lag.time.max.ms"]} ms, topic deletion ${swarm.deleteTopicMs} ms`,
    `faults ${faults.length === 0 ? "none" : faults.join(", ")}`,
    `link ${link.delayMs.toFixed(2)} ms, ${Math.round(link.bandwidth)} bytes/ms, window ${link.windowBytes}`,
    `disk ${Object.entries<number>({ ...swarm.disk.latencies })
      .map(([name, value]) => `${name} ${value.toFixed(2)}`)
      .join(", ")}`,
    `lives of topics ${swarm.lifeChance}, retention every ${broker["log.retention.check.interval.ms"]} ms, compaction after ${broker["log.cleaner.backoff.ms"]} ms, scrub in ${broker["log.scrub.period.ms"]} ms`,
    `segment ${broker["segment.bytes"]}, journal ${broker["journal.bytes"]}, checkpoint ${broker["checkpoint.interval.ms"]} ms, tail cache ${broker["tail.cache.bytes"]}`,
  ].join("\n");
}
