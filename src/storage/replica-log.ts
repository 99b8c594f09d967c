// size: one class; its parts that stand alone have files of their own.
// One partition's log: accepted, written and durable ends over a window of memory and the segment files behind it.
//
//   startOffset <= flushedEnd <= durableEnd <= writtenEnd <= endOffset
//
// Batches in [flushedEnd, endOffset) are pinned in memory; those below may be kept as tail cache. Journal records are pushed in
// the order of the calls; segment work (write, cut, drop) is done by one `flush` at a time and only behind what is durable (D-12).
import { failpoint } from "../base/failpoint.ts";
import { assert } from "../base/assert.ts";
import { EMPTY_BYTES } from "../base/bytes.ts";
import { mutant } from "../base/mutant.ts";
import { OttlaError } from "../model/errors.ts";
import type { LeaderEpoch, LogId, Offset, PartitionIndex, TopicId } from "../model/ids.ts";
import { ProducerTable } from "../model/producer-table.ts";
import { RUN_BYTES_MAX, splitRun } from "./batch-run.ts";
import { epochBefore, lastEpoch, openEpoch, raiseEpochsStart, truncateEpochs } from "./epochs.ts";
import { isPassing, storageError } from "./faults.ts";
import { HeldBatches, type MemoryBudgets } from "./held-batches.ts";
import { LogHighWatermark, type RisingLog } from "./high-watermark.ts";
import type { LogCapture, LogImage } from "./image.ts";
import type { Credit, JournalEntry, JournalLog } from "./journal.ts";
import { FLAG_OPENS_EPOCH, KIND } from "./journal-record.ts";
import { ProducerImages } from "./producer-images.ts";
import { emptyRead } from "./segment-read.ts";
import type { Segments } from "./segments.ts";
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

/** What a log needs of its store. */
export interface LogServices extends TimestampDeps, MemoryBudgets<ReplicaLogImpl> {
  /** Set once the disk has failed or the store is being closed: the log takes and gives nothing more. */
  readonly failure: OttlaError | undefined;
  /** Set once the disk has failed: nothing is written any more. */
  readonly hasFailed: boolean;
  push(entry: JournalEntry): void;
  /** Pending while a checkpoint takes its snapshot: truncations, epochs and log starts wait for it. */
  readonly gate: Promise<void> | undefined;
  requestFlush(log: ReplicaLogImpl): void;
  onDamageMet(log: ReplicaLogImpl, damage: Damage): void;
  onHighWatermarkRisen(log: ReplicaLogImpl): void;
}

const damageError = (log: ReplicaLog, reason: string): OttlaError =>
  storageError(`the log of ${log.topic}-${log.partition} is damaged: ${reason}`);

export class ReplicaLogImpl implements ReplicaLog, JournalLog, RisingLog {
  readonly logId: LogId;
  readonly spec: LogSpec;
  readonly held: HeldBatches<ReplicaLogImpl>;
  readonly segments: Segments;
  readonly epochs: EpochEntry[];
  readonly #services: LogServices;
  startOffset: Offset;
  endOffset: Offset;
  writtenEnd: Offset;
  durableEnd: Offset;
  truncations: number;
  damage: Damage | undefined;
  readonly mark: LogHighWatermark;
  /** Made anew by a recovery only. */
  producers: ProducerTable;
  readonly images: ProducerImages;
  /** The DELETE is accepted, or the log was never there. */
  isDeleted = false;
  credit: Credit | undefined;
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
  /** What is pinned cannot go to the segments: they are damaged. */
  #isUnflushable = false;

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
    this.mark = new LogHighWatermark(this.startOffset, image.highWatermark);
    this.producers = new ProducerTable(this.startOffset);
    this.images = new ProducerImages(image.producerImages);
    this.held = new HeldBatches<ReplicaLogImpl>(services, this, image.endOffset);
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

  get highWatermark(): Offset {
    return this.mark.offset;
  }

