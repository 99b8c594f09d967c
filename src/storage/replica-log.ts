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
import { asOttlaError, OttlaError } from "../model/errors.ts";
import type { LeaderEpoch, LogId, Offset, PartitionIndex, TopicId } from "../model/ids.ts";
import type { Files } from "../ports/files.ts";
import { ProducerTable } from "../model/producer-table.ts";
import type { ScannedBatch } from "./batch-scan.ts";
import { RUN_BYTES_MAX, splitRun } from "./batch-run.ts";
import { splitEmptyFront } from "./compaction/empty-batch.ts";
import { epochBefore, lastEpoch, openEpoch, raiseEpochsStart, truncateEpochs } from "./epochs.ts";
import { isPassing, storageError } from "./faults.ts";
import { HeldBatches, type MemoryBudgets } from "./held-batches.ts";
import { LogHighWatermark, type RisingLog } from "./high-watermark.ts";
import type { LogCapture, LogImage } from "./image.ts";
import type { Credit, JournalEntry, JournalLog } from "./journal.ts";
import { encodeChain, FLAG_OPENS_EPOCH, KIND } from "./journal-record.ts";
import { ProducerImages } from "./producer-images.ts";
import { emptyRead } from "./segment-read.ts";
import { giveUpCleaned, type Replacement, Replacements, type SwapDeps } from "./replacement.ts";
import { beginRepair } from "./segment-repair.ts";
import type { Segments } from "./segments.ts";
import { findInBatch, type TimestampDeps } from "./timestamps.ts";
import type {
  Damage,
  EpochEntry,
  LogRepair,
  LogSettings,
  LogSpec,
  ReadOptions,
  ReadResult,
  ReplicaLog,
  SegmentView,
  TimestampResult,
} from "./types.ts";

/** What a log needs of its store. */
export interface LogServices extends TimestampDeps, MemoryBudgets<ReplicaLogImpl> {
  readonly files: Files;
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
  /** Something waits for the next checkpoint, also when nothing is written; `now`: it should not wait for its turn. */
  wantCheckpoint(now: boolean): void;
}

/** What a checkpoint waits for. */
interface Capture {
  readonly state: LogCapture;
  readonly done: (state: LogCapture | undefined) => void;
  readonly failed: (error: OttlaError) => void;
}

interface Cut {
  readonly to: number;
  readonly truncations: number;
  isDurable: boolean;
  /** The journal will never have it. */
  refusal?: OttlaError;
}

const damageError = (log: ReplicaLog, reason: string): OttlaError =>
  storageError(`the log of ${log.topic}-${log.partition} is damaged: ${reason}`);

