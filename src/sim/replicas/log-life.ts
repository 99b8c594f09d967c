// Invariant 20, looked at while it happens: where a log begins only rises, to where its leader had reason to have it begin, and never above what is
// known to be committed; segments go whole, and only below that; compaction moves no offset, changes no record, and leaves the last one of each key.
import type { LogSettings, ReplicaLog } from "../../storage/types.ts";
import { baseOffsetAt, batchSizeAt, lastOffsetAt, leaderEpochAt, recordCountAt } from "../../model/batch-header.ts";
import { CLEANUP } from "../../model/config-values.ts";
import { MARK } from "../marks.ts";
import type { RecordSeen, RecordTruth } from "./record-truth.ts";

/** What is looked at of one replica at one moment. */
export interface LifeLook {
  readonly log: ReplicaLog;
  /** Of its core: where readers may begin. */
  readonly startOffset: number;
  readonly highWatermark: number;
  readonly isLeader: boolean;
  readonly settings: LogSettings & { readonly retentionMs: number; readonly retentionBytes: number };
  readonly nowMs: number;
  /** True time, as records have it; undefined: clocks are wrong in this run. */
  readonly trueMs: number | undefined;
  /** Is what was written there in this epoch what every replica has, or will have? */
  readonly isCommitted: (place: { readonly epoch: number; readonly offset: number }) => boolean;
  /** The bytes of a segment file; undefined: it is not there, or is not to be looked at. */
  readonly bytesOf: (base: number) => Uint8Array | undefined;
}

interface View {
  readonly base: number;
  readonly endOffset: number;
  readonly sizeBytes: number;
  readonly maxTimestamp: number;
}

interface Known {
  startOffset: number;
  views: readonly View[];
  /** Of a compacted one: the records that were found in it. */
  present: ReadonlySet<RecordSeen>;
}

type Broken = (message: string) => never;

export class LogLife {
  /** Of this partition, if it is compacted. */
  readonly records: RecordTruth | undefined;
  readonly #onMark: (mark: string) => void;
  readonly #known = new WeakMap<ReplicaLog, Known>();
  /** Highest that any leader had the log begin at, or somebody asked for by name. */
  #startMax = 0;
  #trimmedTo = 0;
  /** Where leaders told of producers (D-15): the last segment may have ended there when retention let it go, and the raise waits for that to be committed. */
  readonly #toldAt = new Set<number>();

  constructor(records: RecordTruth | undefined, onMark: (mark: string) => void) {
    this.records = records;
    this.#onMark = onMark;
  }

  /** Somebody is about to ask that what lies below goes (S-30). */
  mayTrim(toOffset: number): void {
    this.#trimmedTo = Math.max(this.#trimmedTo, toOffset);
  }

  tells(offset: number): void {
    this.#toldAt.add(offset);
  }

  /** Nothing has moved: a look that is not close would find nothing. */
  hasSeen(log: ReplicaLog, startOffset: number): boolean {
    return this.#known.get(log)?.startOffset === startOffset;
  }

  /** `isClose`: the segments are looked at, too. */
  look(look: LifeLook, { isClose }: { readonly isClose: boolean }, broken: Broken): void {
    const known = this.#known.get(look.log);
    if (known === undefined) this.#begins(look);
    else if (look.startOffset !== known.startOffset) this.#moved(known, look, broken);
    if (isClose) this.#segments(look, broken);
  }

  hasClosedSegment(log: ReplicaLog, base: number): boolean {
    const views = log.segmentViews();
    return views.some((view, at) => view.base === base && at < views.length - 1 && view.endOffset > log.startOffset);
  }

