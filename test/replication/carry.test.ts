// D-15: before a log begins further up, its leader writes down who would not be known there; the log start rises once that is committed.
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import type { ToldProducers } from "../../src/model/producer-records.ts";
import type { PartitionEffect } from "../../src/replication/types.ts";
import { type Bench, EXPIRATION_MS, epochsOf, follower, leader, producersAt } from "./harness.ts";

afterEach(() => activateMutants([]));

const PAIR = { isr: [1, 2], minIsr: 2 };
/** All that was appended. */
function commit(bench: Bench): void {
  const { endOffset } = bench.core;
  bench.durable(endOffset);
  bench.holds(2, endOffset);
}

const A = 7;
const B = 8;

/** Led in epoch 3: [0, 10) of nobody, then [10, 12) of producer 7, committed everywhere. */
function withOne(): Bench {
  const bench = leader({ ...PAIR, epoch: 3, end: 10 });
  bench.send("a", 2, [A, 0, 0]);
  bench.durable(12);
  bench.holds(2, 12);
  return bench;
}

describe("a leader whose log is to begin further up", () => {
  test("D-15: appends whoever would not be known there, once, and waits until that is committed", () => {
    const bench = withOne();
    expect(bench.core.mayBeginAt(10)).toBe(false);
    expect(bench.carry(10)).toEqual([]);
    expect(bench.core.mayBeginAt(10)).toBe(true);
    expect(bench.core.mayBeginAt(12)).toBe(false);
    expect(bench.raiseStart(12)).toEqual([]);
    expect(bench.carry(12)).toEqual(["append carried 7 [12] epoch 3"]);
    expect(bench.carry(12)).toEqual([]);
    expect([bench.core.endOffset, bench.core.waitingCount]).toEqual([13, 0]);
    bench.durable(13);
    expect(bench.core.mayBeginAt(12)).toBe(false);
    expect(bench.raiseStart(12)).toEqual([]);
    bench.holds(2, 13);
    expect(bench.core.mayBeginAt(12)).toBe(true);
    expect(bench.raiseStart(12)).toEqual(["log-start 12"]);
    expect(bench.send("a2", 2, [A, 0, 0])).toEqual(["duplicate a2 of what is committed", "answer a2 NONE appended 10"]);
    expect(bench.send("b", 1, [A, 0, 2])).toEqual(["append b [13, 13] epoch 3"]);
  });

  test("D-15r: the planted bug does not wait", () => {
    activateMutants(["D-15r"]);
    const bench = withOne();
    bench.carry(12);
    expect(bench.raiseStart(12)).toEqual(["log-start 12"]);
  });

  test("M24: the planted bug writes nothing down", () => {
    activateMutants(["M24"]);
    const bench = withOne();
    expect(bench.carry(12)).toEqual([]);
    expect(bench.raiseStart(12)).toEqual(["log-start 12"]);
    expect(bench.core.endOffset).toBe(12);
  });

  test("P-8: ends who wrote nothing since it was first carried on, by the time that is told, never after a jump of the clock", () => {
    const bench = withOne();
    bench.send("b", 1, [B, 0, 0]);
    commit(bench);
    expect(bench.carry(13, { wallMs: 5_000 })).toEqual(["append carried 7 8 [13] epoch 3"]);
    bench.send("b2", 1, [B, 0, 1]);
    const late = 5_001 + EXPIRATION_MS;
    commit(bench);
    expect(bench.carry(15, { wallMs: late, mayExpire: false })).toEqual(["append carried 7 8 [15] epoch 3"]);
    commit(bench);
    expect(bench.carry(16, { wallMs: late })).toEqual([
      "append expired 7 [16] epoch 3",
      "append carried 8 [17] epoch 3",
    ]);
    expect(bench.send("a3", 1, [A, 0, 2])).toEqual(["answer a3 UNKNOWN_PRODUCER_ID not appended -"]);
    expect(bench.send("b3", 1, [B, 0, 2])).toEqual(["append b3 [18, 18] epoch 3"]);
  });

  test("waits until all is committed that it knows: a window that has moved on by what is not may come back", () => {
    const bench = withOne();
    for (let at = 0; at < 5; at++) bench.send(`b${at}`, 1, [A, 0, 2 + at]);
    bench.durable(17);
    expect(bench.carry(12)).toEqual([]);
    expect([bench.core.isCarried(12), bench.core.mayBeginAt(12)]).toEqual([true, false]);
    bench.holds(2, 16);
    expect(bench.core.mayBeginAt(12)).toBe(false);
    bench.holds(2, 17);
    expect(bench.core.mayBeginAt(12)).toBe(true);
  });

  test("S-25: what the leader of before told counts once this one knows it to be committed", () => {
    const bench = follower({ ...PAIR, end: 12, epochs: epochsOf([3, 0]) });
    bench.fetched({ epoch: 3, hw: 12, batches: [told(12, { kind: "expired", producers: [] })] });
    bench.durable(13);
    bench.lead({ ...PAIR, epoch: 4 });
    bench.carry(5);
    expect(bench.core.mayBeginAt(5)).toBe(false);
    bench.holds(2, 13);
    expect(bench.core.mayBeginAt(5)).toBe(true);
    expect(bench.core.mayBeginAt(6)).toBe(false);
  });

  test("R-3: appends nothing while below min ISR, and the log start stays", () => {
    const bench = withOne();
    bench.record({ isr: [1], minIsr: 2, epoch: 3, partitionEpoch: 1, replicas: [1, 2] });
    expect(bench.carry(12)).toEqual([]);
    expect(bench.raiseStart(12)).toEqual([]);
    bench.record({ isr: [1, 2], minIsr: 2, epoch: 3, partitionEpoch: 2, replicas: [1, 2] });
    expect(bench.carry(12)).toEqual(["append carried 7 [12] epoch 3"]);
  });

  test("STORAGE_FULL: what was not written is told again", () => {
    const bench = withOne();
    bench.carry(12);
    bench.refused(12);
    expect(bench.core.endOffset).toBe(12);
    expect(bench.core.mayBeginAt(12)).toBe(false);
    expect(bench.carry(12)).toEqual(["append carried 7 [12] epoch 3"]);
  });

  test("who does not lead appends nothing", () => {
    const bench = follower({ end: 5 });
    expect(bench.carry(5)).toEqual([]);
    expect(bench.core.mayBeginAt(0)).toBe(false);
  });
});

