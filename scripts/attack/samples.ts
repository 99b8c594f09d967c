// A sound request of each api and version, of the kind that a client or a node that nobody knows could send: what attackers damage. They name only
// topics of their own, and speak as nodes that are not there, or as the node itself with numbers that are not its own.
import type { Rng } from "../../src/base/rng.ts";
import type { BrokerEpoch, NodeId, TopicId, Uuid } from "../../src/model/ids.ts";
import { uuidFromBytes } from "../../src/model/ids.ts";
import { API, type ApiKey, type ApiTypes } from "../../src/wire/native/apis.ts";
import { encodeRequest, SUPPORTED_VERSIONS } from "../../src/wire/native/codec.ts";
import type { RaftMessage } from "../../src/wire/native/quorum-apis.ts";
import { batch } from "./batches.ts";

/** What attackers have found out. */
export interface Knowledge {
  readonly clusterId: Uuid;
  readonly nodeId: number;
  readonly brokerEpoch: number;
  /** Its replica id in the quorum: `<node>:<directory>`. */
  readonly voter: string;
  readonly term: number;
  /** Those that stay. */
  readonly topics: readonly { readonly name: string; readonly topicId: TopicId; readonly partitions: number }[];
  readonly producerId: number;
}

type Sampled<K extends ApiKey> = readonly [request: ApiTypes[K]["request"], bodies?: readonly Uint8Array[]];
type Samples = { readonly [K in ApiKey]: (known: Knowledge, rng: Rng) => Sampled<K> };

const anyUuid = (rng: Rng): Uuid => {
  const bytes = new Uint8Array(16);
  rng.fill(bytes);
  return uuidFromBytes(bytes) as Uuid;
};
const small = (rng: Rng): number => rng.pick([-1, 0, 0, 1, 2, 5, 100]);
const place = ({ topics }: Knowledge, rng: Rng): { topicId: TopicId; partition: number } => {
  const { topicId, partitions } = rng.pick(topics);
  return {
    topicId: rng.chance(0.9) ? topicId : (anyUuid(rng) as string as TopicId),
    partition: rng.chance(0.9) ? rng.below(partitions) : small(rng),
  };
};
/** Whom attackers pass themselves off as. */
const stranger = (known: Knowledge, rng: Rng): NodeId => rng.pick([9, 10, 11, 64_000, known.nodeId]) as NodeId;
const foreignEpoch = (known: Knowledge, rng: Rng): number => rng.pick([0, 1, known.brokerEpoch + 1, 7, 2 ** 40]);
const some = <T>(rng: Rng, most: number, make: () => T): T[] => Array.from({ length: rng.below(most + 1) }, make);
const scratch = (rng: Rng): string => `scratch-${rng.below(8)}`;
const CONFIGS = [
  { key: "segment.bytes", value: "1048576" },
  { key: "max.message.bytes", value: "65536" },
  { key: "no.such.key", value: "1" },
  { key: "index.interval.bytes", value: "4kB" },
] as const;

