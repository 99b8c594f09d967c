// Retention as a decision: which of the oldest segments go (S-26 to S-29), against a naive twin and by example; and a log whose start is raised.
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import type { Offset } from "../../src/model/ids.ts";
import { CLEANUP } from "../../src/model/config-values.ts";
import { type RetentionSettings, type RetentionState, retained, wholeSegmentsTo } from "../../src/storage/retention.ts";
import type { SegmentView } from "../../src/storage/types.ts";
import { MemoryFiles } from "./memory-files.ts";
import { appendBatch, contentOf, openStore, Recorder, specOf } from "./support.ts";

afterEach(() => activateMutants([]));

const NEVER_BY_TIME = { nowMs: 0, byTimeMax: Number.POSITIVE_INFINITY };
const at = (nowMs: number, byTimeMax = Number.POSITIVE_INFINITY) => ({ nowMs, byTimeMax });
const off: RetentionSettings = { cleanupPolicy: CLEANUP.DELETE, retentionMs: -1, retentionBytes: -1 };

/** Of ten records each. */
function segmentsOf(...rows: readonly (readonly [sizeBytes: number, maxTimestamp: number])[]): SegmentView[] {
  return rows.map(([sizeBytes, maxTimestamp], index) => ({
    base: (index * 10) as Offset,
    endOffset: ((index + 1) * 10) as Offset,
    sizeBytes,
    maxTimestamp,
    createdMs: 50,
  }));
}

function stateOf(segments: readonly SegmentView[], over: Partial<RetentionState> = {}): RetentionState {
  const endOffset = segments.at(-1)?.endOffset ?? 0;
  return { segments, startOffset: 0, highWatermark: endOffset, endOffset, ...over };
}

describe("by size (S-27)", () => {
  const settings = { ...off, retentionBytes: 150 };
  const segments = segmentsOf([100, 0], [100, 0], [100, 0]);

  test.each([
    ["the oldest goes while at least retention.bytes remain", segments, 10],
    ["exactly retention.bytes may remain", segmentsOf([100, 0], [100, 0], [50, 0]), 10],
    ["one byte less may not", segmentsOf([100, 0], [100, 0], [49, 0]), 0],
    ["a single segment larger than the limit stays", segmentsOf([1_000, 0]), 0],
    ["nothing is nothing", [], 0],
  ])("%s", (_what, given, start) => {
    expect(retained(stateOf(given), settings, NEVER_BY_TIME).startOffset).toBe(start);
  });

  test("0 lets all go that is committed, the last segment too", () => {
    const none = { ...off, retentionBytes: 0 };
    expect(retained(stateOf(segments), none, NEVER_BY_TIME)).toMatchObject({ startOffset: 30, bySize: 3, byTime: 0 });
    const isBehind = stateOf(segments, { highWatermark: 25 });
    expect(retained(isBehind, none, NEVER_BY_TIME)).toMatchObject({ startOffset: 20, bySize: 2 });
    const hasMore = stateOf(segments, { highWatermark: 31, endOffset: 31 });
    expect(retained(hasMore, none, NEVER_BY_TIME)).toMatchObject({ startOffset: 20, bySize: 2 });
  });

  test("what lies below the log start is gone, and counts nowhere (S-26)", () => {
    const started = stateOf(segmentsOf([900, 0], [100, 0], [100, 0]), { startOffset: 10 });
    expect(retained(started, settings, NEVER_BY_TIME)).toMatchObject({ startOffset: 10, bySize: 0 });
  });
});

