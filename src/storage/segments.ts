// The segment files of one log: appended to behind the journal, rolled (S-7 a, c, d), indexed (S-12), cut, read.
//
// The list holds the offsets [first base, endOffset) without a gap. One writer at a time (append, cut, drop); readers at any
// time: they take the segment's size once and the caller checks afterwards that nothing was cut meanwhile (S-16).
import { assert, present } from "../base/assert.ts";
import { mutant } from "../base/mutant.ts";
import { lastOffsetAt, maxTimestampAt, recordCountAt } from "../model/record-batch.ts";
import { forEachBatch } from "../model/records.ts";
import type { Clock } from "../ports/clock.ts";
import type { Entropy } from "../ports/entropy.ts";
import type { ScanEnd, ScannedBatch } from "./batch-scan.ts";
import type { BatchWindow } from "./batch-window.ts";
import { CleanedNames } from "./cleaned-names.ts";
import { datasync, isPassing, storageError } from "./faults.ts";
import { unlinkIfThere } from "./file-work.ts";
import { type CheckOptions, checkSegment } from "./segment-check.ts";
import { UNKNOWN_CHAIN } from "./identity.ts";
import { cutAt, SegmentIdentities } from "./segment-identity.ts";
import { emptyIndexes, SegmentIndexes, scanSegment, type SegmentFileDeps } from "./segment-indexes.ts";
import { join, LOG_SUFFIX, offsetName, SIDECAR_SUFFIXES } from "./paths.ts";
import type { Replacement } from "./replacement.ts";
import { drawFraction, type NextRun, rollReason } from "./roll.ts";
import { newSegmentState, openSegment, type Segment, type SegmentState, stateOf } from "./segment.ts";
import { SegmentReader, type SegmentReadOptions } from "./segment-reader.ts";
import type { Offset, PartitionIndex, TopicId } from "../model/ids.ts";
import type { LogSettings, ReadResult, SegmentView } from "./types.ts";

/**
 * No more of a log than this, and a write, is given to the device at once: the journal's syncs beside it wait for all of it, some 0.5 ms for each MiB. Less
 * would be a sync for each flush of each of many logs.
 */
const SYNC_EVERY_BYTES = 1024 * 1024;
const WRITE_CHUNKS_MAX = 1000;
const WRITE_BYTES_MAX = 4 * 1024 * 1024;

export interface SegmentsConfig extends LogSettings {
  readonly directory: string;
  readonly topicId: TopicId;
  readonly partition: PartitionIndex;
}

interface SegmentsDeps extends SegmentFileDeps {
  readonly clock: Clock;
  readonly entropy: Entropy;
}

export class Segments {
  readonly directory: string;
  readonly topicId: TopicId;
  readonly partition: PartitionIndex;
  readonly #deps: SegmentsDeps;
  #config: LogSettings;
  readonly indexes: SegmentIndexes;
  readonly identities: SegmentIdentities;
  readonly #reader: SegmentReader;
  readonly #segments: Segment[] = [];
  /** Exclusive end of what the files hold. */
  #endOffset: number;
  /** Written since the last sync that `append` made. */
  #unsyncedBytes = 0;
  /** Files were created or removed since the directory was synced. */
  isDirectoryDirty = false;
  /** Rises when segments go, or others take their place: what a look met before says nothing then. */
  layoutVersion = 0;
  /** Pending while files are being renamed. */
  swapping: Promise<void> | undefined;
  #cleanedNames: CleanedNames | undefined;
  /** A cut has begun that has not come to its end. */
  #isCutShort = false;
  /** Of that cut: out of the list, with files that must go. */
  readonly #dropped: Segment[] = [];

  constructor(
    deps: SegmentsDeps,
    config: SegmentsConfig,
    state: { readonly segments: readonly SegmentState[]; readonly endOffset: number },
  ) {
    this.#deps = deps;
    this.#config = config;
    this.indexes = new SegmentIndexes(deps, this);
    this.identities = new SegmentIdentities(deps, this);
    this.topicId = config.topicId;
    this.partition = config.partition;
    this.#reader = new SegmentReader(deps, this.identities);
    this.directory = config.directory;
    this.#endOffset = state.endOffset;
    for (const each of state.segments) this.#segments.push(this.#segment(each));
  }

