// The indexes of the segments of one log: caches of it, loaded when they are looked at, held against the checksum that the image has of
// them, made anew when missing or wrong (S-15).
import { present } from "../base/assert.ts";
import { EMPTY_BYTES } from "../base/bytes.ts";
import { mutant } from "../base/mutant.ts";
import { maxTimestampAt, recordCountAt } from "../model/record-batch.ts";
import type { Checksum } from "../ports/checksum.ts";
import type { FileHandle, Files } from "../ports/files.ts";
import { type ScanEnd, type ScannedBatch, scanBatches } from "./batch-scan.ts";
import { datasync, isUnreadable, storageError } from "./faults.ts";
import { orMark, unlinkIfThere, withFile } from "./file-work.ts";
import type { HandleCache } from "./handle-cache.ts";
import { emptyRange, forgetFrom, type IndexedRange, type NotedBatch, noteBatch, sealTimes } from "./index-entries.ts";
import { INDEX_ENTRY_BYTES, OffsetIndex } from "./offset-index.ts";
import { INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX } from "./paths.ts";
import type { ReadBuffers } from "./read-buffers.ts";
import type { IndexCheck, SavedEntries } from "./saved-entries.ts";
import type { Segment } from "./segment.ts";
import { TIME_INDEX_ENTRY_BYTES, TimeIndex } from "./time-index.ts";
import type { LogSettings } from "./types.ts";

export interface SegmentFileDeps {
  readonly files: Files;
  readonly handles: HandleCache;
  readonly checksum: Checksum;
  readonly buffers: ReadBuffers;
}

/** Walks the batches of a segment's file from the position of one on. */
export function scanSegment(
  deps: SegmentFileDeps,
  segment: Segment,
  { from, visit }: { readonly from: number; readonly visit: (batch: ScannedBatch) => boolean },
): Promise<ScanEnd> {
  const end = segment.sizeBytes;
  return deps.handles.use(segment.path + LOG_SUFFIX, "write", (handle) =>
    scanBatches(handle, { from, end, checksum: deps.checksum, visit }),
  );
}

export async function replaceContent(handle: FileHandle, bytes: Uint8Array): Promise<void> {
  await writeEnd(handle, 0, bytes);
}

/** The file ends with these bytes at this position, durably. */
async function writeEnd(handle: FileHandle, position: number, bytes: Uint8Array): Promise<void> {
  await handle.write(position, [bytes]);
  await handle.truncate(position + bytes.length);
  await datasync(handle);
}

/** What is in a file, or is to be. */
export interface FileContent {
  readonly suffix: string;
  readonly bytes: Uint8Array;
}

interface IndexFile {
  readonly suffix: string;
  readonly entryBytes: number;
  readonly entries: SavedEntries;
}

const indexFile = (entries: OffsetIndex): IndexFile => ({
  suffix: INDEX_SUFFIX,
  entryBytes: INDEX_ENTRY_BYTES,
  entries,
});

const timesFile = (entries: TimeIndex): IndexFile => ({
  suffix: TIME_INDEX_SUFFIX,
  entryBytes: TIME_INDEX_ENTRY_BYTES,
  entries,
});

/** Those that are in memory. */
function filesOf({ index, times }: Segment): IndexFile[] {
  return [...(index === undefined ? [] : [indexFile(index)]), ...(times === undefined ? [] : [timesFile(times)])];
}

export interface IndexesHost {
  readonly settings: LogSettings;
  /** Whether batches may still be added to it. */
  isActive(segment: Segment): boolean;
}

/** A segment that holds nothing yet has nothing to load. */
export function emptyIndexes(segment: Segment): void {
  segment.index = new OffsetIndex();
  segment.times = new TimeIndex();
}

export class SegmentIndexes {
  readonly #deps: SegmentFileDeps;
  readonly #host: IndexesHost;

  constructor(deps: SegmentFileDeps, host: IndexesHost) {
    this.#deps = deps;
    this.#host = host;
  }

  /** Takes note of a batch at the end of the segment. */
  note(segment: Segment, batch: NotedBatch): void {
    noteBatch(segment, batch, this.#host.settings.indexIntervalBytes);
  }

  /** The segment gets no more batches. Both indexes must be loaded. */
  seal(segment: Segment): void {
    sealTimes(segment);
    segment.isIndexDirty = true;
    this.settle(segment);
  }

  /** What an image says of the indexes is up to date. */
  settle(segment: Segment): void {
    const { checksum } = this.#deps;
    segment.indexCheck = segment.index?.check(checksum) ?? segment.indexCheck;
    segment.timesCheck = segment.times?.check(checksum) ?? segment.timesCheck;
  }

  /** The offset index. Rejects with STORAGE_ERROR when it must be made anew and the log itself is damaged. */
  async load(segment: Segment): Promise<OffsetIndex> {
    const loaded = await this.#load(segment);
    if (loaded !== undefined) return loaded;
    await this.rebuild(segment);
    return present(segment.index, "index");
  }

  /** Both indexes. */
  async loadTimes(segment: Segment): Promise<TimeIndex> {
    await this.load(segment);
    const loaded = await this.#loadTimes(segment);
    if (loaded !== undefined) return loaded;
    await this.rebuild(segment);
    return present(segment.times, "time index");
  }

  /** Undefined: it has to be made anew. */
  async #load(segment: Segment): Promise<OffsetIndex | undefined> {
    segment.isIndexUsed = true;
    if (segment.index !== undefined) return segment.index;
    const { cuts, indexCheck: check } = segment;
    const found = await this.#read(segment, { suffix: INDEX_SUFFIX, entryBytes: INDEX_ENTRY_BYTES, check });
    // Another reader may have been faster, and the writer may have added to its index since.
    if (segment.index !== undefined) return segment.index;
    const loaded = found && segment.cuts === cuts ? OffsetIndex.decode(found.bytes, { ...found, check }) : undefined;
    if (loaded === undefined) return undefined;
    segment.index = loaded;
    segment.isIndexDirty ||= loaded.savedCount < 0;
    segment.bytesSinceIndexEntry = segment.sizeBytes - (loaded.last?.position ?? 0);
    return loaded;
  }