describe("by time (S-27)", () => {
  const settings = { ...off, retentionMs: 1_000 };
  const segments = segmentsOf([100, 0], [100, 500], [100, 3_000]);

  test.each([
    [1_000, 0],
    [1_001, 10],
    [1_500, 10],
    [1_501, 20],
    [4_001, 30],
  ])("at %i the log starts at %i: strictly older than retention.ms", (nowMs, start) => {
    expect(retained(stateOf(segments), settings, at(nowMs)).startOffset).toBe(start);
  });

  test("the first that is too young ends it, whatever comes after", () => {
    const mixed = segmentsOf([100, 0], [100, 9_000], [100, 0], [100, 0]);
    expect(retained(stateOf(mixed), settings, at(5_000))).toMatchObject({ startOffset: 10, byTime: 1, putOff: 0 });
  });

  test("a segment without timestamps is as old as its file", () => {
    const plain = segmentsOf([100, -1], [100, 3_000]);
    expect(retained(stateOf(plain), settings, at(1_050)).startOffset).toBe(0);
    expect(retained(stateOf(plain), settings, at(1_051)).startOffset).toBe(10);
  });

  test("D-23: at most so many in a pass; the others are put off, and size knows no such bound", () => {
    expect(retained(stateOf(segments), settings, at(99_000, 1))).toMatchObject({
      startOffset: 10,
      byTime: 1,
      putOff: 2,
    });
    const both = { ...settings, retentionBytes: 100 };
    expect(retained(stateOf(segments), both, at(99_000, 0))).toMatchObject({ startOffset: 20, bySize: 2, putOff: 1 });
  });
});

test.each([
  ["where a segment begins", 20, 20],
  ["not into one that is closed", 15, 10],
  ["into the last one", 35, 35],
  ["below all of them there is nothing to keep", 0, 0],
])("S-26: a raise that waited goes on %s (seed 720072036)", (_what, toOffset, goesTo) => {
  expect(wholeSegmentsTo(segmentsOf([100, 0], [100, 0], [100, 0], [100, 0]), toOffset)).toBe(goesTo);
  expect(wholeSegmentsTo([], toOffset)).toBe(toOffset);
});

test("S-29: without delete in its policy a log keeps what it has", () => {
  const settings = { cleanupPolicy: CLEANUP.COMPACT, retentionMs: 1, retentionBytes: 1 };
  const state = stateOf(segmentsOf([100, 0], [100, 0]));
  expect(retained(state, settings, at(99_999))).toMatchObject({ startOffset: 0 });
  const both = { ...settings, cleanupPolicy: CLEANUP.COMPACT | CLEANUP.DELETE };
  expect(retained(state, both, at(99_999))).toMatchObject({ startOffset: 20 });
  activateMutants(["S-29"]);
  expect(retained(state, settings, at(99_999))).not.toMatchObject({ startOffset: 0 });
});

/** S-26 to S-28 word by word: looks at every prefix, and takes the longest that each rule allows. */
function naive(state: RetentionState, { retentionMs, retentionBytes }: RetentionSettings, nowMs: number): number {
  const { segments, startOffset, highWatermark, endOffset } = state;
  const there = segments.filter((segment) => segment.endOffset > startOffset);
  const allowed = (count: number): boolean =>
    there.slice(0, count).every((segment) => {
      const isLast = segment === segments.at(-1);
      return segment.endOffset <= highWatermark && (!isLast || segment.endOffset === endOffset);
    });
  const bytesOf = (list: readonly SegmentView[]): number => list.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  let bySize = 0;
  for (let count = 1; retentionBytes >= 0 && count <= there.length; count++)
    if (allowed(count) && bytesOf(there.slice(count)) >= retentionBytes) bySize = count;
  const isOld = ({ maxTimestamp, createdMs }: SegmentView): boolean =>
    nowMs - (maxTimestamp < 0 ? createdMs : maxTimestamp) > retentionMs;
  let all = bySize;
  for (let count = bySize + 1; retentionMs >= 0 && count <= there.length; count++)
    if (allowed(count) && there.slice(bySize, count).every(isOld)) all = count;
  return there[all - 1]?.endOffset ?? startOffset;
}

