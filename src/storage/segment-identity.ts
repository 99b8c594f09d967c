// The identities of the segments of one log (D-16): made from what is appended, kept beside it in sidecars, and what reads, walks and cuts are checked
// against.
//
// What proves a segment is its chain, which stands in the checkpoint's image; the rows of a sidecar only let a part be checked alone. So a sidecar that is
// missing, torn or of another time is no fault: the whole segment is walked then, and the rows count again once the walk ends with the chain. They are
// never made from the log alone.
import { mutant } from "../base/mutant.ts";
import { concatBytes, readU32 } from "../base/bytes.ts";
import type { PartitionIndex, TopicId } from "../model/ids.ts";
import { datasync, isNotFound, isUnreadable, storageError } from "./faults.ts";
import { readWhole, withFile } from "./file-work.ts";
import { chainOver, segmentSeed, UNKNOWN_CHAIN } from "./identity.ts";
import {
  decodeIdentity,
  encodeIdentityHeader,
  encodeIdentityRows,
  IDENTITY_HEADER_BYTES,
  IDENTITY_ROW_BYTES,
  type SegmentOwner,
} from "./identity-file.ts";
import { type ChainPoint, IdentityRows, type ProvenSpan } from "./identity-rows.ts";
import { IdentityWalk, pointBehind } from "./identity-walk.ts";
import { IDENT_SUFFIX, LOG_SUFFIX } from "./paths.ts";
import type { Segment } from "./segment.ts";
import { scanSegment, type SegmentFileDeps } from "./segment-indexes.ts";
import type { LogSettings } from "./types.ts";

/** A row for so many entries of the offset index. */
const INDEX_INTERVALS = 4;
/** A sidecar that ends so far before its segment is written on; one of a shorter segment is not worth a file. */
const LAG_BYTES_MAX = 256 * 1024;
const LAGS_PER_SEGMENT = 4;
/** Longer parts than this are only checked as they are while the rows are not known to be close. */
const SPARSE_BYTES = 1024 * 1024;

/** The rows of one segment, and how far its sidecar has them. */
export interface SegmentIdentity {
  readonly rows: IdentityRows;
  /** A row at every interval. */
  readonly isDense: boolean;
  /** Rows from a sidecar may be of another time of the segment than its chain. */
  readonly isFromFile: boolean;
  savedRows: number;
  /** Checksum of the last saved row, or of the header. */
  savedCheck: number;
  /** Looked at since the last checkpoint. */
  isUsed: boolean;
}

/** Where a batch lies in its segment. */
export interface PlacedBatch {
  readonly position: number;
  readonly last: number;
  readonly sizeBytes: number;
}

/** Where a segment is to end. */
export interface CutPoint extends ChainPoint {
  readonly identity: SegmentIdentity;
}

/** The log whose segments they are. */
export interface IdentitiesHost {
  readonly topicId: TopicId;
  readonly partition: PartitionIndex;
  readonly settings: LogSettings;
}

const NOT_SAVED = { savedRows: 0, savedCheck: 0, isUsed: true };

export class SegmentIdentities {
  readonly #deps: SegmentFileDeps;
  readonly #log: IdentitiesHost;
  /** Whole walks under way. */
  #rebuilds: Map<Segment, Promise<void>> | undefined;

  constructor(deps: SegmentFileDeps, log: IdentitiesHost) {
    this.#deps = deps;
    this.#log = log;
  }

  #seed(segment: Segment): number {
    return segmentSeed(this.#log.topicId, this.#log.partition, segment.base);
  }

