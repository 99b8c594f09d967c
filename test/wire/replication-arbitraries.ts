// Random messages of replication.
import fc from "fast-check";
import { API } from "../../src/wire/native/apis.ts";
import type { Arbitraries } from "./arbitraries.ts";
import { bare, body, count64, error, int32, int64, list, maybe, nodeId, text, uuid } from "./random-values.ts";

const slot = fc.nat({ max: 100_000 });
const rowsOf = (...columns: fc.Arbitrary<number>[]): fc.Arbitrary<number[]> =>
  list(fc.tuple(...columns)).map((rows) => rows.flat());
const code = fc.nat({ max: 0xffff });

export const REPLICATION_ARBITRARIES: Pick<Arbitraries, 42 | 43 | 44 | 45 | 46> = {
  [API.ALTER_PARTITION]: {
    request: bare(
      fc.record({
        nodeId,
        brokerEpoch: int64,
        entries: list(
          fc.record({
            topicId: uuid,
            partition: int32,
            leaderEpoch: int32,
            partitionEpoch: int32,
            isr: list(fc.record({ nodeId: int32, brokerEpoch: int64 })),
            wantsMove: fc.boolean(),
          }),
        ),
      }),
    ),
    response: bare(fc.record({ entries: list(fc.record({ error })) })),
  },
  [API.REPLICA_FETCH]: {
    request: bare(
      fc.record({
        nodeId,
        brokerEpoch: int64,
        sessionId: count64,
        maxWaitMs: int32,
        maxBytes: int32,
        added: list(fc.record({ slot, topicId: uuid, partition: int32 })),
        positions: rowsOf(slot, int32, int64, int32),
        removed: rowsOf(slot),
      }),
    ),
    response: list(body).chain((bodies) =>
      rowsOf(slot, code, int32, int64, int64, int32, int64, fc.integer({ min: -1, max: bodies.length - 1 })).map(
        (rows) => ({ payload: { rows }, bodies }),
      ),
    ),
  },
  [API.DURABLE_REPORT]: {
    request: bare(fc.record({ nodeId, brokerEpoch: int64, sessionId: count64, rows: rowsOf(slot, int32, int64) })),
    response: bare(fc.constant({})),
  },
  [API.ELECT_LEADERS]: {
    request: bare(
      fc.record({
        kind: fc.constantFrom("preferred", "unclean"),
        topic: maybe(text),
        partitions: maybe(list(int32)),
        nodeId: int32,
        isForced: fc.boolean(),
      }),
    ),
    response: bare(
      fc.record({
        entries: list(
          fc.record({ topic: text, partition: int32, error, message: maybe(text), leader: int32, endOffset: int64 }),
        ),
        omitted: int32,
        metadataEnd: int64,
      }),
    ),
  },
  [API.DESCRIBE_PARTITIONS]: {
    request: bare(fc.record({ entries: list(fc.record({ topicId: uuid, partition: int32 })) })),
    response: bare(
      fc.record({
        entries: list(
          fc.record({
            error,
            leaderEpoch: int32,
            partitionEpoch: int32,
            logStartOffset: int64,
            highWatermark: int64,
            endOffset: int64,
            durableEnd: int64,
            replicas: list(
              fc.record({
                nodeId: int32,
                endOffset: int64,
                durableEnd: int64,
                caughtUpMsAgo: int64,
                isInSync: fc.boolean(),
              }),
            ),
          }),
        ),
      }),
    ),
  },
};
