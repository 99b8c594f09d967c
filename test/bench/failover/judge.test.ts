// The verdict of a failover measurement: every limit can be missed, and what was not measured is not told as a figure.
import { describe, expect, it } from "vitest";
import {
  type FailoverReport,
  type FailoverRun,
  faultsOf,
  kindReport,
  merged,
  unprovenOf,
} from "../../../src/bench/failover/judge.ts";
import type { Kind } from "../../../src/bench/failover/kinds.ts";

const run = (gapMs: number, more: Partial<FailoverRun> = {}): FailoverRun => ({
  ...{ node: 1, isController: false, gapMs, returnGapMs: 40, gaps: [gapMs], restGapMs: 30, load: 1_000 },
  ...more,
});

function report(kind: Kind, runs: readonly FailoverRun[], more: Partial<FailoverReport> = {}): FailoverReport {
  return {
    kinds: [kindReport(kind, runs)],
    notRun: {},
    load: { recordsPerSecond: 1_000, recordBytes: 100, wanted: 1_000 },
    ...{ acknowledged: 1, clientErrors: {}, timelines: [] },
    ...more,
  };
}

describe("a failover measurement", () => {
  it("has no fault within its limits", () => {
    expect(faultsOf(report("kill", [run(1_000), run(900)]))).toEqual([]);
    expect(unprovenOf(report("kill", [run(1_000)]))).toEqual([]);
  });

  it.each([
    ["the longest gap", report("kill", [run(2_600)])],
    ["nine of ten", report("kill", [run(1_300), run(1_300), run(1_000)])],
    ["the way back", report("kill", [run(1_000, { returnGapMs: 501 })])],
    ["the load", report("kill", [run(1_000)], { load: { recordsPerSecond: 899, recordBytes: 100, wanted: 1_000 } })],
    ["what clients were told", report("kill", [run(1_000)], { clientErrors: { "CLOSED unknown": 1 } })],
  ])("is judged by %s", (_, of) => {
    expect(faultsOf(of)).toHaveLength(1);
  });

  it("does not know the way back of a machine that was never quiet", () => {
    const [kind] = report("kill", [run(1_000, { restGapMs: 101, returnGapMs: 900 })]).kinds;
    expect(kind).toMatchObject({ quietRuns: 0, returnMaxMs: null, isWithin: true });
    expect(faultsOf(report("kill", [run(2_600, { restGapMs: 101 })]))).toEqual([
      "kill: max 2600 ms, p90 2600 ms, coming back not known; allowed: 2500, p90 1200, 500",
    ]);
  });

  it("proves nothing of a stop in order there, and nothing at all where nothing was measured", () => {
    expect(unprovenOf(report("stop", [run(300, { restGapMs: 120 })]))).toHaveLength(1);
    expect(unprovenOf(merged([]))).toEqual(["nothing was measured: no kind not run"]);
  });
});
