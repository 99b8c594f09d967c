// The layouts of quorum-apis.ts.
import type { BrokerEpoch } from "../../model/ids.ts";
import { API } from "./apis.ts";
import type { ApiKey, ApiTypes } from "./apis.ts";
import { FIELD_LIMITS, configValue, count64, int32, int64, message, name, nodeId, note1k } from "./layout.ts";
import type { ApiSchema } from "./layout.ts";
import type * as apis from "./quorum-apis.ts";
import { COUNT64, array, bool, choice, int, nullable, struct, text, uuid, variant } from "./schema.ts";

type QuorumKey = Exclude<ApiKey, 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 | 42 | 43 | 44 | 45 | 46 | 47 | 48>;
type QuorumSchemas = {
  readonly [K in QuorumKey]: ApiSchema<ApiTypes[K]["request"], ApiTypes[K]["response"]>;
};

const done = struct<apis.Done>({});
const replicaId = text(FIELD_LIMITS.REPLICA_ID);
const replicaIds = array(replicaId, FIELD_LIMITS.VOTERS);
const configuration = struct<apis.QuorumConfiguration>({ voters: replicaIds, learners: replicaIds });
const entries = array(
  struct<apis.WireEntry>({
    term: count64,
    kind: choice<apis.WireEntry["kind"]>("command", "leaderStart", "configuration"),
  }),
  FIELD_LIMITS.LOG_ENTRIES,
);
const snapshotFields = { end: count64, lastTerm: count64, sizeBytes: count64, configuration };

type Fields<K extends apis.RaftMessage["kind"]> = Omit<Extract<apis.RaftMessage, { kind: K }>, "kind">;
const term = count64;
const raftMessage = variant<apis.RaftMessage>({
  voteRequest: [
    1,
    struct<Fields<"voteRequest">>({ term, isPreVote: bool, isTransfer: bool, end: count64, lastTerm: count64 }),
  ],
  voteResponse: [2, struct<Fields<"voteResponse">>({ term, isPreVote: bool, isGranted: bool })],
  append: [3, struct<Fields<"append">>({ term, start: count64, prevTerm: count64, entries, commitEnd: count64 })],
  appendMatched: [4, struct<Fields<"appendMatched">>({ term, end: count64 })],
  appendRefused: [5, struct<Fields<"appendRefused">>({ term, start: count64, hintEnd: count64, hintTerm: count64 })],
  heartbeat: [6, struct<Fields<"heartbeat">>({ term, commitEnd: count64, round: count64 })],
  heartbeatResponse: [7, struct<Fields<"heartbeatResponse">>({ term, round: count64 })],
  snapshotChunk: [
    8,
    struct<Fields<"snapshotChunk">>({ term, snapshot: struct<apis.SnapshotName>(snapshotFields), position: count64 }),
  ],
  snapshotResponse: [9, struct<Fields<"snapshotResponse">>({ term, snapshotEnd: count64, position: count64 })],
  timeoutNow: [10, struct<Fields<"timeoutNow">>({ term })],
});
const raftRequest = struct<apis.RaftRequest>({
  clusterId: uuid,
  from: replicaId,
  to: replicaId,
  boots: count64,
  message: raftMessage,
});

const voterHelloRequest = struct<apis.VoterHelloRequest>({
  nodeId,
  directoryId: uuid,
  voters: configValue,
  address: name,
  boots: count64,
  isRefused: bool,
});
const voterHelloResponse = struct<apis.VoterHelloResponse>({
  state: choice<apis.VoterHelloResponse["state"]>("empty", "formed", "starting"),
  nodeId,
  directoryId: uuid,
  voters: configValue,
  clusterId: nullable(uuid),
  founding: bool,
  configuration: nullable(configuration),
  boots: count64,
  term,
  end: count64,
  commitEnd: count64,
});
const adoptRequest = struct<apis.AdoptRequest>({ clusterId: uuid, voters: replicaIds });

const registerBrokerRequest = struct<apis.RegisterBrokerRequest>({
  clusterId: uuid,
  nodeId,
  directoryId: uuid,
  incarnationId: uuid,
  restart: choice<apis.RegisterBrokerRequest["restart"]>("first", "clean", "process-death", "power-loss"),
  address: name,
  versionsMin: int32,
  versionsMax: int32,
  lastBrokerEpoch: int64,
});
const registerBrokerResponse = struct<apis.RegisterBrokerResponse>({ brokerEpoch: int<BrokerEpoch>(COUNT64) });
const heartbeatRequest = struct<apis.BrokerHeartbeatRequest>({
  nodeId,
  brokerEpoch: int64,
  incarnationId: uuid,
  appliedEnd: count64,
  epochStored: bool,
  wantsShutdown: bool,
  isLowOnSpace: bool,
  droppedTopics: array(uuid, FIELD_LIMITS.DROPPED_TOPICS),
  damaged: array(
    struct<apis.BrokerHeartbeatRequest["damaged"][number]>({
      topicId: uuid,
      partitions: array(int32, FIELD_LIMITS.DAMAGED_LOGS),
    }),
    FIELD_LIMITS.DAMAGED_LOGS,
  ),
});
const heartbeatResponse = struct<apis.BrokerHeartbeatResponse>({ isFenced: bool, mayShutDown: bool });

