// Which of a log's oldest segments its topic's retention lets go: pure, over what is known of the segments without opening a file.
import { assert } from "../base/assert.ts";
import { mutant } from "../base/mutant.ts";
import { CLEANUP } from "../model/config-values.ts";
import type { Offset } from "../model/ids.ts";
import type { SegmentView } from "./types.ts";

export interface RetentionSettings {
  /** Bits of CLEANUP. */
  readonly cleanupPolicy: number;
  /** -1: no limit. */
  readonly retentionMs: number;
  /** -1: no limit. */
  readonly retentionBytes: number;
}

export interface RetentionState {
  /** Oldest first, without a gap. */
  readonly segments: readonly SegmentView[];
  readonly startOffset: number;
  readonly highWatermark: number;
  readonly endOffset: number;
}

export interface RetentionPass {
  /** Wall clock. */
  readonly nowMs: number;
  /** Most segments that go by time in this pass (D-23). */
  readonly byTimeMax: number;
}

export interface RetentionVerdict {
  /** Where the log is to start; its present start when nothing goes. */
  readonly startOffset: Offset;
  readonly bySize: number;
  readonly byTime: number;
  /** Segments that are old enough and had to stay, for `byTimeMax` alone. */
  readonly putOff: number;
}

/**
 * S-26 to S-29: a prefix of whole segments, by size first, then by time; the first that may not go ends it.
 *
 * Shape:     what lies wholly below the log start is gone already and counts nowhere. By size the oldest goes while at least retention.bytes remain; by
 *            time while its newest record is older than retention.ms. One without timestamps is as old as its file.
 * Invariant: never past the high watermark; the last segment only when all of the log is committed and in it.
 * Example:   segments [0, 10) [10, 20) [20, 30) of 100 bytes, high watermark 25, retention.bytes 150
 *              -> start 10: what remains is 200, and without the next one too little
 *            retention.ms 1000, newest records of 0, 500 and 3000, now 1400
 *              -> start 10: 1400 - 0 > 1000, but 1400 - 500 is not
 */
export function retained(state: RetentionState, settings: RetentionSettings, pass: RetentionPass): RetentionVerdict {
  const { segments, startOffset } = state;
  if ((settings.cleanupPolicy & CLEANUP.DELETE) === 0 && !mutant("S-29"))
    return { startOffset: startOffset as Offset, bySize: 0, byTime: 0, putOff: 0 };
  let place = 0;
  while (place < segments.length && (segments[place] as SegmentView).endOffset <= startOffset) place++;
  const first = place;
  let excessBytes = -settings.retentionBytes;
  for (let each = first; each < segments.length; each++) excessBytes += (segments[each] as SegmentView).sizeBytes;
  const isBySize = settings.retentionBytes >= 0;
  for (; isBySize && place < segments.length && mayGo(state, place); place++) {
    excessBytes -= (segments[place] as SegmentView).sizeBytes;
    if (excessBytes < 0) break;
  }
  const bySize = place - first;
  const old = place + countOld(state, place, settings.retentionMs, pass.nowMs);
  place = Math.min(old, place + pass.byTimeMax);
  const raised = place === first ? startOffset : (segments[place - 1] as SegmentView).endOffset;
  assert(raised >= startOffset, "retention lowers a log start");
  return { startOffset: raised as Offset, bySize, byTime: place - first - bySize, putOff: old - place };
}

/**
 * S-26: how far a start may go that is to be raised to `toOffset`, which ended a segment when that was decided: compaction may have made one of it and the
 * next. In the last segment as far as that: it goes on being written.
 */
export function wholeSegmentsTo(segments: readonly SegmentView[], toOffset: number): number {
  if (toOffset >= (segments.at(-1)?.base ?? 0)) return toOffset;
  return segments.findLast(({ base }) => base <= toOffset)?.base ?? toOffset;
}

/** How many from `place` on are too old. */
function countOld(state: RetentionState, place: number, retentionMs: number, nowMs: number): number {
  if (retentionMs < 0) return 0;
  let end = place;
  for (; end < state.segments.length && mayGo(state, end); end++) {
    const { maxTimestamp, createdMs } = state.segments[end] as SegmentView;
    if (nowMs - (maxTimestamp < 0 ? createdMs : maxTimestamp) <= retentionMs) break;
  }
  return end - place;
}

/** S-27 */
function mayGo({ segments, highWatermark, endOffset }: RetentionState, place: number): boolean {
  const isLast = place === segments.length - 1;
  const segment = segments[place] as SegmentView;
  if (mutant("S-27")) return true;
  return segment.endOffset <= highWatermark && (!isLast || segment.endOffset === endOffset);
}
