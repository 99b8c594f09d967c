// A leader and its followers: what it ships, whom it believes, what is committed.
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import { brokerEpochOf, epochsOf, follower, leader, type RecordOptions, Bench } from "./harness.ts";

afterEach(() => activateMutants([]));

const PAIR: RecordOptions = { isr: [1, 2], minIsr: 2 };
const TRIO: RecordOptions = { isr: [1, 2, 3], minIsr: 2 };
const verdictsOf = (lines: readonly string[]) => lines.filter((line) => line.startsWith("verdict"));

/** Leads [0, 8) with epochs (0, 0) (2, 5), then epoch 4 from 8 on. */
function leaderWithHistory(): Bench {
  const bench = new Bench();
  bench.load({ end: 8, epochs: epochsOf([0, 0], [2, 5]) });
  bench.lead({ ...TRIO, epoch: 4 });
  return bench;
}

describe("the high watermark", () => {
  test("D-35, R-38: acks all is answered when the batch is durable on every member of the ISR", () => {
    const bench = leader({ ...PAIR, epoch: 3, end: 10 });
    expect(bench.holds(2, 10)).toEqual(["verdict read [10, 10) first", "hw 10"]);
    bench.produce("a", -1, 5);
    expect(bench.written(15)).toEqual([]);
    expect(bench.durable(15)).toEqual([]);
    expect(bench.fetch(2, 15)).toEqual(["verdict read [15, 15)"]);
    expect(bench.report(2, 12)).toEqual(["hw 12"]);
    expect(bench.report(2, 15)).toEqual(["hw 15", "answer a NONE appended 10"]);
  });

  test("the leader's own sync counts as everybody else's", () => {
    const bench = leader(PAIR);
    bench.produce("a", -1);
    bench.written(1);
    bench.holds(2, 1);
    expect(bench.core.highWatermark).toBe(0);
    expect(bench.durable(1)).toEqual(["hw 1", "answer a NONE appended 0"]);
  });

  test("who is not in the ISR holds nothing up", () => {
    const bench = leader({ isr: [1, 2], replicas: [1, 2, 3], minIsr: 2 });
    bench.grow(4);
    expect(bench.holds(2, 4)).toContain("hw 4");
  });

  test("D-3: a member whose durable end is not known holds the high watermark", () => {
    const bench = leader({ ...PAIR, end: 4 });
    expect(bench.tick(1_000)).toEqual([]);
    expect(bench.core.highWatermark).toBe(0);
  });

  test("R-3, D-5: with the ISR below min ISR it stands still; a record with a lower min ISR lets it go", () => {
    const bench = leader({ isr: [1], replicas: [1, 2], minIsr: 2, end: 4 });
    expect(bench.core.highWatermark).toBe(0);
    expect(bench.record({ epoch: 1, isr: [1], replicas: [1, 2], minIsr: 1, partitionEpoch: 1 })).toEqual(["hw 4"]);
  });

  test("M15: the planted bug commits below min ISR", () => {
    activateMutants(["M15"]);
    expect(leader({ isr: [1], replicas: [1, 2], minIsr: 2, end: 4 }).core.highWatermark).toBe(4);
  });

  test("M4: the planted bug commits what was only sent", () => {
    activateMutants(["M4"]);
    const bench = leader(PAIR);
    bench.grow(4);
    expect(bench.fetch(2, 0)).toContain("hw 4");
  });

  test("M32: the planted bug answers acks all for what is durable on the leader alone", () => {
    activateMutants(["M32"]);
    const bench = leader(PAIR);
    bench.produce("a", -1);
    expect(bench.durable(1)).toEqual(["answer a NONE appended 0"]);
  });

  test("R-40: short of replicas at the deadline, an appended batch is answered NOT_ENOUGH_REPLICAS_AFTER_APPEND, outcome unknown", () => {
    const bench = leader(PAIR);
    bench.produce("a", -1);
    bench.produce("b", 1);
    bench.record({ epoch: 1, isr: [1], replicas: [1, 2], minIsr: 2, partitionEpoch: 1 });
    expect(bench.deadline("a")).toEqual(["answer a NOT_ENOUGH_REPLICAS_AFTER_APPEND unknown -"]);
    expect(bench.deadline("b")).toEqual(["answer b REQUEST_TIMED_OUT unknown -"]);
  });

  test("D-26: who gives up is not kept for as long as nothing is committed; who waits is answered in the order of the log", () => {
    const bench = leader(PAIR);
    bench.send("original", 1, [7, 0, 0]);
    bench.produce("patient", -1);
    const answered: string[] = [];
    for (let round = 0; round < 1_000; round++) {
      bench.produce(`all ${round}`, -1);
      bench.produce(`one ${round}`, 1);
      bench.send(`again ${round}`, 1, [7, 0, 0]);
      for (const name of ["all", "one", "again"]) answered.push(...bench.deadline(`${name} ${round}`));
    }
    expect(answered).toHaveLength(3_000);
    expect(bench.core.waitingCount).toBeLessThan(10);
    bench.produce("late", -1);
    bench.send("again", 1, [7, 0, 0]);
    const { endOffset } = bench.core;
    bench.durable(endOffset);
    const told = bench.holds(2, endOffset).filter((line) => line.startsWith("answer"));
    const places = [`original NONE appended 0`, `patient NONE appended 1`, `late NONE appended ${endOffset - 1}`];
    expect(told).toEqual([...places, "again NONE appended 0"].map((line) => `answer ${line}`));
    expect(bench.core.waitingCount).toBe(0);
  });

  test("R-36, D-3: a new leader epoch forgets what every follower was credited with", () => {
    const bench = leader({ ...PAIR, end: 4 });
    bench.holds(2, 4);
    bench.grow(2);
    bench.fetch(2, 6);
    bench.lead({ ...PAIR, epoch: 2 });
    expect(bench.report(2, 6)).toEqual([]);
    expect(bench.core.highWatermark).toBe(4);
    expect(bench.holds(2, 6)).toEqual(["verdict read [6, 6) first", "hw 6"]);
  });
});

