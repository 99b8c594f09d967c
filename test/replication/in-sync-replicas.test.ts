// ISR changes: who leaves, who joins, and that nothing of it is believed before a record says so.
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import type { NodeId } from "../../src/model/ids.ts";
import { brokerEpochOf, leader, LAG_MAX_MS, type RecordOptions, type Bench } from "./harness.ts";

afterEach(() => activateMutants([]));

const TRIO: RecordOptions = { isr: [1, 2, 3], minIsr: 2 };
const WITHOUT_3: RecordOptions = { isr: [1, 2], replicas: [1, 2, 3], minIsr: 2 };
const ALL = "propose 1@101 2@102 3@103 in 1/0";
const proposals = (lines: readonly string[]) => lines.filter((line) => line.startsWith("propose"));
const countedOf = ({ core }: Bench) => core.followers.filter(({ isCounted }) => isCounted).map(({ nodeId }) => nodeId);

/** Lets time pass while 2 keeps pace; the lines of proposals. */
function pass(
  bench: Bench,
  ms: number,
  options: { readonly growsBy?: number; readonly keepers?: readonly number[] },
): string[] {
  const lines: string[] = [];
  for (let passed = 0; passed < ms; passed += 500) {
    if (options.growsBy !== undefined) bench.grow(options.growsBy);
    for (const keeper of options.keepers ?? [2]) lines.push(...bench.holds(keeper, bench.core.endOffset));
    lines.push(...bench.tick(500));
  }
  return proposals(lines);
}

describe("leaving", () => {
  test("R-28, R-31: who lacks for longer than the limit what was written is proposed out, and counts until a record says so", () => {
    const bench = leader(TRIO);
    bench.holds(2, 0);
    bench.holds(3, 0);
    expect(pass(bench, LAG_MAX_MS, { growsBy: 1 })).toEqual([]);
    expect(pass(bench, 1_500, { growsBy: 1 })).toEqual(["propose 1@101 2@102 in 1/0"]);
    expect(bench.core.isr).toEqual([1, 2, 3]);
    expect(bench.core.highWatermark).toBe(0);
    expect(bench.record({ ...WITHOUT_3, epoch: 1, partitionEpoch: 1 })).toEqual([`hw ${bench.core.endOffset}`]);
  });

  test("M9: the planted bug believes its own proposal", () => {
    activateMutants(["M9"]);
    const bench = leader(TRIO);
    bench.holds(3, 0);
    pass(bench, LAG_MAX_MS + 1_500, { growsBy: 1 });
    expect(bench.core.isr).toEqual([1, 2]);
    expect(bench.core.highWatermark).toBeGreaterThan(0);
  });

  test("D-8, D-35: a follower that fetches on but does not sync is out of sync", () => {
    const bench = leader({ isr: [1, 2], minIsr: 1 });
    bench.holds(2, 0);
    const lines: string[] = [];
    for (let passed = 0; passed < LAG_MAX_MS + 1_500; passed += 500) {
      bench.grow(1);
      lines.push(...bench.fetch(2, bench.core.endOffset), ...bench.tick(500));
    }
    expect(proposals(lines)).toEqual(["propose 1@101 in 1/0"]);
  });

  test("an idle partition keeps its ISR, whoever last fetched when", () => {
    const bench = leader({ ...TRIO, end: 4 });
    bench.holds(2, 4);
    bench.holds(3, 4);
    for (let passed = 0; passed < 60_000; passed += 500) expect(bench.tick(500)).toEqual([]);
  });

  test("R-36: members that a new leader hears nothing of have the whole limit from its start", () => {
    const bench = leader({ ...TRIO, end: 4 });
    expect(pass(bench, LAG_MAX_MS, {})).toEqual([]);
    expect(pass(bench, 1_000, {})).toEqual(["propose 1@101 2@102 in 1/0"]);
  });

  test("a session that breaks off costs a member nothing that it did not lag before", () => {
    const bench = leader({ ...TRIO, end: 4 });
    bench.holds(3, 4);
    pass(bench, 10_000, {});
    bench.sessionEnded(3);
    expect(pass(bench, LAG_MAX_MS, {})).toEqual([]);
    expect(pass(bench, 1_000, {})).toEqual(["propose 1@101 2@102 in 1/0"]);
  });

  test("sessions that come and go without a report do not keep a member in", () => {
    const bench = leader({ ...TRIO, end: 4 });
    bench.holds(3, 4);
    const lines: string[] = [];
    for (let session = 2; session < 12; session++) {
      bench.fetch(3, 4, { session });
      bench.sessionEnded(3, session);
      lines.push(...pass(bench, 500, {}));
    }
    expect(lines).toEqual(["propose 1@101 2@102 in 1/0"]);
  });

  test("D-22: a leader that was paused evicts nobody for what it did not hear meanwhile", () => {
    const bench = leader(TRIO);
    pass(bench, 2_000, { growsBy: 1, keepers: [2, 3] });
    bench.grow(1);
    bench.tick(500);
    expect(proposals(bench.tick(20_000))).toEqual([]);
    expect(pass(bench, LAG_MAX_MS - 1_000, {})).toEqual([]);
    expect(pass(bench, 2_000, {})).toEqual(["propose 1@101 2@102 in 1/0"]);
  });

  test("one change at a time: while one is under way nothing else is proposed (R-30)", () => {
    const bench = leader(TRIO);
    bench.grow(1);
    expect(pass(bench, LAG_MAX_MS + 1_000, { keepers: [] })).toEqual(["propose 1@101 in 1/0"]);
    expect(bench.core.isIsrChangePending).toBe(true);
    bench.holds(2, 1);
    expect(pass(bench, 20_000, { keepers: [2] })).toEqual([]);
  });
});

