// When a segment takes no more (S-7, S-9), by the rule alone and through a store.
import { describe, expect, test } from "vitest";
import { concatBytes } from "../../src/base/bytes.ts";
import { CLEANUP } from "../../src/model/config-values.ts";
import type { LeaderEpoch, Offset } from "../../src/model/ids.ts";
import { UNCONFIGURED_LOG } from "../../src/storage/log-settings.ts";
import type { ReplicaLogImpl } from "../../src/storage/replica-log.ts";
import { drawFraction, rollReason, type RollReason } from "../../src/storage/roll.ts";
import { emptyIndexes } from "../../src/storage/segment-indexes.ts";
import { newSegmentState, openSegment, type Segment } from "../../src/storage/segment.ts";
import type { LogSettings } from "../../src/storage/types.ts";
import { MemoryFiles } from "./memory-files.ts";
import { makeBatch, makeDeps, openStore, Recorder, specOf } from "./support.ts";

const HOUR_MS = 3_600_000;
const settings: LogSettings = {
  ...UNCONFIGURED_LOG,
  segmentBytes: 1000,
  indexIntervalBytes: 100,
  segmentMs: HOUR_MS,
};

function segmentOf(known: Partial<Segment>): Segment {
  const segment = {
    ...openSegment("/x", newSegmentState(100, 5000)),
    sizeBytes: 500,
    firstTimestamp: 10_000,
    ...known,
  };
  emptyIndexes(segment);
  return segment;
}

function reasonOf(
  segment: Segment,
  run: Uint8Array,
  options: {
    readonly settings?: Partial<LogSettings>;
    readonly nowMs?: number;
    readonly draw?: number;
    last?: number;
  } = {},
): RollReason | undefined {
  return rollReason(
    segment,
    { run, last: options.last ?? 200, pendingBytes: 0, pendingTimestamp: -1 },
    { settings: { ...settings, ...options.settings }, nowMs: options.nowMs ?? 6000, draw: () => options.draw ?? 0 },
  );
}

const at = (timestamp: number): Uint8Array => makeBatch(200, { timestamp });

describe("S-7: the next run does not go to this segment", () => {
  test("when it would become longer than segment.bytes, but what is longer alone goes to an empty one", () => {
    const run = at(10_000);
    expect(reasonOf(segmentOf({ sizeBytes: 1000 - run.length }), run)).toBeUndefined();
    expect(reasonOf(segmentOf({ sizeBytes: 1001 - run.length }), run)).toBe("size");
    expect(reasonOf(segmentOf({ sizeBytes: 0 }), makeBatch(200, { valueBytes: 5000 }))).toBeUndefined();
  });

  test("when its newest record is more than segment.ms newer than the first batch, whatever the clock says", () => {
    const segment = segmentOf({});
    expect(reasonOf(segment, at(10_000 + HOUR_MS), { nowMs: 1e15 })).toBeUndefined();
    expect(reasonOf(segment, at(10_001 + HOUR_MS))).toBe("time");
    const run = concatBytes([at(10_000), at(10_001 + HOUR_MS), at(10_000)]);
    expect(reasonOf(segment, run)).toBe("time");
  });

  test("by the clock when the first batch has no timestamp", () => {
    const segment = segmentOf({ firstTimestamp: -1, createdMs: 5000 });
    expect(reasonOf(segment, at(1e14), { nowMs: 5000 + HOUR_MS })).toBeUndefined();
    expect(reasonOf(segment, at(-1), { nowMs: 5001 + HOUR_MS })).toBe("time");
  });

  test("S-9: time that goes back never closes it, nor does a first batch of the far future", () => {
    expect(reasonOf(segmentOf({}), at(0), { nowMs: 1e15 })).toBeUndefined();
    expect(reasonOf(segmentOf({ firstTimestamp: 1e15 }), at(2e13), { nowMs: 1e15 })).toBeUndefined();
    expect(reasonOf(segmentOf({}), at(-1), { nowMs: 1e15 })).toBeUndefined();
  });

  test("up to segment.jitter.ms earlier: drawn once a segment, never more than segment.ms", () => {
    const segment = segmentOf({});
    const jitter = { segmentJitterMs: 1000 };
    expect(reasonOf(segment, at(10_000 + HOUR_MS - 500), { settings: jitter, draw: 0.5 })).toBeUndefined();
    expect(reasonOf(segment, at(10_001 + HOUR_MS - 500), { settings: jitter, draw: 0.5 })).toBe("time");
    // Another draw makes no difference any more.
    expect(reasonOf(segment, at(10_001 + HOUR_MS - 500), { settings: jitter, draw: 0 })).toBe("time");
    const all = { segmentJitterMs: 10 * HOUR_MS };
    expect(reasonOf(segmentOf({}), at(10_001), { settings: all, draw: 0.9999999 })).toBeUndefined();
    expect(reasonOf(segmentOf({}), at(11_000), { settings: all, draw: 0.9999999 })).toBe("time");
  });

  test("when what must be compacted within max.compaction.lag.ms has to be closed", () => {
    const lag = { maxCompactionLagMs: 1000 };
    expect(reasonOf(segmentOf({}), at(11_001), { settings: lag })).toBeUndefined();
    expect(reasonOf(segmentOf({}), at(11_001), { settings: { ...lag, cleanupPolicy: CLEANUP.COMPACT } })).toBe("time");
    expect(
      reasonOf(segmentOf({}), at(11_000), { settings: { ...lag, cleanupPolicy: CLEANUP.COMPACT } }),
    ).toBeUndefined();
  });

  test("when an index is full; the time index keeps a place for the entry that seals it", () => {
    const index = segmentOf({});
    const times = segmentOf({});
    for (let entry = 0; entry < 6; entry++) {
      if (entry < 5) index.index?.add({ relativeLast: entry, position: entry });
      if (entry < 2) times.times?.add({ timestamp: entry, relativeLast: entry });
    }
    const full = { segmentIndexBytes: 47 };
    expect(reasonOf(index, at(10_000), { settings: full })).toBe("index-full");
    expect(reasonOf(times, at(10_000), { settings: full })).toBe("index-full");
    expect(reasonOf(index, at(10_000), { settings: { segmentIndexBytes: 48 } })).toBeUndefined();
    expect(reasonOf(times, at(10_000), { settings: { segmentIndexBytes: 48 } })).toBeUndefined();
  });

  test("when an offset would not fit behind its base", () => {
    expect(reasonOf(segmentOf({}), at(10_000), { last: 100 + 2 ** 31 - 1 })).toBeUndefined();
    expect(reasonOf(segmentOf({}), at(10_000), { last: 100 + 2 ** 31 })).toBe("offset-range");
  });
});