const fetchMetadataRequest = struct<apis.FetchMetadataRequest>({
  clusterId: uuid,
  nodeId,
  start: count64,
  startTerm: count64,
  maxWaitMs: int32,
  maxBytes: int32,
  snapshotEnd: int64,
  snapshotPosition: count64,
});
const fetchMetadataResponse = struct<apis.FetchMetadataResponse>({
  leaderId: int32,
  commitEnd: count64,
  start: count64,
  entries,
  snapshot: nullable(
    struct<NonNullable<apis.FetchMetadataResponse["snapshot"]>>({ ...snapshotFields, position: count64 }),
  ),
});

const describeQuorumResponse = struct<apis.DescribeQuorumResponse>({
  clusterId: nullable(uuid),
  nodeId,
  role: choice<apis.QuorumRole>("starting", "observer", "learner", "follower", "candidate", "leader", "controller"),
  leaderId: int32,
  term,
  commitEnd: count64,
  appliedEnd: count64,
  metadataVersion: int32,
  versionsMin: int32,
  versionsMax: int32,
  voters: array(
    struct<apis.DescribeQuorumResponse["voters"][number]>({
      replicaId,
      isLearner: bool,
      end: int64,
      lagMs: int64,
      isRefused: bool,
    }),
    2 * FIELD_LIMITS.VOTERS,
  ),
  reachable: array(int32, FIELD_LIMITS.BROKERS),
  waitingFor: nullable(note1k),
});
const changeQuorumRequest = struct<apis.ChangeQuorumRequest>({
  op: choice<apis.ChangeQuorumRequest["op"]>("add", "remove", "replace", "transfer"),
  nodeId,
  directoryId: nullable(uuid),
});

function raftBodiesFault({ message: { kind, ...fields } }: apis.RaftRequest, bodies: number): string | undefined {
  const expected = kind === "snapshotChunk" ? 1 : "entries" in fields ? fields.entries.length : 0;
  return bodies === expected ? undefined : `a message of kind ${kind} has ${expected} bodies, not ${bodies}`;
}

function fetchMetadataBodiesFault(answer: apis.FetchMetadataResponse, bodies: number): string | undefined {
  if (answer.snapshot !== null && answer.entries.length > 0) return "entries beside a snapshot";
  const expected = answer.snapshot === null ? answer.entries.length : 1;
  return bodies === expected ? undefined : `${expected} bodies belong to it, not ${bodies}`;
}

export const QUORUM_SCHEMAS: QuorumSchemas = {
  [API.RAFT]: {
    minVersion: 0,
    isOneWay: true,
    versions: [{ request: message(raftRequest, { bodiesFault: raftBodiesFault }), response: message(done) }],
  },
  [API.VOTER_HELLO]: {
    minVersion: 0,
    versions: [{ request: message(voterHelloRequest), response: message(voterHelloResponse) }],
  },
  [API.ADOPT]: { minVersion: 0, versions: [{ request: message(adoptRequest), response: message(done) }] },
  [API.REGISTER_BROKER]: {
    minVersion: 0,
    versions: [{ request: message(registerBrokerRequest), response: message(registerBrokerResponse) }],
  },
  [API.BROKER_HEARTBEAT]: {
    minVersion: 0,
    versions: [
      {
        request: message(heartbeatRequest, { elementsMax: FIELD_LIMITS.HEARTBEAT_ELEMENTS }),
        response: message(heartbeatResponse),
      },
    ],
  },
  [API.FETCH_METADATA]: {
    minVersion: 0,
    versions: [
      {
        request: message(fetchMetadataRequest),
        response: message(fetchMetadataResponse, { bodiesFault: fetchMetadataBodiesFault }),
      },
    ],
  },
  [API.DESCRIBE_QUORUM]: {
    minVersion: 0,
    versions: [{ request: message(struct<apis.DescribeQuorumRequest>({})), response: message(describeQuorumResponse) }],
  },
  [API.CHANGE_QUORUM]: {
    minVersion: 0,
    versions: [{ request: message(changeQuorumRequest), response: message(done) }],
  },
  [API.RAISE_METADATA_VERSION]: {
    minVersion: 0,
    versions: [
      { request: message(struct<apis.RaiseMetadataVersionRequest>({ version: int32 })), response: message(done) },
    ],
  },
  [API.UNREGISTER_BROKER]: {
    minVersion: 0,
    versions: [
      { request: message(struct<apis.UnregisterBrokerRequest>({ nodeId, isForced: bool })), response: message(done) },
    ],
  },
};