describe("joining", () => {
  test("R-29, invariant 13: a durable end at the high watermark and at the epoch's start", () => {
    const bench = leader({ ...WITHOUT_3, end: 8 });
    bench.grow(2);
    bench.holds(2, 4);
    expect(bench.core.highWatermark).toBe(4);
    bench.fetch(3, 10);
    expect(proposals(bench.report(3, 6))).toEqual([]);
    expect(proposals(bench.report(3, 8))).toEqual([ALL]);
  });

  test("M11: the planted bug takes who is below the epoch's start", () => {
    activateMutants(["M11"]);
    const bench = leader({ ...WITHOUT_3, end: 8 });
    bench.holds(2, 4);
    bench.fetch(3, 8);
    expect(proposals(bench.report(3, 6))).toEqual([ALL]);
  });

  test("M10: the planted bug takes who has nothing", () => {
    activateMutants(["M10"]);
    const bench = leader({ ...WITHOUT_3, end: 8 });
    expect(proposals(bench.fetch(3, 0, { last: -1 }))).toEqual([ALL]);
  });

  test("R-30: a proposed newcomer holds the high watermark and does not count for min ISR", () => {
    const bench = leader({ isr: [1], replicas: [1, 2], minIsr: 2, end: 4 });
    expect(proposals(bench.holds(2, 4))).toEqual(["propose 1@101 2@102 in 1/0"]);
    expect(bench.core.highWatermark).toBe(0);
    expect(bench.produce("a", -1)).toEqual(["answer a NOT_ENOUGH_REPLICAS not appended -"]);
    expect(bench.record({ epoch: 1, isr: [1, 2], minIsr: 2, partitionEpoch: 1 })).toEqual(["hw 4"]);
  });

  test("R-30: the high watermark waits for a proposed newcomer; D-8: the planted bug does not", () => {
    for (const [mutants, expected] of [
      [[], 4],
      [["D-8"], 6],
    ] as const) {
      activateMutants(mutants);
      const bench = leader({ ...WITHOUT_3, end: 4 });
      bench.holds(2, 4);
      expect(proposals(bench.holds(3, 4))).toEqual([ALL]);
      bench.grow(2);
      bench.holds(2, 6);
      expect(bench.core.highWatermark).toBe(expected);
    }
  });

  test("R-1, R-35: only in the incarnation that is unfenced and fetches", () => {
    const bench = leader({ ...WITHOUT_3, end: 4 });
    bench.holds(2, 4);
    bench.eligible = new Map([
      [1 as NodeId, brokerEpochOf(1)],
      [2 as NodeId, brokerEpochOf(2)],
    ]);
    expect(proposals(bench.holds(3, 4))).toEqual([]);
    bench.eligible = new Map([...bench.eligible, [3 as NodeId, 90]]);
    expect(proposals(bench.tick(500))).toEqual([]);
    bench.eligible = new Map([...bench.eligible, [3 as NodeId, brokerEpochOf(3)]]);
    expect(proposals(bench.tick(500))).toEqual([ALL]);
  });

  test("who is at a high watermark that stands still but lacks old records is not taken: it would be out again at once", () => {
    const bench = leader(WITHOUT_3);
    bench.holds(2, 0);
    bench.grow(10);
    for (let passed = 0; passed < LAG_MAX_MS + 500; passed += 500) bench.tick(500);
    expect(bench.core.highWatermark).toBe(0);
    bench.nowMs += 1;
    expect(proposals(bench.holds(3, 2))).toEqual([]);
    expect(proposals(bench.holds(3, 10))).toEqual([ALL]);
  });

  test("two that are caught up join one after the other", () => {
    const bench = leader({ isr: [1], replicas: [1, 2, 3], minIsr: 1, end: 4 });
    expect(proposals(bench.holds(2, 4))).toEqual(["propose 1@101 2@102 in 1/0"]);
    expect(proposals(bench.holds(3, 4))).toEqual([]);
    const lines = bench.record({ ...WITHOUT_3, epoch: 1, partitionEpoch: 1 });
    expect(proposals(lines)).toEqual(["propose 1@101 2@102 3@103 in 1/1"]);
  });
});

