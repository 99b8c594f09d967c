// Random requests and answers of every api, within the limits of the protocol.
import fc from "fast-check";
import { API } from "../../src/wire/native/apis.ts";
import type { ApiKey, ApiTypes } from "../../src/wire/native/apis.ts";
import { PRODUCER_ARBITRARIES } from "./producer-arbitraries.ts";
import { QUORUM_ARBITRARIES } from "./quorum-arbitraries.ts";
import { REPLICATION_ARBITRARIES } from "./replication-arbitraries.ts";
import {
  bare,
  body,
  configs,
  count64,
  error,
  int32,
  int64,
  list,
  maybe,
  nodeId,
  outcome,
  text,
  uuid,
} from "./random-values.ts";
import type { Sample } from "./random-values.ts";

export type { Sample } from "./random-values.ts";

const partition = fc.record({
  index: int32,
  error,
  leader: int32,
  leaderEpoch: int32,
  replicas: list(int32, 3),
  isr: list(int32, 3),
  elr: list(int32, 3),
  partitionEpoch: int32,
  minIsr: int32,
  uncleanEpoch: int32,
});
export const topic = fc.record({
  name: text,
  error,
  topicId: uuid,
  isDeleting: fc.boolean(),
  maxMessageBytes: count64,
  configs,
  partitions: list(partition),
});

export type Arbitraries = {
  readonly [K in ApiKey]: {
    readonly request: fc.Arbitrary<Sample<ApiTypes[K]["request"]>>;
    readonly response: fc.Arbitrary<Sample<ApiTypes[K]["response"]>>;
  };
};

const produceEntry = fc.record({ topicId: uuid, partition: int32, leaderEpoch: int32, isResent: fc.boolean() });

export const ARBITRARIES: Arbitraries = {
  [API.HELLO]: {
    request: bare(fc.record({ clientId: text, software: text })),
    response: bare(
      fc.record({
        clusterId: uuid,
        nodeId,
        brokerEpoch: int64,
        software: text,
        apis: list(fc.record({ key: fc.nat(), minVersion: fc.nat(), maxVersion: fc.nat() })),
        messageBytesMax: count64,
        inFlightBytesMax: count64,
      }),
    ),
  },
  [API.METADATA]: {
    request: bare(fc.record({ topics: maybe(list(text)), after: maybe(text), barrier: fc.boolean() })),
    response: bare(
      fc.record({
        clusterId: uuid,
        controllerId: int32,
        brokers: list(fc.record({ nodeId: int32, address: text, isFenced: fc.boolean() })),
        topics: list(topic),
        next: maybe(text),
        metadataEnd: int64,
      }),
    ),
  },
  [API.PRODUCE]: {
    request: list(fc.tuple(produceEntry, body)).chain((pairs) =>
      fc.record({ acks: fc.integer({ min: -1, max: 3 }), timeoutMs: int32 }).map((head) => ({
        payload: { ...head, entries: pairs.map(([entry]) => entry) },
        bodies: pairs.map(([, bytes]) => bytes),
      })),
    ),
    response: bare(
      fc.record({
        entries: list(fc.record({ error, outcome, baseOffset: int64, logStartOffset: int64, message: maybe(text) })),
      }),
    ),
  },
  [API.FETCH]: {
    request: bare(
      fc.record({
        maxWaitMs: int32,
        minBytes: int32,
        maxBytes: int32,
        entries: list(
          fc.record({ topicId: uuid, partition: int32, leaderEpoch: int32, offset: int64, maxBytes: int32 }),
        ),
      }),
    ),
    response: list(body).chain((bodies) =>
      list(
        fc.record({
          index: fc.integer({ min: 0, max: 1023 }),
          error,
          leaderEpoch: int32,
          logStartOffset: int64,
          highWatermark: int64,
          lastStableOffset: int64,
          body: fc.integer({ min: -1, max: bodies.length - 1 }),
        }),
      ).map((entries) => ({ payload: { entries }, bodies })),
    ),
  },
  [API.LIST_OFFSETS]: {
    request: bare(fc.record({ entries: list(fc.record({ topicId: uuid, partition: int32, timestamp: int64 })) })),
    response: bare(
      fc.record({ entries: list(fc.record({ error, offset: int64, timestamp: int64, leaderEpoch: int32 })) }),
    ),
  },
  [API.CREATE_TOPICS]: {
    request: bare(
      fc.record({
        validateOnly: fc.boolean(),
        topics: list(fc.record({ name: text, partitions: int32, replicationFactor: int32, configs })),
        requestId: maybe(uuid),
      }),
    ),
    response: bare(
      fc.record({
        topics: list(fc.record({ name: text, error, message: maybe(text), topicId: maybe(uuid), partitions: int32 })),
      }),
    ),
  },
  [API.DELETE_TOPICS]: {
    request: bare(fc.record({ names: list(text), requestId: maybe(uuid) })),
    response: bare(fc.record({ topics: list(fc.record({ name: text, error, message: maybe(text) })) })),
  },
  [API.ALTER_CONFIGS]: {
    request: bare(
      fc.record({
        resource: fc.constantFrom("topic", "broker"),
        name: text,
        changes: list(fc.record({ key: text, value: maybe(text) })),
        validateOnly: fc.boolean(),
        requestId: maybe(uuid),
      }),
    ),
    response: bare(fc.record({ metadataEnd: int64 })),
  },
  [API.DELETE_RECORDS]: {
    request: bare(
      fc.record({ timeoutMs: int32, entries: list(fc.record({ topicId: uuid, partition: int32, offset: int64 })) }),
    ),
    response: bare(fc.record({ entries: list(fc.record({ error, message: maybe(text), lowWatermark: int64 })) })),
  },
  [API.DESCRIBE_CONFIGS]: {
    request: bare(
      fc.record({
        resource: fc.constantFrom("topic", "broker"),
        name: text,
        keys: maybe(list(text)),
        barrier: fc.boolean(),
      }),
    ),
    response: bare(
      fc.record({
        configs: list(
          fc.record({
            key: text,
            value: text,
            source: fc.constantFrom("topic", "broker", "cluster", "static", "default"),
            isReadOnly: fc.boolean(),
          }),
        ),
        metadataEnd: int64,
      }),
    ),
  },
  ...QUORUM_ARBITRARIES,
  ...REPLICATION_ARBITRARIES,
  ...PRODUCER_ARBITRARIES,
};

export const API_NAMES: readonly [string, ApiKey][] = Object.entries(API);