const SAMPLES: Samples = {
  [API.HELLO]: (_known, rng) => [{ clientId: rng.pick(["attacker", "", "node 9", "node 1"]), software: "attack 1" }],
  [API.METADATA]: ({ topics }, rng) => [
    {
      topics: rng.chance(0.3) ? null : some(rng, 3, () => rng.pick(topics).name),
      after: rng.chance(0.2) ? "a" : null,
      barrier: false,
    },
  ],
  [API.PRODUCE]: (known, rng) => {
    const entries = some(rng, 3, () => ({ ...place(known, rng), leaderEpoch: small(rng), isResent: rng.chance(0.3) }));
    const number = () => ({
      producerId: known.producerId + rng.below(40),
      producerEpoch: rng.below(2),
      baseSequence: rng.below(3),
    });
    const bodies = entries.map(() =>
      batch(rng, { valueBytes: rng.chance(0.1) ? 12_000 : 40, ...(rng.chance(0.5) && { producer: number() }) }),
    );
    return [{ acks: rng.pick([-1, -1, -1, 0, 1]), timeoutMs: 1_000, entries }, bodies];
  },
  [API.FETCH]: (known, rng) => [
    {
      maxWaitMs: rng.pick([0, 0, 10, 500]),
      minBytes: rng.pick([0, 1, 1024]),
      maxBytes: rng.pick([1, 1024, 1024 * 1024]),
      entries: some(rng, 3, () => ({
        ...place(known, rng),
        leaderEpoch: small(rng),
        offset: rng.below(50),
        maxBytes: rng.pick([0, 1, 65_536]),
      })),
    },
  ],
  [API.LIST_OFFSETS]: (known, rng) => [
    {
      entries: some(rng, 3, () => ({
        ...place(known, rng),
        timestamp: rng.pick([-1, -2, 0, 1_700_000_000_001, 2 ** 50]),
      })),
    },
  ],
  [API.DELETE_RECORDS]: (known, rng) => [
    {
      timeoutMs: rng.pick([0, 10, 1_000]),
      entries: some(rng, 3, () => ({ ...place(known, rng), offset: rng.pick([-1, -2, 0, 3, 2 ** 40]) })),
    },
  ],
  [API.CREATE_TOPICS]: (_known, rng) => [
    {
      validateOnly: rng.chance(0.4),
      topics: [
        {
          name: scratch(rng),
          partitions: rng.pick([-1, 1, 3]),
          replicationFactor: rng.pick([-1, 1, 3]),
          configs: rng.chance(0.3) ? [rng.pick(CONFIGS)] : [],
        },
      ],
      requestId: rng.chance(0.5) ? anyUuid(rng) : null,
    },
  ],
  [API.DELETE_TOPICS]: (_known, rng) => [{ names: [scratch(rng)], requestId: rng.chance(0.5) ? anyUuid(rng) : null }],
  [API.ALTER_CONFIGS]: ({ topics }, rng) => {
    const isTopic = rng.chance(0.8);
    // What all brokers would do differently is no attacker's fault: those are only looked at.
    const changes = [{ key: rng.pick(CONFIGS).key, value: rng.pick(["1048576", "65536", null, "x"]) }];
    const key = isTopic ? changes : [{ key: "index.interval.bytes", value: "4096" }];
    return [
      {
        resource: isTopic ? "topic" : "broker",
        name: isTopic ? rng.pick(topics).name : "",
        changes: key,
        validateOnly: !isTopic,
        requestId: null,
      },
    ];
  },
  [API.DESCRIBE_CONFIGS]: ({ topics }, rng) => [
    {
      resource: rng.pick(["topic", "broker"]),
      name: rng.pick([rng.pick(topics).name, "", "1"]),
      keys: rng.chance(0.5) ? null : ["segment.bytes"],
      barrier: rng.chance(0.3),
    },
  ],
  [API.RAFT]: (known, rng) => raft(known, rng),
  [API.VOTER_HELLO]: (known, rng) => [
    {
      nodeId: stranger(known, rng),
      directoryId: anyUuid(rng) as never,
      voters: "",
      address: "127.0.0.1:1",
      boots: rng.below(5),
      isRefused: rng.chance(0.5),
    },
  ],
  [API.ADOPT]: (known, rng) => [
    { clusterId: (rng.chance(0.5) ? known.clusterId : anyUuid(rng)) as never, voters: [`9:${anyUuid(rng)}`] },
  ],
  [API.REGISTER_BROKER]: (known, rng) => [
    {
      clusterId: (rng.chance(0.9) ? known.clusterId : anyUuid(rng)) as never,
      nodeId: stranger(known, rng),
      directoryId: anyUuid(rng) as never,
      incarnationId: anyUuid(rng) as never,
      restart: rng.pick(["first", "clean", "process-death", "power-loss"]),
      address: "127.0.0.1:1",
      versionsMin: 1,
      versionsMax: rng.pick([1, 2, 99]),
      lastBrokerEpoch: rng.pick([-1, 0, 5]),
    },
  ],
  [API.BROKER_HEARTBEAT]: (known, rng) => [
    {
      nodeId: stranger(known, rng),
      brokerEpoch: foreignEpoch(known, rng),
      incarnationId: anyUuid(rng) as never,
      appliedEnd: rng.pick([0, 1, 1_000_000]),
      epochStored: rng.chance(0.5),
      wantsShutdown: rng.chance(0.5),
      isLowOnSpace: rng.chance(0.5),
      droppedTopics: some(rng, 2, () => place(known, rng).topicId),
      damaged: some(rng, 2, () => ({ topicId: place(known, rng).topicId, partitions: [0, 1] })),
    },
  ],
  [API.FETCH_METADATA]: (known, rng) => [
    {
      clusterId: known.clusterId as never,
      nodeId: stranger(known, rng),
      start: rng.pick([0, 1, 5, 2 ** 40]),
      startTerm: rng.below(3),
      maxWaitMs: rng.pick([0, 100]),
      maxBytes: rng.pick([0, 1024, 2 ** 30]),
      snapshotEnd: rng.pick([-1, -1, 5]),
      snapshotPosition: rng.below(100),
    },
  ],
  [API.DESCRIBE_QUORUM]: () => [{}],
  [API.CHANGE_QUORUM]: (known, rng) => [
    {
      op: rng.pick(["add", "remove", "replace", "transfer"]),
      nodeId: stranger(known, rng),
      directoryId: rng.chance(0.5) ? null : (anyUuid(rng) as never),
    },
  ],
  [API.RAISE_METADATA_VERSION]: (_known, rng) => [{ version: small(rng) }],
  [API.UNREGISTER_BROKER]: (known, rng) => [{ nodeId: stranger(known, rng), isForced: rng.chance(0.5) }],
  [API.ALTER_PARTITION]: (known, rng) => [
    {
      nodeId: stranger(known, rng),
      brokerEpoch: foreignEpoch(known, rng),
      entries: some(rng, 3, () => ({
        topicId: place(known, rng).topicId,
        partition: rng.below(3),
        leaderEpoch: rng.below(3),
        partitionEpoch: rng.below(3),
        isr: some(rng, 3, () => ({ nodeId: rng.pick([1, 9]), brokerEpoch: small(rng) })),
        wantsMove: rng.chance(0.5),
      })),
    },
  ],
  [API.REPLICA_FETCH]: (known, rng) => [
    {
      nodeId: stranger(known, rng),
      brokerEpoch: foreignEpoch(known, rng),
      sessionId: rng.pick([0, 1, 2, 2 ** 40]),
      maxWaitMs: rng.pick([0, 10]),
      maxBytes: rng.pick([0, 65_536]),
      added: some(rng, 3, () => ({ slot: rng.below(4), topicId: place(known, rng).topicId, partition: rng.below(3) })),
      positions: some(rng, 3, () => [rng.below(4), rng.below(3), rng.below(50), rng.pick([-1, 0])]).flat(),
      removed: some(rng, 2, () => rng.below(4)),
    },
  ],
  [API.DURABLE_REPORT]: (known, rng) => [
    {
      nodeId: stranger(known, rng),
      brokerEpoch: foreignEpoch(known, rng),
      sessionId: rng.below(3),
      rows: some(rng, 3, () => [rng.below(4), rng.below(3), rng.pick([0, 5, 2 ** 40]), rng.pick([-1, 0, 3])]).flat(),
    },
  ],
  [API.ELECT_LEADERS]: ({ topics }, rng) => [
    {
      kind: rng.pick(["preferred", "unclean"]),
      topic: rng.pick(topics).name,
      partitions: rng.chance(0.5) ? null : [0, 1],
      nodeId: rng.pick([-1, 1, 9]),
      isForced: rng.chance(0.5),
    },
  ],
  [API.DESCRIBE_PARTITIONS]: (known, rng) => [{ entries: some(rng, 4, () => place(known, rng)) }],
  [API.INIT_PRODUCER_ID]: (known, rng) => {
    const isNamed = rng.chance(0.3);
    const [producerId, producerEpoch] = rng.chance(0.7) ? [-1, -1] : [known.producerId, rng.below(3)];
    return [{ name: isNamed ? `name-${rng.below(20)}` : null, producerId, producerEpoch }];
  },
  [API.ALLOCATE_PRODUCER_IDS]: (known, rng) => [
    { nodeId: stranger(known, rng), brokerEpoch: foreignEpoch(known, rng) as BrokerEpoch },
  ],
};

