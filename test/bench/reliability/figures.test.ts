// The figures of a fault from its history: each level's own, with the parts of each round, and what is broken counted against the level that broke it.
import { describe, expect, it } from "vitest";
import { measuredOf } from "../../../src/bench/reliability/figures.ts";
import type { HistoryEvent, ScanEnded, SendEnded, SendInvoked } from "../../../src/checkers/history.ts";
import type { Acks } from "../../../src/client/types.ts";

function sent(operation: number, timeMs: number, acks: Acks): SendInvoked {
  const what = { operation, process: `p${acks}`, topic: `acks-${acks}`, partition: 0, acks, value: `v${operation}` };
  return { type: "send invoked", timeMs, ...what, sum: 0, isNumbered: acks === "all" };
}
function ok(operation: number, timeMs: number, offset: number | undefined): SendEnded {
  return { type: "send ok", timeMs, operation, offset };
}
function scan(timeMs: number, acks: Acks, operations: readonly number[]): ScanEnded {
  const records = operations.map((operation, offset) => ({ offset, value: `v${operation}` }));
  const of = { topic: `acks-${acks}`, partition: 0, startOffset: 0, endOffset: records.length, records };
  return { type: "scan", timeMs, process: "f", ...of };
}

const WINDOWS = [
  { name: "before", fromMs: 0, untilMs: 100 },
  { name: "during", fromMs: 100, untilMs: 200 },
  { name: "after", fromMs: 200, untilMs: 300 },
] as const;

/** Of each level a record before the fault, one that it holds up for 80 ms, and one after it. */
const HISTORY: readonly HistoryEvent[] = ([0, 1, "all"] as const)
  .flatMap((acks, index): HistoryEvent[] => {
    const first = index * 3;
    const offset = (at: number) => (acks === 0 ? undefined : at);
    return [
      ...[sent(first, 10, acks), ok(first, 12, offset(0))],
      ...[sent(first + 1, 95, acks), ok(first + 1, 175, offset(1))],
      ...[sent(first + 2, 210, acks), ok(first + 2, 213, offset(2))],
    ];
  })
  .toSorted((one, other) => one.timeMs - other.timeMs);

const led = (timeMs: number): HistoryEvent => ({
  type: "leadership",
  timeMs,
  topic: "acks-1",
  partition: 0,
  leaders: 1,
});

function measured(...more: readonly HistoryEvent[]) {
  return measuredOf({ events: [...HISTORY, ...more], windows: WINDOWS, finalFromMs: 1000 });
}

describe("figures", () => {
  it("of a sound history have no loss, and latency of each part; what the fault held up is the fault's", () => {
    const found = measured(scan(1000, 0, [0, 1, 2]), scan(1001, 1, [3, 4, 5]), scan(1002, "all", [6, 7, 8]));
    expect(found.get("acks-all")).toEqual({
      ...{ sent: 3, acknowledged: 3, failed: 0, unknown: 0, lost: 0, duplicated: 0, outOfOrder: 0, unjudged: 0 },
      ...{ longestGapMs: 163, violations: [] },
      latencyMs: {
        before: { p50: 2, p99: 2, max: 2 },
        during: { p50: 80, p99: 80, max: 80 },
        after: { p50: 3, p99: 3, max: 3 },
      },
    });
    expect([...found.values()].flatMap(({ violations }) => violations)).toEqual([]);
  });

  it("count the loss of acks=0 and, after a change of the leader, of acks=1, and break nothing", () => {
    const found = measured(led(250), scan(1000, 0, [0, 1]), scan(1001, 1, [3]), scan(1002, "all", [6, 7, 8]));
    expect(found.get("acks-0")).toMatchObject({ lost: 1, violations: [] });
    expect(found.get("acks-1")).toMatchObject({ lost: 2, violations: [] });
  });

  it("of acks=all that loses have the violation at that level alone", () => {
    const found = measured(scan(1000, 0, [0, 1, 2]), scan(1001, 1, [3, 4, 5]), scan(1002, "all", [6, 7]));
    expect(found.get("acks-all")).toMatchObject({ lost: 1 });
    expect(found.get("acks-all")?.violations).toEqual([expect.stringContaining("invariant 1: acks-all-0 offset 2")]);
    expect(found.get("acks-1")?.violations).toEqual([]);
  });

  it("of acks=1 that loses without a change of the leader have a violation, for nothing excuses it", () => {
    const found = measured(scan(1000, 0, [0, 1, 2]), scan(1001, 1, [3, 4]), scan(1002, "all", [6, 7, 8]));
    expect(found.get("acks-1")?.violations).toHaveLength(1);
  });

  it("of what no scan has read in the end are not judged", () => {
    expect(measured(scan(900, "all", [6, 7, 8])).get("acks-all")).toMatchObject({ lost: 0, unjudged: 3 });
  });
});
