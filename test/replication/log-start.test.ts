// Where a log starts: the leader lets go (S-26 to S-30), followers take it up to what they know to be committed (I-20), and begin anew where the
// leader's log begins inside a batch (S-32).
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import type { NodeId, Offset } from "../../src/model/ids.ts";
import {
  BACKOFF_MS,
  Bench,
  endsAt,
  epochsOf,
  fetchedBatch,
  follower,
  leader,
  producersAt,
  SELF,
  UNCOUNTED,
} from "./harness.ts";

afterEach(() => activateMutants([]));

/** As a host does it: what is known of producers is told first (D-15), here of none. */
function raise(bench: Bench, to: number): string[] {
  const toOffset = to as Offset;
  const told = bench.step({ kind: "carry-producers", toOffset, wallMs: 0, mayExpire: false });
  return [...told, ...bench.step({ kind: "raise-start", toOffset })];
}
const startDurable = (bench: Bench, startOffset: number) =>
  bench.step({ kind: "start-durable", startOffset: startOffset as Offset });

/** Leads [0, 20) in epoch 1 with nodes 2 and 3, all of it committed. */
function leading(): Bench {
  const bench = leader({ end: 20, isr: [1, 2, 3], minIsr: 2 });
  bench.holds(2, 20);
  bench.holds(3, 20);
  expect(bench.core.highWatermark).toBe(20);
  return bench;
}

describe("a leader", () => {
  test("S-30: lets go at once what is committed, and no more; never back", () => {
    const bench = leading();
    expect(raise(bench, 12)).toEqual(["log-start 12"]);
    expect(bench.core.startOffset).toBe(12);
    expect(raise(bench, 12)).toEqual([]);
    expect(raise(bench, 3)).toEqual([]);
    bench.produce("a", -1, 4);
    expect(raise(bench, 18)).toEqual(["log-start 18"]);
    // What its producers are must not hang on what may still be taken back (D-15).
    bench.send("b", 1, [7, 0, 0]);
    expect(raise(bench, 99)).toEqual([]);
    bench.durable(25);
    for (const node of [2, 3]) bench.holds(node, 25);
    expect(raise(bench, 99)).toEqual(["append carried 7 [25] epoch 1"]);
    bench.durable(26);
    bench.holds(2, 26);
    bench.holds(3, 26);
    expect([bench.core.mayBeginAt(25), bench.core.mayBeginAt(26)]).toEqual([true, false]);
    expect(bench.raiseStart(25)).toEqual(["log-start 25"]);
    expect(bench.core).toMatchObject({ startOffset: 25, highWatermark: 26, endOffset: 26 });
  });

  test("S-31: its history begins where its log does, with the epoch that holds it", () => {
    const bench = new Bench();
    bench.load({ end: 20, epochs: epochsOf([0, 0], [2, 5], [3, 12]), highWatermark: 20 });
    bench.lead({ epoch: 4 });
    raise(bench, 7);
    expect(bench.core.epochs).toEqual(epochsOf([2, 7], [3, 12], [4, 20]));
    raise(bench, 12);
    expect(bench.core.epochs).toEqual(epochsOf([3, 12], [4, 20]));
  });

  test("a follower, and whoever stands by, is not asked", () => {
    const bench = follower({ end: 20, epochs: epochsOf([0, 0]), highWatermark: 20 });
    expect(raise(bench, 10)).toEqual([]);
    expect(bench.core.startOffset).toBe(0);
  });

  test("S-30: what is gone everywhere is what all who live say is durable, itself among them", () => {
    const bench = leading();
    const low = () => bench.core.lowWatermark(bench.eligible);
    expect(low()).toBe(0);
    raise(bench, 12);
    bench.report(2, 20, { start: 12 });
    bench.report(3, 20, { start: 12 });
    expect(low()).toBe(0);
    startDurable(bench, 12);
    expect(low()).toBe(12);
    raise(bench, 15);
    startDurable(bench, 15);
    expect(low()).toBe(12);
    bench.report(2, 20, { start: 15 });
    expect(low()).toBe(12);
    // Who is fenced is not waited for.
    bench.eligible = new Map([...bench.eligible].filter(([node]) => node !== (3 as NodeId)));
    expect(low()).toBe(15);
  });

  test("S-30: a new session, and a build that does not say, are not counted on", () => {
    const bench = leading();
    raise(bench, 12);
    startDurable(bench, 12);
    for (const node of [2, 3]) bench.report(node, 20, { start: 12 });
    bench.fetch(2, 20, { session: 2 });
    expect(bench.core.lowWatermark(bench.eligible)).toBe(-1);
    bench.report(2, 20, { session: 2, start: -1 });
    expect(bench.core.lowWatermark(bench.eligible)).toBe(-1);
    bench.report(2, 20, { session: 2, start: 12 });
    expect(bench.core.lowWatermark(bench.eligible)).toBe(12);
  });

  test("S-30: the planted bug takes its own word before it is durable", () => {
    activateMutants(["S-30"]);
    const bench = leading();
    raise(bench, 12);
    for (const node of [2, 3]) bench.report(node, 20, { start: 12 });
    expect(bench.core.lowWatermark(bench.eligible)).toBe(12);
  });

  test("S-32: gives an empty log what is left, from its start on; one that has records is out of range", () => {
    const bench = leading();
    raise(bench, 12);
    expect(bench.fetch(2, 0, { last: -1 })).toEqual(["verdict read [12, 20)"]);
    expect(bench.fetch(2, 10, { last: 0 })).toEqual(["verdict OFFSET_OUT_OF_RANGE"]);
    raise(bench, 20);
    expect(bench.fetch(2, 0, { last: -1 })).toEqual(["verdict OFFSET_OUT_OF_RANGE"]);
  });

  test("S-31: whether what ends just at its start is its own it cannot say any more; the planted bug takes it", () => {
    const bench = new Bench();
    bench.load({ end: 20, start: 7, epochs: epochsOf([2, 7], [3, 12]), highWatermark: 20 });
    bench.lead({ epoch: 4, isr: [1], replicas: [1, 2] });
    expect(bench.fetch(2, 7, { last: 0 })).toEqual(["verdict OFFSET_OUT_OF_RANGE"]);
    expect(bench.fetch(2, 8, { last: 0 })).toEqual(["verdict diverging 0 7"]);
    expect(bench.fetch(2, 7, { last: 2 })).toEqual(["verdict read [7, 20) first"]);
    activateMutants(["S-31"]);
    expect(bench.fetch(2, 7, { last: 0 })).toEqual(["verdict read [7, 20)"]);
  });
});

