// A server that stalls for a second: an open loop must show it in the percentiles, a closed loop shows it in one record only (coordinated omission).
import { describe, expect, it } from "vitest";
import { LatencyHistogram } from "../../../src/bench/histogram.ts";
import { paceClosed, paceOpen } from "../../../src/bench/load/pace.ts";
import { Recorder } from "../../../src/bench/load/recorder.ts";
import type { WindowMessage } from "../../../src/bench/load/types.ts";
import type { LoadMode } from "../../../src/bench/result.ts";

/** Time passes only where somebody waits. */
class VirtualClock {
  #nowMs = 1_000_000;

  nowMs(): number {
    return this.#nowMs;
  }

  sleep(ms: number): Promise<void> {
    this.#nowMs += ms;
    return Promise.resolve();
  }
}

const STALL_MS = 1000;

/** Answers one record after another, each within 0.2 ms, but for the stall. */
function server(clock: VirtualClock, stallFromMs: number) {
  return {
    untilAnswer: (): number => {
      const nowMs = clock.nowMs();
      const isStalled = nowMs >= stallFromMs && nowMs < stallFromMs + STALL_MS;
      return (isStalled ? stallFromMs + STALL_MS - nowMs : 0) + 0.2;
    },
  };
}

interface Run {
  readonly mode: LoadMode;
  readonly expectedIntervalMs?: number;
  readonly warmUpMs?: number;
  /** From the start of the measured time. */
  readonly stallAtMs?: number;
}

const RATE = 1000;

async function latencies({ mode, expectedIntervalMs = 0, warmUpMs = 500, stallAtMs = 4000 }: Run) {
  const clock = new VirtualClock();
  const windows: WindowMessage[] = [];
  const recorder = new Recorder({
    mode,
    windowMs: 250,
    expectedIntervalMs,
    nowMs: () => clock.nowMs(),
    emit: (window) => void windows.push(window),
  });
  const beginMs = clock.nowMs();
  const startMs = beginMs + warmUpMs;
  recorder.begin({ beginMs, startMs, untilMs: startMs + 10_000 });
  const { untilAnswer } = server(clock, startMs + stallAtMs);
  const send = (dueMs: number): Promise<void> =>
    clock.sleep(untilAnswer()).then(() => recorder.took(dueMs, clock.nowMs(), 1, 100));
  const untilMs = () => recorder.untilMs;
  if (mode === "closed") await paceClosed({ clock, untilMs, send });
  else {
    const open = { firstMs: beginMs, intervalMs: 1000 / RATE, giveUpMs: () => untilMs() + 5000 };
    expect(await paceOpen({ clock, untilMs, send, ...open })).toBe(0);
  }
  recorder.finish();
  const histogram = LatencyHistogram.empty();
  for (const window of windows) if (window.histogram !== "") histogram.add(LatencyHistogram.decode(window.histogram));
  return { histogram, windows };
}

describe("a server that stalls for a second", () => {
  it("shows in p99 of an open loop: every record that was due meanwhile waited", async () => {
    const { histogram } = await latencies({ mode: "open" });
    expect(histogram.count).toBe(10_000);
    expect(histogram.quantileMs(0.5)).toBeLessThan(1);
    expect(histogram.quantileMs(0.99)).toBeGreaterThan(850);
    expect(histogram.quantileMs(0.95)).toBeGreaterThan(500);
    expect(histogram.maxMs()).toBeGreaterThan(999);
  });

  it("does not show in p99 of a closed loop, which sent nothing meanwhile", async () => {
    const { histogram } = await latencies({ mode: "closed" });
    expect(histogram.quantileMs(0.99)).toBeLessThan(1);
    expect(histogram.maxMs()).toBeGreaterThan(999);
  });

  it("shows in p99 of a closed loop that is corrected by the expected interval", async () => {
    const { histogram } = await latencies({ mode: "closed", expectedIntervalMs: 1 });
    expect(histogram.quantileMs(0.99)).toBeGreaterThan(400);
  });

  it("shows on the timeline as windows without records, and one with all that waited", async () => {
    const { windows } = await latencies({ mode: "open" });
    const counts = windows.map(({ records }) => records);
    expect(counts.slice(16, 20)).toEqual([0, 0, 0, 0]);
    expect(counts[20]).toBeGreaterThan(1000);
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(10_000);
  });

  it.each(["open", "closed"] as const)("in the warm-up of a loop (%s) does not count", async (mode) => {
    const { histogram } = await latencies({ mode, warmUpMs: 2000, stallAtMs: -1500 });
    expect(histogram.count).toBeGreaterThan(9_999);
    expect(histogram.maxMs()).toBeLessThan(2);
  });
});

describe("an open loop", () => {
  it("gives up what it could not send, and says how much", async () => {
    const clock = new VirtualClock();
    const beginMs = clock.nowMs();
    let sent = 0;
    const unsent = await paceOpen({
      clock,
      firstMs: beginMs,
      intervalMs: 1,
      untilMs: () => beginMs + 1000,
      giveUpMs: () => beginMs + 2000,
      send: () => {
        sent++;
        return clock.sleep(10);
      },
    });
    expect(sent + unsent).toBe(1000);
    expect(sent).toBe(200);
  });

  it("does not drift: the last of a million is due when it is due", async () => {
    const clock = new VirtualClock();
    const beginMs = clock.nowMs();
    let last = 0;
    await paceOpen({
      clock,
      firstMs: beginMs,
      intervalMs: 1 / 3,
      untilMs: () => beginMs + 333_333,
      giveUpMs: () => Number.POSITIVE_INFINITY,
      send: (dueMs) => {
        last = dueMs;
        return undefined;
      },
    });
    expect(last - beginMs).toBeCloseTo(999_998 / 3, 3);
  });
});