  #begins(look: LifeLook): void {
    this.#startMax = Math.max(this.#startMax, look.startOffset);
    this.#known.set(look.log, { startOffset: look.startOffset, views: [], present: new Set() });
  }

  #moved(known: Known, look: LifeLook, broken: Broken): void {
    const { startOffset, highWatermark, log } = look;
    const before = known.startOffset;
    known.startOffset = startOffset;
    // An empty follower goes where its leader's log has a batch (S-32).
    if (startOffset < before && log.endOffset > startOffset)
      broken(`its log began at ${before} and begins at ${startOffset}`);
    if (startOffset > highWatermark) broken(`its log begins at ${startOffset}, its high watermark is ${highWatermark}`);
    if (startOffset <= this.#startMax) return;
    if (!look.isLeader) broken(`its log begins at ${startOffset}, no leader's beyond ${this.#startMax}`);
    this.#startMax = startOffset;
    this.#mayRaise({ from: before, views: known.views }, look, broken);
  }

  /** The leader raised it: somebody asked for that, or retention lets whole segments go. */
  #mayRaise(
    { from, views }: { readonly from: number; readonly views: readonly View[] },
    look: LifeLook,
    broken: Broken,
  ): void {
    const { startOffset, settings, trueMs, log } = look;
    if (startOffset <= this.#trimmedTo) return this.#onMark(MARK.TRIMMED);
    const where = `its log begins at ${startOffset}, before at ${from}`;
    if ((settings.cleanupPolicy & CLEANUP.DELETE) === 0) broken(`${where}, its policy is not to delete`);
    const now = log.segmentViews();
    // The last segment ended there when retention let it go; by now it has more.
    const isInLast = startOffset >= (now.at(-1)?.base ?? 0);
    const isBoundary = [...views, ...now].some(
      ({ base, endOffset }) => base === startOffset || endOffset === startOffset,
    );
    if (!isBoundary && !isInLast && !this.#toldAt.has(startOffset)) broken(`${where}: no segment begins there`);
    this.#onMark(MARK.RETAINED);
    if (trueMs === undefined) return;
    const known = new Map([...views, ...now].map((view) => [view.base, view]));
    for (const { base, endOffset, maxTimestamp } of known.values()) {
      if (endOffset <= from || endOffset > startOffset) continue;
      // One pass lets some go by size and the next ones by age.
      const leftBytes = [...known.values()].reduce(
        (sum, view) => sum + (view.base >= endOffset ? view.sizeBytes : 0),
        0,
      );
      // Compaction may have made the rest smaller since.
      const isEnough = leftBytes >= settings.retentionBytes || this.records !== undefined;
      const isBySize = settings.retentionBytes >= 0 && isEnough;
      const isOld = settings.retentionMs >= 0 && maxTimestamp <= trueMs - settings.retentionMs;
      if (!isBySize && !isOld)
        broken(`${where}: the segment of ${base} is neither old enough (${trueMs - maxTimestamp} ms) nor too much`);
    }
  }

  /** Without a gap from the start to the end, each with its file; and what was replaced is what compaction may make of it. */
  #segments(look: LifeLook, broken: Broken): void {
    const { log, startOffset } = look;
    const known = this.#known.get(log);
    if (known === undefined) return;
    const [before, views] = [known.views, log.segmentViews()];
    known.views = views;
    const [first] = views;
    if (first === undefined) return;
    if (first.base > startOffset) broken(`its log begins at ${startOffset}, its first segment at ${first.base}`);
    views.forEach(({ base, endOffset }, at) => {
      const next = views[at + 1];
      if (next !== undefined && next.base !== endOffset)
        broken(`its segment of ${base} ends at ${endOffset}, the next one begins at ${next.base}`);
    });
    const closed = views.slice(0, -1);
    const isOther = closed.some((view) => !before.some((old) => isSame(old, view)));
    if (this.records === undefined || !isOther) return;
    const compacted = new CompactedLook(this.records, { look, closed }, this.#onMark, broken);
    if (compacted.judge(known.present)) known.present = compacted.present;
  }
}

function isSame(left: View, right: View): boolean {
  return left.base === right.base && left.endOffset === right.endOffset && left.sizeBytes === right.sizeBytes;
}

/** One look at all closed segments of a log. */
class CompactedLook {
  readonly #truth: RecordTruth;
  readonly #look: LifeLook;
  readonly #closed: readonly View[];
  readonly #onMark: (mark: string) => void;
  readonly #broken: Broken;
  readonly present = new Set<RecordSeen>();
  /** Written at these offsets in the epochs that the log has there, ascending. */
  readonly #written: RecordSeen[] = [];

  constructor(
    truth: RecordTruth,
    what: { readonly look: LifeLook; readonly closed: readonly View[] },
    onMark: (mark: string) => void,
    broken: Broken,
  ) {
    this.#truth = truth;
    this.#look = what.look;
    this.#closed = what.closed;
    this.#onMark = onMark;
    this.#broken = broken;
  }

  /** `before`: what this log had when it was looked at last. False: it cannot be looked at. */
  judge(before: ReadonlySet<RecordSeen>): boolean {
    for (const view of this.#closed) {
      if (view.endOffset <= this.#look.startOffset) continue;
      const bytes = this.#look.bytesOf(view.base);
      // What is damaged is not judged here.
      if (bytes === undefined) return false;
      this.#segment(view, bytes);
    }
    const last = new Map<string, RecordSeen>();
    for (const record of this.#written) if (record.key !== undefined) last.set(record.key, record);
    for (const record of this.#written) if (!this.present.has(record)) this.#mayBeGone(record);
    for (const record of this.present) this.#mayBeThere(record, last, before);
    return true;
  }

  #segment({ base, endOffset, sizeBytes }: View, bytes: Uint8Array): void {
    let next = base;
    for (let at = 0; at < sizeBytes; at += batchSizeAt(bytes, at)) {
      if (at + batchSizeAt(bytes, at) > bytes.length) this.#broken(`its segment of ${base} ends within a batch`);
      const [first, last, epoch] = [baseOffsetAt(bytes, at), lastOffsetAt(bytes, at), leaderEpochAt(bytes, at)];
      if (first !== next) this.#broken(`its segment of ${base} has ${first} where ${next} belongs`);
      const fault = this.#truth.faultOf(bytes, at, (record) => this.present.add(record));
      if (fault !== undefined) this.#broken(fault);
      if (recordCountAt(bytes, at) === 0) this.#onMark(MARK.EMPTIED);
      const from = Math.max(first, this.#look.startOffset);
      this.#written.push(...this.#truth.written(epoch, from, last + 1));
      next = last + 1;
    }
    if (next !== endOffset) this.#broken(`its segment of ${base} ends at ${next}, not at ${endOffset}`);
  }

  #mayBeGone(record: RecordSeen): void {
    const { offset, key, isTombstone, appendedMs } = record;
    const { settings, nowMs, trueMs, isCommitted } = this.#look;
    if (key === undefined) return;
    this.#onMark(MARK.COMPACTED);
    if (this.#truth.isOld(record, isCommitted)) return;
    if (!isTombstone) this.#broken(`the last record of key ${key}, offset ${offset}, is gone`);
    this.#onMark(MARK.TOMBSTONE_GONE);
    if (trueMs !== undefined && nowMs - appendedMs < settings.deleteRetentionMs)
      this.#broken(
        `the record without a value of key ${key}, offset ${offset}, is gone after ${nowMs - appendedMs} ms`,
      );
  }

  /** Nothing comes back when the record without a value that ended it goes, where that was once. */
  #mayBeThere(
    { offset, key }: RecordSeen,
    last: ReadonlyMap<string, RecordSeen>,
    before: ReadonlySet<RecordSeen>,
  ): void {
    const latest = key === undefined ? undefined : last.get(key);
    if (offset < this.#look.startOffset || latest === undefined || this.present.has(latest)) return;
    if (before.has(latest))
      this.#broken(`key ${key} has offset ${offset} again, offset ${latest.offset}, without a value, is gone`);
  }
}