function told(offset: number, what: ToldProducers) {
  const place = { baseOffset: offset, lastOffset: offset, producerId: -1, producerEpoch: -1, baseSequence: -1, crc: 0 };
  return { ...fetchedAt(offset), sequenced: [{ ...place, told: what }] };
}
function fetchedAt(offset: number) {
  type Batch = Extract<PartitionEffect<string, string>, { kind: "append-fetched" }>["batches"][number];
  return { baseOffset: offset, lastOffset: offset, epoch: 3, body: `${offset}` } as unknown as Batch;
}

describe("a follower (25)", () => {
  test("that begins where the log does knows what the others know", () => {
    const source = withOne();
    source.send("b", 1, [B, 0, 0]);
    const effects = source.core.step({ kind: "carry-producers", toOffset: 12 as never, wallMs: 1, mayExpire: true });
    const [effect] = effects;
    if (effect?.kind !== "append-told") throw new Error("nothing was told");
    const bench = follower({ start: 12, end: 13, producers: fresh(), epochs: epochsOf([3, 12]) });
    bench.fetched({ epoch: 3, hw: 12, batches: [told(13, effect.told)] });
    expect(bench.core.producers.equals(source.core.producers)).toBe(true);
  });
});

/** Of [12, 13), which has the batch of producer 8. */
function fresh() {
  const table = producersAt(12, 12);
  table.observe({ producerId: B, producerEpoch: 0, baseSequence: 0, baseOffset: 12, lastOffset: 12, crc: 5 });
  return table;
}
