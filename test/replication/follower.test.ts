// A follower: from where it asks, what it takes, where it cuts, what it says is durable.
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import {
  BACKOFF_MS,
  endsAt,
  epochsOf,
  fetchedBatch,
  follower,
  producersAt,
  Bench,
  SELF,
  UNCOUNTED,
} from "./harness.ts";
import type { LeaderEpoch, Offset } from "../../src/model/ids.ts";

afterEach(() => activateMutants([]));

const fetchLine = (offset: number, last: number, isFirst = false) =>
  `fetch ${offset} last ${last} of node 2 epoch 3${isFirst ? " first" : ""}`;
/** [0, 20), epochs (0, 0) (1, 12), all durable, follows node 2 in epoch 3. */
const behind = (highWatermark = 10) => follower({ end: 20, epochs: epochsOf([0, 0], [1, 12]), highWatermark });

describe("following", () => {
  test("R-4, R-13: it asks from its accepted end, with the latest epoch of its history", () => {
    const bench = new Bench();
    bench.load({ end: 20, epochs: epochsOf([0, 0], [1, 12]) });
    expect(bench.follow({ epoch: 3 })).toEqual([fetchLine(20, 1, true)]);
  });

  test("batches go to the log as they are, and the next position is out before they are written", () => {
    const bench = follower();
    expect(bench.fetched({ hw: 0, batches: [fetchedBatch(0, 4, 2), fetchedBatch(5, 9, 3)] })).toEqual([
      "append-fetched 0-4 5-9",
      "report 0 epoch 3",
      fetchLine(10, 3),
    ]);
    expect(bench.core.endOffset).toBe(10);
    expect(bench.core.epochs).toEqual(epochsOf([2, 0], [3, 5]));
    expect(bench.written(10)).toEqual([]);
    expect(bench.durable(10)).toEqual(["report 10 epoch 3"]);
  });

  test("an answer with nothing to read leaves the position where it is", () => {
    const bench = behind();
    expect(bench.fetched({ hw: 10 })).toEqual(["report 20 epoch 3"]);
    expect(bench.fetched({ hw: 15 })).toEqual(["hw 15"]);
    expect(bench.fetched({ hw: 15 })).toEqual([]);
  });

  test("R-5, D-7: it knows to be committed what the leader says is, up to what is durable here", () => {
    const bench = follower();
    bench.fetched({ hw: 8, batches: [fetchedBatch(0, 9, 3)] });
    expect(bench.core.highWatermark).toBe(0);
    bench.written(10);
    expect(bench.durable(5)).toEqual(["hw 5", "report 5 epoch 3"]);
    expect(bench.durable(10)).toEqual(["hw 8", "report 10 epoch 3"]);
  });

  test("R-19: an answer to another epoch or another position is dropped; M14: the planted bug takes another epoch's", () => {
    const bench = follower();
    expect(bench.fetched({ epoch: 2, hw: 0, batches: [fetchedBatch(0, 4, 2)] })).toEqual([]);
    expect(bench.fetched({ hw: 0, batches: [fetchedBatch(5, 9, 3)] }, 5)).toEqual([]);
    activateMutants(["M14"]);
    expect(bench.fetched({ epoch: 2, hw: 0, batches: [fetchedBatch(0, 4, 2)] })).toContain("append-fetched 0-4");
  });

  test("R-42: standing by ends it: answers that come later are dropped", () => {
    const bench = follower();
    bench.step({ kind: "stand-by", error: "NOT_LEADER_OR_FOLLOWER" });
    expect(bench.fetched({ hw: 0, batches: [fetchedBatch(0, 4, 3)] })).toEqual([]);
    expect(bench.durable(0)).toEqual([]);
    expect(bench.tick(5_000)).toEqual([]);
  });

  test("B-19: a batch of an epoch above the asked one is not taken, nor what follows it", () => {
    const bench = follower();
    const batches = [fetchedBatch(0, 4, 3), fetchedBatch(5, 9, 4), fetchedBatch(10, 11, 4)];
    expect(bench.fetched({ hw: 0, batches })).toEqual(["append-fetched 0-4", "report 0 epoch 3"]);
    expect(bench.core.retryAtMs).toBe(bench.nowMs + BACKOFF_MS);
    expect(bench.tick(BACKOFF_MS)).toEqual([fetchLine(5, 3)]);
  });

  test.each([
    ["a gap", fetchedBatch(6, 9, 3)],
    ["an overlap", fetchedBatch(4, 9, 3)],
    ["an older epoch", fetchedBatch(5, 9, 1)],
    ["an end before its start", fetchedBatch(5, 4, 3)],
  ])("B-18: %s is not appended", (_name, bad) => {
    const bench = follower();
    expect(bench.fetched({ hw: 0, batches: [fetchedBatch(0, 4, 2), bad] })[0]).toBe("append-fetched 0-4");
    expect(bench.core.endOffset).toBe(5);
  });

  test("an answer that does not begin where it was asked for proves nothing, not even what is committed", () => {
    const bench = behind();
    expect(bench.fetched({ hw: 20, batches: [fetchedBatch(12, 14, 1)] })).toEqual([]);
    expect(bench.core.highWatermark).toBe(10);
    expect(bench.tick(BACKOFF_MS)).toEqual([fetchLine(20, 1)]);
  });

  test("R-16: the same node in a newer epoch is asked from the start again", () => {
    const bench = behind();
    bench.fetched({ hw: 10 });
    expect(bench.follow({ epoch: 4 })).toEqual(["fetch 20 last 1 of node 2 epoch 4 first"]);
    expect(bench.durable(20)).toEqual([]);
  });
});

