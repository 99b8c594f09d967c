// What a kind of failover is told as: windows of time, totals, and what clients were told.
import { expect, it } from "vitest";
import { benchRunOf } from "../../../src/bench/failover/bench-run.ts";
import { FailoverTimeline } from "../../../src/bench/failover/timeline.ts";
import { parseResult, resultText } from "../../../src/bench/result-file.ts";
import { resultOf } from "../report/samples.ts";

function recorded(): FailoverTimeline {
  const timeline = new FailoverTimeline(1_000);
  timeline.timed(900, 990); // before the start
  timeline.counted(990, 7);
  for (let index = 1; index <= 100; index++) timeline.timed(1_100, 1_100 + index);
  timeline.counted(1_200, 40);
  // Due in the first window and acknowledged after a pause of a window.
  timeline.timed(1_240, 1_600);
  timeline.counted(1_600, 2);
  timeline.faults.push({ atMs: 250, untilMs: 600, label: "node 1 killed", gapMs: 400, allowedGapMs: 2_500 });
  return timeline;
}

it("counts what was acknowledged in each window, and leaves a pause empty", () => {
  expect(recorded().entries()).toEqual([
    { atMs: 0, records: 40, p50Ms: 50, p99Ms: 99, maxMs: 100 },
    { atMs: 250, records: 0, p50Ms: null, p99Ms: null, maxMs: null },
    { atMs: 500, records: 2, p50Ms: 360, p99Ms: 360, maxMs: 360 },
  ]);
});

it("is a run of a benchmark that a result file takes", () => {
  const measured = { kind: "kill", runs: [], timeline: recorded(), seconds: 2, errors: { "X unknown": 1 } } as const;
  const run = benchRunOf({ ...measured, recordBytes: 100, partitions: 6 });
  expect(run).toMatchObject({ records: 42, bytes: 4_200, recordsPerSecond: 21, errors: { "X unknown": 1 } });
  expect(run.latencyMs?.max).toBeCloseTo(360, 0);
  expect(run.faults[0]?.gapMs).toBe(400);
  const result = resultOf([run]);
  expect(parseResult(resultText(result), "the test")).toEqual(result);
});
