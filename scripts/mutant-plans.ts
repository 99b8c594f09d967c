// The planted bugs that random seeds must catch (mutants.ts hunts them, `npm run sim -- --seed N --mutant ID` runs one); those of rules (D-2, D-11, D-13, D-14) have directed schedules in test/storage.
// M11 needs a leader that has lost its high watermark, which is in the journal now: the simulator of partition cores finds it.
import { type ClientPlan, NO_OPERATOR, type OperatorPlan, type SwarmConfig } from "../src/sim/swarm.ts";

export interface MutantPlan {
  readonly id: string;
  readonly about: string;
  /** Any of these must be the first to fire. */
  readonly invariants: readonly number[];
  /** Seeds to try before it counts as not caught. */
  readonly budget: number;
  readonly knownSeed: number;
  readonly scene: "disk" | "replicas" | "producers" | "lives";
  /** In the scenes of replicas and producers: what this one needs besides. */
  readonly faults?: Partial<SwarmConfig["faults"]>;
  /** In the scene of replicas. */
  readonly operator?: Partial<OperatorPlan>;
  /** In the scene of lives; default 1. */
  readonly lifeChance?: number;
  /** In the scenes of producers and lives. */
  readonly client?: Partial<ClientPlan>;
}

const REPLICA_MUTANTS: readonly MutantPlan[] = [
  {
    id: "M1",
    about: "acks=all answered when only written",
    invariants: [1],
    budget: 50,
    knownSeed: 1,
    scene: "replicas",
  },
  {
    id: "M2",
    about: "reported durable before its sync",
    invariants: [1, 2, 16],
    budget: 500,
    knownSeed: 7001,
    scene: "disk",
  },
  {
    id: "M3",
    about: "a follower reports what it has not synced",
    invariants: [16],
    budget: 100,
    knownSeed: 1,
    scene: "replicas",
  },
  { id: "M4", about: "the mark moves on what was sent", invariants: [9], budget: 50, knownSeed: 1, scene: "replicas" },
  {
    id: "M5",
    about: "the mark is the largest end, not the smallest",
    invariants: [9],
    budget: 20,
    knownSeed: 1,
    scene: "replicas",
  },
  {
    id: "M6",
    about: "no cut where histories part",
    invariants: [3, 4, 5, 13],
    budget: 50,
    knownSeed: 9,
    scene: "replicas",
  },
  { id: "M7", about: "a follower cuts at its own mark", invariants: [12], budget: 50, knownSeed: 1, scene: "replicas" },
  {
    id: "M8",
    about: "any replica that lives is elected",
    invariants: [15],
    budget: 50,
    knownSeed: 2,
    scene: "replicas",
  },
  {
    id: "R-60",
    about: "who is named leads, in sync or not: every node refuses to apply that",
    invariants: [39],
    budget: 50,
    knownSeed: 10,
    scene: "replicas",
    operator: { preferredMs: 500 },
  },
  {
    id: "M9",
    about: "a leader shrinks its ISR by itself",
    invariants: [9, 14],
    budget: 200,
    knownSeed: 6,
    scene: "replicas",
  },
  {
    id: "M10",
    about: "admitted to the ISR before it caught up",
    invariants: [13],
    budget: 500,
    knownSeed: 2,
    scene: "replicas",
  },
  { id: "M15", about: "min ISR is ignored", invariants: [9], budget: 500, knownSeed: 1, scene: "replicas" },
  {
    id: "M19c",
    about: "journal dropped before images and superblock are durable",
    invariants: [1, 2, 16],
    budget: 500,
    knownSeed: 7002,
    scene: "disk",
  },
  {
    id: "M20",
    about: "a failed sync is tried again and the process goes on",
    invariants: [16, 42],
    budget: 500,
    knownSeed: 7000,
    scene: "disk",
  },
  {
    id: "M21",
    about: "recovery takes rot of a journal for its torn tail",
    invariants: [1, 3, 16],
    budget: 500,
    knownSeed: 2,
    scene: "replicas",
    faults: { journalRotMs: 1000, partitionMs: 0, cutMs: 0, lateBytesMs: 0 },
  },
  {
    id: "M23",
    about: "what producers sent is not read from the log after a restart",
    invariants: [21, 22, 23, 25],
    budget: 100,
    knownSeed: 1,
    scene: "producers",
  },
  {
    id: "M23w",
    about: "one batch of a producer is remembered, not five",
    invariants: [21, 22, 23, 25],
    budget: 100,
    knownSeed: 1,
    scene: "producers",
  },
  {
    id: "D-15",
    about: "a producer image is used though the log does not agree with it",
    invariants: [9, 12, 25],
    budget: 500,
    knownSeed: 1,
    scene: "producers",
  },
  {
    id: "D-15b",
    about: "a truncated log's producers are not taken back",
    invariants: [25],
    budget: 100,
    knownSeed: 1,
    scene: "producers",
  },
  {
    id: "D-28",
    about: "batches of acks=1 have numbers too",
    invariants: [17],
    budget: 50,
    knownSeed: 1,
    scene: "producers",
    client: { acks: ["all", 1] },
  },
  {
    id: "D-28e",
    about: "a producer changes its epoch with batches under way",
    invariants: [18, 21, 22],
    budget: 500,
    knownSeed: 5,
    scene: "producers",
    client: { deliveryMs: [400, 1000] },
  },
  {
    id: "M33b",
    about: "no pause between tries",
    invariants: [44],
    budget: 100,
    knownSeed: 1,
    scene: "producers",
  },
  {
    id: "M33r",
    about: "an election without a vote before it",
    invariants: [44, 45],
    budget: 200,
    knownSeed: 6,
    scene: "producers",
  },
  {
    id: "M34",
    about: "a late answer matches a correlation id that is used again",
    invariants: [1, 16, 18, 21, 22, 23, 24],
    budget: 200,
    knownSeed: 1021,
    scene: "producers",
  },
  {
    id: "M30",
    about: "a new leader says where the partition ends before it knows",
    invariants: [10],
    budget: 200,
    knownSeed: 1059,
    scene: "replicas",
    faults: { slowDiskMs: 2000 },
  },
  {
    id: "M32",
    about: "a leader acknowledges by a lease",
    invariants: [1, 8],
    budget: 500,
    knownSeed: 1,
    scene: "replicas",
  },
];

