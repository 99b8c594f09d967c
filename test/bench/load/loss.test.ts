// What was acknowledged against what was read: planted losses, repetitions and disorder are found, failed records are none.
import { describe, expect, it } from "vitest";
import { Lane } from "../../../src/bench/load/lanes.ts";
import { isDamning, lossOf } from "../../../src/bench/load/loss.ts";
import { Received } from "../../../src/bench/load/received.ts";

const CONNECTIONS = 3;

/** `count` records of one lane, answered in pieces; those in `failed` were refused. */
function sent(count: number, failed: readonly number[] = [], connection = 1, partition = 2) {
  const lane = new Lane(partition);
  for (let sequence = 0; sequence < count; sequence++) lane.sent(sequence);
  for (let sequence = 0; sequence < count; sequence++) lane.answered(1, failed.includes(sequence), () => undefined);
  return lane.summary(connection);
}

function read(sequences: readonly number[], connection = 1, partition = 2) {
  const received = new Received(CONNECTIONS);
  for (const sequence of sequences) received.take(partition, connection, sequence);
  return received.summary();
}

const upTo = (count: number, without: readonly number[] = []) =>
  Array.from({ length: count }, (_, index) => index).filter((index) => !without.includes(index));

const loss = (lane: ReturnType<typeof sent>, sequences: readonly number[], unread: readonly number[] = []) =>
  lossOf([{ sent: [lane], received: read(sequences), unread }]);

describe("loss", () => {
  it("is none where everything that was acknowledged was read", () => {
    expect(loss(sent(10), upTo(10))).toMatchObject({ acknowledged: 10, lost: 0, duplicates: 0, outOfOrder: 0 });
  });

  it.each([
    ["in the middle", [4, 5], 2],
    ["at the head", [0], 1],
    ["at the end", [8, 9], 2],
    ["everywhere", upTo(10), 10],
  ] as const)("is found %s", (_, gone, lost) => {
    const found = loss(sent(10), upTo(10, gone));
    expect(found.lost).toBe(lost);
    expect(found.examples[0]).toMatch(/^connection 1, partition 2: records \d+ to \d+$/);
    expect(isDamning(found, "all")).toBe(true);
    expect(isDamning(found, "1")).toBe(true);
    expect(isDamning(found, "0")).toBe(false);
  });

  it("is none where what is missing had failed, nor where what had failed is there", () => {
    const missing = loss(sent(10, [3, 4, 9]), upTo(10, [3, 4, 9]));
    expect(missing).toMatchObject({ acknowledged: 7, lost: 0 });
    expect(loss(sent(10, [3, 4, 9]), upTo(10))).toMatchObject({ acknowledged: 7, lost: 0 });
    expect(loss(sent(10, [3, 9]), upTo(10, [2, 3, 4, 9]))).toMatchObject({ acknowledged: 8, lost: 2 });
  });

  it("counts what came twice, and what came late, which is then no gap", () => {
    const found = loss(sent(6), [0, 2, 1, 3, 4, 4, 5]);
    expect(found).toMatchObject({ lost: 0, duplicates: 1, outOfOrder: 1 });
    expect(isDamning(found, "all")).toBe(true);
    expect(isDamning(found, "1")).toBe(false);
  });

  it("is not judged where a partition was not read to its end, and that is told", () => {
    const found = loss(sent(10), upTo(5), [2]);
    expect(found).toMatchObject({ lost: 0, unread: 1 });
    expect(isDamning(found, "all")).toBe(true);
  });

  it("of one lane is not made up by another", () => {
    const other = read(upTo(10), 0, 2);
    expect(lossOf([{ sent: [sent(10)], received: other, unread: [] }]).lost).toBe(10);
  });
});

describe("a lane", () => {
  it("tells of each answer when its records were due, the oldest first", () => {
    const lane = new Lane(0);
    for (const dueMs of [1, 1, 1, 2, 5, 5]) lane.sent(dueMs);
    const told: [number, number][] = [];
    lane.answered(4, false, (dueMs, count) => told.push([dueMs, count]));
    lane.sent(5);
    lane.answered(3, false, (dueMs, count) => told.push([dueMs, count]));
    expect(told.flatMap(([dueMs, count]) => new Array<number>(count).fill(dueMs))).toEqual([1, 1, 1, 2, 5, 5, 5]);
    expect(lane.acknowledged).toBe(7);
  });

  it("counts what never had an answer as failed", () => {
    const lane = new Lane(0);
    for (let sequence = 0; sequence < 5; sequence++) lane.sent(0);
    lane.answered(2, false, () => undefined);
    expect(lane.summary(0)).toMatchObject({ count: 5, failed: [[2, 4]] });
    expect(lane.acknowledged).toBe(2);
  });
});