  noteHighWatermark(offset: Offset): void {
    if (this.mark.raise(Math.min(offset, this.endOffset))) this.#services.onHighWatermarkRisen(this);
  }

  #unusable(): OttlaError | undefined {
    if (this.#services.failure !== undefined) return this.#services.failure;
    if (this.isDeleted) return storageError(`the log of ${this.topic}-${this.partition} was deleted`);
    if (this.damage !== undefined) return damageError(this, this.damage.reason);
    return undefined;
  }

  /**
   * D-17: the log takes and gives nothing from now on. What it holds in memory still goes to the segments: it may be all that there is, and must not
   * go with the journal.
   */
  markDamaged(thrown: unknown, fromOffset: number | undefined): OttlaError {
    if (mutant("D-17")) return damageError(this, String(thrown));
    if (this.damage === undefined && !this.isDeleted) {
      const reason = thrown instanceof Error ? thrown.message : String(thrown);
      this.damage = { reason, fromOffset: fromOffset as Offset | undefined };
      this.held.evictThrough(this.endOffset);
      this.#services.onDamageMet(this, this.damage);
    }
    return damageError(this, this.damage?.reason ?? String(thrown));
  }

  /** The damage is where the flush must write, or read: what is pinned is given up with the log. */
  markUnflushable(thrown: unknown): void {
    this.#isUnflushable = true;
    this.markDamaged(thrown, this.segments.all.at(-1)?.base);
    this.held.clear();
    this.#finishCapture();
  }

