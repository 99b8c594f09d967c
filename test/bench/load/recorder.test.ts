// Which records count, and in which window of the timeline.
import { describe, expect, it } from "vitest";
import { LatencyHistogram } from "../../../src/bench/histogram.ts";
import { Recorder } from "../../../src/bench/load/recorder.ts";
import type { WindowMessage } from "../../../src/bench/load/types.ts";
import type { LoadMode } from "../../../src/bench/result.ts";

function recorder(mode: LoadMode) {
  const windows: WindowMessage[] = [];
  let nowMs = 0;
  const made = new Recorder({
    mode,
    windowMs: 100,
    expectedIntervalMs: 0,
    nowMs: () => nowMs,
    emit: (window) => void windows.push(window),
  });
  made.begin({ beginMs: 0, startMs: 1000, untilMs: 2000 });
  const took = (dueMs: number, atMs: number) => {
    nowMs = atMs;
    made.took(dueMs, atMs, 1, 10);
  };
  return { made, windows, took };
}

const counts = (windows: readonly WindowMessage[]) =>
  windows.filter(({ records }) => records > 0).map(({ index, records }) => [index, records]);

describe("a recorder", () => {
  it("of an open loop counts what was due in the measured time, also when it comes after it", () => {
    const { made, windows, took } = recorder("open");
    took(900, 1010);
    took(1000, 1010);
    took(1999, 2950);
    took(2000, 2960);
    made.finish();
    expect(counts(windows)).toEqual([
      [0, 1],
      [19, 1],
    ]);
    expect(LatencyHistogram.decode(windows[19]?.histogram ?? "").maxMs()).toBeCloseTo(951, 0);
  });

  it("of a closed loop counts what came in the measured time", () => {
    const { made, windows, took } = recorder("closed");
    took(900, 999);
    took(900, 1000);
    took(1999, 1999.5);
    took(1999, 2000);
    made.finish();
    expect(counts(windows)).toEqual([
      [0, 1],
      [9, 1],
    ]);
  });

  it("hands over every window once and in order, the empty ones too", () => {
    const { made, windows, took } = recorder("closed");
    took(1040, 1050);
    took(1740, 1750);
    made.finish();
    expect(windows.map(({ index }) => index)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    expect(windows.filter(({ histogram }) => histogram !== "").map(({ index }) => index)).toEqual([0, 7]);
  });

  it("of a closed loop counts as failed what it had sent and gave up only after the measured time", () => {
    const { made } = recorder("closed");
    made.failed("REQUEST_TIMED_OUT", 900, 999, 1);
    made.failed("REQUEST_TIMED_OUT", 900, 1000, 2);
    made.failed("CLOSED", 1900, 32_000, 4);
    made.end(1500);
    made.failed("CLOSED", 1600, 32_000, 8);
    expect(made.errors).toEqual({ REQUEST_TIMED_OUT: 2, CLOSED: 4 });
  });

  it("counts failures of the measured time only, by code", () => {
    const { made } = recorder("open");
    made.failed("REQUEST_TIMED_OUT", 900, 1500, 5);
    made.failed("REQUEST_TIMED_OUT", 1000, 1500, 2);
    made.failed("CLOSED", 1100, 1500, 1);
    made.missed("NOT_SENT", 0);
    expect(made.errors).toEqual({ REQUEST_TIMED_OUT: 2, CLOSED: 1 });
  });

  it("that is ended early counts nothing due afterwards", () => {
    const { made } = recorder("open");
    made.end(1500);
    expect(made.isMeasured(1499, 1600)).toBe(true);
    expect(made.isMeasured(1500, 1600)).toBe(false);
    made.end(1800);
    expect(made.untilMs).toBe(1500);
  });
});
