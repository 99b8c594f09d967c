// When a segment takes no more and the next batch begins a new one (S-7): by size, by time, when an index is full, when an offset relative
// to its base would not fit. Pure.
import { readU32 } from "../base/bytes.ts";
import { CLEANUP } from "../model/config-values.ts";
import { maxTimestampAt } from "../model/record-batch.ts";
import { forEachBatch } from "../model/records.ts";
import type { Entropy } from "../ports/entropy.ts";
import { INDEX_ENTRY_BYTES } from "./offset-index.ts";
import type { Segment } from "./segment.ts";
import { TIME_INDEX_ENTRY_BYTES } from "./time-index.ts";
import type { LogSettings } from "./types.ts";

const RELATIVE_OFFSET_MAX = 2 ** 31 - 1;

export type RollReason = "size" | "time" | "index-full" | "offset-range";

/** What is to be written to a segment next: one batch, or a run of them. */
export interface NextRun {
  readonly run: Uint8Array;
  readonly last: number;
  /** Bytes that go before it in the same write. */
  readonly pendingBytes: number;
  /** First of these bytes' timestamps, when the segment has none of its own yet. */
  readonly pendingTimestamp: number;
}

export interface RollDeps {
  readonly settings: LogSettings;
  readonly nowMs: number;
  /** In [0, 1). Asked for once a segment. */
  readonly draw: () => number;
}

/** Why the run must not go to this segment; undefined: it may. What is longer than a segment gets one of its own. */
export function rollReason(segment: Segment, next: NextRun, deps: RollDeps): RollReason | undefined {
  const { settings } = deps;
  const sizeBytes = segment.sizeBytes + next.pendingBytes;
  if (next.last - segment.base > RELATIVE_OFFSET_MAX) return "offset-range";
  if (sizeBytes === 0) return undefined;
  if (sizeBytes + next.run.length > settings.segmentBytes) return "size";
  if (isIndexFull(segment, next.pendingBytes, settings)) return "index-full";
  return isOld(segment, next, deps) ? "time" : undefined;
}

/** S-7 c: the time index keeps one place for the entry that seals it. */
function isIndexFull({ index, times }: Segment, pendingBytes: number, settings: LogSettings): boolean {
  const pending = Math.floor(pendingBytes / (settings.indexIntervalBytes + 1));
  const offsetsMax = Math.floor(settings.segmentIndexBytes / INDEX_ENTRY_BYTES);
  const timesMax = Math.floor(settings.segmentIndexBytes / TIME_INDEX_ENTRY_BYTES) - 1;
  return (index?.count ?? 0) + pending >= offsetsMax || (times?.count ?? 0) + pending >= timesMax;
}

/**
 * S-9: by the records' own time: a first batch of the far future keeps the segment open, time that goes back never closes it, and what steps by more
 * than segment.ms closes it with each run. By the wall clock only where the first batch has no time.
 */
function isOld(segment: Segment, next: NextRun, { settings, nowMs, draw }: RollDeps): boolean {
  const limitMs = rollMs(settings);
  if (limitMs >= Number.MAX_SAFE_INTEGER) return false;
  const jitterMs = Math.min(settings.segmentJitterMs, limitMs);
  if (jitterMs > 0) segment.jitter ??= draw();
  const ageMs = limitMs - Math.floor((segment.jitter ?? 0) * jitterMs);
  const first = segment.sizeBytes === 0 ? next.pendingTimestamp : segment.firstTimestamp;
  return first < 0 ? nowMs - segment.createdMs > ageMs : newestOf(next.run) - first > ageMs;
}

/** What is to be compacted within a time has to be closed within it. */
export function rollMs({ cleanupPolicy, segmentMs, maxCompactionLagMs }: LogSettings): number {
  return (cleanupPolicy & CLEANUP.COMPACT) === 0 ? segmentMs : Math.min(segmentMs, maxCompactionLagMs);
}

function newestOf(run: Uint8Array): number {
  let newest = -1;
  forEachBatch(run, (position) => {
    newest = Math.max(newest, maxTimestampAt(run, position));
  });
  return newest;
}

/** In [0, 1). */
export function drawFraction(entropy: Entropy): number {
  const drawn = new Uint8Array(4);
  entropy.fill(drawn);
  return readU32(drawn, 0) / 2 ** 32;
}