const retentionCase = fc
  .record({
    lengths: fc.array(fc.tuple(fc.integer({ min: 1, max: 9 }), fc.nat(200), fc.integer({ min: -1, max: 300 })), {
      maxLength: 8,
    }),
    start: fc.nat(40),
    mark: fc.nat(80),
    more: fc.nat(3),
    retentionMs: fc.integer({ min: -1, max: 200 }),
    retentionBytes: fc.integer({ min: -1, max: 800 }),
    nowMs: fc.nat(400),
  })
  .map(({ lengths, start, mark, more, nowMs, ...limits }) => {
    const segments: SegmentView[] = [];
    let base = 0;
    for (const [length, sizeBytes, maxTimestamp] of lengths) {
      const endOffset = (base + length) as Offset;
      segments.push({ base: base as Offset, endOffset, sizeBytes, maxTimestamp, createdMs: 100 });
      base += length;
    }
    const endOffset = base + more;
    const highWatermark = Math.min(mark, endOffset);
    const state = { segments, startOffset: Math.min(start, highWatermark), highWatermark, endOffset };
    return { state, settings: { ...off, ...limits }, nowMs };
  });

const agrees = fc.property(retentionCase, ({ state, settings, nowMs }) => {
  const { startOffset } = retained(state, settings, at(nowMs));
  expect(startOffset).toBe(naive(state, settings, nowMs));
  expect(startOffset).toBeLessThanOrEqual(state.highWatermark);
});

test("S-26, S-27: as a naive twin does, for any segments and limits; never above the high watermark", () => {
  fc.assert(agrees, { numRuns: 2_000 });
});

test("the twin finds the bug S-27", () => {
  activateMutants(["S-27"]);
  expect(fc.check(agrees, { numRuns: 2_000 }).failed).toBe(true);
});

/** Files go in the background, and nobody is told. */
async function untilGone(condition: () => boolean): Promise<void> {
  for (let turn = 0; turn < 10_000 && !condition(); turn++) await new Promise<void>((resolve) => setImmediate(resolve));
  expect(condition()).toBe(true);
}

describe("a log whose start is raised", () => {
  test("S-28, S-30: whoever reads sees it at once; whole files below go when it is durable; offsets go on", async () => {
    const files = new MemoryFiles();
    const store = await openStore(files);
    const recorder = new Recorder();
    store.listen(recorder);
    const log = await store.createLog(specOf("a"));
    for (let count = 0; count < 60; count++) appendBatch(log, { fill: 100 });
    await recorder.until(() => log.durableEnd === 60);
    await store.checkpoint();
    const before = log.segmentViews();
    expect(before.length).toBeGreaterThan(2);
    expect(before.map(({ endOffset }) => endOffset)).toEqual([...before.slice(1).map(({ base }) => base), 60]);
    const inside = ((before[2] as SegmentView).base + 1) as Offset;
    const raised = log.advanceStart(inside);
    expect(log.startOffset).toBe(inside);
    await expect(
      Promise.resolve(log.read((inside - 1) as Offset, { limitOffset: 60 as Offset, maxBytes: 1, atLeastOne: true })),
    ).rejects.toMatchObject({ code: "OFFSET_OUT_OF_RANGE" });
    await raised;
    await untilGone(() => log.segmentViews()[0]?.base === before[2]?.base);
    const kept = await contentOf(log);
    await log.advanceStart(60 as Offset);
    await untilGone(() => log.segmentViews().length === 0);
    await store.close();
    const again = await openStore(files);
    const found = again.find(log.topicId, log.partition);
    expect(found).toMatchObject({ startOffset: 60, endOffset: 60 });
    expect(kept.length).toBe(60 - inside);
    again.listen(new Recorder());
    if (found !== undefined) appendBatch(found, { fill: 1 });
    expect(found?.endOffset).toBe(61);
    await again.close();
  });

  test("a cut through the batch of its start is damage: nothing would be left (S-32, D-9)", async () => {
    const store = await openStore(new MemoryFiles());
    const recorder = new Recorder();
    store.listen(recorder);
    const log = await store.createLog(specOf("a"));
    appendBatch(log, { count: 5 });
    appendBatch(log);
    await recorder.until(() => log.durableEnd === 6);
    await log.advanceStart(2 as Offset);
    await expect(log.truncate(3 as Offset)).rejects.toMatchObject({ code: "STORAGE_ERROR" });
    expect(log.damage?.reason).toContain("goes through the batch of the log start");
    await store.close();
  });
});
