// Random requests and answers of every api, within the limits of the protocol.
import fc from "fast-check";
import { ERRORS } from "../../src/model/errors.ts";
import type { ErrorName, Outcome } from "../../src/model/errors.ts";
import { uuidFromBytes } from "../../src/model/ids.ts";
import type { NodeId, Uuid } from "../../src/model/ids.ts";
import { API } from "../../src/wire/native/apis.ts";
import type { ApiKey, ApiTypes } from "../../src/wire/native/apis.ts";

export interface Sample<Payload> {
  readonly payload: Payload;
  readonly bodies: Uint8Array[];
}

const uuid: fc.Arbitrary<Uuid> = fc.uint8Array({ minLength: 16, maxLength: 16 }).map(uuidFromBytes);
const text = fc.string({ unit: "grapheme", maxLength: 40 });
const int32 = fc.oneof(fc.integer(), fc.integer({ min: -40, max: 300 }));
const int64 = fc.oneof(fc.maxSafeInteger(), fc.integer(), fc.integer({ min: -2, max: 70_000 }));
const count64 = fc.oneof(fc.maxSafeNat(), fc.nat());
const error = fc.constantFrom(...(Object.keys(ERRORS) as ErrorName[]));
const outcome = fc.constantFrom<Outcome>("not appended", "unknown", "appended");
const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null });
const list = <T>(value: fc.Arbitrary<T>, maxLength = 6) => fc.array(value, { maxLength });
const configs = list(fc.record({ key: text, value: text }), 3);
/** Inline ones, and some that are too long for that. */
export const body: fc.Arbitrary<Uint8Array> = fc.oneof(
  { weight: 6, arbitrary: fc.uint8Array({ maxLength: 200 }) },
  {
    weight: 1,
    arbitrary: fc.integer({ min: 8_190, max: 12_000 }).map((length) => new Uint8Array(length).fill(length & 0xff)),
  },
);
const bare = <T>(payload: fc.Arbitrary<T>): fc.Arbitrary<Sample<T>> =>
  payload.map((value) => ({ payload: value, bodies: [] }));

const partition = fc.record({
  index: int32,
  error,
  leader: int32,
  leaderEpoch: int32,
  replicas: list(int32, 3),
  isr: list(int32, 3),
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

type Arbitraries = {
  readonly [K in ApiKey]: {
    readonly request: fc.Arbitrary<Sample<ApiTypes[K]["request"]>>;
    readonly response: fc.Arbitrary<Sample<ApiTypes[K]["response"]>>;
  };
};

const produceEntry = fc.record({ topicId: uuid, partition: int32, leaderEpoch: int32 });

export const ARBITRARIES: Arbitraries = {
  [API.HELLO]: {
    request: bare(fc.record({ clientId: text, software: text })),
    response: bare(
      fc.record({
        clusterId: uuid,
        nodeId: fc.nat().map((id) => id as NodeId),
        brokerEpoch: int64,
        software: text,
        apis: list(fc.record({ key: fc.nat(), minVersion: fc.nat(), maxVersion: fc.nat() })),
        messageBytesMax: count64,
        inFlightBytesMax: count64,
      }),
    ),
  },
  [API.METADATA]: {
    request: bare(fc.record({ topics: maybe(list(text)), after: maybe(text) })),
    response: bare(
      fc.record({
        clusterId: uuid,
        controllerId: int32,
        brokers: list(fc.record({ nodeId: int32, address: text })),
        topics: list(topic),
        next: maybe(text),
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
      }),
    ),
    response: bare(
      fc.record({
        topics: list(fc.record({ name: text, error, message: maybe(text), topicId: maybe(uuid), partitions: int32 })),
      }),
    ),
  },
  [API.DELETE_TOPICS]: {
    request: bare(fc.record({ names: list(text) })),
    response: bare(fc.record({ topics: list(fc.record({ name: text, error, message: maybe(text) })) })),
  },
};

export const API_NAMES: readonly [string, ApiKey][] = Object.entries(API);
