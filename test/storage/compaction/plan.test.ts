// Which logs are compacted, how far, and in which groups; and what a follower gets of an empty batch. All of it pure.
import { afterEach, expect, test } from "vitest";
import { activateMutants } from "../../../src/base/mutant.ts";
import { CLEANUP } from "../../../src/model/config-values.ts";
import type { Offset } from "../../../src/model/ids.ts";
import { baseOffsetAt, lastOffsetAt, leaderEpochAt } from "../../../src/model/record-batch.ts";
import { encodeEmpty, NO_PRODUCER, splitEmptyFront } from "../../../src/storage/compaction/empty-batch.ts";
import { cleanableOf, groupSegments, mostUrgent } from "../../../src/storage/compaction/plan.ts";
import { UNCONFIGURED_LOG } from "../../../src/storage/log-settings.ts";
import type { SegmentView } from "../../../src/storage/types.ts";
import { checksum } from "../support.ts";

afterEach(() => activateMutants([]));

const SETTINGS = {
  ...UNCONFIGURED_LOG,
  segmentBytes: 1500,
  indexIntervalBytes: 200,
  cleanupPolicy: CLEANUP.COMPACT,
  minCleanableDirtyRatio: 0,
  minCompactionLagMs: 0,
};

test("S-33: nothing above the high watermark is looked at, nor the last segment, nor what is newer than the lag", () => {
  const view = (base: number, endOffset: number, maxTimestamp: number) =>
    ({ base, endOffset, maxTimestamp, sizeBytes: 100, createdMs: 0 }) as SegmentView;
  const segments = [view(0, 10, 1000), view(10, 20, 2000), view(20, 30, 3000), view(30, 30, -1)];
  const log = { segments, startOffset: 0, highWatermark: 30, cleanedTo: 0, settings: SETTINGS };
  expect(cleanableOf(log, 10_000)).toMatchObject({ firstDirty: 0, endOffset: 30, dirtyRatio: 1 });
  expect(cleanableOf({ ...log, highWatermark: 29 }, 10_000)?.endOffset).toBe(20);
  expect(cleanableOf({ ...log, highWatermark: 9 }, 10_000)).toBeUndefined();
  const lagging = { ...SETTINGS, minCompactionLagMs: 8000 };
  expect(cleanableOf({ ...log, settings: lagging }, 10_000)?.endOffset).toBe(20);
  expect(cleanableOf({ ...log, cleanedTo: 20 }, 10_000)).toMatchObject({ firstDirty: 20, dirtyRatio: 1 / 3 });
  // S-42: a place outside of the log is none.
  expect(cleanableOf({ ...log, cleanedTo: 99, startOffset: 5 }, 10_000)?.firstDirty).toBe(5);
  expect(cleanableOf({ ...log, settings: { ...SETTINGS, cleanupPolicy: CLEANUP.DELETE } }, 10_000)).toBeUndefined();
  activateMutants(["S-33"]);
  expect(cleanableOf({ ...log, highWatermark: 9 }, 10_000)?.endOffset).toBe(30);
});

test("S-34: the dirtiest log is taken, if it is dirty enough; one that was dirty for too long in any case", () => {
  const settings = { ...SETTINGS, minCleanableDirtyRatio: 0.5 };
  const of = (dirtyRatio: number, isOverdue = false) => ({
    cleanable: { firstDirty: 0, endOffset: 1, dirtyRatio, isOverdue },
    settings,
  });
  expect(mostUrgent([of(0.5)])).toBeUndefined();
  const [some, most] = [of(0.6), of(0.9)];
  expect(mostUrgent([some, most, of(0.1)])).toBe(most);
  const overdue = of(0.1, true);
  expect(mostUrgent([overdue, of(0.4)])).toBe(overdue);
});

test("S-40: segments become one as long as one may hold them", () => {
  const view = (base: number, endOffset: number, sizeBytes: number) =>
    ({ base, endOffset, maxTimestamp: -1, sizeBytes, createdMs: 0 }) as SegmentView;
  const of = (segments: SegmentView[], settings = SETTINGS, last = Number.MAX_SAFE_INTEGER) =>
    groupSegments(segments, settings, last).map(({ base, endOffset }) => [base, endOffset]);
  const small = [view(0, 10, 500), view(10, 20, 900), view(20, 30, 200), view(30, 40, 1500)];
  expect(of(small)).toEqual([
    [0, 20],
    [20, 30],
    [30, 40],
  ]);
  expect(of(small, SETTINGS, 15)).toEqual([[0, 20]]);
  expect(of(small, { ...SETTINGS, segmentIndexBytes: 16 })).toHaveLength(4);
  const far = 2 ** 31;
  expect(of([view(0, 10, 1), view(10, far, 1), view(far, far + 1, 1)])).toEqual([
    [0, far],
    [far, far + 1],
  ]);
});

test("the part of an empty batch that a follower lacks is a batch of its own", () => {
  const empty = encodeEmpty(
    { base: 10, last: 30, epoch: 2, attributes: 0, maxTimestamp: 7, producer: NO_PRODUCER },
    checksum,
  );
  const read = { chunks: [empty], sizeBytes: empty.length, nextOffset: 31 as Offset };
  const front = splitEmptyFront(read, 20, checksum).chunks[0] as Uint8Array;
  expect([baseOffsetAt(front, 0), lastOffsetAt(front, 0), leaderEpochAt(front, 0)]).toEqual([20, 30, 2]);
  expect(splitEmptyFront(read, 10, checksum)).toBe(read);
});
