// The segment files of one log: appended to behind the journal, rolled (S-7 a, c, d), indexed (S-12), cut, read.
//
// The list holds the offsets [first base, endOffset) without a gap. One writer at a time (append, cut, drop); readers at any
// time: they take the segment's size once and the caller checks afterwards that nothing was cut meanwhile (S-16).
import { assert, present } from "../base/assert.ts";
import { mutant } from "../base/mutant.ts";
import { BATCH_HEADER_BYTES, lastOffsetAt, maxTimestampAt } from "../model/record-batch.ts";
import { forEachBatch } from "../model/records.ts";
import type { Checksum } from "../ports/checksum.ts";
import type { Files } from "../ports/files.ts";
import { type ScannedBatch, scanBatches } from "./batch-scan.ts";
import type { BatchWindow } from "./batch-window.ts";
import { isNotFound, storageError } from "./faults.ts";
import { readWhole, unlinkIfThere, withFile } from "./file-work.ts";
import type { HandleCache } from "./handle-cache.ts";
import { OffsetIndex } from "./offset-index.ts";
import { INDEX_SUFFIX, join, LOG_SUFFIX, offsetName } from "./paths.ts";
import { collectBatches } from "./segment-read.ts";
import type { EpochEntry, LogSettings, ReadOptions, ReadResult } from "./types.ts";

const RELATIVE_OFFSET_MAX = 2 ** 31 - 1;
const WRITE_CHUNKS_MAX = 1000;
const WRITE_BYTES_MAX = 4 * 1024 * 1024;
const READ_BYTES_MAX = 1024 * 1024;

/** What a checkpoint image says of a segment. */
export interface SegmentState {
  readonly base: number;
  readonly sizeBytes: number;
  /** -1 when no batch has a timestamp. */
  readonly maxTimestamp: number;
}

export interface Segment {
  readonly base: number;
  readonly path: string;
  sizeBytes: number;
  maxTimestamp: number;
  /** Undefined: not loaded. */
  index: OffsetIndex | undefined;
  bytesSinceIndexEntry: number;
  /** Written since the last sync. */
  isDirty: boolean;
  /** The index comes from a file, of which only the end was checked. */
  isIndexFromFile: boolean;
  /** Looked at since the last checkpoint; the others of old segments leave memory then. */
  isIndexUsed: boolean;
  /** The index in memory is ahead of its file. */
  isIndexDirty: boolean;
}

export interface SegmentsConfig extends LogSettings {
  readonly directory: string;
}

interface SegmentReadOptions extends ReadOptions {
  /** What the batches must be of. */
  readonly epochs: readonly EpochEntry[];
}

interface SegmentsDeps {
  readonly files: Files;
  readonly handles: HandleCache;
  readonly checksum: Checksum;
}

export class Segments {
  readonly directory: string;
  readonly #deps: SegmentsDeps;
  #config: LogSettings;
  readonly #segments: Segment[] = [];
  /** Exclusive end of what the files hold. */
  #endOffset: number;
  /** Files were created or removed since the directory was synced. */
  isDirectoryDirty = false;

  constructor(
    deps: SegmentsDeps,
    config: SegmentsConfig,
    state: { readonly segments: readonly SegmentState[]; readonly endOffset: number },
  ) {
    this.#deps = deps;
    this.#config = config;
    this.directory = config.directory;
    this.#endOffset = state.endOffset;
    for (const each of state.segments) this.#segments.push(this.#segment(each));
  }