describe("R-32, R-37: answers and records", () => {
  test("INELIGIBLE_REPLICA proves that it was not applied: back to the committed ISR, and again later", () => {
    const bench = leader({ ...WITHOUT_3, end: 4 });
    bench.holds(2, 4);
    bench.holds(3, 4);
    bench.grow(2);
    bench.holds(2, 6);
    expect(bench.core.highWatermark).toBe(4);
    expect(bench.refusedChange(0, "INELIGIBLE_REPLICA")).toEqual(["hw 6"]);
    expect(proposals(bench.holds(3, 6))).toEqual([]);
    bench.nowMs += 1_000;
    expect(proposals(bench.tick(0))).toEqual([ALL]);
  });

  test.each(["INVALID_UPDATE_VERSION", "FENCED_LEADER_EPOCH", "UNKNOWN_TOPIC_OR_PARTITION", "NOT_CONTROLLER"] as const)(
    "%s leaves it pending until metadata comes",
    (error) => {
      const bench = leader({ ...WITHOUT_3, end: 4 });
      bench.holds(2, 4);
      bench.holds(3, 4);
      expect(bench.refusedChange(0, error)).toEqual([]);
      expect(bench.core.isIsrChangePending).toBe(true);
      expect(countedOf(bench)).toEqual([2, 3]);
      bench.record({ ...WITHOUT_3, epoch: 1, partitionEpoch: 1, minIsr: 1 });
      expect(bench.core.isIsrChangePending).toBe(true);
      expect(bench.core.partitionEpoch).toBe(1);
    },
  );

  test("an answer to a proposal of an older partition epoch changes nothing", () => {
    const bench = leader({ ...WITHOUT_3, end: 4, partitionEpoch: 3 });
    bench.holds(2, 4);
    bench.holds(3, 4);
    bench.refusedChange(2, "INELIGIBLE_REPLICA");
    expect(countedOf(bench)).toEqual([2, 3]);
  });

  test("R-37: an older record, an equal one and one of another leader epoch are ignored", () => {
    const bench = leader({ ...TRIO, end: 4, epoch: 2, partitionEpoch: 5 });
    for (const partitionEpoch of [4, 5]) bench.record({ ...WITHOUT_3, epoch: 2, partitionEpoch });
    bench.record({ ...WITHOUT_3, epoch: 1, partitionEpoch: 9 });
    expect(bench.core.isr).toEqual([1, 2, 3]);
    bench.record({ ...WITHOUT_3, epoch: 2, partitionEpoch: 6 });
    expect(bench.core.isr).toEqual([1, 2]);
  });

  test("M12: the planted bug applies an older record", () => {
    activateMutants(["M12"]);
    const bench = leader({ ...TRIO, end: 4, epoch: 2, partitionEpoch: 5 });
    bench.record({ ...WITHOUT_3, epoch: 2, partitionEpoch: 4 });
    expect(bench.core.isr).toEqual([1, 2]);
  });

  test("a replica that was taken from the assignment is forgotten, one that was added is followed up", () => {
    const bench = leader({ ...TRIO, end: 4 });
    bench.record({ isr: [1, 2], replicas: [1, 2, 4], minIsr: 2, epoch: 1, partitionEpoch: 1 });
    expect(bench.fetch(3, 4)).toEqual(["verdict UNKNOWN_LEADER_EPOCH"]);
    bench.holds(2, 4);
    expect(proposals(bench.holds(4, 4))).toEqual(["propose 1@101 2@102 4@104 in 1/1"]);
  });
});

