// Random messages of the quorum.
import fc from "fast-check";
import type { BrokerEpoch } from "../../src/model/ids.ts";
import { API } from "../../src/wire/native/apis.ts";
import type { RaftMessage, RaftRequest } from "../../src/wire/native/quorum-apis.ts";
import type { Arbitraries } from "./arbitraries.ts";
import { bare, body, count64, int32, int64, list, maybe, nodeId, text, uuid } from "./random-values.ts";
import type { Sample } from "./random-values.ts";

const replicaId = fc.tuple(fc.nat(), uuid).map(([node, directory]) => `${node}:${directory}`);
const configuration = fc.record({ voters: list(replicaId), learners: list(replicaId, 2) });
const entry = fc.record({
  term: count64,
  kind: fc.constantFrom("command" as const, "leaderStart" as const, "configuration" as const),
});
const snapshot = { end: count64, lastTerm: count64, sizeBytes: count64, configuration };
const kind = <K extends RaftMessage["kind"]>(word: K) => fc.constant(word);
const term = count64;

/** One of each kind but "append". */
const bodiless: fc.Arbitrary<RaftMessage> = fc.oneof(
  fc.record({
    kind: kind("voteRequest"),
    term,
    isPreVote: fc.boolean(),
    isTransfer: fc.boolean(),
    end: count64,
    lastTerm: count64,
  }),
  fc.record({ kind: kind("voteResponse"), term, isPreVote: fc.boolean(), isGranted: fc.boolean() }),
  fc.record({ kind: kind("appendMatched"), term, end: count64 }),
  fc.record({ kind: kind("appendRefused"), term, start: count64, hintEnd: count64, hintTerm: count64 }),
  fc.record({ kind: kind("heartbeat"), term, commitEnd: count64, round: count64 }),
  fc.record({ kind: kind("heartbeatResponse"), term, round: count64 }),
  fc.record({ kind: kind("snapshotResponse"), term, snapshotEnd: count64, position: count64 }),
  fc.record({ kind: kind("timeoutNow"), term }),
);
const append = list(fc.tuple(entry, body)).chain((pairs) =>
  fc.record({ kind: kind("append"), term, start: count64, prevTerm: count64, commitEnd: count64 }).map((head) => ({
    message: {
      kind: head.kind,
      term: head.term,
      start: head.start,
      prevTerm: head.prevTerm,
      entries: pairs.map(([row]) => row),
      commitEnd: head.commitEnd,
    },
    bodies: pairs.map(([, bytes]) => bytes),
  })),
);
const chunk = fc
  .tuple(fc.record({ kind: kind("snapshotChunk"), term, snapshot: fc.record(snapshot), position: count64 }), body)
  .map(([message, bytes]) => ({ message, bodies: [bytes] }));
export const raftMessage: fc.Arbitrary<{ readonly message: RaftMessage; readonly bodies: Uint8Array[] }> = fc.oneof(
  { weight: 4, arbitrary: bodiless.map((message) => ({ message, bodies: [] })) },
  { weight: 2, arbitrary: append },
  { weight: 1, arbitrary: chunk },
);
const raft: fc.Arbitrary<Sample<RaftRequest>> = raftMessage.chain(({ message, bodies }) =>
  fc
    .record({ clusterId: uuid, from: replicaId, to: replicaId, boots: count64, message: fc.constant(message) })
    .map((payload) => ({ payload, bodies })),
);

const fetchHead = { leaderId: int32, commitEnd: count64, start: count64 };
const fetchedEntries = list(fc.tuple(entry, body)).chain((pairs) =>
  fc
    .record({
      ...fetchHead,
      entries: fc.constant(pairs.map(([row]) => row)),
      snapshot: fc.constant(null),
    })
    .map((payload) => ({ payload, bodies: pairs.map(([, bytes]) => bytes) })),
);
const fetchedSnapshot = fc
  .tuple(
    fc.record({ ...fetchHead, entries: fc.constant([]), snapshot: fc.record({ ...snapshot, position: count64 }) }),
    body,
  )
  .map(([payload, bytes]) => ({ payload, bodies: [bytes] }));