  configure(settings: LogSettings): void {
    this.#config = settings;
  }

  get settings(): LogSettings {
    return this.#config;
  }

  get segmentBytes(): number {
    return this.#config.segmentBytes;
  }

  get endOffset(): number {
    return this.#endOffset;
  }

  get all(): readonly Segment[] {
    return this.#segments;
  }

  get sizeBytes(): number {
    let total = 0;
    for (const segment of this.#segments) total += segment.sizeBytes;
    return total;
  }

  views(): SegmentView[] {
    return this.#segments.map(({ base, sizeBytes, maxTimestamp, createdMs }, place) => {
      const [first, endOffset] = [base as Offset, this.endOf(place) as Offset];
      return { base: first, endOffset, sizeBytes, maxTimestamp, createdMs };
    });
  }

  /** Whether batches may still be added to it. */
  isActive(segment: Segment): boolean {
    return this.#segments.at(-1) === segment;
  }

  layout(): SegmentState[] {
    for (const segment of this.#segments) this.indexes.settle(segment);
    return this.#segments.map(stateOf);
  }

  /** Without a suffix. */
  pathOf(base: number): string {
    return join(this.directory, offsetName(base));
  }

  #segment(state: SegmentState): Segment {
    return openSegment(this.pathOf(state.base), state);
  }

  /**
   * Writes what the window holds from the present end on, as much as one write takes, never past `limitOffset`. Writes nothing when
   * `isVoid` became true before: the window was cut.
   */
  async append(
    window: BatchWindow,
    options: { readonly limitOffset: number; readonly isVoid: () => boolean },
  ): Promise<void> {
    const { limitOffset, isVoid } = options;
    const first = window.indexOf(this.#endOffset);
    assert(window.baseAt(first) === this.#endOffset, "the segments' end is no batch's base in the window");
    const segment = await this.#active({ run: window.batchAt(first), last: window.endAt(first) - 1 });
    if (isVoid()) return;
    let index = window.indexOf(this.#endOffset);
    const startPosition = segment.sizeBytes;
    const chunks: Uint8Array[] = [];
    let sizeBytes = 0;
    for (; index < window.length && window.endAt(index) <= limitOffset; index++) {
      const batch = window.batchAt(index);
      const next = { run: batch, last: window.endAt(index) - 1 };
      if (chunks.length > 0 && !this.#fits(segment, next, { sizeBytes, first: chunks[0] })) break;
      if (chunks.length === WRITE_CHUNKS_MAX || (chunks.length > 0 && sizeBytes + batch.length > WRITE_BYTES_MAX))
        break;
      chunks.push(batch);
      sizeBytes += batch.length;
    }
    segment.isDirty = true;
    this.#unsyncedBytes += sizeBytes;
    await this.#deps.handles.use(segment.path + LOG_SUFFIX, "write", async (handle) => {
      await handle.write(startPosition, chunks);
      if (this.#unsyncedBytes < SYNC_EVERY_BYTES) return;
      this.#unsyncedBytes = 0;
      await datasync(handle);
    });
    // A sync that ran beside the write has not covered it.
    segment.isDirty = true;
    for (const batch of chunks) this.#appended(segment, batch);
  }

  /** Takes note of a batch, or a run, that was written at the end of the segment. */
  #appended(segment: Segment, run: Uint8Array): void {
    this.#endOffset = this.note(segment, run);
    segment.isIndexDirty = true;
  }

  /** A run that was written, or is to be, at the end of a segment, of this list or one that is to take a place in it. Gives the run's end. */
  note(segment: Segment, run: Uint8Array): number {
    let endOffset = segment.base;
    forEachBatch(run, (position, sizeBytes) => {
      const last = lastOffsetAt(run, position);
      const maxTimestamp = maxTimestampAt(run, position);
      const hasRecords = recordCountAt(run, position) > 0;
      const placed = { position: segment.sizeBytes + position, last, sizeBytes, maxTimestamp, hasRecords };
      this.identities.note(segment, { bytes: run, at: position }, placed);
      this.indexes.note(segment, placed);
      endOffset = last + 1;
    });
    segment.sizeBytes += run.length;
    return endOffset;
  }

  #fits(
    segment: Segment,
    next: Pick<NextRun, "run" | "last">,
    pending: { readonly sizeBytes: number; readonly first: Uint8Array | undefined },
  ): boolean {
    const pendingTimestamp = pending.first === undefined ? -1 : maxTimestampAt(pending.first, 0);
    const run: NextRun = { ...next, pendingBytes: pending.sizeBytes, pendingTimestamp };
    const { clock, entropy } = this.#deps;
    const deps = { settings: this.#config, nowMs: clock.wallMs(), draw: () => drawFraction(entropy) };
    return rollReason(segment, run, deps) === undefined;
  }

  /** The segment that the run goes to, with its indexes in memory. */
  async #active(next: Pick<NextRun, "run" | "last">): Promise<Segment> {
    const segment = this.#segments.at(-1);
    if (segment !== undefined) {
      await this.indexes.loadTimes(segment);
      await this.identities.load(segment);
      if (this.#fits(segment, next, { sizeBytes: 0, first: undefined })) return segment;
    }
    return this.#roll();
  }

  /** Begins a new segment at the end. */
  async #roll(): Promise<Segment> {
    const segment = this.#segment(newSegmentState(this.#endOffset, this.#deps.clock.wallMs()));
    emptyIndexes(segment);
    this.identities.start(segment);
    this.isDirectoryDirty = true;
    // A file left over under this name belongs to nobody (S-8).
    await this.#deps.handles.use(segment.path + LOG_SUFFIX, "open-or-create", async (handle) => {
      if ((await handle.size()) > 0) await handle.truncate(0);
    });
    this.isDirectoryDirty = true;
    const active = this.#segments.at(-1);
    if (active !== undefined) await this.indexes.loadTimes(active);
    if (active?.sizeBytes === 0 && active.base === segment.base) this.#segments.pop();
    else if (active !== undefined) this.indexes.seal(active);
    this.#segments.push(segment);
    return segment;
  }

  /** Index of the segment that holds `offset`. */
  #find(offset: number): number {
    let low = 0;
    let high = this.#segments.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#segments[middle] as Segment).base <= offset) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** Exclusive end of the segment at this place of the list. */
  endOf(place: number): number {
    return this.#segments[place + 1]?.base ?? this.#endOffset;
  }

  #scan(segment: Segment, from: number, visit: (batch: ScannedBatch) => boolean): Promise<ScanEnd> {
    return scanSegment(this.#deps, segment, { from, visit });
  }

  /**
   * Visits the batches from the one that holds `offset` on, segment by segment, until a visit returns false; with `timestamp` not those of which the indexes
   * know that they are older (S-24). When `layoutVersion` changed meanwhile,
   * the caller must begin again: what was visited may be of both layouts.
   */
  async walk(
    offset: number,
    options: { readonly visit: (batch: ScannedBatch) => boolean; readonly timestamp?: number },
  ): Promise<void> {
    let isDone = false;
    const { layoutVersion } = this;
    for (let place = this.#find(offset); place < this.#segments.length && !isDone; place++) {
      if (this.layoutVersion !== layoutVersion) return;
      const segment = this.#segments[place] as Segment;
      const { timestamp = -1 } = options;
      if (segment.maxTimestamp < timestamp) continue;
      const from = timestamp < 0 ? segment.base : await this.indexes.offsetToLookFrom(segment, timestamp);
      isDone = !(await this.#reader.walk(segment, Math.max(offset, from), options.visit));
    }
  }

  /** Base of the batch that holds `offset`. */
  async baseOfBatchAt(offset: number): Promise<number> {
    let base: number | undefined;
    await this.walk(offset, {
      visit: (batch) => {
        base = batch.base;
        return false;
      },
    });
    return present(base, `a batch with offset ${offset}`);
  }

  /** The chain at `offset` of the segment that a cut there goes through, proven (D-16). undefined: it goes through none, or the proof fails. */
  async chainAt(offset: number): Promise<number | undefined> {
    const segment = this.#segments.findLast(({ base }) => base < offset);
    if (segment === undefined || segment.chain === UNKNOWN_CHAIN) return undefined;
    try {
      return (await this.identities.pointToCut(segment, offset, { isWhole: true }))?.chain;
    } catch {
      // The cut itself finds the same, and tells it.
      return undefined;
    }
  }

  /** Checks the chain of batches at the end of the last segment; the reason why it does not hold, or undefined. What passes says nothing of it, and rejects. */
  async verifyTail(): Promise<string | undefined> {
    const segment = this.#segments.at(-1);
    if (segment === undefined) return undefined;
    try {
      const index = await this.indexes.load(segment);
      let nextOffset: number | undefined;
      const from = index.count === 0 ? 0 : index.positionAt(index.count - 1);
      if (from === 0) nextOffset = segment.base;
      let gap: string | undefined;
      const end = await this.#scan(segment, from, (batch) => {
        if (nextOffset !== undefined && batch.base !== nextOffset)
          gap = `offset ${batch.base} where ${nextOffset} should be`;
        nextOffset = batch.last + 1;
        return gap === undefined;
      });
      if (end.kind !== "end") return `${segment.path}${LOG_SUFFIX}: ${end.reason} at position ${end.position}`;
      if (gap !== undefined) return `${segment.path}${LOG_SUFFIX}: ${gap}`;
      if (nextOffset !== this.#endOffset)
        return `${segment.path}${LOG_SUFFIX} ends at offset ${nextOffset}, not ${this.#endOffset}`;
      await this.#reader.verifyEnd(segment);
      return undefined;
    } catch (thrown) {
      if (isPassing(thrown)) throw thrown;
      return thrown instanceof Error ? thrown.message : String(thrown);
    }
  }

  /**
   * Cuts everything from `offset` on, which must start a batch or be the end of one. The bytes behind it need not be whole: only
   * the batches below `offset` are read, unless `isWhole`: then what is left is proven (D-16). `chain`: what is left was proven to end with, before.
   */
  async cut(
    offset: number,
    { isWhole = true, chain }: { readonly isWhole?: boolean; readonly chain?: number | undefined } = {},
  ): Promise<void> {
    if (offset >= this.#endOffset && !this.#isCutShort) return;
    // What passes is tried again: until all is done the last segment still holds what was to go.
    this.#isCutShort = true;
    while (this.#segments.length > 0 && (this.#segments.at(-1) as Segment).base >= offset)
      this.#dropped.push(this.#segments.pop() as Segment);
    const segment = this.#segments.at(-1);
    this.#endOffset = offset;
    if (segment !== undefined) await this.#cutInside(segment, offset, { isWhole, chain });
    for (let last = this.#dropped.at(-1); last !== undefined; last = this.#dropped.at(-1)) {
      await this.#remove(last);
      this.#dropped.pop();
    }
    this.#isCutShort = false;
  }

  async #cutInside(
    segment: Segment,
    offset: number,
    { isWhole, chain }: { readonly isWhole: boolean; readonly chain: number | undefined },
  ): Promise<void> {
    segment.cuts++;
    const point = await this.identities.pointToCut(segment, offset, { isWhole });
    const indexedTo = await this.indexes.cutTo(segment, offset);
    if (point === undefined || indexedTo !== point.position)
      throw storageError(`${segment.path}${LOG_SUFFIX} holds no batch that ends at offset ${offset}`);
    segment.isDirty = true;
    cutAt(segment, mutant("D-16c") ? point : { ...point, chain: chain ?? point.chain });
    await this.#deps.handles.use(segment.path + LOG_SUFFIX, "write", (handle) => handle.truncate(point.position));
    segment.isDirty = true;
  }

  /** Reads all of the segment again; rejects with what cannot be right. Its indexes are made anew when they are not what they must be. */
  async verify(segment: Segment, options: CheckOptions): Promise<void> {
    await checkSegment(this.#deps, this.identities, segment, options);
    if (segment !== this.#segments.at(-1) && options.isThere()) await this.indexes.loadTimes(segment);
  }

  /** As SegmentIdentities.save. Not while they are being cut: a segment still holds more than the list says, and its rows would say that it ends there. */
  async saveIdentity(segment: Segment): Promise<boolean> {
    if (this.#isCutShort) return false;
    const place = this.#segments.indexOf(segment);
    const isClosed = place < this.#segments.length - 1;
    return place >= 0 && this.identities.save(segment, { isClosed, endOffset: this.endOf(place) });
  }

  /** Forgets the segments that lie wholly below `offset` and returns them; their files stay until `remove`. */
  dropBelow(offset: number): Segment[] {
    let count = 0;
    while (count < this.#segments.length && this.endOf(count) <= offset) count++;
    if (count > 0) this.layoutVersion++;
    return this.#segments.splice(0, count);
  }

  /** Place and number of the whole closed segments in [fromBase, endOffset), all of them synced; undefined: these are none. */
  #closedRange(fromBase: number, endOffset: number): { readonly place: number; readonly count: number } | undefined {
    const place = this.#find(fromBase);
    if (this.#segments[place]?.base !== fromBase) return undefined;
    let next = place;
    while (next < this.#segments.length - 1 && (this.#segments[next] as Segment).base < endOffset) {
      if (this.#segments[next]?.isDirty === true) return undefined;
      next++;
    }
    return next > place && this.#segments[next]?.base === endOffset ? { place, count: next - place } : undefined;
  }

  isClosedRange(fromBase: number, endOffset: number): boolean {
    return this.#closedRange(fromBase, endOffset) !== undefined;
  }

  /** Gives the files of a replacement their names, by `rename`, and then its segment the place of those that it covers. */
  async swap(replacement: Replacement, rename: (path: string) => Promise<void>): Promise<void> {
    let ended: () => void = () => undefined;
    this.swapping = new Promise((resolve) => {
      ended = resolve;
    });
    try {
      await this.#swap(replacement, rename);
    } finally {
      this.swapping = undefined;
      ended();
    }
  }

  async #swap({ fromBase, endOffset, state }: Replacement, rename: (path: string) => Promise<void>): Promise<void> {
    const segment = this.#segment(state);
    this.layoutVersion++;
    this.isDirectoryDirty = true;
    await rename(segment.path);
    // The names are other files' now: a handle that is open is of the old one (D-14).
    const forgotten = [LOG_SUFFIX, ...SIDECAR_SUFFIXES].map((suffix) =>
      this.#deps.handles.forget(segment.path + suffix),
    );
    const { place, count } = present(this.#closedRange(fromBase, endOffset), "the segments that are replaced");
    const old = this.#segments.splice(place, count, segment);
    this.layoutVersion++;
    this.cleanedNames.onSwapped(fromBase);
    await Promise.all(forgotten);
    // What cannot be removed now is, by the next start.
    await this.remove(old.slice(1)).catch((thrown: unknown) => {
      if (!isPassing(thrown)) throw thrown;
    });
    this.isDirectoryDirty = !mutant("S-41d");
  }

  /** Made when first asked for: most logs never have one. */
  get cleanedNames(): CleanedNames {
    this.#cleanedNames ??= new CleanedNames();
    return this.#cleanedNames;
  }

  /** A checkpoint counts that was begun after the last swaps. */
  onCheckpoint(): void {
    this.#cleanedNames?.onCheckpoint();
  }

  /** The log is gone with its directory: whatever still names it holds no indexes. */
  forgetAll(): void {
    this.#segments.length = 0;
  }

  /** What a checkpoint wrote beside a segment that was removed meanwhile belongs to nobody. */
  async removeLeftBehind({ path }: Segment): Promise<void> {
    if (this.#segments.some((each) => each.path === path)) return;
    for (const suffix of SIDECAR_SUFFIXES) await unlinkIfThere(this.#deps.files, path + suffix);
    this.isDirectoryDirty = true;
  }

  async remove(segments: readonly Segment[]): Promise<void> {
    for (const segment of segments) await this.#remove(segment);
  }

  async #remove(segment: Segment): Promise<void> {
    this.isDirectoryDirty = true;
    for (const suffix of [LOG_SUFFIX, ...SIDECAR_SUFFIXES]) {
      await this.#deps.handles.forget(segment.path + suffix);
      await unlinkIfThere(this.#deps.files, segment.path + suffix);
      // A reader that was under way may have opened it again before the name was free.
      if (!mutant("D-14h")) await this.#deps.handles.forget(segment.path + suffix);
    }
    this.isDirectoryDirty = true;
  }

  /** Reads whole batches of one segment, from the one that holds `offset` on, checked by chain, CRC, place and epoch. */
  read(offset: number, options: SegmentReadOptions): Promise<ReadResult> {
    return this.#reader.read(present(this.#segments[this.#find(offset)], "segment"), offset, options);
  }
}