/** Batches of one size, so that one fits where another belongs. */
const ALIKE: Pick<MutantPlan, "faults" | "client" | "lifeChance"> = {
  faults: { atRestMs: 100 },
  client: { valueBytesMax: 1, burstMax: 1, lingerMs: 0, compression: "none" },
  lifeChance: 0,
};

/** Those of a log's whole life: what becomes of old segments, and of what rots in them. */
const LIFE_MUTANTS: readonly MutantPlan[] = [
  {
    id: "M22",
    about: "a batch that belongs elsewhere is taken for one of this place: its sum is right",
    invariants: [1, 2, 3, 5, 18, 19, 44],
    budget: 200,
    knownSeed: 1,
    scene: "lives",
    ...ALIKE,
  },
  {
    id: "D-16",
    about: "the identity of a segment is made from the segment that it is to prove",
    invariants: [1, 2, 3, 5, 18, 19, 44],
    budget: 500,
    knownSeed: 1,
    scene: "lives",
    ...ALIKE,
  },
  {
    id: "M24",
    about: "what a producer sent is forgotten with the segments that tell of it",
    invariants: [21, 22, 23, 25],
    budget: 100,
    knownSeed: 8,
    scene: "lives",
  },
  {
    id: "S-29",
    about: "retention deletes where the policy is not to delete",
    invariants: [20],
    budget: 100,
    knownSeed: 14,
    scene: "lives",
  },
  {
    id: "S-36",
    about: "compaction takes the last record of a key",
    invariants: [20],
    budget: 50,
    knownSeed: 1,
    scene: "lives",
  },
  {
    id: "S-37",
    about: "a record without a value is compacted away at once",
    invariants: [20],
    budget: 100,
    knownSeed: 12,
    scene: "lives",
  },
  {
    id: "S-38",
    about: "the header of a batch goes that its producer is judged by",
    invariants: [21, 22, 23, 25],
    budget: 200,
    knownSeed: 1,
    scene: "lives",
  },
];

export const MUTANTS = [...REPLICA_MUTANTS, ...LIFE_MUTANTS];

/** Seeds tried from the known one on: a change of the code moves what a seed does. */
export const KNOWN_BUDGET = 25;

