// One partition's log: accepted, written and durable ends over a window of memory and the segment files behind it.
//
//   startOffset <= flushedEnd <= durableEnd <= writtenEnd <= endOffset
//
// Batches in [flushedEnd, endOffset) are pinned in memory; those below may be kept as tail cache. Journal records are pushed in
// the order of the calls; segment work (write, cut, drop) is done by one `flush` at a time and only behind what is durable (D-12).
import { assert } from "../base/assert.ts";
import { concatBytes, EMPTY_BYTES } from "../base/bytes.ts";
import { mutant } from "../base/mutant.ts";
import { OttlaError } from "../model/errors.ts";
import type { LeaderEpoch, LogId, Offset, PartitionIndex, TopicId } from "../model/ids.ts";
import { BatchWindow, HOLD_OVERHEAD_BYTES } from "./batch-window.ts";
import { lastEpoch, openEpoch, raiseEpochsStart, truncateEpochs } from "./epochs.ts";
import { storageError } from "./faults.ts";
import type { LogImage } from "./image.ts";
import type { Credit, JournalEntry, JournalLog } from "./journal.ts";
import { FLAG_OPENS_EPOCH, KIND } from "./journal-record.ts";
import { emptyRead } from "./segment-read.ts";
import type { SegmentState, Segments } from "./segments.ts";
import { findInBatch, type TimestampDeps } from "./timestamps.ts";
import type {
  Damage,
  EpochEntry,
  LogSettings,
  LogSpec,
  ReadOptions,
  ReadResult,
  ReplicaLog,
  TimestampResult,
} from "./types.ts";

/** Batches smaller than this on average are joined into one chunk when there are many of them. */
const SMALL_BATCH_BYTES = 4096;
const CHUNKS_UNJOINED_MAX = 16;

/** What a log needs of its store. */
export interface LogServices extends TimestampDeps {
  /** Set once the disk has failed or the store is being closed: the log takes and gives nothing more. */
  readonly failure: OttlaError | undefined;
  /** Set once the disk has failed: nothing is written any more. */
  readonly hasFailed: boolean;
  push(entry: JournalEntry): void;
  /** Pending while a checkpoint takes its snapshot: truncations, epochs and log starts wait for it. */
  readonly gate: Promise<void> | undefined;
  onPinned(log: ReplicaLogImpl, sizeBytes: number): void;
  onUnpinned(log: ReplicaLogImpl, sizeBytes: number): void;
  /** Bytes of the log that became, or ceased to be, tail cache. */
  onCached(log: ReplicaLogImpl, sizeBytes: number): void;
  requestFlush(log: ReplicaLogImpl): void;
  onDamageMet(log: ReplicaLogImpl, error: unknown): void;
}

/** State of a log where a checkpoint cuts it; `layout` comes once the segments hold everything below `endOffset`. */
export interface LogCapture {
  readonly startOffset: number;
  readonly endOffset: number;
  readonly truncations: number;
  readonly epochs: readonly EpochEntry[];
  layout: readonly SegmentState[] | undefined;
}

export class ReplicaLogImpl implements ReplicaLog, JournalLog {
  readonly logId: LogId;
  readonly spec: LogSpec;
  readonly window: BatchWindow;
  readonly segments: Segments;
  readonly epochs: EpochEntry[];
  readonly #services: LogServices;
  startOffset: Offset;
  endOffset: Offset;
  writtenEnd: Offset;
  durableEnd: Offset;
  truncations: number;
  damage: Damage | undefined;
  highWatermark: Offset;
  /** The DELETE is accepted, or the log was never there. */
  isDeleted = false;
  credit: Credit | undefined;
  /** Exclusive end of what may be read from the segments. */
  #flushedEnd: number;
  /** Bytes of the window from `flushedEnd` on, and below it. */
  #pinnedBytes = 0;
  #cachedBytes = 0;
  /** The segments must be cut here before anything else is written to them. */
  #cut: { readonly to: number; readonly truncations: number; isDurable: boolean } | undefined;
  /** The segments wholly below this may go: a LOG_START that says so is durable. Later ones may not be yet. */
  #dropTo = 0;
  #capture: { readonly state: LogCapture; readonly done: (state: LogCapture | undefined) => void } | undefined;
  #captured: Promise<LogCapture | undefined> | undefined;
  /** Owned by the store's flusher. */
  isFlushQueued = false;
  isFlushWanted = false;
  /** Resolves when the flush under way has ended. */
  flushing: Promise<void> | undefined;
  isEpochsDirty = false;

