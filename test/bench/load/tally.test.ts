// Windows of several processes become one timeline, whatever order they come in; what came late makes the run longer.
import { describe, expect, it } from "vitest";
import { LatencyHistogram } from "../../../src/bench/histogram.ts";
import { Tally } from "../../../src/bench/load/tally.ts";
import { type DoneMessage, NOT_SENT, type WindowMessage } from "../../../src/bench/load/types.ts";
import type { TimelineEntry } from "../../../src/bench/result.ts";

function window(index: number, latencies: readonly number[]): WindowMessage {
  const histogram = LatencyHistogram.empty();
  for (const latencyMs of latencies) histogram.record(latencyMs);
  const encoded = latencies.length === 0 ? "" : histogram.encode();
  return { kind: "window", index, records: latencies.length, bytes: latencies.length * 100, histogram: encoded };
}

const done = (changes: Partial<DoneMessage> = {}): DoneMessage => {
  const nothing = { errors: {}, late: "", sent: [], received: [], unread: [] };
  return { kind: "done", cpuSeconds: 1, ...nothing, ...changes };
};

function tallyOf(processes: number) {
  const entries: TimelineEntry[] = [];
  return { tally: new Tally({ windowMs: 100, processes, onEntry: (entry) => void entries.push(entry) }), entries };
}

describe("a tally", () => {
  it("adds the windows of all processes, and tells one when all have handed it over", () => {
    const { tally, entries } = tallyOf(2);
    tally.window(0, window(0, [1, 2]));
    tally.window(0, window(1, [3]));
    expect(entries).toEqual([]);
    tally.window(1, window(0, [10]));
    expect(entries.map(({ atMs, records, maxMs }) => [atMs, records, Math.round(maxMs ?? 0)])).toEqual([[0, 3, 10]]);
    tally.window(1, window(1, []));
    expect(entries).toHaveLength(2);
    const outcome = tally.outcome(200);
    expect(outcome).toMatchObject({ records: 4, bytes: 400, seconds: 0.2, isBehind: false });
    expect(outcome.latencies.count).toBe(4);
    expect(outcome.timeline).toEqual(entries);
  });

  it("takes in what only some processes have handed over at the end", () => {
    const { tally } = tallyOf(2);
    tally.window(0, window(0, [1]));
    tally.window(0, window(1, [2]));
    tally.window(1, window(0, [3]));
    expect(tally.outcome(200)).toMatchObject({ records: 3, timeline: [{ records: 2 }, { records: 1 }] });
  });

  it("has no latency where nothing came, and no windows beyond the last record and the planned time", () => {
    const { tally } = tallyOf(1);
    for (let index = 0; index < 30; index++) tally.window(0, window(index, index === 3 ? [5] : []));
    const { timeline } = tally.outcome(1000);
    expect(timeline).toHaveLength(10);
    expect(timeline[2]).toEqual({ atMs: 200, records: 0, p50Ms: null, p99Ms: null, maxMs: null });
  });

  it("is behind, and longer, when records came long after the end of the schedule", () => {
    const { tally } = tallyOf(1);
    for (let index = 0; index < 30; index++) tally.window(0, window(index, [1]));
    expect(tally.outcome(1000)).toMatchObject({ seconds: 3, isBehind: true });
  });

  it("is behind when records were not sent, and sums errors and processor time", () => {
    const { tally } = tallyOf(2);
    tally.window(0, window(0, [1]));
    tally.done(done({ errors: { [NOT_SENT]: 3, CLOSED: 1 }, cpuSeconds: 2 }));
    tally.done(done({ errors: { CLOSED: 4 } }));
    const outcome = tally.outcome(1000);
    expect(outcome).toMatchObject({ isBehind: true, errors: { NOT_SENT: 3, CLOSED: 5 }, clientCpuSeconds: 3 });
    expect(outcome.loss).toBeUndefined();
  });
});