  #ownerOf({ base }: Segment): SegmentOwner {
    const { topicId, partition } = this.#log;
    return { topicId, partition, base };
  }

  get #intervalBytes(): number {
    return this.#log.settings.indexIntervalBytes * INDEX_INTERVALS;
  }

  get #lagBytes(): number {
    return Math.min(LAG_BYTES_MAX, this.#log.settings.segmentBytes / LAGS_PER_SEGMENT);
  }

  /** Of a segment that has no batch yet. */
  start(segment: Segment): void {
    segment.chain = this.#seed(segment);
    segment.identity = { rows: new IdentityRows(segment.chain), isDense: true, isFromFile: false, ...NOT_SAVED };
  }

  /** The next batch of the segment, as it was accepted. */
  note(segment: Segment, { bytes, at }: { readonly bytes: Uint8Array; readonly at: number }, batch: PlacedBatch): void {
    if (segment.chain === UNKNOWN_CHAIN) return;
    segment.chain = chainOver(segment.chain, bytes, at);
    const { identity } = segment;
    if (identity === undefined) return;
    identity.isUsed = true;
    const position = batch.position + batch.sizeBytes;
    if (position - identity.rows.lastPosition <= this.#intervalBytes) return;
    identity.rows.add(batch.last + 1 - segment.base, { position, chain: segment.chain });
  }

  /** The rows of the segment, as far as they are known: row 0 at least. */
  async load(segment: Segment): Promise<SegmentIdentity> {
    if (segment.identity === undefined) {
      const found = segment.sizeBytes <= this.#intervalBytes ? undefined : await this.#read(segment);
      segment.identity ??= found ?? this.#unwritten(segment);
    }
    segment.identity.isUsed = true;
    return segment.identity;
  }

  #unwritten(segment: Segment): SegmentIdentity {
    const isDense = segment.sizeBytes <= this.#intervalBytes;
    return { rows: new IdentityRows(this.#seed(segment)), isDense, isFromFile: false, ...NOT_SAVED };
  }

  async #read(segment: Segment): Promise<SegmentIdentity | undefined> {
    let bytes: Uint8Array;
    try {
      bytes = await withFile(this.#deps.files, { path: segment.path + IDENT_SUFFIX, mode: "read" }, readWhole);
    } catch (thrown) {
      if (isNotFound(thrown) || isUnreadable(thrown)) return undefined;
      throw thrown;
    }
    const found = decodeIdentity(bytes, this.#ownerOf(segment));
    if (typeof found === "string") return undefined;
    const { rows } = found;
    const end = rows.rowAt(segment.sizeBytes);
    if (rows.positionAt(end) === segment.sizeBytes && rows.chainAt(end) !== segment.chain) return undefined;
    if (end === rows.count - 1)
      return { rows, isDense: false, isFromFile: true, savedRows: rows.count, savedCheck: found.check, isUsed: true };
    // What the file says of more than there is was never part of a checkpoint.
    return { rows: rows.copyTo(end), isDense: false, isFromFile: true, ...NOT_SAVED };
  }

  /** Where the segment ends, as it must be. Rejects when nobody knows. */
  #end(segment: Segment): ChainPoint {
    const { chain, sizeBytes: position, path } = segment;
    if (chain === UNKNOWN_CHAIN) throw storageError(`${path}${LOG_SUFFIX}: what was written to it is not known`);
    return { position, chain };
  }

  /** A part that holds the batch of this offset, and all that is wanted behind it if it is not too much. */
  async span(
    segment: Segment,
    relative: number,
    limits: { readonly wantedBytes: number; readonly maxBytes: number },
  ): Promise<ProvenSpan> {
    const rows = await this.#rowsFor(segment, relative);
    return rows.span(relative, { ...limits, end: this.#end(segment) });
  }

  /** Where a walk to the batch of this offset starts, and what it must find behind that. */
  async path(
    segment: Segment,
    relative: number,
  ): Promise<{ readonly start: ChainPoint; readonly ends: Iterator<ChainPoint, undefined> }> {
    const rows = await this.#rowsFor(segment, relative);
    const row = rows.rowBefore(relative);
    return { start: rows.point(row), ends: rows.pointsBehind(row, this.#end(segment)) };
  }

  /** Rows between which not too much lies, where this offset is. */
  async #rowsFor(segment: Segment, relative: number): Promise<IdentityRows> {
    const { rows, isDense } = await this.load(segment);
    if (isDense) return rows;
    const { start, ends } = rows.span(relative, { wantedBytes: 0, maxBytes: 0, end: this.#end(segment) });
    if ((ends[0] as ChainPoint).position - start.position <= SPARSE_BYTES) return rows;
    await this.rebuild(segment);
    return (await this.load(segment)).rows;
  }

  /** Reads the whole segment, once for all who ask meanwhile. Rejects with STORAGE_ERROR when it is not what was written. */
  async rebuild(segment: Segment): Promise<void> {
    this.#rebuilds ??= new Map();
    const rebuilds = this.#rebuilds;
    const underWay = rebuilds.get(segment) ?? this.#rebuild(segment).finally(() => rebuilds.delete(segment));
    rebuilds.set(segment, underWay);
    await underWay;
  }

  async #rebuild(segment: Segment): Promise<void> {
    const { identity } = segment;
    const walk = this.begin(segment);
    const scanned = await scanSegment(this.#deps, segment, { from: 0, visit: (batch) => walk.take(batch) });
    // Cut meanwhile: says nothing.
    if (segment.identity !== identity) return;
    if (scanned.kind !== "end" && !mutant("D-16"))
      throw storageError(`${segment.path}${LOG_SUFFIX}: ${scanned.reason} at position ${scanned.position}`);
    if (!this.isProven(segment, walk))
      throw storageError(`${segment.path}${LOG_SUFFIX}: its batches are not those that were written to it`);
    segment.identity = { rows: walk.rows, isDense: true, isFromFile: false, ...NOT_SAVED };
  }

  /** A walk over all that the segment holds now. */
  begin(segment: Segment): IdentityWalk {
    const seed = this.#seed(segment);
    return new IdentityWalk({ seed, base: segment.base, end: this.#end(segment), intervalBytes: this.#intervalBytes });
  }

  /** The walk has come to its end, and found what was written. */
  isProven(segment: Segment, walk: IdentityWalk): boolean {
    if (mutant("D-16") && segment.sizeBytes === walk.end.position) segment.chain = walk.chain;
    return walk.isProven || mutant("D-16");
  }

  /** The sidecar tells what it was written for; one that is not due is not missed. */
  async hasSidecar(segment: Segment): Promise<boolean> {
    const { identity, cuts } = segment;
    const isDue = identity === undefined ? segment.sizeBytes >= this.#lagBytes : identity.savedRows > 0;
    if (!isDue) return true;
    const found = await this.#read(segment);
    if (segment.cuts !== cuts || segment.identity !== identity) return true;
    if (found === undefined) return false;
    return identity === undefined
      ? segment.sizeBytes - found.rows.lastPosition < this.#lagBytes
      : found.rows.count >= identity.savedRows;
  }

  /** The next checkpoint writes the whole sidecar again, from rows that are proven. */
  makeAnew(segment: Segment, { rows, end }: IdentityWalk): void {
    if (segment.identity?.isFromFile === false) segment.identity.savedRows = 0;
    else if (segment.sizeBytes === end.position)
      segment.identity = { rows, isDense: true, isFromFile: false, ...NOT_SAVED };
  }

  /** The rows may be wrong and the segment right: a rebuild tells. */
  isDoubtful(segment: Segment): boolean {
    return segment.chain !== UNKNOWN_CHAIN && (segment.identity?.isFromFile === true || mutant("D-16"));
  }

  /**
   * Where the batch that begins at `offset` starts, or where the segment ends there; undefined: nowhere. Only the batches below need be whole unless
   * `isWhole`: then what is left is proven to be what was written.
   */
  async pointToCut(
    segment: Segment,
    offset: number,
    { isWhole }: { readonly isWhole: boolean },
  ): Promise<CutPoint | undefined> {
    let found = await this.#pointAt(segment, offset, isWhole);
    if (isWhole && !found.isProven && this.isDoubtful(segment)) {
      await this.rebuild(segment);
      found = await this.#pointAt(segment, offset, isWhole);
    }
    if (!isWhole && found.point === undefined && found.identity.isFromFile) {
      // Of another time, perhaps: no sync is spent on the sidecar of the last segment. What lies behind the cut may not be whole, so no rebuild can tell.
      segment.identity = this.#unwritten(segment);
      found = await this.#pointAt(segment, offset, isWhole);
    }
    const { identity, row, point } = found;
    if (point === undefined) return undefined;
    if (isWhole && !found.isProven && !mutant("M22"))
      throw storageError(`${segment.path}${LOG_SUFFIX}: its batches are not those that were written to it`);
    const { isDense, isFromFile } = identity;
    return { ...point, identity: { rows: identity.rows.copyTo(row), isDense, isFromFile, ...NOT_SAVED } };
  }

  /** The point at which the batches below `offset` end; undefined: none ends there. Proven: what was read is what was written. */
  async #pointAt(
    segment: Segment,
    offset: number,
    isWhole: boolean,
  ): Promise<{ identity: SegmentIdentity; row: number; point: ChainPoint | undefined; isProven: boolean }> {
    const identity = await this.load(segment);
    const { rows } = identity;
    const row = rows.rowBefore(offset - segment.base);
    let read = rows.point(row);
    const next = row + 1 < rows.count ? rows.point(row + 1) : { position: segment.sizeBytes, chain: segment.chain };
    let point = read;
    let reached = segment.base + rows.relativeEndAt(row);
    await scanSegment(this.#deps, segment, {
      from: read.position,
      visit: (batch) => {
        read = pointBehind(read, batch);
        if (batch.base < offset) {
          point = read;
          reached = batch.last + 1;
        }
        return isWhole ? read.position < next.position : reached < offset;
      },
    });
    const isProven = read.position === next.position && read.chain === next.chain;
    return { identity, row, point: reached === offset ? point : undefined, isProven };
  }

  /**
   * Writes the sidecar on when it lags far enough, or when the segment is closed and has one. True: the directory has to be synced. A crash may tear it:
   * no sync is spent on it before the segment is closed.
   */
  async save(
    segment: Segment,
    { isClosed, endOffset }: { readonly isClosed: boolean; readonly endOffset: number },
  ): Promise<boolean> {
    const { identity } = segment;
    if (identity === undefined || segment.chain === UNKNOWN_CHAIN) return false;
    const { rows } = identity;
    const savedPosition = identity.savedRows === 0 ? 0 : rows.positionAt(identity.savedRows - 1);
    const lagBytes = segment.sizeBytes - savedPosition;
    const isDue = lagBytes >= this.#lagBytes || (isClosed && lagBytes > 0 && identity.savedRows > 0);
    if (!isDue) return false;
    this.#close(segment, rows, endOffset);
    const isNew = identity.savedRows === 0;
    const header = isNew ? encodeIdentityHeader(this.#ownerOf(segment)) : undefined;
    const fromRow = Math.max(identity.savedRows, 1);
    const { bytes, check } = encodeIdentityRows(rows, {
      fromRow,
      check: header === undefined ? identity.savedCheck : checkOf(header),
    });
    const savedRows = rows.count;
    const position = header === undefined ? IDENTITY_HEADER_BYTES + (fromRow - 1) * IDENTITY_ROW_BYTES : 0;
    const content = header === undefined ? bytes : concatBytes([header, bytes]);
    await withFile(this.#deps.files, { path: segment.path + IDENT_SUFFIX, mode: "open-or-create" }, async (handle) => {
      await handle.write(position, [content]);
      await handle.truncate(position + content.length);
      if (isClosed) await datasync(handle);
    });
    if (segment.identity === identity) {
      identity.savedRows = savedRows;
      identity.savedCheck = check;
    }
    return isNew;
  }

  /** The whole sidecar of a segment that is complete. */
  encoded(segment: Segment, endOffset: number): Uint8Array {
    const rows = segment.identity?.rows ?? new IdentityRows(this.#seed(segment));
    this.#close(segment, rows, endOffset);
    const header = encodeIdentityHeader(this.#ownerOf(segment));
    return concatBytes([header, encodeIdentityRows(rows, { fromRow: 1, check: checkOf(header) }).bytes]);
  }

  /** So that the file tells all of the segment. */
  #close(segment: Segment, rows: IdentityRows, endOffset: number): void {
    const { sizeBytes: position, chain } = segment;
    if (rows.lastPosition < position) rows.add(endOffset - segment.base, { position, chain });
  }

  /** Forgets the rows that nobody has used since the last call: the chain is enough to have them again. */
  forgetIdle(segments: readonly Segment[]): void {
    for (const segment of segments) {
      const { identity } = segment;
      if (identity === undefined) continue;
      if (!identity.isUsed) segment.identity = undefined;
      identity.isUsed = false;
    }
  }
}

/** The running checksum of a sidecar without rows. */
const checkOf = (header: Uint8Array): number => readU32(header, 8);

/** In one turn, before anything of the file goes: who reads meanwhile looks again when `cuts` has changed. */
export function cutAt(segment: Segment, { position, chain, identity }: CutPoint): void {
  segment.cuts++;
  segment.sizeBytes = position;
  segment.chain = chain;
  segment.identity = identity;
}