describe("shipping", () => {
  test("only what is written is shipped: what a full disk takes back nobody has", () => {
    const bench = leader(PAIR);
    bench.produce("a", 1, 3);
    bench.produce("b", 1, 3);
    bench.written(3);
    expect(bench.fetch(2, 0, { last: -1 })).toEqual(["verdict read [0, 3) first"]);
    expect(bench.refused(3)).toEqual(["answer b STORAGE_FULL not appended -"]);
    expect(bench.fetch(2, 3)).toEqual(["verdict read [3, 3)"]);
  });

  test("the first verdict of a session, of a slot added anew and after a divergence is marked: it must be answered, or the follower never reports", () => {
    const bench = leader({ ...PAIR, end: 4 });
    expect(bench.fetch(2, 4)).toEqual(["verdict read [4, 4) first"]);
    expect(bench.fetch(2, 4)).toEqual(["verdict read [4, 4)"]);
    expect(bench.fetch(2, 4, { isAdded: true })).toEqual(["verdict read [4, 4) first"]);
    expect(bench.fetch(2, 4, { session: 2 })).toEqual(["verdict read [4, 4) first"]);
    expect(bench.fetch(2, 9, { session: 2, last: 0 })).toEqual(["verdict diverging 0 4"]);
    expect(bench.fetch(2, 4, { session: 2, last: 0 })).toEqual(["verdict read [4, 4) first"]);
  });
});

describe("R-13: diverging", () => {
  test.each([
    [8, 4, "read [8, 8) first"],
    [8, 2, "read [8, 8) first"],
    [6, 2, "read [6, 8) first"],
    [9, 2, "diverging 2 8"],
    [5, 0, "read [5, 8) first"],
    [6, 0, "diverging 0 5"],
    [6, 1, "diverging 0 5"],
    [3, 1, "diverging 0 5"],
    [8, 3, "diverging 2 8"],
    [0, -1, "read [0, 8) first"],
    [9, -1, "OFFSET_OUT_OF_RANGE"],
    [9, 5, "OFFSET_OUT_OF_RANGE"],
  ])("a follower at %i whose last epoch is %i: %s", (offset, last, expected) => {
    expect(leaderWithHistory().fetch(2, offset, { last })).toEqual([`verdict ${expected}`]);
  });

  test("below the log start: OFFSET_OUT_OF_RANGE", () => {
    const bench = new Bench();
    bench.load({ end: 8, start: 5, epochs: epochsOf([0, 5]) });
    bench.lead({ ...PAIR, epoch: 1 });
    expect(verdictsOf(bench.fetch(2, 4, { last: 0 }))).toEqual(["verdict OFFSET_OUT_OF_RANGE"]);
  });

  test("M6: the planted bug never finds a divergence", () => {
    activateMutants(["M6"]);
    expect(leaderWithHistory().fetch(2, 6, { last: 1 })).toEqual(["verdict read [6, 8) first"]);
  });
});

