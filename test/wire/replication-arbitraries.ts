// Random messages of replication.
import fc from "fast-check";
import { API } from "../../src/wire/native/apis.ts";
import type { Arbitraries } from "./arbitraries.ts";
import { bare, body, count64, error, int32, int64, list, maybe, nodeId, text, uuid } from "./random-values.ts";

const slot = fc.nat({ max: 100_000 });
const rowsOf = (...columns: fc.Arbitrary<number>[]): fc.Arbitrary<number[]> =>
  list(fc.tuple(...columns)).map((rows) => rows.flat());
const code = fc.integer({ min: 1, max: 0xffff });
const count32 = fc.nat({ max: 2 ** 31 - 1 });
const epoch = fc.oneof(count32, fc.constant(-1));
const offset = fc.oneof(count64, fc.constant(-1));

/** Batches or only a high watermark, a divergence, an error. */
const rowOf = (bodies: number): fc.Arbitrary<number[]> =>
  fc.oneof(
    fc.tuple(
      slot,
      fc.constant(0),
      epoch,
      count64,
      offset,
      fc.constant(-1),
      fc.constant(-1),
      fc.integer({ min: -1, max: bodies - 1 }),
    ),
    fc.tuple(slot, fc.constant(0), epoch, fc.constant(-1), offset, count32, count64, fc.constant(-1)),
    fc.tuple(slot, code, epoch, fc.constant(-1), offset, fc.constant(-1), fc.constant(-1), fc.constant(-1)),
  );

export const REPLICATION_ARBITRARIES: Pick<Arbitraries, 42 | 43 | 44 | 45 | 46> = {
  [API.ALTER_PARTITION]: {
    request: bare(
      fc.record({
        nodeId,
        brokerEpoch: count64,
        entries: list(
          fc.record({
            topicId: uuid,
            partition: count32,
            leaderEpoch: count32,
            partitionEpoch: count32,
            isr: list(fc.record({ nodeId: count32, brokerEpoch: offset })),
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
        brokerEpoch: count64,
        sessionId: count64,
        maxWaitMs: count32,
        maxBytes: count32,
        added: list(fc.record({ slot, topicId: uuid, partition: count32 })),
        positions: rowsOf(slot, epoch, count64, epoch),
        removed: rowsOf(slot),
      }),
    ),
    response: list(body).chain((bodies) =>
      list(rowOf(bodies.length)).map((rows) => ({ payload: { rows: rows.flat() }, bodies })),
    ),
  },
  [API.DURABLE_REPORT]: {
    request: bare(
      fc.record({
        nodeId,
        brokerEpoch: count64,
        sessionId: count64,
        rows: rowsOf(slot, epoch, count64, fc.constant(-1)),
      }),
    ),
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