describe("through a store", () => {
  async function basesOf(
    times: readonly number[],
    own: Partial<LogSettings>,
    options: { readonly restartAfter?: number } = {},
  ): Promise<number[]> {
    const files = new MemoryFiles();
    const configured: LogSettings = { ...settings, segmentBytes: 1_000_000, indexIntervalBytes: 200, ...own };
    const open = async (): Promise<{
      log: ReplicaLogImpl;
      settle: () => Promise<void>;
      close: () => Promise<void>;
    }> => {
      const store = await openStore(files, {}, makeDeps(files));
      const recorder = new Recorder();
      store.listen(recorder);
      const log = (await store.createLog(specOf("a"))) as ReplicaLogImpl;
      log.configure(configured);
      return {
        log,
        settle: async () => {
          await recorder.until(() => log.durableEnd === log.endOffset);
          await store.checkpoint();
        },
        close: () => store.close(),
      };
    };
    let opened = await open();
    for (const [place, timestamp] of times.entries()) {
      const { log } = opened;
      log.append(makeBatch(log.endOffset, { timestamp }), log.endOffset, 0 as LeaderEpoch);
      log.producers.advance(log.endOffset as Offset);
      await opened.settle();
      if (place !== options.restartAfter) continue;
      await opened.close();
      opened = await open();
    }
    await opened.close();
    return opened.log.segments.all.map((segment) => segment.base);
  }

  test("S-9: history that steps by more than segment.ms rolls once a batch", async () => {
    expect(
      await basesOf(
        [0, 2, 4, 6].map((hour) => hour * HOUR_MS),
        {},
      ),
    ).toEqual([0, 1, 2, 3]);
  });

  test("S-9: a far future first, or time going back, never rolls", async () => {
    expect(await basesOf([1e15, 1, 5 * HOUR_MS, 1e15], {})).toEqual([0]);
    expect(
      await basesOf(
        [9, 8, 7, 6].map((hour) => hour * HOUR_MS),
        {},
      ),
    ).toEqual([0]);
  });

  test("S-7: a start goes on counting from the first batch of the segment", async () => {
    const times = [0, 0.25, 0.5, 1.25].map((hour) => hour * HOUR_MS);
    expect(await basesOf(times, {}, { restartAfter: 1 })).toEqual([0, 3]);
    expect(await basesOf(times, {})).toEqual([0, 3]);
  });

  test("S-7: a full index rolls", async () => {
    const bases = await basesOf(new Array<number>(60).fill(0), { segmentIndexBytes: 40 });
    expect(bases.length).toBeGreaterThan(3);
  });
});

test("a drawn fraction is in [0, 1)", () => {
  expect(drawFraction({ fill: (target) => target.fill(0) })).toBe(0);
  expect(drawFraction({ fill: (target) => target.fill(0xff) })).toBeLessThan(1);
  expect(drawFraction({ fill: (target) => target.fill(0x80) })).toBeCloseTo(0.5, 2);
});
