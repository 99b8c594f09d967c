// Reads and walks of one segment, checked against its identity (D-16): nothing that is read from a file is served before the chain proves that it is what
// was written there.
import { mutant } from "../base/mutant.ts";
import { batchSizeAt } from "../model/record-batch.ts";
import type { ScannedBatch } from "./batch-scan.ts";
import { isUnreadable, storageError } from "./faults.ts";
import type { ChainPoint } from "./identity-rows.ts";
import { LOG_SUFFIX } from "./paths.ts";
import { READ_BUFFER_BYTES } from "./read-buffers.ts";
import type { Segment } from "./segment.ts";
import { pointBehind } from "./identity-walk.ts";
import type { SegmentIdentities } from "./segment-identity.ts";
import { scanSegment, type SegmentFileDeps } from "./segment-indexes.ts";
import { collectBatches, emptyRead, skipTo } from "./segment-read.ts";
import type { EpochEntry, ReadOptions, ReadResult } from "./types.ts";

/** What lies before the last batch of a part that can be proven, and more. */
const LOOK_BYTES = 32 * 1024;

/** Thousands of logs are looked at in a start; a read or the scrub looks at the rest. */
const VERIFIED_END_BYTES_MAX = 32 * 1024;

export interface SegmentReadOptions extends ReadOptions {
  /** What the batches must be of. */
  readonly epochs: readonly EpochEntry[];
}

export class SegmentReader {
  readonly #deps: SegmentFileDeps;
  readonly #identities: SegmentIdentities;

  constructor(deps: SegmentFileDeps, identities: SegmentIdentities) {
    this.#deps = deps;
    this.#identities = identities;
  }

  /** Whole batches, from the one that holds `offset` on. */
  read(segment: Segment, offset: number, options: SegmentReadOptions): Promise<ReadResult> {
    return this.#orRebuilt(segment, () => this.#read(segment, offset, options));
  }

  async #read(segment: Segment, offset: number, options: SegmentReadOptions): Promise<ReadResult> {
    const path = segment.path + LOG_SUFFIX;
    const limits = { wantedBytes: options.maxBytes, maxBytes: READ_BUFFER_BYTES };
    const span = await this.#identities.span(segment, offset - segment.base, limits);
    const partBytes = (span.ends[0] as ChainPoint).position - span.start.position;
    const isLong = partBytes > options.maxBytes + LOOK_BYTES;
    if (isLong && !options.atLeastOne && (await this.#isTooLong(segment, span.start.position, { offset, ...options })))
      return emptyRead(offset);
    const end = (span.ends.at(-1) as ChainPoint).position;
    const { buffers, handles, checksum } = this.#deps;
    const { bytes, release } = buffers.take(end - span.start.position);
    let isGiven = false;
    try {
      const length = await handles.use(path, "write", (handle) => handle.read(span.start.position, bytes));
      const turn = options.turn?.();
      if (turn !== undefined) await turn;
      const from = { offset, options, epochs: options.epochs, checksum, path, span };
      const result = collectBatches(bytes.subarray(0, length), from);
      isGiven = result.chunks[0]?.buffer === bytes.buffer;
      return isGiven ? { ...result, release } : result;
    } finally {
      if (!isGiven) release();
    }
  }

  /** By its header alone: whoever has no room for a long batch need not have it read. Nothing is served for it. */
  async #isTooLong(
    segment: Segment,
    position: number,
    of: { readonly offset: number; readonly maxBytes: number },
  ): Promise<boolean> {
    const buffer = new Uint8Array(LOOK_BYTES);
    const length = await this.#deps.handles.use(segment.path + LOG_SUFFIX, "write", (handle) =>
      handle.read(position, buffer),
    );
    const at = skipTo(buffer, length, of.offset);
    return at !== undefined && batchSizeAt(buffer, at) > of.maxBytes;
  }

  /** Visits the batches from the one that holds `offset` on until a visit returns false: then to false. What it saw counts once this has resolved. */
  async walk(segment: Segment, offset: number, visit: (batch: ScannedBatch) => boolean): Promise<boolean> {
    let seenTo = offset;
    let isDone = false;
    const visitOnce = (batch: ScannedBatch): boolean => {
      if (isDone || batch.last < seenTo) return !isDone;
      seenTo = batch.last + 1;
      isDone = !visit(batch);
      return !isDone;
    };
    await this.#orRebuilt(segment, () => this.#walk(segment, offset, visitOnce));
    return !isDone;
  }

  /** Goes on behind a visit that returned false, as far as it takes to prove what was seen. */
  async #walk(segment: Segment, offset: number, visit: (batch: ScannedBatch) => boolean): Promise<void> {
    const path = segment.path + LOG_SUFFIX;
    const { start, ends } = await this.#identities.path(segment, offset - segment.base);
    let point = start;
    let end = ends.next().value;
    let isWrong = false;
    const scanned = await scanSegment(this.#deps, segment, {
      from: start.position,
      visit: (batch) => {
        point = pointBehind(point, batch);
        const isWanted = visit(batch);
        if (end === undefined || point.position < end.position) return end !== undefined;
        isWrong = point.position !== end.position || !(point.chain === end.chain || mutant("M22"));
        end = ends.next().value;
        return isWanted && !isWrong;
      },
    });
    if (isWrong)
      throw storageError(
        `${path}: the batches before position ${point.position} are not those that were written there`,
      );
    if (scanned.kind !== "end") throw storageError(`${path}: ${scanned.reason} at position ${scanned.position}`);
  }

  /** Of a start: whether the last part of the segment is what was written, unless that is much to read. Rejects when it is not. */
  async verifyEnd(segment: Segment): Promise<void> {
    const { rows } = await this.#identities.load(segment);
    const last = rows.rowAt(segment.sizeBytes - 1);
    if (segment.sizeBytes - rows.positionAt(last) > VERIFIED_END_BYTES_MAX) return;
    await this.walk(segment, segment.base + rows.relativeEndAt(last), () => true);
  }

  /** What met a cut says nothing (S-16), and rows that come from a file may be wrong where the log is right. */
  async #orRebuilt<T>(segment: Segment, look: () => Promise<T>): Promise<T> {
    for (;;) {
      const { cuts } = segment;
      try {
        return await look();
      } catch (thrown) {
        if (segment.cuts !== cuts) continue;
        segment.isSuspect ||= isUnreadable(thrown);
        if (!this.#identities.isDoubtful(segment)) throw thrown;
        await this.#identities.rebuild(segment);
        segment.isSuspect = false;
        if (mutant("D-16")) return look();
      }
    }
  }
}