  constructor(services: LogServices, image: LogImage, segments: Segments) {
    this.#services = services;
    this.logId = image.logId;
    this.spec = image.spec;
    this.segments = segments;
    this.epochs = [...image.epochs];
    this.startOffset = image.startOffset as Offset;
    this.endOffset = image.endOffset as Offset;
    this.writtenEnd = this.endOffset;
    this.durableEnd = this.endOffset;
    this.truncations = image.truncations;
    this.damage = image.damage;
    this.highWatermark = this.startOffset;
    this.#flushedEnd = image.endOffset;
    this.window = new BatchWindow(image.endOffset);
  }

  get topicId(): TopicId {
    return this.spec.topicId;
  }

  get topic(): string {
    return this.spec.topic;
  }

  get partition(): PartitionIndex {
    return this.spec.partition;
  }

  configure(settings: LogSettings): void {
    this.segments.configure(settings);
  }

  noteHighWatermark(offset: Offset): void {
    this.highWatermark = Math.max(this.highWatermark, Math.min(offset, this.endOffset)) as Offset;
  }

  get flushedEnd(): number {
    return this.#flushedEnd;
  }

  get pinnedBytes(): number {
    return this.#pinnedBytes;
  }

  #unusable(): OttlaError | undefined {
    if (this.#services.failure !== undefined) return this.#services.failure;
    if (this.isDeleted) return storageError(`the log of ${this.topic}-${this.partition} was deleted`);
    if (this.damage !== undefined)
      return storageError(`the log of ${this.topic}-${this.partition} is damaged: ${this.damage.reason}`);
    return undefined;
  }

