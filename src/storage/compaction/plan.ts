// Which logs need a compaction, how much of one it covers, and which segments become one (S-33, S-34, S-40). Pure.
import { CLEANUP } from "../../model/config-values.ts";
import { mutant } from "../../base/mutant.ts";
import { INDEX_ENTRY_BYTES } from "../offset-index.ts";
import type { LogSettings, SegmentView } from "../types.ts";

const RELATIVE_OFFSET_MAX = 2 ** 31 - 1;

/** What is looked at of a log. */
export interface CleanableLog {
  readonly segments: readonly SegmentView[];
  readonly startOffset: number;
  readonly highWatermark: number;
  /** Everything below was compacted. */
  readonly cleanedTo: number;
  readonly settings: LogSettings;
}

export interface Cleanable {
  readonly firstDirty: number;
  /** Exclusive; the base of a segment. */
  readonly endOffset: number;
  /** Of what is cleaned and what is not. */
  readonly dirtyRatio: number;
  /** Something has been dirty for longer than max.compaction.lag.ms. */
  readonly isOverdue: boolean;
}

/** When its records are of: segments without timestamps are as old as their files. */
const newestMs = ({ maxTimestamp, createdMs }: SegmentView): number => (maxTimestamp < 0 ? createdMs : maxTimestamp);

/** S-33: closed segments, all committed, none newer than min.compaction.lag.ms allows. */
function cleanableEnd({ segments, highWatermark, settings }: CleanableLog, nowMs: number): number {
  let endOffset = segments[0]?.base ?? 0;
  for (const segment of segments.slice(0, -1)) {
    const isCommitted = segment.endOffset <= highWatermark || mutant("S-33");
    const isOld = settings.minCompactionLagMs === 0 || nowMs - newestMs(segment) >= settings.minCompactionLagMs;
    if (!isCommitted || !isOld) break;
    endOffset = segment.endOffset;
  }
  return endOffset;
}

/** Undefined: its policy is another one, or there is nothing to clean. */
export function cleanableOf(log: CleanableLog, nowMs: number): Cleanable | undefined {
  const { segments, settings } = log;
  if ((settings.cleanupPolicy & CLEANUP.COMPACT) === 0) return undefined;
  const endOffset = cleanableEnd(log, nowMs);
  // S-42: a place outside of the log says nothing.
  const logEnd = segments.at(-1)?.endOffset ?? 0;
  const firstDirty = log.cleanedTo > logEnd ? log.startOffset : Math.max(log.cleanedTo, log.startOffset);
  if (firstDirty >= endOffset) return undefined;
  let cleanBytes = 0;
  let dirtyBytes = 0;
  let oldestMs = Number.POSITIVE_INFINITY;
  for (const segment of segments) {
    if (segment.base >= endOffset) break;
    if (segment.endOffset <= firstDirty) cleanBytes += segment.sizeBytes;
    else {
      dirtyBytes += segment.sizeBytes;
      oldestMs = Math.min(oldestMs, segment.createdMs);
    }
  }
  const dirtyRatio = dirtyBytes / Math.max(1, cleanBytes + dirtyBytes);
  return { firstDirty, endOffset, dirtyRatio, isOverdue: nowMs - oldestMs > settings.maxCompactionLagMs };
}

/** S-34: those that need it, most urgent first. */
export function mostUrgent<Log extends { readonly cleanable: Cleanable; readonly settings: LogSettings }>(
  logs: readonly Log[],
): Log | undefined {
  let best: Log | undefined;
  for (const log of logs) {
    const { dirtyRatio, isOverdue } = log.cleanable;
    if (!isOverdue && dirtyRatio <= log.settings.minCleanableDirtyRatio) continue;
    if (best === undefined || dirtyRatio > best.cleanable.dirtyRatio) best = log;
  }
  return best;
}

/** Adjacent segments that are written as one. */
export interface SegmentGroup {
  readonly segments: readonly SegmentView[];
  readonly base: number;
  readonly endOffset: number;
}

/** S-40: as many at a time as one segment may hold, whatever is left of them. All of the log up to and with the segment that holds `lastOffset`. */
export function groupSegments(
  segments: readonly SegmentView[],
  settings: LogSettings,
  lastOffset: number,
): SegmentGroup[] {
  const groups: SegmentGroup[] = [];
  let members: SegmentView[] = [];
  let sizeBytes = 0;
  const close = (): void => {
    const [first, last] = [members[0], members.at(-1)];
    if (first !== undefined && last !== undefined)
      groups.push({ segments: members, base: first.base, endOffset: last.endOffset });
    members = [];
    sizeBytes = 0;
  };
  for (const segment of segments) {
    if (segment.base > lastOffset) break;
    const first = members[0] ?? segment;
    const both = sizeBytes + segment.sizeBytes;
    const indexBytes = (both / settings.indexIntervalBytes + 1) * INDEX_ENTRY_BYTES;
    const isTooMuch =
      both > settings.segmentBytes ||
      indexBytes > settings.segmentIndexBytes ||
      segment.endOffset - 1 - first.base > RELATIVE_OFFSET_MAX;
    if (members.length > 0 && isTooMuch) close();
    members.push(segment);
    sizeBytes += segment.sizeBytes;
  }
  close();
  return groups;
}
