// how long a follower has been behind.
import { describe, expect, test } from "vitest";
import { WrittenMarks } from "../../src/replication/written-marks.ts";

const LAG_MS = 3_000;

function marksOf(...pairs: readonly (readonly [atMs: number, end: number])[]): WrittenMarks {
  const marks = new WrittenMarks(LAG_MS);
  for (const [atMs, end] of pairs) marks.mark(end, atMs);
  return marks;
}

describe("behindSince", () => {
  const marks = marksOf([0, 100], [500, 150], [1_000, 220]);
  test.each([
    [250, undefined],
    [230, 1_200],
    [220, 1_200],
    [180, 1_000],
    [120, 500],
    [99, 0],
  ])("durable %i -> %s", (durableEnd, since) => expect(marks.behindSince(durableEnd, 250, 1_200)).toBe(since));

  test("an idle log leaves no more marks, and who has everything stays caught up", () => {
    const idle = marksOf([0, 100]);
    for (let atMs = 500; atMs <= 60_000; atMs += 500) idle.mark(100, atMs);
    expect(idle.behindSince(100, 100, 60_000)).toBeUndefined();
    expect(idle.behindSince(99, 100, 60_000)).toBe(0);
  });
});

test("R-26: a follower that is never at the end of a growing log but keeps pace is behind for no longer than it lags", () => {
  const marks = new WrittenMarks(LAG_MS);
  // 1,000 offsets a second; the follower is 700 ms late.
  for (let atMs = 0; atMs <= 120_000; atMs += 500) {
    marks.mark(atMs, atMs);
    const since = marks.behindSince(atMs - 700, atMs, atMs);
    if (atMs >= 1_000) expect(atMs - (since ?? atMs)).toBeLessThanOrEqual(700);
  }
});

test("R-28: a follower that stopped is found out at most two ticks after the limit, however long the log had grown before", () => {
  for (const growMs of [0, 500, 7_000, 60_000]) {
    const marks = new WrittenMarks(LAG_MS);
    let foundMs: number | undefined;
    for (let atMs = 0; atMs <= growMs + 10_000 && foundMs === undefined; atMs += 500) {
      marks.mark(atMs, atMs);
      const stopped = Math.min(atMs, growMs);
      const since = marks.behindSince(stopped, atMs, atMs);
      if (since !== undefined && atMs - since > LAG_MS) foundMs = atMs;
    }
    expect(foundMs).toBeGreaterThan(growMs + LAG_MS);
    expect(foundMs).toBeLessThanOrEqual(growMs + LAG_MS + 1_000);
  }
});