  #checkUsable(): void {
    const error = this.#unusable();
    if (error !== undefined) throw error;
  }

  append(batches: Uint8Array, lastOffset: Offset, epoch: LeaderEpoch): void {
    this.#checkUsable();
    const last = lastEpoch(this.epochs);
    assert(epoch >= last, `append in epoch ${epoch} after ${last}`);
    assert(lastOffset >= this.endOffset, `append that ends at ${lastOffset}, log end ${this.endOffset}`);
    const maxBytes = Math.min(RUN_BYTES_MAX, this.segments.segmentBytes);
    if (batches.length <= maxBytes) this.#append(batches, lastOffset, epoch);
    else splitRun(batches, maxBytes, (run, end) => this.#append(run, end, epoch));
  }

  #append(run: Uint8Array, last: number, epoch: number): void {
    const base = this.endOffset;
    const opens = epoch > lastEpoch(this.epochs);
    const undoEpochs = opens ? [...this.epochs] : undefined;
    if (opens) this.#openEpoch(epoch, base);
    this.endOffset = (last + 1) as Offset;
    this.held.hold(run, last);
    this.images.grew(run.length);
    this.#services.push({
      kind: KIND.APPEND,
      flags: opens ? FLAG_OPENS_EPOCH : 0,
      logId: this.logId,
      base,
      last,
      epoch,
      body: run,
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

  /** While a checkpoint takes its snapshot, which it may have to take again, the log must not change but by appends. */
  async #gate(): Promise<void> {
    while (this.#services.gate !== undefined) await this.#services.gate;
  }

  /** What is cut must be in the segments first when a snapshot speaks of it. */
  async #cutGate(): Promise<void> {
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

  async truncate(toOffset: Offset): Promise<void> {
    this.#checkUsable();
    if (toOffset >= this.endOffset && (this.epochs.at(-1)?.startOffset ?? -1) < toOffset) return;
    assert(toOffset >= this.startOffset, `truncation to ${toOffset}, below the log start ${this.startOffset}`);
    const isAtEnd = toOffset >= this.endOffset;
    const found = isAtEnd
      ? this.endOffset
      : (this.held.baseOfBatchAt(toOffset) ?? (await this.#baseOfBatchAt(toOffset)));
    await this.#cutGate();
    this.#checkUsable();
    const base = Math.min(found, this.endOffset);
    this.#dropFrom(base);
    this.truncations++;
    const cut = { to: Math.min(base, this.#cut?.to ?? base), truncations: this.truncations, isDurable: false };
    // Most are of what no segment holds yet: those do not wait behind the work of others on their files.
    const isInSegments = this.#cut !== undefined || this.flushing !== undefined || this.segments.endOffset > base;
    if (isInSegments) this.#cut = cut;
    if (!mutant("D-2")) await this.#control(KIND.TRUNCATE, { base });
    cut.isDurable = true;
    if (isInSegments) this.#services.requestFlush(this);
  }

  async #baseOfBatchAt(offset: number): Promise<number> {
    const { truncations } = this;
    return this.#guarded(this.segments.baseOfBatchAt(offset), { truncations, offset });
  }

  /** Forgets everything from `end` on, in memory. */
  #dropFrom(end: number): void {
    this.held.dropFrom(end);
    this.endOffset = end as Offset;
    this.writtenEnd = Math.min(this.writtenEnd, end) as Offset;
    this.durableEnd = Math.min(this.durableEnd, end) as Offset;
    this.mark.cut(end);
    this.images.cut(end);
    truncateEpochs(this.epochs, end);
    this.isEpochsDirty = true;
  }

  async advanceStart(toOffset: Offset): Promise<void> {
    await this.#gate();
    this.#checkUsable();
    if (toOffset <= this.startOffset) return;
    assert(toOffset <= this.endOffset, `log start ${toOffset} above the end ${this.endOffset}`);
    this.startOffset = toOffset;
    this.noteHighWatermark(toOffset);
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
    while (!this.isDeleted && !this.#isUnflushable && !this.#services.hasFailed) {
      if (this.#cut !== undefined) {
        if (!this.#cut.isDurable) break;
        await this.#cutSegments(this.#cut);
        continue;
      }
      const limitOffset = Math.min(this.durableEnd, this.#capture?.state.endOffset ?? this.durableEnd);
      if (this.held.flushedEnd >= limitOffset) break;
      const { truncations } = this;
      const isVoid = (): boolean => this.truncations !== truncations || this.isDeleted;
      await this.segments.append(this.held.window, { limitOffset, isVoid });
      failpoint("segment-written");
      if (!isVoid()) this.#noteFlushed();
    }
    this.#finishCapture();
    if (this.#dropTo > 0 && this.#capture === undefined && !this.isDeleted) await this.#dropOldSegments();
  }

  async #cutSegments(cut: { readonly to: number; readonly truncations: number }): Promise<void> {
    await this.segments.cut(cut.to);
    if (this.#cut?.truncations !== cut.truncations) return;
    this.#cut = undefined;
    // A write that ran when the cut was made may have brought what is left of it.
    this.#noteFlushed();
  }

  #noteFlushed(): void {
    this.held.noteFlushed(this.segments.endOffset);
    if (this.damage !== undefined) this.held.evictThrough(this.endOffset);
  }

  async #dropOldSegments(): Promise<void> {
    const dropTo = Math.min(this.#dropTo, this.held.flushedEnd);
    this.#dropTo = 0;
    await this.segments.remove(this.segments.dropBelow(dropTo));
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
    // Never above what is durable here (D-7).
    const offset = Math.min(this.highWatermark, this.durableEnd);
    const highWatermark = { offset, epoch: epochBefore(this.epochs, offset) };
    const isPlain = this.damage === undefined && this.producers.size === 0 && this.producers.endOffset === endOffset;
    return { startOffset, endOffset, truncations, epochs: [...this.epochs], highWatermark, isPlain, layout: undefined };
  }

  /** As #snapshot, of a log that recovery has brought back. */
  image(): LogImage {
    const { logId, spec, damage } = this;
    const producerImages = this.images.ends;
    return { logId, spec, ...this.#snapshot(), segments: this.segments.layout(), producerImages, damage };
  }

  /** The appends before the SEAL were refused: the state at the SEAL is the present one. */
  recapture(): void {
    if (this.#capture !== undefined) this.#capture = { state: this.#snapshot(), done: this.#capture.done };
  }

  #finishCapture(): void {
    const capture = this.#capture;
    if (capture === undefined) return;
    const isReached = this.#cut === undefined && this.held.flushedEnd === capture.state.endOffset;
    if (!this.isDeleted && !this.#isUnflushable && !isReached) return;
    capture.state.layout = this.segments.layout();
    this.#capture = undefined;
    this.#captured = undefined;
    capture.done(this.isDeleted ? undefined : capture.state);
    this.#services.requestFlush(this);
  }

  /** The log is gone: readers and the flusher end, its memory is given back. */
  markDeleted(): void {
    this.isDeleted = true;
    this.held.clear();
    this.#finishCapture();
  }

  // ---- recovery

  /** Takes what an APPEND of the journal holds: it is durable, or the whole recovery is for nothing. */
  replayAppend(batch: Uint8Array, record: { readonly base: number; readonly last: number }): void {
    assert(record.base === this.endOffset, `replay of offset ${record.base} into a log that ends at ${this.endOffset}`);
    this.endOffset = (record.last + 1) as Offset;
    this.held.hold(batch, record.last);
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
    return this.held.holdsFrom(offset) ? this.held.read(offset, within) : this.#readSegments(offset, within);
  }

  isInMemory(offset: Offset): boolean {
    return this.held.holdsFrom(offset);
  }

  #outOfRange(offset: number): OttlaError | undefined {
    if (offset >= this.startOffset && offset <= this.endOffset) return undefined;
    return new OttlaError("OFFSET_OUT_OF_RANGE", `offset ${offset} is not in ${this.startOffset} to ${this.endOffset}`);
  }

  async #readSegments(offset: Offset, options: ReadOptions): Promise<ReadResult> {
    for (;;) {
      const { truncations } = this;
      const limitOffset = Math.min(options.limitOffset, this.held.flushedEnd) as Offset;
      let result: ReadResult | undefined;
      let failure: unknown;
      try {
        result = await this.segments.read(offset, { ...options, limitOffset, epochs: this.epochs });
      } catch (thrown) {
        failure = thrown;
      }
      const error = this.#unusable() ?? this.#outOfRange(offset);
      if (error !== undefined) throw error;
      if (this.truncations === truncations) {
        if (result !== undefined) return result;
        throw this.#failedRead(failure, offset);
      }
      // Cut meanwhile: what was read may be bytes of before and after (S-16).
      if (offset >= Math.min(options.limitOffset, this.endOffset)) return emptyRead(offset);
      if (this.held.holdsFrom(offset))
        return this.held.read(offset, {
          ...options,
          limitOffset: Math.min(options.limitOffset, this.endOffset) as Offset,
        });
    }
  }

  /** A look into the segments; what fails while the log is being cut says nothing of it (S-16). */
  async #guarded<T>(look: Promise<T>, from: { readonly truncations: number; readonly offset: number }): Promise<T> {
    try {
      return await look;
    } catch (thrown) {
      if (this.truncations !== from.truncations)
        throw storageError(`${this.topic}-${this.partition} was cut meanwhile`, thrown);
      throw this.#failedRead(thrown, from.offset);
    }
  }

  /** What a file did not give is damage, unless only the handles were too few. */
  #failedRead(thrown: unknown, offset: number): OttlaError {
    if (isPassing(thrown)) return storageError(`reading ${this.topic}-${this.partition}: ${String(thrown)}`, thrown);
    return this.#unusable() ?? this.markDamaged(thrown, offset);
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
    const flushedEnd = this.held.flushedEnd;
    const { truncations } = this;
    if (this.startOffset < flushedEnd) {
      const walked = this.segments.walk(this.startOffset, {
        skip: (segment) => segment.maxTimestamp < timestamp,
        visit: (batch) =>
          batch.base < Math.min(limit, flushedEnd) && visit(batch.bytes.subarray(batch.at, batch.at + batch.sizeBytes)),
      });
      await this.#guarded(walked, { truncations, offset: this.startOffset });
    }
    this.#checkUsable();
    if (found === undefined) this.held.visit(flushedEnd, { limitOffset: limit, visit });
    return found;
  }
}