describe("D-8: the joining window", () => {
  /** 3 is always 2 records behind the mark that moves on with 1 and 2. */
  function chase(bench: Bench, rounds: number, stepMs = 20): string[] {
    const lines: string[] = [];
    for (let round = 0; round < rounds; round++) {
      bench.grow(2);
      const before = bench.core.highWatermark;
      lines.push(...bench.holds(2, bench.core.endOffset), ...bench.holds(3, Math.max(before, 1)));
      bench.nowMs += stepMs;
    }
    return lines;
  }

  test("who keeps pace but is always a little behind makes the mark wait, and joins", () => {
    const bench = leader(WITHOUT_3);
    bench.holds(2, 0);
    const lines = chase(bench, 8);
    expect(proposals(lines)).toEqual([ALL]);
    expect(bench.core.isIsrChangePending).toBe(true);
  });

  test("the mark waits 500 ms at most, then the next try is later, and later again", () => {
    const bench = leader(WITHOUT_3);
    const waits: number[] = [];
    let waitsSince: number | undefined;
    let lastEndMs: number | undefined;
    const gaps: number[] = [];
    bench.holds(2, 0);
    for (let atMs = 0; atMs < 40_000; atMs += 20) {
      // 3 reaches where the mark stood 40 ms ago, but stops for as long as the mark waits for it.
      const isWaiting = countedOf(bench).includes(3 as NodeId);
      if (isWaiting && waitsSince === undefined) {
        waitsSince = bench.nowMs;
        if (lastEndMs !== undefined) gaps.push(bench.nowMs - lastEndMs);
      }
      if (!isWaiting && waitsSince !== undefined) {
        waits.push(bench.nowMs - waitsSince);
        lastEndMs = bench.nowMs;
        waitsSince = undefined;
      }
      if (!isWaiting) {
        const mark = bench.core.highWatermark;
        bench.grow(2);
        bench.holds(2, bench.core.endOffset);
        if (mark > 0 && bench.core.highWatermark > mark) expect(proposals(bench.holds(3, mark))).toEqual([]);
      }
      bench.nowMs += 20;
      if (atMs % 500 === 480) bench.tick();
    }
    expect(waits.length).toBeGreaterThan(2);
    for (const wait of waits) expect(wait).toBeLessThanOrEqual(500 + 20);
    for (const [place, gap] of gaps.entries()) expect(gap).toBeGreaterThanOrEqual(1_000 * 2 ** Math.min(place, 4));
  });

  test("D-8w: the planted bug lets the mark wait for ever", () => {
    activateMutants(["D-8w"]);
    const bench = leader(WITHOUT_3);
    bench.holds(2, 0);
    for (let round = 0; round < 10 && !countedOf(bench).includes(3 as NodeId); round++) {
      const mark = bench.core.highWatermark;
      bench.grow(2);
      bench.holds(2, bench.core.endOffset);
      if (mark > 0) bench.holds(3, mark);
      bench.nowMs += 20;
    }
    for (let tick = 0; tick < 10; tick++) bench.tick(500);
    expect(countedOf(bench)).toEqual([2, 3]);
  });
});

describe("D-8: a leader whose own disk lags", () => {
  test("asks the controller to move leadership, again and again, and nothing is pending", () => {
    const bench = leader({ ...TRIO, end: 4 });
    bench.holds(2, 4);
    bench.holds(3, 4);
    bench.produce("a", -1);
    bench.written(5);
    const lines: string[] = [];
    for (let passed = 0; passed < 8_000; passed += 500) {
      for (const node of [2, 3]) lines.push(...bench.holds(node, 5));
      lines.push(...bench.tick(500));
    }
    const move = "propose 1@101 2@102 3@103 in 1/0 move";
    expect(proposals(lines)).toEqual([move, move]);
    expect(bench.core.isIsrChangePending).toBe(false);
  });

  test("also where even the write hangs, and not where nobody else is in sync", () => {
    const bench = leader({ isr: [1, 2], minIsr: 1 });
    bench.holds(2, 0);
    bench.produce("a", -1);
    const lines: string[] = [];
    for (let passed = 0; passed < 4_500; passed += 500) lines.push(...bench.tick(500));
    expect(proposals(lines)).toEqual(["propose 1@101 2@102 in 1/0 move"]);
    const alone = leader();
    alone.produce("a", -1);
    for (let passed = 0; passed < 8_000; passed += 500) expect(alone.tick(500)).toEqual([]);
  });

  test("what a full disk took back is no reason", () => {
    const bench = leader({ isr: [1, 2], minIsr: 1 });
    bench.holds(2, 0);
    bench.produce("a", -1);
    bench.tick(500);
    bench.refused(0);
    for (let passed = 0; passed < 8_000; passed += 500) expect(proposals(bench.tick(500))).toEqual([]);
  });

  test("a disk that is late but keeps pace is no reason", () => {
    const bench = leader({ isr: [1, 2], minIsr: 1 });
    const lines: string[] = [];
    for (let passed = 0; passed < 10_000; passed += 500) {
      bench.produce("a", 0, 5);
      bench.written(bench.core.endOffset);
      if (bench.core.endOffset > 10) bench.durable(bench.core.endOffset - 10);
      lines.push(...bench.holds(2, bench.core.endOffset), ...bench.tick(500));
    }
    expect(proposals(lines)).toEqual([]);
  });
});