  async #loadTimes(segment: Segment): Promise<TimeIndex | undefined> {
    if (segment.times !== undefined) return segment.times;
    const { cuts, timesCheck: check } = segment;
    const found = await this.#read(segment, { suffix: TIME_INDEX_SUFFIX, entryBytes: TIME_INDEX_ENTRY_BYTES, check });
    if (segment.times !== undefined) return segment.times;
    const loaded = found && segment.cuts === cuts ? TimeIndex.decode(found.bytes, { ...found, check }) : undefined;
    if (loaded === undefined) return undefined;
    segment.times = loaded;
    segment.isIndexDirty ||= loaded.savedCount < 0;
    return loaded;
  }

  /** The bytes that the check speaks of; undefined: the file does not have them. No file is opened for none. */
  async #read(
    segment: Segment,
    file: { readonly suffix: string; readonly entryBytes: number; readonly check: IndexCheck },
  ): Promise<{ readonly bytes: Uint8Array; readonly isWholeFile: boolean } | undefined> {
    const { check } = file;
    if (check.entries === 0) return { bytes: EMPTY_BYTES, isWholeFile: true };
    const path = segment.path + file.suffix;
    const bytes = new Uint8Array(check.entries * file.entryBytes);
    try {
      const [length, size] = await withFile(this.#deps.files, { path, mode: "read" }, async (handle) => [
        await handle.read(0, bytes),
        await handle.size(),
      ]);
      const isRight = length === bytes.length && (mutant("S-15") || this.#deps.checksum.crc32c(bytes) === check.crc);
      return isRight ? { bytes, isWholeFile: size === length } : undefined;
    } catch (thrown) {
      if (isUnreadable(thrown)) return undefined;
      throw thrown;
    }
  }

  /** Makes both anew from the log. What is in memory stays until the new ones are whole. */
  async rebuild(segment: Segment): Promise<void> {
    const { cuts } = segment;
    const made = emptyRange(segment.base);
    let position = 0;
    while (position < segment.sizeBytes) {
      const end = await scanSegment(this.#deps, segment, {
        from: position,
        visit: (batch) => this.#noteScanned(made, batch),
      });
      if (segment.cuts !== cuts) throw storageError(`${segment.path}${LOG_SUFFIX} was cut meanwhile`);
      if (end.kind !== "end")
        throw storageError(`${segment.path}${LOG_SUFFIX}: ${end.reason} at position ${end.position}`);
      position = end.position;
    }
    if (!this.#host.isActive(segment)) sealTimes(made);
    adopt(segment, made);
  }

  #noteScanned(range: IndexedRange, batch: ScannedBatch): boolean {
    const maxTimestamp = maxTimestampAt(batch.bytes, batch.at);
    const hasRecords = recordCountAt(batch.bytes, batch.at) > 0;
    noteBatch(range, { ...batch, maxTimestamp, hasRecords }, this.#host.settings.indexIntervalBytes);
    return true;
  }

  /**
   * S-14: what is known of the segment is of the batches below `offset`, which must be the end of one. Gives the position there; undefined: no batch
   * ends there. The bytes behind need not be whole, nor need they be in the file.
   */
  async cutTo(segment: Segment, offset: number): Promise<number | undefined> {
    const range = await this.#rangeForCut(segment);
    const from = forgetFrom(range, offset - segment.base);
    const cutAt = await this.#noteUpTo(segment, { range, from, offset });
    if (cutAt !== undefined || from === 0) {
      if (cutAt !== undefined) adopt(segment, range);
      return cutAt;
    }
    const anew = emptyRange(segment.base);
    const found = await this.#noteUpTo(segment, { range: anew, from: 0, offset });
    if (found !== undefined) adopt(segment, anew);
    return found;
  }

  async #rangeForCut(segment: Segment): Promise<IndexedRange> {
    const index = await this.#load(segment);
    const times = await this.#loadTimes(segment);
    if (index === undefined || times === undefined) return emptyRange(segment.base);
    return { ...emptyRange(segment.base), index, times, firstTimestamp: segment.firstTimestamp };
  }

  async #noteUpTo(
    segment: Segment,
    { range, from, offset }: { readonly range: IndexedRange; readonly from: number; readonly offset: number },
  ): Promise<number | undefined> {
    let position = from;
    let reached = from === 0 ? segment.base : -1;
    await scanSegment(this.#deps, segment, {
      from,
      visit: (batch) => {
        if (batch.base >= offset) return false;
        this.#noteScanned(range, batch);
        position = batch.position + batch.sizeBytes;
        reached = batch.last + 1;
        return reached < offset;
      },
    });
    return reached === offset ? position : undefined;
  }

  /**
   * S-24: an offset, at or below the first of the segment that has a record of `timestamp` or newer, to look from. At most the bytes between two
   * entries lie between the two, whatever the order of the timestamps: every batch up to the last entry of the offset index below the first time
   * entry that is new enough had passed when the time entry before was the newest.
   */
  async offsetToLookFrom(segment: Segment, timestamp: number): Promise<number> {
    const times = await this.loadTimes(segment);
    const index = present(segment.index, "index");
    const next = times.countBefore(timestamp);
    if (next === times.count) return segment.base + (index.last?.relativeLast ?? 0);
    const { relativeLast } = times.at(next);
    return segment.base + (mutant("S-24") ? relativeLast : index.lastBefore(relativeLast));
  }

  /** Writes and syncs the files of the indexes that are ahead of them. True when one was made: its directory has to be synced. */
  async save(segment: Segment): Promise<boolean> {
    if (!segment.isIndexDirty) return false;
    segment.isIndexDirty = false;
    this.settle(segment);
    let isMade = false;
    const save = async (): Promise<void> => {
      for (const file of filesOf(segment)) if (await this.#saveFile(segment, file)) isMade = true;
    };
    await orMark(save(), () => {
      segment.isIndexDirty = true;
    });
    return isMade;
  }

  /** Reads the files of its indexes; the next checkpoint writes again what is not as it should be. True: something was not. */
  async refresh(segment: Segment): Promise<boolean> {
    const { index, times, indexCheck, timesCheck } = segment;
    const offsets = { suffix: INDEX_SUFFIX, entryBytes: INDEX_ENTRY_BYTES, entries: index, check: indexCheck };
    const byTime = { suffix: TIME_INDEX_SUFFIX, entryBytes: TIME_INDEX_ENTRY_BYTES, entries: times, check: timesCheck };
    let isRight = true;
    for (const { entries, ...file } of [offsets, byTime]) {
      // The next checkpoint writes it whole in any case, or one is just doing it.
      if (entries !== undefined && (entries.savedCount < 0 || entries.isSaving)) continue;
      const check = entries?.savedCheck(this.#deps.checksum) ?? file.check;
      if ((await this.#read(segment, { ...file, check })) !== undefined) continue;
      isRight = false;
      if (entries !== undefined) entries.savedCount = -1;
      else await this.rebuild(segment);
      segment.isIndexDirty = true;
    }
    return !isRight;
  }

  /** What the files of its indexes hold. */
  encoded(segment: Segment): readonly FileContent[] {
    return filesOf(segment).map(({ suffix, entries }) => ({ suffix, bytes: entries.encode() }));
  }

  /** Only what is not in the file yet. One without an entry is not worth a sync: nothing is looked for in it. */
  async #saveFile(segment: Segment, { suffix, entryBytes, entries }: IndexFile): Promise<boolean> {
    const { files } = this.#deps;
    const path = segment.path + suffix;
    const { savedCount, count } = entries;
    if (savedCount === count) return false;
    const from = Math.max(savedCount, 0);
    const bytes = entries.encode(from);
    // Before the write: a cut that runs beside it drops some of them again.
    entries.savedCount = count;
    entries.isSaving = true;
    const write = (handle: FileHandle): Promise<void> => writeEnd(handle, from * entryBytes, bytes);
    const written = count === 0 ? unlinkIfThere(files, path) : withFile(files, { path, mode: "open-or-create" }, write);
    try {
      await orMark(written, () => {
        entries.savedCount = -1;
      });
    } finally {
      entries.isSaving = false;
    }
    return count > 0 && savedCount <= 0;
  }

  /** Forgets the indexes of old segments that nobody has used since the last call; their files have them. */
  forgetIdle(segments: readonly Segment[]): void {
    for (const segment of segments.slice(0, -1)) {
      if (!segment.isIndexUsed && !segment.isIndexDirty) {
        segment.index = undefined;
        segment.times = undefined;
      }
      segment.isIndexUsed = false;
    }
  }
}

function adopt(segment: Segment, range: IndexedRange): void {
  segment.index = range.index;
  segment.times = range.times;
  segment.bytesSinceIndexEntry = range.bytesSinceIndexEntry;
  segment.firstTimestamp = range.firstTimestamp;
  segment.maxTimestamp = range.maxTimestamp;
  segment.newestTimestamp = range.newestTimestamp;
  segment.newestRelative = range.newestRelative;
  segment.isIndexDirty = true;
}