describe("D-3: reports", () => {
  test("a leader that has forgotten the slot is told everything anew, what is durable too", () => {
    const bench = behind();
    expect(bench.fetched({ hw: 10 })).toEqual(["report 20 epoch 3"]);
    expect(bench.fetched({ error: "FETCH_SESSION_ID_NOT_FOUND" })).toEqual([]);
    expect(bench.durable(20)).toEqual([]);
    expect(bench.tick(50)).toEqual([fetchLine(20, 1, true)]);
    expect(bench.fetched({ hw: 10 })).toEqual(["report 20 epoch 3"]);
  });

  test("nothing is reported before an answer of this leader epoch that does not diverge", () => {
    const bench = behind();
    expect(bench.durable(20)).toEqual([]);
    expect(bench.fetched({ diverging: [1, 15] })).toEqual(["truncate 15"]);
    expect(bench.truncated(15, 1, epochsOf([0, 0], [1, 12]))).toEqual([fetchLine(15, 1)]);
    expect(bench.fetched({ hw: 12 })).toEqual(["hw 12", "report 15 epoch 3"]);
  });

  test("D-3: the planted bug reports before", () => {
    activateMutants(["D-3"]);
    expect(behind().durable(20)).toEqual(["report 20 epoch 3"]);
  });

  test("M3: the planted bug reports what it has not synced", () => {
    activateMutants(["M3"]);
    expect(follower().fetched({ hw: 0, batches: [fetchedBatch(0, 9, 3)] })).toContain("report 10 epoch 3");
  });

  test("a new session knows nothing: the position again, and the report again once it is validated", () => {
    const bench = behind();
    bench.fetched({ hw: 10 });
    expect(bench.step({ kind: "session-started", nowMs: bench.nowMs })).toEqual([fetchLine(20, 1, true)]);
    expect(bench.durable(20)).toEqual([]);
    expect(bench.fetched({ hw: 10 })).toEqual(["report 20 epoch 3"]);
  });
});