  configure({ segmentBytes, indexIntervalBytes }: LogSettings): void {
    this.#config = { segmentBytes, indexIntervalBytes };
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

  layout(): SegmentState[] {
    return this.#segments.map(({ base, sizeBytes, maxTimestamp }) => ({ base, sizeBytes, maxTimestamp }));
  }

  #segment(state: SegmentState): Segment {
    return {
      ...state,
      path: join(this.directory, offsetName(state.base)),
      index: undefined,
      bytesSinceIndexEntry: 0,
      isDirty: false,
      isIndexFromFile: false,
      isIndexUsed: false,
      isIndexDirty: false,
    };
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
    const segment = await this.#active(window.batchAt(first), window.endAt(first) - 1);
    if (isVoid()) return;
    let index = window.indexOf(this.#endOffset);
    const startPosition = segment.sizeBytes;
    const chunks: Uint8Array[] = [];
    let sizeBytes = 0;
    for (; index < window.length && window.endAt(index) <= limitOffset; index++) {
      const batch = window.batchAt(index);
      if (chunks.length > 0 && !this.#fits(segment, { batch, last: window.endAt(index) - 1, pendingBytes: sizeBytes }))
        break;
      if (chunks.length === WRITE_CHUNKS_MAX || (chunks.length > 0 && sizeBytes + batch.length > WRITE_BYTES_MAX))
        break;
      chunks.push(batch);
      sizeBytes += batch.length;
    }
    segment.isDirty = true;
    await this.#deps.handles.use(segment.path + LOG_SUFFIX, "write", (handle) => handle.write(startPosition, chunks));
    // A sync that ran beside the write has not covered it.
    segment.isDirty = true;
    for (const batch of chunks) this.#appended(segment, batch);
  }

  /** Takes note of a batch, or a run, that was written at the end of the segment. */
  #appended(segment: Segment, run: Uint8Array): void {
    forEachBatch(run, (position, sizeBytes) => {
      const last = lastOffsetAt(run, position);
      const maxTimestamp = maxTimestampAt(run, position);
      this.#note(segment, { position: segment.sizeBytes + position, last, sizeBytes, maxTimestamp });
      this.#endOffset = last + 1;
    });
    segment.sizeBytes += run.length;
    segment.isIndexDirty = true;
  }

  /** S-12: an entry when more than the interval was written since the last one. */
  #note(segment: Segment, batch: { position: number; last: number; sizeBytes: number; maxTimestamp: number }): void {
    if (segment.bytesSinceIndexEntry > this.#config.indexIntervalBytes && segment.index !== undefined) {
      segment.index.add({ relativeLast: batch.last - segment.base, position: batch.position });
      segment.bytesSinceIndexEntry = 0;
    }
    segment.bytesSinceIndexEntry += batch.sizeBytes;
    segment.maxTimestamp = Math.max(segment.maxTimestamp, batch.maxTimestamp);
  }