function raft(known: Knowledge, rng: Rng): Sampled<typeof API.RAFT> {
  const term = rng.pick([0, known.term, known.term + 1, 2 ** 40, 2 ** 53 - 1]);
  const configuration = { voters: [known.voter], learners: [] };
  const end = rng.pick([0, 1, 50, 2 ** 40]);
  const entries = some(rng, 2, () => ({ term, kind: rng.pick(["command", "leaderStart", "configuration"] as const) }));
  const message = rng.pick<RaftMessage>([
    { kind: "voteRequest", term, isPreVote: rng.chance(0.5), isTransfer: rng.chance(0.5), end, lastTerm: term },
    { kind: "voteResponse", term, isPreVote: rng.chance(0.5), isGranted: true },
    { kind: "append", term, start: end, prevTerm: term, entries, commitEnd: end },
    { kind: "appendMatched", term, end },
    { kind: "appendRefused", term, start: end, hintEnd: end, hintTerm: term },
    { kind: "heartbeat", term, commitEnd: end, round: rng.below(5) },
    { kind: "heartbeatResponse", term, round: rng.below(5) },
    {
      kind: "snapshotChunk",
      term,
      snapshot: { end, lastTerm: term, sizeBytes: 99, configuration },
      position: rng.below(3),
    },
    { kind: "snapshotResponse", term, snapshotEnd: end, position: 0 },
    { kind: "timeoutNow", term },
  ]);
  const bodies =
    message.kind === "append" ? entries.map(({ kind }) => new Uint8Array(kind === "leaderStart" ? 0 : 20)) : [];
  const from = rng.pick([`9:${anyUuid(rng)}`, known.voter]);
  const request = { clusterId: known.clusterId as never, from, to: known.voter, boots: rng.below(3), message };
  return [request, message.kind === "snapshotChunk" ? [new Uint8Array(20)] : bodies];
}

export const API_KEYS: readonly ApiKey[] = Object.values(API);

/** The messages of one sound request of this api, in a version that has all that it asks for. */
export function sampleOf(
  api: ApiKey,
  known: Knowledge,
  { rng, correlationId }: { rng: Rng; correlationId: number },
): Uint8Array[] {
  const { minVersion = 0, maxVersion = 0 } = SUPPORTED_VERSIONS.find(({ key }) => key === api) ?? {};
  const header = {
    api,
    version: rng.between(minVersion, maxVersion),
    correlationId,
    deadlineMs: rng.pick([0, 1, 1_000, 30_000]),
  };
  const [request, bodies = []] = SAMPLES[api](known, rng) as Sampled<ApiKey>;
  // The pair of api and request belongs together: it comes from one row of the table.
  return encodeRequest(header, request as never, bodies);
}