describe("a follower", () => {
  test("I-20: follows its leader's log start up to its own high watermark, and further when that rises", () => {
    const bench = follower({ end: 0 });
    expect(bench.fetched({ hw: 8, logStart: 6, batches: [fetchedBatch(0, 9, 3)] })).not.toContain("log-start 6");
    bench.written(10);
    expect(bench.durable(4)).toEqual(["hw 4", "log-start 4", "report 4 epoch 3"]);
    expect(bench.durable(10)).toEqual(["hw 8", "log-start 6", "report 10 epoch 3"]);
    expect(bench.core).toMatchObject({ startOffset: 6, highWatermark: 8 });
    expect(bench.fetched({ hw: 10, logStart: 7 })).toEqual(["hw 10", "log-start 7"]);
    // A leader that has let go less, after an election: nothing comes back.
    expect(bench.fetched({ hw: 10, logStart: 2 })).toEqual([]);
    expect(bench.core.startOffset).toBe(7);
  });

  test("S-30: says where its log starts once that is durable, in a report of its own if need be", () => {
    const bench = follower({ end: 20, epochs: epochsOf([0, 0]), highWatermark: 20 });
    expect(bench.fetched({ hw: 20, logStart: 12 })).toEqual(["log-start 12", "report 20 epoch 3"]);
    expect(startDurable(bench, 12)).toEqual(["report 20 epoch 3 start 12"]);
    expect(startDurable(bench, 12)).toEqual([]);
  });

  test("S-32: an empty log begins anew where the batch does that holds the leader's log start, and takes it then", () => {
    const bench = follower({ end: 5, start: 5, ...UNCOUNTED });
    expect(bench.fetched({ hw: 20, logStart: 5, batches: [fetchedBatch(3, 7, 2)] })).toEqual(["restart-log 3"]);
    const ends = endsAt(3, 1);
    const restarted = { kind: "restarted", ends, startOffset: 3 as Offset, producers: producersAt(3) } as const;
    expect(bench.step(restarted)).toEqual(["fetch 3 last -1 of node 2 epoch 3"]);
    expect(bench.fetched({ hw: 20, logStart: 5, batches: [fetchedBatch(3, 7, 2)] })).toContain("append-fetched 3-7");
    bench.written(8, 1);
    expect(bench.durable(8, 1)).toEqual(["hw 8", "log-start 5", "report 8 epoch 3 start 3"]);
  });

  test("S-32: a fresh one goes straight to the batch of the leader's log start", () => {
    const bench = follower(UNCOUNTED);
    const batches = [fetchedBatch(98, 103, 2)];
    expect(bench.fetched({ hw: 200, logStart: 100, batches })).toEqual(["restart-log 98"]);
    activateMutants(["S-32"]);
    expect(follower(UNCOUNTED).fetched({ hw: 200, logStart: 100, batches })).toEqual([]);
  });

  test.each([
    ["what lies above its end without a word of the leader", { start: 0, end: 0 }, fetchedBatch(98, 103, 2), 3],
    ["what has a gap to a log that is not empty", { start: 0, end: 4 }, fetchedBatch(3, 7, 2), 0],
  ])("B-18: %s is no answer", (_what, log, batch, logStart) => {
    const bench = follower({ ...log, epochs: log.end > 0 ? epochsOf([0, 0]) : [] });
    expect(bench.fetched({ hw: 200, logStart, batches: [batch] })).toEqual([]);
    expect(bench.core.retryAtMs).toBeDefined();
  });

  test("R-17, S-31: where its end is the leader's start, and the leader cannot say whether it is its own, all of it goes, in place (seed 720161530)", () => {
    const bench = follower({ start: 2, end: 7, epochs: epochsOf([0, 2]), highWatermark: 7 });
    const outOfRange = { error: "OFFSET_OUT_OF_RANGE", logStart: 7 } as const;
    expect(bench.fetched(outOfRange)).toEqual(["log-start 7"]);
    const asked = "fetch 7 last 0 of node 2 epoch 3";
    expect(bench.tick(BACKOFF_MS)).toEqual([asked]);
    expect(bench.fetched(outOfRange)).toEqual(["truncate 7"]);
    expect(bench.truncated(7, 1, [])).toEqual(["fetch 7 last -1 of node 2 epoch 3"]);
    expect([bench.core.startOffset, bench.core.highWatermark, bench.core.endOffset]).toEqual([7, 7, 7]);
    const empty = follower({ start: 7, end: 7 });
    expect(empty.fetched(outOfRange)).toEqual([]);
    activateMutants(["R-17i"]);
    const mutated = follower({ start: 2, end: 7, epochs: epochsOf([0, 2]), highWatermark: 6 });
    expect(mutated.fetched(outOfRange)).toEqual(["restart-log 7"]);
  });

  test("R-17, S-31: it begins anew there where not all of it is known to be committed", () => {
    const bench = follower({ end: 7, epochs: epochsOf([0, 0]), highWatermark: 6, ...UNCOUNTED });
    expect(bench.fetched({ error: "OFFSET_OUT_OF_RANGE", logStart: 7 })).toEqual(["restart-log 7"]);
  });

  test("D-9, I-13: a cut to its log start leaves nothing: it begins anew there, or goes on with an empty log where it is counted on", () => {
    const log = { end: 20, start: 5, epochs: epochsOf([0, 5]), highWatermark: 5 };
    expect(follower({ ...log, ...UNCOUNTED }).fetched({ diverging: [0, 5] })).toEqual(["restart-log 5"]);
    const bench = follower({ ...log, isr: [2], elr: [SELF], replicas: [SELF, 2] });
    expect(bench.fetched({ diverging: [0, 5] })).toEqual(["truncate 5"]);
    bench.truncated(5, 1, []);
    expect([bench.core.startOffset, bench.core.highWatermark, bench.core.endOffset]).toEqual([5, 5, 5]);
  });

  test("D-3: what it reported before it was out of range counts no more: the leader does not take it into the ISR, and hears it anew", () => {
    const led = leader({ end: 6, epoch: 3, isr: [1, 3], replicas: [1, 2, 3], minIsr: 2 });
    led.holds(3, 6);
    led.fetch(2, 6, { last: 0 });
    raise(led, 6);
    led.fetch(2, 6, { last: 0 });
    expect(led.report(2, 6)).toEqual([]);
    const bench = follower({ start: 6, end: 6, epochs: epochsOf([0, 6]), highWatermark: 6 });
    expect(bench.fetched({ hw: 6, logStart: 6 })).toEqual(["report 6 epoch 3 start 6"]);
    bench.fetched({ error: "OFFSET_OUT_OF_RANGE", logStart: 6 });
    bench.truncated(6, 1, []);
    expect(bench.fetched({ hw: 6, logStart: 6 })).toEqual(["report 6 epoch 3 start 6"]);
  });

  test("a cut and a refusal leave its history beginning where its log does (S-31)", () => {
    const bench = follower({ end: 20, start: 5, epochs: epochsOf([0, 5], [1, 12]), highWatermark: 5 });
    bench.fetched({ diverging: [0, 9] });
    // The log may not have come to it yet.
    bench.truncated(9, 1, epochsOf([0, 0]));
    expect(bench.core.epochs).toEqual(epochsOf([0, 5]));
  });
});