describe("fencing", () => {
  test("R-21: another leader epoch is fenced or unknown, and changes nothing", () => {
    const bench = leader({ ...PAIR, epoch: 4 });
    bench.grow(3);
    expect(bench.fetch(2, 3, { epoch: 3 })).toEqual(["verdict FENCED_LEADER_EPOCH"]);
    expect(bench.fetch(2, 3, { epoch: 5 })).toEqual(["verdict UNKNOWN_LEADER_EPOCH"]);
    expect(bench.core.followers[0]?.position).toBe(-1);
  });

  test("M14: the planted bug serves any epoch", () => {
    activateMutants(["M14"]);
    expect(leader({ ...PAIR, epoch: 4 }).fetch(2, 0, { epoch: 3 })).toEqual(["verdict read [0, 0) first"]);
  });

  test("R-22: who is not a replica meets UNKNOWN_LEADER_EPOCH", () => {
    expect(leader(PAIR).fetch(5, 0)).toEqual(["verdict UNKNOWN_LEADER_EPOCH"]);
  });

  test("neither a follower nor who stands by serves followers", () => {
    const bench = follower({ epoch: 3 });
    expect(bench.fetch(3, 0)).toEqual(["verdict NOT_LEADER_OR_FOLLOWER"]);
    expect(bench.fetch(3, 0, { epoch: 4 })).toEqual(["verdict UNKNOWN_LEADER_EPOCH"]);
    expect(bench.fetch(3, 0, { epoch: 2 })).toEqual(["verdict FENCED_LEADER_EPOCH"]);
  });

  test("R-23: an older incarnation, by the metadata or by what has fetched, changes nothing", () => {
    const bench = leader({ ...PAIR, end: 4 });
    expect(bench.fetch(2, 4, { brokerEpoch: brokerEpochOf(2) - 1 })).toEqual(["verdict STALE_BROKER_EPOCH"]);
    expect(bench.core.followers[0]?.position).toBe(-1);
    bench.fetch(2, 4, { brokerEpoch: 500 });
    expect(bench.fetch(2, 4)).toEqual(["verdict STALE_BROKER_EPOCH"]);
    expect(bench.report(2, 4)).toEqual([]);
    expect(bench.report(2, 4, { brokerEpoch: 500 })).toEqual(["hw 4"]);
  });

  test("N3: late bytes of an old session neither move a position nor raise a durable end", () => {
    const bench = leader({ ...PAIR, end: 4 });
    bench.fetch(2, 2, { session: 7 });
    bench.fetch(2, 4, { session: 8 });
    expect(bench.fetch(2, 3, { session: 7 })).toEqual(["verdict FETCH_SESSION_ID_NOT_FOUND"]);
    expect(bench.report(2, 4, { session: 7 })).toEqual([]);
    expect(bench.core.followers[0]?.position).toBe(4);
    expect(bench.core.highWatermark).toBe(0);
  });
});