const done = bare(fc.constant({}));

export const QUORUM_ARBITRARIES: Pick<Arbitraries, 32 | 33 | 34 | 35 | 36 | 37 | 38 | 39 | 40 | 41> = {
  [API.RAFT]: { request: raft, response: done },
  [API.VOTER_HELLO]: {
    request: bare(
      fc.record({ nodeId, directoryId: uuid, voters: text, address: text, boots: count64, isRefused: fc.boolean() }),
    ),
    response: bare(
      fc.record({
        state: fc.constantFrom("empty", "formed", "starting"),
        nodeId,
        directoryId: uuid,
        voters: text,
        clusterId: maybe(uuid),
        founding: fc.boolean(),
        configuration: maybe(configuration),
        boots: count64,
        term: count64,
        end: count64,
        commitEnd: count64,
      }),
    ),
  },
  [API.ADOPT]: { request: bare(fc.record({ clusterId: uuid, voters: list(replicaId) })), response: done },
  [API.REGISTER_BROKER]: {
    request: bare(
      fc.record({
        clusterId: uuid,
        nodeId,
        directoryId: uuid,
        incarnationId: uuid,
        restart: fc.constantFrom("first", "clean", "process-death", "power-loss"),
        address: text,
        versionsMin: int32,
        versionsMax: int32,
        lastBrokerEpoch: int64,
      }),
    ),
    response: bare(fc.record({ brokerEpoch: count64.map((epoch) => epoch as BrokerEpoch) })),
  },
  [API.BROKER_HEARTBEAT]: {
    request: bare(
      fc.record({
        nodeId,
        brokerEpoch: int64,
        incarnationId: uuid,
        appliedEnd: count64,
        epochStored: fc.boolean(),
        wantsShutdown: fc.boolean(),
        isLowOnSpace: fc.boolean(),
        droppedTopics: list(uuid),
        damaged: list(fc.record({ topicId: uuid, partitions: list(int32) })),
      }),
    ),
    response: bare(fc.record({ isFenced: fc.boolean(), mayShutDown: fc.boolean() })),
  },
  [API.FETCH_METADATA]: {
    request: bare(
      fc.record({
        clusterId: uuid,
        nodeId,
        start: count64,
        startTerm: count64,
        maxWaitMs: int32,
        maxBytes: int32,
        snapshotEnd: int64,
        snapshotPosition: count64,
      }),
    ),
    response: fc.oneof(fetchedEntries, fetchedSnapshot),
  },
  [API.DESCRIBE_QUORUM]: {
    request: done,
    response: bare(
      fc.record({
        clusterId: maybe(uuid),
        nodeId,
        role: fc.constantFrom("starting", "observer", "learner", "follower", "candidate", "leader", "controller"),
        leaderId: int32,
        term,
        commitEnd: count64,
        appliedEnd: count64,
        metadataVersion: int32,
        versionsMin: int32,
        versionsMax: int32,
        voters: list(
          fc.record({ replicaId, isLearner: fc.boolean(), end: int64, lagMs: int64, isRefused: fc.boolean() }),
        ),
        reachable: list(int32),
        waitingFor: maybe(text),
      }),
    ),
  },
  [API.CHANGE_QUORUM]: {
    request: bare(
      fc.record({
        op: fc.constantFrom("add", "remove", "replace", "transfer"),
        nodeId,
        directoryId: maybe(uuid),
      }),
    ),
    response: done,
  },
  [API.UNREGISTER_BROKER]: { request: bare(fc.record({ nodeId, isForced: fc.boolean() })), response: done },
  [API.RAISE_METADATA_VERSION]: { request: bare(fc.record({ version: int32 })), response: done },
};