export class ReplicaLogImpl implements ReplicaLog, JournalLog, RisingLog {
  readonly logId: LogId;
  /** Another topic's once it was adopted, damaged. */
  spec: LogSpec;
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
  #cut: Cut | undefined;
  /** The segments wholly below this may go: a LOG_START that says so is durable. Later ones may not be yet. */
  #dropTo = 0;
  #capture: Capture | undefined;
  #captured: Promise<LogCapture | undefined> | undefined;
  /** Owned by the store's flusher. */
  isFlushQueued = false;
  isFlushWanted = false;
  /** Resolves when the flush under way has ended. */
  flushing: Promise<void> | undefined;
  isEpochsDirty = false;
  /** Everything below was compacted. */
  cleanedTo: number;
  /** Files that are to take the place of segments. */
  replacements: Replacements | undefined;
  /** What is pinned cannot go to the segments: they are damaged. */
  #isUnflushable = false;
  #hasProducers = true;

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
    this.cleanedTo = image.cleanedTo;
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
      this.replacements?.giveUpFor(0);
      this.#services.onDamageMet(this, this.damage);
    }
    return damageError(this, this.damage?.reason ?? String(thrown));
  }

  /** The damage is where the flush must write, or read: what is pinned is given up with the log. */
  markUnflushable(thrown: unknown): void {
    this.#isUnflushable = true;
    this.markDamaged(thrown, this.segments.all.at(-1)?.base);
    // Another one than a repair under way is of: that does not end it.
    if (this.damage !== undefined) this.damage = { ...this.damage };
    this.replacements?.giveUpFor(0);
    this.held.clear();
    this.#finishCapture();
  }

  /** Apart from the segments that are damaged it has all that it had, and they can be written. */
  get canRepair(): boolean {
    return this.#hasProducers && !this.#isUnflushable && !this.isDeleted && this.#services.failure === undefined;
  }

  /** D-15: of a log that a start found damaged nobody knows them. */
  forgetProducers(): void {
    this.#hasProducers = false;
    this.producers = new ProducerTable(this.endOffset);
  }

  beginRepair(): LogRepair | undefined {
    return beginRepair(this.#services, this);
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

  /**
   * While a checkpoint takes its snapshot, which it may have to take again, the log must not change but by appends. Looked at until it is undefined, in
   * the turn of the change: a snapshot that is taken between the two would wait for ever for what was cut.
   */
  get #gate(): Promise<unknown> | undefined {
    return this.#services.gate;
  }

  /** What is cut must be in the segments first when a snapshot speaks of it; and a file that a checkpoint names, in its place. */
  #cutGate(to: number): Promise<unknown> | undefined {
    return this.#gate ?? this.#captured ?? this.replacements?.namedFor(to);
  }

  /** A record of the log's own, without a body. Resolves when durable. */
  #control(
    kind: number,
    fields: { readonly base: number; readonly epoch?: number; readonly body?: Uint8Array },
  ): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#services.push({
        kind,
        flags: 0,
        logId: this.logId,
        base: fields.base,
        last: fields.base,
        epoch: fields.epoch ?? -1,
        body: fields.body ?? EMPTY_BYTES,
        log: this,
        truncations: this.truncations,
        endOffset: this.endOffset,
        waiter: { resolve, reject },
        undoEpochs: undefined,
      });
    });
  }

  async startEpoch(epoch: LeaderEpoch): Promise<void> {
    while (this.#gate !== undefined) await this.#gate;
    this.#checkUsable();
    assert(epoch > lastEpoch(this.epochs), `epoch ${epoch} does not rise above ${lastEpoch(this.epochs)}`);
    this.#openEpoch(epoch, this.endOffset);
    await this.#control(KIND.EPOCH, { base: this.endOffset, epoch });
  }

  async truncate(toOffset: Offset): Promise<void> {
    this.#checkUsable();
    const { truncations } = this;
    if (toOffset >= this.endOffset && (this.epochs.at(-1)?.startOffset ?? -1) < toOffset) return;
    assert(toOffset >= this.startOffset, `truncation to ${toOffset}, below the log start ${this.startOffset}`);
    const isAtEnd = toOffset >= this.endOffset;
    let found: number;
    let chain: number | undefined;
    let layoutVersion: number;
    do {
      layoutVersion = this.segments.layoutVersion;
      found = isAtEnd ? this.endOffset : (this.held.baseOfBatchAt(toOffset) ?? (await this.#baseOfBatchAt(toOffset)));
      for (let gate = this.#cutGate(found); gate !== undefined; gate = this.#cutGate(found)) await gate;
      this.#checkUsable();
      chain = this.#holdsInSegments(found) ? await this.segments.chainAt(found) : undefined;
      this.#checkUsable();
    } while (this.segments.layoutVersion !== layoutVersion || this.#cutGate(found) !== undefined);
    const base = Math.min(found, this.endOffset);
    // Nothing of it would be left, and its start stand above its end: only an unclean election asks for that.
    if (base < this.startOffset)
      throw this.markDamaged(new Error(`a cut at ${toOffset} goes through the batch of the log start`), undefined);
    const body = encodeChain(base === found && this.truncations === truncations ? chain : undefined);
    this.#dropFrom(base);
    this.truncations++;
    const to = Math.min(base, this.#cut?.to ?? base);
    const cut: Cut = { to, truncations: this.truncations, isDurable: false };
    // Most are of what no segment holds yet: those do not wait behind the work of others on their files.
    const isInSegments = this.#cut !== undefined || this.flushing !== undefined || this.segments.endOffset > base;
    if (isInSegments) this.#cut = cut;
    try {
      if (!mutant("D-2")) await this.#control(KIND.TRUNCATE, { base, body });
    } catch (thrown) {
      // The segments hold what memory does not, and must: no checkpoint can speak of the log any more.
      cut.refusal = asOttlaError(thrown);
      this.#finishCapture();
      throw thrown;
    }
    cut.isDurable = true;
    if (isInSegments) this.#services.requestFlush(this);
  }

  /** What lies below it is in the segments, and none of it is about to be cut. */
  #holdsInSegments(offset: number): boolean {
    return offset < this.segments.endOffset && offset <= (this.#cut?.to ?? offset);
  }

  async #baseOfBatchAt(offset: number): Promise<number> {
    const { truncations } = this;
    return this.#guarded(() => this.segments.baseOfBatchAt(offset), { truncations, offset });
  }

  /** Forgets everything from `end` on, in memory. */
  #dropFrom(end: number): void {
    this.held.dropFrom(end);
    this.endOffset = end as Offset;
    this.writtenEnd = Math.min(this.writtenEnd, end) as Offset;
    this.durableEnd = Math.min(this.durableEnd, end) as Offset;
    this.mark.cut(end);
    this.images.cut(end);
    this.cleanedTo = Math.min(this.cleanedTo, end);
    this.replacements?.giveUpFor(end);
    truncateEpochs(this.epochs, end);
    this.isEpochsDirty = true;
  }

  async advanceStart(toOffset: Offset): Promise<void> {
    this.#checkUsable();
    if (toOffset <= this.startOffset) return;
    assert(toOffset <= this.endOffset, `log start ${toOffset} above the end ${this.endOffset}`);
    // Readers see it at once. A snapshot that is being taken may have it: nothing that a log begins above comes back (S-30).
    this.startOffset = toOffset;
    this.noteHighWatermark(toOffset);
    raiseEpochsStart(this.epochs, toOffset);
    this.isEpochsDirty = true;
    while (this.#gate !== undefined) await this.#gate;
    this.#checkUsable();
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

  /** Takes back appends whose journal records were not written: the log ends at `end` with these epochs. One that starts there was opened before them. */
  refuse(end: number, epochs: readonly EpochEntry[] | undefined): void {
    const kept = epochs ?? this.epochs.filter(({ startOffset }) => startOffset <= end);
    this.#dropFrom(end);
    this.epochs.splice(0, this.epochs.length, ...kept);
    // It may begin above since (S-31): a cut at its end would leave an epoch that seems to have records.
    raiseEpochsStart(this.epochs, this.startOffset);
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
    const isLayoutFree = this.#capture === undefined && this.replacements?.isEmpty !== false;
    if (this.#dropTo > 0 && isLayoutFree && !this.isDeleted) await this.#dropOldSegments();
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
    // A flush that ended at a checkpoint's snapshot leaves the rest to the one behind it.
    if (dropTo === this.#dropTo) this.#dropTo = 0;
    await this.segments.remove(this.segments.dropBelow(dropTo));
  }

  // ---- checkpoints

  /** The present state, which is the one at the checkpoint's SEAL; the segments stop there until the layout was taken. */
  capture(): Promise<LogCapture | undefined> {
    // Of a checkpoint that a close has given up: a cut may still wait for it.
    this.#capture?.done(undefined);
    const captured = new Promise<LogCapture | undefined>((done, failed) => {
      this.#capture = { state: this.#snapshot(), done, failed };
    });
    captured.catch(() => undefined); // the checkpoint may have failed before it waits for this
    this.#captured = captured;
    return captured;
  }

  #snapshot(): LogCapture {
    const { startOffset, endOffset, truncations } = this;
    // Never above what is durable here (D-7).
    const offset = Math.min(this.highWatermark, this.durableEnd);
    const highWatermark = { offset, epoch: epochBefore(this.epochs, offset) };
    const isPlain = this.damage === undefined && this.producers.isBlank && this.producers.endOffset === endOffset;
    const epochs = [...this.epochs];
    return {
      startOffset,
      endOffset,
      truncations,
      epochs,
      highWatermark,
      isPlain,
      cleanedTo: this.cleanedTo,
      layout: undefined,
    };
  }

  /** As #snapshot, of a log that recovery has brought back. */
  image(): LogImage {
    const { logId, spec, damage } = this;
    const producerImages = this.images.ends;
    return { logId, spec, ...this.#snapshot(), segments: this.segments.layout(), producerImages, damage };
  }

  /** The appends before the SEAL were refused: the state at the SEAL is the present one. */
  recapture(): void {
    if (this.#capture !== undefined) this.#capture = { ...this.#capture, state: this.#snapshot() };
  }

  #finishCapture(): void {
    const capture = this.#capture;
    if (capture === undefined) return;
    if (this.#cut?.refusal !== undefined) return this.#failCapture(this.#cut.refusal);
    const isReached = this.#cut === undefined && this.held.flushedEnd === capture.state.endOffset;
    if (!this.isDeleted && !this.#isUnflushable && !isReached) return;
    const layout = this.segments.layout();
    capture.state.layout = this.replacements?.name(layout) ?? layout;
    this.#capture = undefined;
    this.#captured = undefined;
    capture.done(this.isDeleted ? undefined : capture.state);
    this.#services.requestFlush(this);
  }

  /** Nothing is written any more: whoever waits for a checkpoint would wait for ever. */
  giveUp(error: OttlaError): void {
    this.replacements?.giveUpAll();
    this.#failCapture(error);
  }

  #failCapture(error: OttlaError): void {
    this.#capture?.failed(error);
    this.#capture = undefined;
    this.#captured = undefined;
  }

  /** The log is gone: readers and the flusher end, its memory is given back. */
  markDeleted(): void {
    this.isDeleted = true;
    this.replacements?.giveUpAll();
    this.held.clear();
    this.#finishCapture();
  }

  /** Everything below is compacted, and that is durable. */
  noteCleaned(offset: number): void {
    this.cleanedTo = Math.max(this.cleanedTo, offset);
  }

  /** Whole batches from the one that holds `offset` on, below `endOffset`, which the segments must hold; checked. One at least. */
  copyBatches(
    offset: number,
    { endOffset, maxBytes }: { readonly endOffset: number; readonly maxBytes: number },
  ): Promise<Uint8Array[]> {
    const { truncations } = this;
    const look = async (): Promise<Uint8Array[]> => {
      const batches: Uint8Array[] = [];
      let totalBytes = 0;
      const visit = ({ base, bytes, at, sizeBytes }: ScannedBatch): boolean => {
        if (base >= endOffset || (batches.length > 0 && totalBytes + sizeBytes > maxBytes)) return false;
        batches.push(bytes.slice(at, at + sizeBytes));
        totalBytes += sizeBytes;
        return totalBytes < maxBytes;
      };
      await this.segments.walk(offset, { visit });
      return batches;
    };
    return this.#guarded(look, { truncations, offset });
  }

  // ---- replacements

  /** See the interface. False at once where it cannot be. */
  async replace(replacement: Replacement): Promise<boolean> {
    const { segments } = this;
    if (this.#canReplace(replacement)) {
      this.replacements ??= new Replacements(this.segments);
      const isDone = this.replacements.add(replacement);
      this.#services.wantCheckpoint(replacement.repairs !== undefined);
      if (await isDone) return true;
    }
    // A store that is at its end leaves them to the next start: the last checkpoint may name them.
    if (this.isDeleted || this.#services.failure !== undefined) return false;
    await giveUpCleaned(this.#services.files, segments, replacement.fromBase);
    return false;
  }

  #canReplace(replacement: Replacement): boolean {
    const { fromBase, endOffset, repairs } = replacement;
    if (this.#services.failure !== undefined || this.isDeleted || this.damage !== repairs) return false;
    // What is going away is not worth it, and would wait for it.
    if (this.#dropTo > 0 || this.#cut !== undefined) return false;
    if (endOffset > Math.min(this.highWatermark, this.durableEnd) || this.replacements?.overlaps(replacement) === true)
      return false;
    return this.segments.isClosedRange(fromBase, endOffset);
  }

  /** The superblock of the checkpoint that was captured last is durable. Undefined: there is nothing to wait for. */
  onCheckpoint(deps: SwapDeps): Promise<void> | undefined {
    this.segments.onCheckpoint();
    const { replacements } = this;
    return replacements === undefined || this.isDeleted ? undefined : this.#commit(replacements, deps);
  }

  async #commit(replacements: Replacements, deps: SwapDeps): Promise<void> {
    const { repaired } = replacements;
    // What memory has of it is what was there before: a reader of it might miss a tombstone that is gone by now (S-37).
    const onSwapped = (each: Replacement): void => {
      this.held.evictThrough(each.endOffset);
      this.images.replaced(each);
    };
    if (await replacements.commit(deps, onSwapped)) this.#services.wantCheckpoint(false);
    if (repaired !== undefined && this.damage === repaired) this.damage = undefined;
    this.#freeLayout();
  }

  /** The checkpoint that was captured last will not be. */
  onCheckpointPutOff(): void {
    this.replacements?.unname();
  }

  /** What waited for the replacements may go on. */
  #freeLayout(): void {
    if (this.replacements?.isEmpty !== true) return;
    this.replacements = undefined;
    this.#services.requestFlush(this);
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

  /** Cuts memory and segments at once. What the files hold proves nothing: `chain` is what was known when it was cut. */
  async replayTruncate(toOffset: number, chain: number | undefined): Promise<void> {
    this.#dropFrom(toOffset);
    this.truncations++;
    await this.segments.cut(toOffset, { isWhole: false, chain });
  }

  // ---- reads

  read(offset: Offset, options: ReadOptions): ReadResult | Promise<ReadResult> {
    const error = this.#unusable() ?? this.#outOfRange(offset);
    if (error !== undefined) return Promise.reject(error);
    const limitOffset = Math.min(options.limitOffset, this.endOffset) as Offset;
    if (offset >= limitOffset) return emptyRead(offset);
    const within = { ...options, limitOffset };
    if (this.held.holdsFrom(offset)) return this.held.read(offset, within);
    const read = this.#readSegments(offset, within);
    const { checksum } = this.#services;
    return options.isFollowing === true ? read.then((result) => splitEmptyFront(result, offset, checksum)) : read;
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
      const { layoutVersion } = this.segments;
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
        if (await this.#isOtherLayout(layoutVersion)) continue;
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

  /** Segments went or were replaced since, or are just being: what was met may be of files of both layouts, and is no damage. */
  async #isOtherLayout(layoutVersion: number): Promise<boolean> {
    const isOther = this.segments.layoutVersion !== layoutVersion || this.segments.swapping !== undefined;
    await this.segments.swapping;
    return isOther && this.#unusable() === undefined;
  }

  /** A look into the segments, begun again when they change; what fails while the log is being cut says nothing of it (S-16). */
  async #guarded<T>(
    look: () => Promise<T>,
    from: { readonly truncations: number; readonly offset: number },
  ): Promise<T> {
    for (;;) {
      const { layoutVersion } = this.segments;
      try {
        const found = await look();
        if (!(await this.#isOtherLayout(layoutVersion))) return found;
      } catch (thrown) {
        if (this.truncations !== from.truncations)
          throw storageError(`${this.topic}-${this.partition} was cut meanwhile`, thrown);
        if (!(await this.#isOtherLayout(layoutVersion))) throw this.#failedRead(thrown, from.offset);
      }
    }
  }

  /** What a file did not give is damage, unless only the handles were too few. */
  #failedRead(thrown: unknown, offset: number): OttlaError {
    if (isPassing(thrown)) return storageError(`reading ${this.topic}-${this.partition}: ${String(thrown)}`, thrown);
    return this.#unusable() ?? this.markDamaged(thrown, offset);
  }

  segmentViews(): SegmentView[] {
    return this.segments.views();
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
      const walk = (): Promise<void> =>
        this.segments.walk(this.startOffset, {
          timestamp,
          visit: (batch) =>
            batch.base < Math.min(limit, flushedEnd) &&
            visit(batch.bytes.subarray(batch.at, batch.at + batch.sizeBytes)),
        });
      await this.#guarded(walk, { truncations, offset: this.startOffset });
    }
    this.#checkUsable();
    if (found === undefined) this.held.visit(flushedEnd, { limitOffset: limit, visit });
    return found;
  }
}