describe("D-3: a durable report is believed only after validation", () => {
  test("credit is the smaller of what was reported and what a fetch of this session validated", () => {
    const bench = leader(PAIR);
    bench.grow(10);
    bench.fetch(2, 4);
    expect(bench.report(2, 8)).toEqual(["hw 4"]);
    expect(bench.fetch(2, 8)).toEqual(["hw 8", "verdict read [8, 10)"]);
  });

  test("one below nothing changes nothing", () => {
    const bench = leader(PAIR);
    bench.grow(10);
    bench.fetch(2, 4);
    bench.report(2, 3);
    expect(bench.report(2, -5)).toEqual([]);
    expect(bench.core.followers[0]?.durableEnd).toBe(3);
  });

  test("D-3p: the planted bug credits above the validated position", () => {
    activateMutants(["D-3p"]);
    const bench = leader(PAIR);
    bench.grow(10);
    bench.fetch(2, 4);
    expect(bench.report(2, 8)).toEqual(["hw 8"]);
  });

  test("what was reported before a divergence counts for nothing after it", () => {
    const bench = leader({ ...PAIR, end: 4 });
    bench.fetch(2, 9, { last: 0 });
    bench.report(2, 9);
    bench.fetch(2, 4, { last: 0 });
    bench.grow(5);
    expect(bench.fetch(2, 9)).toEqual(["verdict read [9, 9)"]);
    expect(bench.core.highWatermark).toBe(0);
  });

  test("D-3: the planted bug believes a report of before the validation", () => {
    activateMutants(["D-3"]);
    const bench = leader({ ...PAIR, end: 4 });
    bench.fetch(2, 9, { last: 0 });
    bench.report(2, 9);
    expect(bench.fetch(2, 4, { last: 0 })).toContain("hw 4");
  });

  test("a new session, a slot added anew and an ended session take the credit back; the high watermark stays", () => {
    const bench = leader({ ...PAIR, end: 4 });
    const creditOf = () => bench.core.followers[0]?.durableEnd;
    bench.holds(2, 4);
    bench.fetch(2, 4, { isAdded: true });
    expect(creditOf()).toBe(-1);
    bench.report(2, 4);
    expect(creditOf()).toBe(4);
    bench.fetch(2, 4, { session: 2 });
    expect(creditOf()).toBe(-1);
    bench.report(2, 4, { session: 2 });
    bench.sessionEnded(2, 1);
    expect(creditOf()).toBe(4);
    bench.sessionEnded(2, 2);
    expect(creditOf()).toBe(-1);
    expect(bench.core.highWatermark).toBe(4);
  });

  test("D-3s: the planted bug keeps the credit over sessions", () => {
    activateMutants(["D-3s"]);
    const bench = leader({ ...PAIR, end: 4 });
    bench.holds(2, 4);
    bench.fetch(2, 0, { session: 2, last: -1 });
    expect(bench.report(2, 4, { session: 1 })).toEqual([]);
    expect(bench.fetch(2, 4, { session: 2 })).toEqual(["verdict read [4, 4)"]);
    expect(bench.core.followers[0]?.durableEnd).toBe(4);
  });

  test("a report of another leader epoch is dropped; D-3e: the planted bug takes it", () => {
    for (const [mutants, expected] of [
      [[], []],
      [["D-3e"], ["hw 4"]],
    ] as const) {
      activateMutants(mutants);
      const bench = leader({ ...PAIR, end: 4, epoch: 2 });
      bench.fetch(2, 4);
      expect(bench.report(2, 4, { epoch: 1 })).toEqual(expected);
    }
  });

  test("a position that goes back takes back what was reported above it", () => {
    const bench = leader({ ...PAIR, end: 4 });
    bench.holds(2, 4);
    bench.fetch(2, 2);
    bench.fetch(2, 4);
    expect(bench.core.followers[0]?.durableEnd).toBe(2);
  });
});

describe("describe", () => {
  test("leader and followers with ends, lag and membership", () => {
    const bench = leader({ isr: [1, 2], replicas: [1, 2, 3], minIsr: 2, end: 4, partitionEpoch: 7 });
    bench.holds(2, 4);
    bench.grow(2);
    bench.tick(500);
    bench.nowMs += 700;
    expect(bench.core.describe(bench.nowMs)).toEqual({
      leaderEpoch: 1,
      partitionEpoch: 7,
      startOffset: 0,
      highWatermark: 4,
      endOffset: 6,
      durableEnd: 6,
      replicas: [
        { nodeId: 1, endOffset: 6, durableEnd: 6, caughtUpMsAgo: 0, isInSync: true },
        { nodeId: 2, endOffset: 4, durableEnd: 4, caughtUpMsAgo: 700, isInSync: true },
        { nodeId: 3, endOffset: -1, durableEnd: -1, caughtUpMsAgo: -1, isInSync: false },
      ],
    });
  });
});