const QUIET: SwarmConfig["faults"] = {
  processDeathMs: 0,
  powerLossMs: 0,
  crashInRecovery: 0,
  failedSyncMs: 0,
  fullDiskMs: 0,
  cutMs: 0,
  slowLinkMs: 0,
  lateBytesMs: 0,
  partitionMs: 0,
  pauseMs: 0,
  clockMs: 0,
  controllerDeathMs: 0,
  correlatedLossMs: 0,
  rotMs: 0,
  wipeMs: 0,
  oldDiskMs: 0,
  quickRestart: 0,
  leaderDeathMs: 0,
  orderedRestartMs: 0,
  slowDiskMs: 0,
  partitionRotMs: 0,
  journalRotMs: 0,
  unreadableMs: 0,
  atRestMs: 0,
  recklessness: 0,
};

/** What the stored seeds run as, so that each takes a second; fresh seeds run as they are drawn. */
export function knownScene(plan: MutantPlan): (swarm: SwarmConfig) => SwarmConfig {
  switch (plan.scene) {
    case "disk":
      return diskScene;
    case "replicas":
      return (swarm) => replicaScene(swarm, plan.faults ?? {}, plan.operator);
    case "lives":
      return (swarm) => lifeScene(swarm, plan);
    case "producers":
      return (swarm) => producerScene(swarm, plan);
  }
}

/** One node that loses its power about once a second. */
function diskScene(swarm: SwarmConfig): SwarmConfig {
  const { crashInRecovery, fullDiskMs, cutMs } = swarm.faults;
  const failedSyncMs = swarm.faults.failedSyncMs === 0 ? 3000 : swarm.faults.failedSyncMs;
  return {
    ...swarm,
    cluster: { voters: 1, observers: 0 },
    operator: NO_OPERATOR,
    replicasMax: 1,
    faults: { ...QUIET, crashInRecovery, fullDiskMs, cutMs, powerLossMs: 1000, failedSyncMs },
    clients: swarm.clients.map((client) => ({ ...client, acks: ["all"] as const })),
  };
}

/** Three nodes with all replicas of a few partitions, whose leaders die and are cut off. */
function replicaScene(
  swarm: SwarmConfig,
  faults: Partial<SwarmConfig["faults"]>,
  operator: Partial<OperatorPlan> = {},
): SwarmConfig {
  return {
    ...swarm,
    safetyMs: 10_000,
    restartAtMs: 5000,
    cluster: { voters: 3, observers: 0 },
    operator: { ...NO_OPERATOR, ...operator },
    replicasMax: 3,
    topics: 1,
    partitionsMax: 2,
    deleteTopicMs: 0,
    lifeChance: 0,
    metadata: { ...swarm.metadata, clients: 1 },
    clients: swarm.clients.slice(0, 2),
    faults: {
      ...QUIET,
      processDeathMs: 3000,
      leaderDeathMs: 2000,
      partitionMs: 2500,
      cutMs: 1000,
      lateBytesMs: 1000,
      quickRestart: 0.5,
      ...faults,
    },
    broker: { ...swarm.broker, "replica.lag.time.max.ms": 1000 },
  };
}

/** As replicas, with idempotent producers that have much under way, and answers that come late. */
function producerScene(swarm: SwarmConfig, { faults = {}, client = {} }: MutantPlan): SwarmConfig {
  const scene = replicaScene(swarm, { lateBytesMs: 500, slowLinkMs: 2000, ...faults });
  const plan: Partial<ClientPlan> = {
    acks: ["all"],
    isIdempotent: true,
    isNamed: false,
    lingerMs: 1,
    maxInFlight: 8,
    thinkMs: 15,
    burstMax: 8,
    ...client,
  };
  return { ...scene, badClients: 1, clients: scene.clients.map((each) => ({ ...each, ...plan })) };
}

/** As producers, over topics whose records are deleted and compacted all the time. */
function lifeScene(swarm: SwarmConfig, plan: MutantPlan): SwarmConfig {
  const scene = producerScene(swarm, plan);
  return {
    ...scene,
    lifeChance: plan.lifeChance ?? 1,
    topics: 2,
    broker: {
      ...scene.broker,
      "segment.bytes": 2048,
      "log.retention.check.interval.ms": 100,
      "log.cleaner.backoff.ms": 50,
      "log.cleaner.io.max.bytes.per.second": 16 * 1024 * 1024,
      "log.scrub.period.ms": 1000,
      "log.scrub.io.max.bytes.per.second": 1024 * 1024,
      "producer.id.expiration.ms": Number.MAX_SAFE_INTEGER,
      "checkpoint.interval.ms": 200,
    },
  };
}