  #fits(
    segment: Segment,
    next: { readonly batch: Uint8Array; readonly last: number; readonly pendingBytes: number },
  ): boolean {
    const size = segment.sizeBytes + next.pendingBytes;
    if (size > 0 && size + next.batch.length > this.#config.segmentBytes) return false;
    if (next.last - segment.base > RELATIVE_OFFSET_MAX) return false;
    return segment.index === undefined || !segment.index.isFull;
  }

  /** The segment that the batch goes to, with its index in memory. */
  async #active(batch: Uint8Array, last: number): Promise<Segment> {
    const segment = this.#segments.at(-1);
    if (segment !== undefined) {
      await this.loadIndex(segment);
      if (this.#fits(segment, { batch, last, pendingBytes: 0 })) return segment;
    }
    return this.#roll();
  }

  async #roll(): Promise<Segment> {
    const segment = this.#segment({ base: this.#endOffset, sizeBytes: 0, maxTimestamp: -1 });
    segment.index = new OffsetIndex();
    this.isDirectoryDirty = true;
    // A file left over under this name belongs to nobody (S-8).
    await this.#deps.handles.use(segment.path + LOG_SUFFIX, "open-or-create", async (handle) => {
      if ((await handle.size()) > 0) await handle.truncate(0);
    });
    this.isDirectoryDirty = true;
    const active = this.#segments.at(-1);
    if (active?.sizeBytes === 0 && active.base === segment.base) this.#segments.pop();
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

  /** Loads, verifies or rebuilds the index (S-15). Rejects with STORAGE_ERROR when the log itself is damaged. */
  async loadIndex(segment: Segment): Promise<OffsetIndex> {
    segment.isIndexUsed = true;
    if (segment.index !== undefined) return segment.index;
    // Too short to have an entry: nothing to read.
    if (segment.sizeBytes <= this.#config.indexIntervalBytes) {
      segment.bytesSinceIndexEntry = segment.sizeBytes;
      segment.index = new OffsetIndex();
      return segment.index;
    }
    const loaded = await this.#readIndex(segment);
    // Another reader may have been faster, and the writer may have added to its index since.
    if (segment.index !== undefined) return segment.index;
    if (loaded !== undefined) {
      segment.index = loaded;
      segment.isIndexFromFile = true;
      segment.bytesSinceIndexEntry = segment.sizeBytes - (loaded.count === 0 ? 0 : loaded.positionAt(loaded.count - 1));
      return loaded;
    }
    return this.#rebuildIndex(segment);
  }

  async #readIndex(segment: Segment): Promise<OffsetIndex | undefined> {
    try {
      const bytes = await withFile(this.#deps.files, { path: segment.path + INDEX_SUFFIX, mode: "read" }, readWhole);
      const index = OffsetIndex.decode(bytes);
      index?.truncateToPosition(segment.sizeBytes);
      if (index === undefined || index.count === 0)
        return index === undefined || segment.sizeBytes > this.#config.indexIntervalBytes ? undefined : index;
      const header = new Uint8Array(BATCH_HEADER_BYTES);
      const position = index.positionAt(index.count - 1);
      const length = await this.#deps.handles.use(segment.path + LOG_SUFFIX, "write", (handle) =>
        handle.read(position, header),
      );
      const isRight =
        length === BATCH_HEADER_BYTES && lastOffsetAt(header, 0) - segment.base === index.relativeAt(index.count - 1);
      return isRight ? index : undefined;
    } catch (thrown) {
      if (isNotFound(thrown)) return undefined;
      throw thrown;
    }
  }

  async #rebuildIndex(segment: Segment): Promise<OffsetIndex> {
    const rebuilt: Segment = { ...segment, index: new OffsetIndex(), bytesSinceIndexEntry: 0 };
    const end = await this.#scan(segment, 0, (batch) => {
      this.#note(rebuilt, { ...batch, maxTimestamp: -1 });
      return true;
    });
    if (segment.index !== undefined) return segment.index;
    if (end.kind !== "end")
      throw storageError(`${segment.path}${LOG_SUFFIX}: ${end.reason} at position ${end.position}`);
    segment.index = present(rebuilt.index, "rebuilt index");
    segment.bytesSinceIndexEntry = rebuilt.bytesSinceIndexEntry;
    segment.isIndexDirty = true;
    return segment.index;
  }

  #scan(segment: Segment, from: number, visit: (batch: ScannedBatch) => boolean): ReturnType<typeof scanBatches> {
    const end = segment.sizeBytes;
    return this.#deps.handles.use(segment.path + LOG_SUFFIX, "write", (handle) =>
      scanBatches(handle, { from, end, checksum: this.#deps.checksum, visit }),
    );
  }

  /** Forgets the indexes of old segments that nobody has used since the last call; their files have them. */
  forgetIdleIndexes(): void {
    for (const segment of this.#segments.slice(0, -1)) {
      if (!segment.isIndexUsed && !segment.isIndexDirty) segment.index = undefined;
      segment.isIndexUsed = false;
    }
  }

  /** Visits the batches from the one that holds `offset` on, segment by segment, until a visit returns false. */
  async walk(
    offset: number,
    options: { readonly visit: (batch: ScannedBatch) => boolean; readonly skip?: (segment: Segment) => boolean },
  ): Promise<void> {
    let isDone = false;
    for (let place = this.#find(offset); place < this.#segments.length && !isDone; place++) {
      const segment = this.#segments[place] as Segment;
      if (options.skip?.(segment) === true) continue;
      const from = offset <= segment.base ? 0 : (await this.loadIndex(segment)).lookup(offset - segment.base);
      const end = await this.#scan(segment, from, (batch) => {
        if (batch.last >= offset) isDone = !options.visit(batch);
        return !isDone;
      });
      if (end.kind !== "end")
        throw storageError(`${segment.path}${LOG_SUFFIX}: ${end.reason} at position ${end.position}`);
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

  /** Checks the chain of batches at the end of the last segment; the reason why it does not hold, or undefined. */
  async verifyTail(): Promise<string | undefined> {
    const segment = this.#segments.at(-1);
    if (segment === undefined) return undefined;
    try {
      const index = await this.loadIndex(segment);
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
      return undefined;
    } catch (thrown) {
      return thrown instanceof Error ? thrown.message : String(thrown);
    }
  }

  /**
   * Cuts everything from `offset` on, which must start a batch or be the end of one. The bytes behind it need not be whole: only
   * the batches below `offset` are read.
   */
  async cut(offset: number): Promise<void> {
    if (offset >= this.#endOffset) return;
    const dropped: Segment[] = [];
    while (this.#segments.length > 0 && (this.#segments.at(-1) as Segment).base >= offset)
      dropped.push(this.#segments.pop() as Segment);
    const segment = this.#segments.at(-1);
    this.#endOffset = offset;
    if (segment !== undefined) await this.#cutInside(segment, offset);
    for (const each of dropped) await this.#remove(each);
  }

  async #cutInside(segment: Segment, offset: number): Promise<void> {
    const index = segment.index ?? (await this.#readIndex(segment)) ?? new OffsetIndex();
    index.truncateTo(offset - segment.base);
    const from = index.count === 0 ? 0 : index.positionAt(index.count - 1);
    let position = from;
    let reached = from === 0 ? segment.base : -1;
    await this.#scan(segment, from, (batch) => {
      if (batch.base >= offset) return false;
      position = batch.position + batch.sizeBytes;
      reached = batch.last + 1;
      return reached < offset;
    });
    if (reached !== offset)
      throw storageError(`${segment.path}${LOG_SUFFIX} holds no batch that ends at offset ${offset}`);
    segment.isDirty = true;
    segment.isIndexDirty = true;
    segment.sizeBytes = position;
    segment.index = index;
    segment.bytesSinceIndexEntry = position - from;
    await this.#deps.handles.use(segment.path + LOG_SUFFIX, "write", (handle) => handle.truncate(position));
    segment.isDirty = true;
  }

  /** Forgets the segments that lie wholly below `offset` and returns them; their files stay until `remove`. */
  dropBelow(offset: number): Segment[] {
    let count = 0;
    while (count < this.#segments.length && this.endOf(count) <= offset) count++;
    return this.#segments.splice(0, count);
  }

  /** The log is gone with its directory: whatever still names it holds no indexes. */
  forgetAll(): void {
    this.#segments.length = 0;
  }

  async remove(segments: readonly Segment[]): Promise<void> {
    for (const segment of segments) await this.#remove(segment);
  }

  async #remove(segment: Segment): Promise<void> {
    this.isDirectoryDirty = true;
    for (const suffix of [LOG_SUFFIX, INDEX_SUFFIX]) {
      await this.#deps.handles.forget(segment.path + suffix);
      await unlinkIfThere(this.#deps.files, segment.path + suffix);
      // A reader that was under way may have opened it again before the name was free.
      if (!mutant("D-14h")) await this.#deps.handles.forget(segment.path + suffix);
    }
    this.isDirectoryDirty = true;
  }

  /** Reads whole batches of one segment, from the one that holds `offset` on, checked by CRC, place and epoch. */
  async read(offset: number, options: SegmentReadOptions): Promise<ReadResult> {
    const segment = present(this.#segments[this.#find(offset)], "segment");
    try {
      return await this.#read(segment, offset, options);
    } catch (thrown) {
      if (!segment.isIndexFromFile) throw thrown;
      // The index may be wrong where it was not checked (S-15): it is only a cache.
      segment.isIndexFromFile = false;
      segment.index = undefined;
      await this.#rebuildIndex(segment);
      return this.#read(segment, offset, options);
    }
  }

  async #read(segment: Segment, offset: number, options: SegmentReadOptions): Promise<ReadResult> {
    const end = segment.sizeBytes;
    const index = await this.loadIndex(segment);
    const path = segment.path + LOG_SUFFIX;
    let position = index.lookup(offset - segment.base);
    return this.#deps.handles.use(path, "write", async (handle) => {
      const slack = this.#config.indexIntervalBytes;
      let wanted = Math.min(Math.max(options.maxBytes, BATCH_HEADER_BYTES) + slack, READ_BYTES_MAX);
      for (;;) {
        const buffer = new Uint8Array(Math.min(wanted, end - position));
        const filled = buffer.subarray(0, await handle.read(position, buffer));
        const { checksum } = this.#deps;
        const found = collectBatches(filled, { offset, options, path, position, checksum, epochs: options.epochs });
        if (found.kind === "done") return found.result;
        position += found.skippedBytes;
        if (position >= end || (found.skippedBytes === 0 && filled.length >= end - position)) {
          throw storageError(`${path}: no whole batch with offset ${offset} at position ${position}`);
        }
        if (found.skippedBytes === 0) wanted = Math.max(found.neededBytes, wanted * 2);
      }
    });
  }
}