describe("R-14: cutting", () => {
  test("the epoch is known here: back to the smaller end", () => {
    expect(behind().fetched({ diverging: [0, 15] })).toEqual(["truncate 12"]);
    expect(behind().fetched({ diverging: [0, 11] })).toEqual(["truncate 11"]);
    expect(behind().fetched({ diverging: [1, 14] })).toEqual(["truncate 14"]);
  });

  test("KIP-279: the epoch is not known here: back to where our older one ends, and ask again", () => {
    const bench = follower({ end: 20, epochs: epochsOf([0, 0], [1, 6], [4, 12]), highWatermark: 4, epoch: 9 });
    expect(bench.fetched({ diverging: [3, 8] })).toEqual(["truncate 12"]);
    expect(bench.truncated(12, 1, epochsOf([0, 0], [1, 6]))).toEqual(["fetch 12 last 1 of node 2 epoch 9"]);
    expect(bench.fetched({ diverging: [1, 8] })).toEqual(["truncate 8"]);
  });

  test("no epoch of ours is as old: everything goes", () => {
    const bench = follower({ end: 20, epochs: epochsOf([5, 0]), epoch: 9 });
    expect(bench.fetched({ diverging: [3, 8] })).toEqual(["truncate 0"]);
  });

  test("R-12: an epoch without records at the tail goes, though no record does", () => {
    const bench = new Bench();
    bench.load({ end: 20, epochs: epochsOf([0, 0]) });
    bench.step({ kind: "epoch-opened", leaderEpoch: 2 as LeaderEpoch });
    bench.follow({ epoch: 3 });
    expect(bench.fetched({ diverging: [0, 25] })).toEqual(["truncate 20"]);
    expect(bench.truncated(20, 1, epochsOf([0, 0]))).toEqual([fetchLine(20, 0)]);
  });

  test("R-6: an answer that diverges changes no high watermark", () => {
    const bench = behind();
    bench.fetched({ diverging: [0, 15], hw: 20 });
    bench.truncated(12, 1, epochsOf([0, 0]));
    expect(bench.core.highWatermark).toBe(10);
  });

  test("while the log is cut nothing else happens to it, whatever completes or is answered; then it goes on", () => {
    const bench = behind();
    bench.fetched({ diverging: [0, 15] });
    expect(bench.core.isCutting).toBe(true);
    expect(bench.durable(20)).toEqual([]);
    expect(bench.fetched({ hw: 20, batches: [fetchedBatch(12, 14, 3)] }, 12)).toEqual([]);
    expect(bench.follow({ epoch: 4 })).toEqual([]);
    expect(bench.tick(10_000)).toEqual([]);
    expect(bench.truncated(12, 1, epochsOf([0, 0]))).toEqual(["fetch 12 last 0 of node 2 epoch 4 first"]);
    // D-34: a sync that began before the cut speaks of bytes that are gone.
    expect(bench.durable(20, 0)).toEqual([]);
  });

  test("a cut that ends when nobody is followed any more only moves the ends", () => {
    const bench = behind();
    bench.fetched({ diverging: [0, 15] });
    bench.step({ kind: "stand-by", error: "NOT_LEADER_OR_FOLLOWER" });
    expect(bench.truncated(12, 1, epochsOf([0, 0]))).toEqual([]);
    expect(bench.lead({ epoch: 5 })).toEqual(["hw 12"]);
  });

  test("a divergence that asks to cut nothing is no endless loop", () => {
    const bench = behind();
    expect(bench.fetched({ diverging: [1, 25] })).toEqual([]);
    expect(bench.core.retryAtMs).toBe(bench.nowMs + BACKOFF_MS);
  });

  test("M7: the planted bug cuts to its own high watermark", () => {
    activateMutants(["M7"]);
    const bench = new Bench();
    bench.load({ end: 20, epochs: epochsOf([0, 0]), highWatermark: 10 });
    expect(bench.follow({ epoch: 3 })).toEqual(["truncate 10"]);
  });
});

describe("D-9: what was validated as committed is never cut", () => {
  test("the replica is dropped and refetched whole, both offsets in the reason", () => {
    const bench = behind(14);
    expect(bench.fetched({ diverging: [0, 15] })).toEqual([
      "damaged: leader epoch 3 asks to cut at 12, below the high watermark 14 (log end 20; no unclean election is known)",
    ]);
    expect(bench.core.role).toBe("stand-by");
    expect(bench.fetched({ hw: 20, batches: [fetchedBatch(20, 21, 3)] })).toEqual([]);
    bench.load();
    expect(bench.follow({ epoch: 3 })).toEqual([fetchLine(0, -1, true)]);
  });

  test("the reason names the unclean election that the record keeps", () => {
    const bench = follower({ end: 20, epochs: epochsOf([0, 0], [1, 12]), highWatermark: 14, uncleanEpoch: 2 });
    expect(bench.fetched({ diverging: [0, 15] })[0]).toContain("unclean election in 2");
  });

  test("durable records above it are cut", () =>
    expect(behind(12).fetched({ diverging: [0, 15] })).toEqual(["truncate 12"]));

  test("D-9: the planted bug cuts them", () => {
    activateMutants(["D-9"]);
    const bench = behind(14);
    expect(bench.fetched({ diverging: [0, 15] })).toEqual(["truncate 12"]);
    expect(bench.core.highWatermark).toBe(12);
  });
});

