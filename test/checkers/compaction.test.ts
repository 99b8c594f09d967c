// Invariant 20 as clients see it, and what the other checkers allow where records go: that much and no more.
import { describe, expect, it } from "vitest";
import { CheckerSet } from "../../src/checkers/checker-set.ts";
import type { HistoryEvent, SendInvoked } from "../../src/checkers/history.ts";

const PLACE = { topic: "t", partition: 0 } as const;
const COMPACTED: HistoryEvent = { type: "topic compacted", timeMs: 0, topic: "t" };

function sent(operation: number, key: string, isTombstone = false): SendInvoked {
  const what = { operation, process: "p", ...PLACE, acks: "all", value: `v${operation}`, sum: operation } as const;
  return { type: "send invoked", timeMs: 1, ...what, key, isTombstone };
}
function ok(operation: number, offset = operation): HistoryEvent {
  return { type: "send ok", timeMs: 2, operation, offset };
}
function unknown(operation: number): HistoryEvent {
  return { type: "send unknown", timeMs: 2, operation, offset: undefined };
}
function failed(operation: number): HistoryEvent {
  return { type: "send failed", timeMs: 2, operation, offset: undefined };
}
function scan(startOffset: number, offsets: readonly number[], endOffset: number): HistoryEvent {
  const records = offsets.map((offset) => ({ offset, value: `v${offset}` }));
  return { type: "scan", timeMs: 3, process: "f", ...PLACE, startOffset, endOffset, records };
}
function found(...history: readonly HistoryEvent[]): number[] {
  const checkers = new CheckerSet();
  for (const event of history) checkers.observe(event);
  return [...new Set(checkers.violations.map((violation) => violation.invariant))].sort((left, right) => left - right);
}

/** Keys a, b, a at 0 to 2. */
const KEYED: readonly HistoryEvent[] = [COMPACTED, sent(0, "a"), ok(0), sent(1, "b"), ok(1), sent(2, "a"), ok(2)];

describe("a topic that is compacted", () => {
  it("keeps the last record of each key, and may lose those before it", () => {
    expect(found(...KEYED, scan(0, [0, 1, 2], 3))).toEqual([]);
    expect(found(...KEYED, scan(0, [1, 2], 3))).toEqual([]);
    expect(found(...KEYED, scan(0, [0, 1], 3))).toEqual([20]);
    expect(found(...KEYED, scan(0, [2], 3))).toEqual([20]);
  });

  it("does not lose its end", () => {
    expect(found(...KEYED, sent(3, "b"), ok(3), scan(0, [1, 2], 3))).toEqual([1]);
  });

  it("is the only one that may", () => {
    expect(found(...KEYED.slice(1), scan(0, [1, 2], 3))).toEqual([1, 4]);
  });

  it("loses nothing more because the record that is last has an unknown outcome", () => {
    expect(found(...KEYED, sent(3, "b"), unknown(3), scan(0, [2], 3))).toEqual([20]);
    expect(found(...KEYED, sent(3, "b"), unknown(3), scan(0, [2, 3], 4))).toEqual([]);
  });

  it("gives a key up with a record without a value, where that is, or may be", () => {
    expect(found(...KEYED, sent(3, "b", true), ok(3), scan(0, [2], 4))).toEqual([]);
    expect(found(...KEYED, sent(3, "b", true), unknown(3), scan(0, [2], 3))).toEqual([]);
    expect(found(...KEYED, sent(3, "b", true), failed(3), scan(0, [2], 3))).toEqual([20]);
    // Of an older one: what was written after it stays.
    expect(found(COMPACTED, sent(0, "b", true), ok(0), sent(1, "b"), ok(1), scan(0, [], 2))).toEqual([20]);
  });

  it("says nothing of what lies below its start", () => {
    expect(found(...KEYED, scan(2, [2], 3))).toEqual([]);
  });

  it("has no other record in the place of one, and none out of order", () => {
    expect(found(...KEYED, scan(0, [2, 1], 3))).toEqual([4]);
    const read = { timeMs: 4, process: "r", ...PLACE, sum: 1, highWatermark: 3, fromOffset: 0 } as const;
    expect(found(...KEYED, { type: "read", ...read, offset: 0, value: "v1" })).toEqual([1, 17]);
  });
});

describe("control batches", () => {
  const control: HistoryEvent = { type: "control", timeMs: 1, ...PLACE, offset: 1, lastOffset: 1 };

  it("leave their offsets out of what is read, and no others", () => {
    const history = [sent(0, "a"), ok(0), sent(2, "a"), ok(2), sent(3, "a"), ok(3)];
    expect(found(control, ...history, scan(0, [0, 2, 3], 4))).toEqual([]);
    expect(found(control, ...history, scan(0, [0, 3], 4))).toEqual([1, 4]);
    expect(found(...history, scan(0, [0, 2, 3], 4))).toEqual([4]);
  });

  it("are not read", () => {
    const read = {
      timeMs: 4,
      process: "r",
      ...PLACE,
      sum: 2,
      highWatermark: 3,
      fromOffset: 0,
      afterOffset: 0,
    } as const;
    const history = [sent(0, "a"), ok(0), sent(2, "a"), ok(2)];
    expect(found(control, ...history, { type: "read", ...read, offset: 2, value: "v2" })).toEqual([]);
    expect(found(...history, { type: "read", ...read, offset: 2, value: "v2" })).toEqual([4]);
  });
});