  #checkUsable(): void {
    const error = this.#unusable();
    if (error !== undefined) throw error;
  }

  append(batch: Uint8Array, lastOffset: Offset, epoch: LeaderEpoch): void {
    this.#checkUsable();
    const last = lastEpoch(this.epochs);
    assert(epoch >= last, `append in epoch ${epoch} after ${last}`);
    assert(lastOffset >= this.endOffset, `append that ends at ${lastOffset}, log end ${this.endOffset}`);
    const base = this.endOffset;
    const opens = epoch > last;
    const undoEpochs = opens ? [...this.epochs] : undefined;
    if (opens) this.#openEpoch(epoch, base);
    this.#hold(batch, lastOffset);
    this.#services.push({
      kind: KIND.APPEND,
      flags: opens ? FLAG_OPENS_EPOCH : 0,
      logId: this.logId,
      base,
      last: lastOffset,
      epoch,
      body: batch,
      log: this,
      truncations: this.truncations,
      endOffset: this.endOffset,
      waiter: undefined,
      undoEpochs,
    });
  }

  #openEpoch(epoch: number, start: number): void {
    openEpoch(this.epochs, epoch, start);
    this.isEpochsDirty = true;
  }

  #hold(batch: Uint8Array, lastOffset: number): void {
    this.window.push(batch, lastOffset);
    this.endOffset = (lastOffset + 1) as Offset;
    const heldBytes = batch.byteLength + HOLD_OVERHEAD_BYTES;
    this.#pinnedBytes += heldBytes;
    this.#services.onPinned(this, heldBytes);
  }

  /** What a checkpoint is taking a snapshot of must not be changed but by appends. */
  async #gate(): Promise<void> {
    while (this.#services.gate !== undefined || this.#captured !== undefined)
      await (this.#services.gate ?? this.#captured);
  }

  /** A record of the log's own, without a body. Resolves when durable. */
  #control(kind: number, fields: { readonly base: number; readonly epoch?: number }): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#services.push({
        kind,
        flags: 0,
        logId: this.logId,
        base: fields.base,
        last: fields.base,
        epoch: fields.epoch ?? -1,
        body: EMPTY_BYTES,
        log: this,
        truncations: this.truncations,
        endOffset: this.endOffset,
        waiter: { resolve, reject },
        undoEpochs: undefined,
      });
    });
  }

  async startEpoch(epoch: LeaderEpoch): Promise<void> {
    await this.#gate();
    this.#checkUsable();
    assert(epoch > lastEpoch(this.epochs), `epoch ${epoch} does not rise above ${lastEpoch(this.epochs)}`);
    this.#openEpoch(epoch, this.endOffset);
    await this.#control(KIND.EPOCH, { base: this.endOffset, epoch });
  }

  /** Must not run beside appends of the same log. An offset inside a batch cuts that batch whole. */
  async truncate(toOffset: Offset): Promise<void> {
    this.#checkUsable();
    if (toOffset >= this.endOffset && (this.epochs.at(-1)?.startOffset ?? -1) < toOffset) return;
    assert(toOffset >= this.startOffset, `truncation to ${toOffset}, below the log start ${this.startOffset}`);
    const base = toOffset >= this.endOffset ? this.endOffset : await this.#baseOfBatchAt(toOffset);
    await this.#gate();
    this.#checkUsable();
    this.#dropFrom(base);
    this.truncations++;
    const cut = { to: Math.min(base, this.#cut?.to ?? base), truncations: this.truncations, isDurable: false };
    this.#cut = cut;
    if (!mutant("D-2")) await this.#control(KIND.TRUNCATE, { base });
    cut.isDurable = true;
    this.#services.requestFlush(this);
  }

  #baseOfBatchAt(offset: number): number | Promise<number> {
    const isInMemory = this.window.length > 0 && offset >= this.window.startOffset;
    return isInMemory ? this.window.baseAt(this.window.indexOf(offset)) : this.segments.baseOfBatchAt(offset);
  }

  /** Forgets everything from `end` on, in memory. */
  #dropFrom(end: number): void {
    while (this.window.length > 0 && this.window.endOffset > end) {
      const isPinned = this.window.baseAt(this.window.length - 1) >= this.#flushedEnd;
      const heldBytes = this.window.pop();
      if (isPinned) this.#unpin(heldBytes);
      else this.#cache(-heldBytes);
    }
    if (this.window.length === 0) this.window.reset(end);
    this.endOffset = end as Offset;
    this.writtenEnd = Math.min(this.writtenEnd, end) as Offset;
    this.durableEnd = Math.min(this.durableEnd, end) as Offset;
    this.highWatermark = Math.min(this.highWatermark, end) as Offset;
    this.#flushedEnd = Math.min(this.#flushedEnd, end);
    truncateEpochs(this.epochs, end);
    this.isEpochsDirty = true;
  }

  #unpin(sizeBytes: number): void {
    this.#pinnedBytes -= sizeBytes;
    this.#services.onUnpinned(this, sizeBytes);
  }

  #cache(sizeBytes: number): void {
    this.#cachedBytes += sizeBytes;
    this.#services.onCached(this, sizeBytes);
  }

  async advanceStart(toOffset: Offset): Promise<void> {
    await this.#gate();
    this.#checkUsable();
    if (toOffset <= this.startOffset) return;
    assert(toOffset <= this.endOffset, `log start ${toOffset} above the end ${this.endOffset}`);
    this.startOffset = toOffset;
    raiseEpochsStart(this.epochs, toOffset);
    this.isEpochsDirty = true;
    await this.#control(KIND.LOG_START, { base: toOffset });
    this.#dropTo = Math.max(this.#dropTo, toOffset);
    this.#services.requestFlush(this);
  }

  onWritten(endOffset: number): void {
    this.writtenEnd = Math.max(this.writtenEnd, endOffset) as Offset;
  }

  onDurable(endOffset: number): void {
    this.durableEnd = Math.max(this.durableEnd, endOffset) as Offset;
    this.writtenEnd = Math.max(this.writtenEnd, endOffset) as Offset;
  }

  /** Takes back appends whose journal records were not written: the log ends at `end` with these epochs. */
  refuse(end: number, epochs: readonly EpochEntry[] | undefined): void {
    this.#dropFrom(end);
    if (epochs !== undefined) this.epochs.splice(0, this.epochs.length, ...epochs);
  }

  // ---- segments, one call of `flush` at a time

  /** Brings the segments up to what is durable, as far as a pending checkpoint allows. Rejects with the disk's failure. */
  async flush(): Promise<void> {
    while (!this.isDeleted && this.damage === undefined && !this.#services.hasFailed) {
      if (this.#cut !== undefined) {
        if (!this.#cut.isDurable) break;
        await this.#cutSegments(this.#cut);
        continue;
      }
      const limitOffset = Math.min(this.durableEnd, this.#capture?.state.endOffset ?? this.durableEnd);
      if (this.#flushedEnd >= limitOffset) break;
      const { truncations } = this;
      const isVoid = (): boolean => this.truncations !== truncations || this.isDeleted;
      const heldBytes = await this.segments.append(this.window, { limitOffset, isVoid });
      if (isVoid()) continue;
      this.#flushedEnd = this.segments.endOffset;
      this.#unpin(heldBytes);
      this.#cache(heldBytes);
    }
    this.#finishCapture();
    if (this.#dropTo > 0 && this.#capture === undefined && !this.isDeleted) await this.#dropOldSegments();
  }

  async #cutSegments(cut: { readonly to: number; readonly truncations: number }): Promise<void> {
    await this.segments.cut(cut.to);
    if (this.#cut?.truncations === cut.truncations) this.#cut = undefined;
  }

  async #dropOldSegments(): Promise<void> {
    const dropTo = Math.min(this.#dropTo, this.#flushedEnd);
    this.#dropTo = 0;
    await this.segments.remove(this.segments.dropBelow(dropTo));
  }

  /** Forgets cached batches that end at or below `offset` and returns their bytes. */
  evictThrough(offset: number): void {
    while (this.window.length > 0 && this.window.endAt(0) <= Math.min(offset, this.#flushedEnd))
      this.#cache(-this.window.shift());
  }

  get cachedBytes(): number {
    return this.#cachedBytes;
  }

  // ---- checkpoints

  /** The present state, which is the one at the checkpoint's SEAL; the segments stop there until the layout was taken. */
  capture(): Promise<LogCapture | undefined> {
    this.#captured = new Promise((done) => {
      this.#capture = { state: this.#snapshot(), done };
    });
    return this.#captured;
  }

  #snapshot(): LogCapture {
    const { startOffset, endOffset, truncations } = this;
    return { startOffset, endOffset, truncations, epochs: [...this.epochs], layout: undefined };
  }

  /** The appends before the SEAL were refused: the state at the SEAL is the present one. */
  recapture(): void {
    if (this.#capture !== undefined) this.#capture = { state: this.#snapshot(), done: this.#capture.done };
  }

  #finishCapture(): void {
    const capture = this.#capture;
    if (capture === undefined) return;
    const isReached = this.#cut === undefined && this.#flushedEnd === capture.state.endOffset;
    if (!this.isDeleted && this.damage === undefined && !isReached) return;
    capture.state.layout = this.segments.layout();
    this.#capture = undefined;
    this.#captured = undefined;
    capture.done(this.isDeleted ? undefined : capture.state);
    this.#services.requestFlush(this);
  }

  /** The log is gone: readers and the flusher end, its memory is given back. */
  markDeleted(): void {
    this.isDeleted = true;
    this.#unpin(this.#pinnedBytes);
    this.#cache(-this.#cachedBytes);
    this.window.reset(this.endOffset);
    this.#finishCapture();
  }

  // ---- recovery

  /** Takes a batch found in the journal: it is durable, or the whole recovery is for nothing. */
  replayAppend(batch: Uint8Array, record: { readonly base: number; readonly last: number }): void {
    assert(record.base === this.endOffset, `replay of offset ${record.base} into a log that ends at ${this.endOffset}`);
    const lastOffset = record.last;
    this.#hold(batch, lastOffset);
    this.writtenEnd = this.endOffset;
    this.durableEnd = this.endOffset;
  }

  /** Cuts memory and segments at once. */
  async replayTruncate(toOffset: number): Promise<void> {
    this.#dropFrom(toOffset);
    this.truncations++;
    await this.segments.cut(toOffset);
  }

  // ---- reads

  read(offset: Offset, options: ReadOptions): ReadResult | Promise<ReadResult> {
    const error = this.#unusable() ?? this.#outOfRange(offset);
    if (error !== undefined) return Promise.reject(error);
    const limitOffset = Math.min(options.limitOffset, this.endOffset) as Offset;
    if (offset >= limitOffset) return emptyRead(offset);
    const within = { ...options, limitOffset };
    return offset >= this.window.startOffset ? this.#readWindow(offset, within) : this.#readSegments(offset, within);
  }

  #outOfRange(offset: number): OttlaError | undefined {
    if (offset >= this.startOffset && offset <= this.endOffset) return undefined;
    return new OttlaError("OFFSET_OUT_OF_RANGE", `offset ${offset} is not in ${this.startOffset} to ${this.endOffset}`);
  }

  #readWindow(offset: Offset, options: ReadOptions): ReadResult {
    const { window } = this;
    const chunks: Uint8Array[] = [];
    let sizeBytes = 0;
    let nextOffset: number = offset;
    for (
      let index = window.indexOf(offset);
      index < window.length && window.endAt(index) <= options.limitOffset;
      index++
    ) {
      const batch = window.batchAt(index);
      const isTooLarge = sizeBytes + batch.length > options.maxBytes;
      if (isTooLarge && (chunks.length > 0 || !options.atLeastOne)) break;
      chunks.push(batch);
      sizeBytes += batch.length;
      nextOffset = window.endAt(index);
    }
    const areSmall = chunks.length > CHUNKS_UNJOINED_MAX && sizeBytes < chunks.length * SMALL_BATCH_BYTES;
    return { chunks: areSmall ? [concatBytes(chunks)] : chunks, sizeBytes, nextOffset: nextOffset as Offset };
  }

  async #readSegments(offset: Offset, options: ReadOptions): Promise<ReadResult> {
    for (;;) {
      const { truncations } = this;
      const limitOffset = Math.min(options.limitOffset, this.#flushedEnd) as Offset;
      let result: ReadResult | undefined;
      let failure: unknown;
      try {
        result = await this.segments.read(offset, { ...options, limitOffset });
      } catch (thrown) {
        failure = thrown;
      }
      const error = this.#unusable() ?? this.#outOfRange(offset);
      if (error !== undefined) throw error;
      if (this.truncations === truncations) {
        if (result !== undefined) return result;
        this.damage ??= { reason: String(failure), fromOffset: offset };
        this.#services.onDamageMet(this, failure);
        throw failure instanceof OttlaError
          ? failure
          : storageError(`reading ${this.topic}-${this.partition} failed: ${String(failure)}`, failure);
      }
      // Cut meanwhile: what was read may be bytes of before and after (S-16).
      if (offset >= Math.min(options.limitOffset, this.endOffset)) return emptyRead(offset);
      if (offset >= this.window.startOffset) {
        return this.#readWindow(offset, {
          ...options,
          limitOffset: Math.min(options.limitOffset, this.endOffset) as Offset,
        });
      }
    }
  }

  async findTimestamp(timestamp: number, limitOffset: Offset): Promise<TimestampResult | undefined> {
    this.#checkUsable();
    const limit = Math.min(limitOffset, this.endOffset);
    const query = { timestamp, from: this.startOffset, limit };
    let found: TimestampResult | undefined;
    const visit = (bytes: Uint8Array): boolean => {
      found = findInBatch(bytes, query, this.#services);
      return found === undefined;
    };
    const flushedEnd = this.#flushedEnd;
    if (this.startOffset < flushedEnd) {
      await this.segments.walk(this.startOffset, {
        skip: (segment) => segment.maxTimestamp < timestamp,
        visit: (batch) =>
          batch.base < Math.min(limit, flushedEnd) && visit(batch.bytes.subarray(batch.at, batch.at + batch.sizeBytes)),
      });
    }
    this.#checkUsable();
    const { window } = this;
    for (let index = 0; index < window.length && found === undefined; index++) {
      if (window.endAt(index) > flushedEnd && window.baseAt(index) < limit) visit(window.batchAt(index));
    }
    return found;
  }
}