describe("R-17: out of range", () => {
  test("below the leader's log start: everything is dropped, the log begins there, and so does what is committed (R-7)", () => {
    const bench = follower({ end: 20, epochs: epochsOf([0, 0], [1, 12]), highWatermark: 10, ...UNCOUNTED });
    expect(bench.fetched({ error: "OFFSET_OUT_OF_RANGE", logStart: 50 })).toEqual(["restart-log 50"]);
    expect(bench.durable(20)).toEqual([]);
    expect(
      bench.step({ kind: "restarted", ends: endsAt(50), startOffset: 50 as Offset, producers: producersAt(50) }),
    ).toEqual([fetchLine(50, -1)]);
    expect(bench.core.highWatermark).toBe(50);
    expect(bench.core.startOffset).toBe(50);
  });

  test.each([
    ["in the ISR", { isr: [SELF, 2] }],
    ["in the ELR", { isr: [2], elr: [SELF], replicas: [SELF, 2] }],
  ])("I-13: not while it is %s, unless that does not end: a crash could leave it without a log", (_, record) => {
    const outOfRange = { error: "OFFSET_OUT_OF_RANGE", logStart: 50 } as const;
    const bench = follower({ end: 20, epochs: epochsOf([0, 0]), highWatermark: 20, ...record });
    let waitedMs = 0;
    for (; bench.fetched(outOfRange).length === 0; waitedMs += BACKOFF_MS)
      expect(bench.tick(BACKOFF_MS)).toEqual([fetchLine(20, 0)]);
    expect(waitedMs).toBeGreaterThan(4 * BACKOFF_MS);
    activateMutants(["R-17i"]);
    const mutated = follower({ end: 20, epochs: epochsOf([0, 0]), highWatermark: 20, ...record });
    expect(mutated.fetched(outOfRange)).toEqual(["restart-log 50"]);
  });

  test("I-13: it follows the ISR of the leader epoch", () => {
    const bench = follower({ end: 20, epochs: epochsOf([0, 0]), highWatermark: 20, ...UNCOUNTED });
    bench.record({ leader: 2, epoch: 3, partitionEpoch: 1, isr: [2, SELF] });
    expect(bench.fetched({ error: "OFFSET_OUT_OF_RANGE", logStart: 50 })).toEqual([]);
    bench.record({ leader: 2, epoch: 3, partitionEpoch: 2, isr: [2] });
    bench.tick(BACKOFF_MS);
    expect(bench.fetched({ error: "OFFSET_OUT_OF_RANGE", logStart: 50 })).toEqual(["restart-log 50"]);
  });

  test("otherwise it keeps what it has and asks again later", () => {
    const bench = behind();
    expect(bench.fetched({ error: "OFFSET_OUT_OF_RANGE", logStart: 5 })).toEqual([]);
    expect(bench.tick(BACKOFF_MS)).toEqual([fetchLine(20, 1)]);
  });
});

describe("R-20, R-21: errors", () => {
  test("a bad answer backs off, once", () => {
    const bench = behind();
    expect(bench.fetched({ error: "CORRUPT_MESSAGE" })).toEqual([]);
    expect(bench.core.retryAtMs).toBe(bench.nowMs + BACKOFF_MS);
    expect(bench.fetched({ hw: 15 })).toEqual([]);
    expect(bench.tick(BACKOFF_MS - 1)).toEqual([]);
    expect(bench.tick(1)).toEqual([fetchLine(20, 1)]);
    expect(bench.tick(BACKOFF_MS)).toEqual([]);
  });

  test("where the leader's metadata is only late it asks again soon, then less and less often", () => {
    const bench = behind();
    const delays: number[] = [];
    for (let round = 0; round < 7; round++) {
      bench.fetched({ error: round % 2 === 0 ? "UNKNOWN_LEADER_EPOCH" : "NOT_LEADER_OR_FOLLOWER" });
      delays.push((bench.core.retryAtMs ?? 0) - bench.nowMs);
      expect(bench.tick(delays.at(-1))).toHaveLength(1);
    }
    expect(delays).toEqual([50, 100, 200, 400, 800, 1_000, 1_000]);
  });

  test("FENCED_LEADER_EPOCH: nothing before a newer epoch, not even with a new session", () => {
    const bench = behind();
    bench.fetched({ error: "FENCED_LEADER_EPOCH" });
    expect(bench.core.retryAtMs).toBeUndefined();
    expect(bench.tick(60_000)).toEqual([]);
    expect(bench.step({ kind: "session-started", nowMs: bench.nowMs })).toEqual([]);
    expect(bench.follow({ epoch: 4 })).toHaveLength(1);
  });

  test("a full disk takes back what was not written: it asks again from there, later, and drops what is under way", () => {
    const bench = follower();
    bench.fetched({ hw: 0, batches: [fetchedBatch(0, 4, 2), fetchedBatch(5, 9, 3)] });
    bench.written(5);
    expect(bench.refused(5)).toEqual([]);
    expect(bench.core.epochs).toEqual(epochsOf([2, 0], [3, 5]));
    expect(bench.fetched({ hw: 0, batches: [fetchedBatch(10, 11, 3)] }, 10)).toEqual([]);
    expect(bench.tick(BACKOFF_MS)).toEqual([fetchLine(5, 3)]);
    expect(bench.fetched({ hw: 0, batches: [fetchedBatch(5, 9, 3)] })).toContain("append-fetched 5-9");
  });

  test("and with the log's own epochs where batches had replaced one", () => {
    const bench = new Bench();
    bench.load({ end: 5, epochs: epochsOf([0, 0]) });
    bench.step({ kind: "epoch-opened", leaderEpoch: 1 as LeaderEpoch });
    bench.follow({ epoch: 3 });
    bench.fetched({ hw: 0, batches: [fetchedBatch(5, 9, 2)] });
    bench.refused(5, 0, epochsOf([0, 0], [1, 5]));
    expect(bench.tick(BACKOFF_MS)).toEqual([fetchLine(5, 1)]);
  });
});
