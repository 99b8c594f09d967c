// A trace of storage at work on a simulated disk: after every change of the disk, the disk as it is and what the store has
// promised by then. The crash enumerator takes it from there.
import { present } from "../base/assert.ts";
import { concatBytes, utf8Encode } from "../base/bytes.ts";
import type { Rng } from "../base/rng.ts";
import {
  type LeaderEpoch,
  type Offset,
  type TopicId,
  toLeaderEpoch,
  toOffset,
  toPartitionIndex,
  uuidFromBytes,
} from "../model/ids.ts";
import { assignOffsets, type ProducerFields, sealBatch, setProducer } from "../model/record-batch.ts";
import { contentAt, type SequencedBatch } from "../model/producer-table.ts";
import { RecordBatchBuilder } from "../model/records.ts";
import type { Codecs } from "../ports/codecs.ts";
import { CLEANUP } from "../model/config-values.ts";
import { OttlaError } from "../model/errors.ts";
import { openLogStore } from "../storage/log-store.ts";
import type { ReplicaLogImpl } from "../storage/replica-log.ts";
import { retained } from "../storage/retention.ts";
import type { LogStore, ReplicaLog, StorageConfig, StorageDeps } from "../storage/types.ts";
import { SimDisk } from "./disk.ts";
import type { DiskImage } from "./disk-image.ts";
import { storageDepsIn } from "./platter.ts";
import { cleanLog, compactedSettings } from "./trace-cleaner.ts";
import { tellProducers } from "./trace-producers.ts";
import { type PlacedBatch, recordsOf } from "./traced-records.ts";
import { SimWorld, type WorldHost } from "./world.ts";

export interface TracedBatch extends PlacedBatch {
  readonly sequenced: SequencedBatch;
}

/** What a log has to be after a crash at this moment. */
export interface LogPromise {
  readonly topicId: TopicId;
  readonly topic: string;
  /** Compaction may have been at it. */
  readonly isCompacted: boolean;
  /** createLog() resolved, deleteLog() was not called. */
  readonly mustExist: boolean;
  /** The first `count` of `batches` were accepted; a crash may leave any number of them that reaches the ends below. */
  readonly batches: readonly TracedBatch[];
  readonly count: number;
  /** While a truncation is under way: what was there before it. */
  readonly before:
    | { readonly batches: readonly TracedBatch[]; readonly count: number; readonly highWatermark: number }
    | undefined;
  readonly durableEnd: number;
  readonly writtenEnd: number;
  /** Highest log start asked for. */
  readonly startOffset: number;
  /** D-7: as the log knew it, and what was in the journal for certain. */
  readonly highWatermark: number;
  readonly storedHighWatermark: number;
}

/** What the store is asked for. */
export type TracedWork =
  | "create"
  | "delete"
  | "truncate"
  | "retention"
  | "compaction"
  | "epoch"
  | "reset"
  | "rest"
  | "reopen";

export interface TracePoint {
  readonly image: DiskImage;
  /** What is under way, or has just ended: files are cut and removed behind the journal record that says so. */
  readonly works: ReadonlySet<TracedWork>;
  readonly promises: readonly LogPromise[];
}

export interface TraceOptions {
  readonly seed: number;
  readonly host: WorldHost;
  readonly codecs: Codecs;
  readonly config: StorageConfig;
  /** Changes of the disk to record, at least. */
  readonly operations: number;
}

interface LogModel {
  log: ReplicaLog;
  readonly topicId: TopicId;
  readonly topic: string;
  mustExist: boolean;
  batches: TracedBatch[];
  before: LogPromise["before"];
  /** While a truncation is under way, where it cuts: credits of before it may still come, and promise nothing beyond. */
  cutTo: number;
  durableEnd: number;
  writtenEnd: number;
  startOffset: number;
  storedHighWatermark: number;
  /** What the log's start hangs on ends here (D-15). */
  toldEnd: number;
  epoch: LeaderEpoch;
  /** No batch of it has a producer. */
  readonly isPlain: boolean;
  readonly isCompacted: boolean;
  /** A cleaning that is under way, in the background. */
  cleaning: Promise<unknown> | undefined;
  /** Epoch and next sequence of each producer. */
  readonly producers: { producerEpoch: number; next: number }[];
}

/** Few, so that windows are full and epochs rise. */
const PRODUCERS = 4;
const LATENCIES = { readMs: 0.1, writeMs: 0.3, syncMs: 1.5, directoryMs: 0.1 };
const LOGS_MAX = 4;
/** Most records are superseded soon; the newest of some keys are old. */
const HOT_KEYS = 6;
const KEYS = 80;
/** Changes of the disk for which a work counts behind its end. */
const WORK_ECHO = 20;
const RETENTION_BYTES = 6 * 1024;

export async function recordStorageTrace(options: TraceOptions): Promise<readonly TracePoint[]> {
  return new TraceRecorder(options).run();
}

class TraceRecorder {
  readonly #options: TraceOptions;
  readonly #world: SimWorld;
  readonly #disk: SimDisk;
  readonly #rng: Rng;
  readonly #points: TracePoint[] = [];
  readonly #models = new Map<TopicId, LogModel>();
  #store: LogStore | undefined;
  #deps: StorageDeps | undefined;
  /** Until which point of the trace each counts. */
  readonly #works = new Map<TracedWork, number>();
  #topics = 0;

  constructor(options: TraceOptions) {
    this.#options = options;
    this.#world = new SimWorld({ seed: options.seed, host: options.host });
    this.#disk = new SimDisk(this.#world, "disk", { latencies: LATENCIES, capacityBytes: 2 ** 30 });
    this.#rng = this.#world.fork("trace");
    this.#disk.image.onChange = () =>
      this.#points.push({ image: this.#disk.image.clone(), works: this.#worksNow(), promises: this.#promises() });
  }

  async run(): Promise<readonly TracePoint[]> {
    await this.#open();
    while (this.#points.length < this.#options.operations) await this.#step();
    await this.#world.settle(this.#opened.close());
    return this.#points;
  }

  get #opened(): LogStore {
    return present(this.#store, "the store");
  }

  async #open(): Promise<void> {
    const { codecs, config } = this.#options;
    const owner = this.#world.startIncarnation("store");
    this.#deps = storageDepsIn(this.#world, owner, { disk: this.#disk, codecs, bootId: "boot" });
    this.#store = await this.#world.settle(openLogStore(this.#deps, config));
    for (const log of this.#store.logs) present(this.#models.get(log.topicId), "the log's model").log = log;
    this.#store.listen({
      onWritten: (log, endOffset, truncations) =>
        this.#credit(log, truncations, (model) => {
          model.writtenEnd = Math.min(endOffset, model.cutTo);
        }),
      onDurable: (log, endOffset, truncations) =>
        this.#credit(log, truncations, (model) => {
          model.durableEnd = Math.min(endOffset, model.cutTo);
          if (this.#rng.chance(0.5)) log.noteHighWatermark(toOffset(model.durableEnd));
        }),
      onRefused: () => this.#world.fail(new Error("an append was refused on a disk with room")),
      onDamaged: (log) => this.#world.fail(new Error(`log ${log.logId} became damaged: ${log.damage?.reason}`)),
      onRoomChanged: () => undefined,
      onDiskFailed: (error) => this.#world.fail(error),
    });
  }

  #credit(log: ReplicaLog, truncations: number, apply: (model: LogModel) => void): void {
    const model = this.#models.get(log.topicId);
    if (model !== undefined && truncations === log.truncations) apply(model);
  }

  #promises(): LogPromise[] {
    return [...this.#models.values()].map((model) => ({
      topicId: model.topicId,
      topic: model.topic,
      isCompacted: model.isCompacted,
      mustExist: model.mustExist,
      batches: model.batches,
      count: model.batches.length,
      before: model.before,
      durableEnd: model.durableEnd,
      writtenEnd: model.writtenEnd,
      startOffset: model.startOffset,
      highWatermark: model.log.highWatermark,
      storedHighWatermark: model.storedHighWatermark,
    }));
  }

  async #step(): Promise<void> {
    const live = [...this.#models.values()].filter((model) => model.mustExist);
    const dice = this.#rng.below(100);
    if (live.length === 0 || (dice < 4 && live.length < LOGS_MAX)) return this.#doing("create", () => this.#create());
    const model = this.#rng.pick(live);
    if (dice < 6 && live.length > 1) return this.#doing("delete", () => this.#delete(model));
    if (dice < 9) return this.#doing("truncate", () => this.#truncate(model));
    if (dice < 11) return this.#doing("retention", () => this.#advanceStart(model));
    if (dice < 13) return this.#doing("retention", () => this.#retain(model));
    if (dice < 15) return this.#doing("epoch", () => this.#startEpoch(model));
    if (dice < 16) return this.#doing("reopen", () => this.#reopen());
    if (dice < 18) return this.#doing("reset", () => this.#reset(model));
    if (dice < 20) return this.#doing("rest", () => this.#rest());
    if (dice < 50 && model.isCompacted) return this.#doing("compaction", () => this.#clean(model));
    const batches = this.#rng.between(1, 4);
    for (let count = 0; count < batches; count++) this.#append(model);
    await this.#world.runFor(this.#rng.between(0, 6));
  }

  async #doing(work: TracedWork, run: () => Promise<void>): Promise<void> {
    this.#works.set(work, Number.POSITIVE_INFINITY);
    await run();
    this.#works.set(work, this.#points.length + WORK_ECHO);
  }

  #worksNow(): ReadonlySet<TracedWork> {
    return new Set([...this.#works].flatMap(([work, until]) => (until > this.#points.length ? [work] : [])));
  }

  async #create(): Promise<void> {
    const id = new Uint8Array(16);
    this.#rng.fill(id);
    const topicId = uuidFromBytes(id);
    const topic = `t${++this.#topics}`;
    const log = await this.#world.settle(this.#opened.createLog({ topicId, topic, partition: toPartitionIndex(0) }));
    const ends = { durableEnd: 0, writtenEnd: 0, startOffset: 0, toldEnd: 0 };
    const none = { before: undefined, cutTo: Number.POSITIVE_INFINITY, ...ends };
    const model = { log, topicId, topic, mustExist: true, batches: [], epoch: toLeaderEpoch(1), ...none };
    const producers = Array.from({ length: PRODUCERS }, () => ({ producerEpoch: 0, next: 0 }));
    const kinds = { isPlain: this.#rng.chance(0.2), isCompacted: this.#rng.chance(0.5), cleaning: undefined };
    this.#models.set(topicId, { ...model, ...kinds, storedHighWatermark: 0, producers });
  }

  /** Long enough for a mark, and for its sync. */
  async #rest(): Promise<void> {
    for (const { log } of this.#models.values()) if (this.#rng.chance(0.3)) log.noteHighWatermark(log.durableEnd);
    await this.#world.runFor(100);
    for (const model of this.#models.values()) model.storedHighWatermark = model.log.highWatermark;
  }

  async #delete(model: LogModel): Promise<void> {
    model.mustExist = false;
    await this.#world.settle(this.#opened.deleteLog(model.log));
    await this.#world.runFor(this.#rng.between(0, 10));
  }

  /** D-17: meanwhile the log may be the old one, none, or the new one. */
  async #reset(model: LogModel): Promise<void> {
    const fromOffset = toOffset(this.#rng.below(model.log.endOffset + 20));
    model.mustExist = false;
    model.log = await this.#world.settle(this.#opened.resetLog(model.log, fromOffset));
    model.batches = [];
    model.durableEnd = model.writtenEnd = model.startOffset = model.storedHighWatermark = fromOffset;
    model.toldEnd = 0;
    model.epoch = toLeaderEpoch(model.epoch + 1);
    model.mustExist = true;
  }

  /** One batch, or a run of them in one piece. */
  #append(model: LogModel): void {
    if (!this.#opened.hasRoom) return;
    const count = this.#rng.chance(0.2) ? this.#rng.between(2, 4) : 1;
    const run: Uint8Array[] = [];
    let base: number = model.log.endOffset;
    for (let place = 0; place < count; place++) {
      const { batch, records } = this.#batch(model);
      const last = toOffset(base + records - 1);
      assignOffsets(batch, base, model.epoch);
      const producer = this.#sequence(model, records);
      setProducer(batch, producer);
      sealBatch(batch, this.#options.host.checksum);
      run.push(batch);
      const sequenced = { ...producer, baseOffset: base, lastOffset: last, crc: contentAt(batch, 0) };
      model.log.producers.observe(sequenced);
      const { codecs, host } = this.#options;
      const traced = model.isCompacted ? recordsOf(batch, { checksum: host.checksum, codecs }) : undefined;
      model.batches.push({ base, last, sum: host.checksum.crc32c(batch), sequenced, records: traced });
      base = last + 1;
    }
    model.log.append(concatBytes(run), toOffset(base - 1), model.epoch);
  }

  /** Of one of the log's producers, of none where it has none. Sequences go on behind a truncation: a table takes what it is given (P-7). */
  #sequence(model: LogModel, records: number): ProducerFields {
    if (model.isPlain || this.#rng.chance(0.1)) return { producerId: -1, producerEpoch: -1, baseSequence: -1 };
    const producerId = this.#rng.below(PRODUCERS);
    const producer = present(model.producers[producerId], "a producer");
    if (this.#rng.chance(0.02)) {
      producer.producerEpoch++;
      producer.next = 0;
    }
    const { producerEpoch, next } = producer;
    producer.next += records;
    return { producerId, producerEpoch, baseSequence: next };
  }

  #batch({ isCompacted }: LogModel): { readonly batch: Uint8Array; readonly records: number } {
    const builder = new RecordBatchBuilder({ limitBytes: 4096 });
    const records = this.#rng.between(1, 3);
    for (let count = 0; count < records; count++) {
      const value = new Uint8Array(this.#rng.below(this.#rng.chance(0.1) ? 700 : 150));
      this.#rng.fill(value);
      const key = isCompacted ? utf8Encode(`k${this.#rng.below(this.#rng.chance(0.7) ? HOT_KEYS : KEYS)}`) : null;
      const isTombstone = isCompacted && this.#rng.chance(0.1);
      builder.tryAppend({ key, value: isTombstone ? null : value, headers: [], timestamp: this.#world.startWallMs });
    }
    const { codecs, host } = this.#options;
    return { batch: builder.build({ compression: "none", codecs, checksum: host.checksum }), records };
  }

  async #truncate(model: LogModel): Promise<void> {
    const kept = this.#rng.below(model.batches.length + 1);
    const cutAt = model.batches[kept];
    if (cutAt === undefined || cutAt.base < Math.max(model.startOffset, model.toldEnd)) return;
    // Compaction has been at what is committed, which nothing cuts (D-9).
    if (model.isCompacted && cutAt.base < model.log.highWatermark) return;
    // D-9: below what its table can be taken back to a replica is dropped.
    if (!model.log.producers.truncate(cutAt.base)) return this.#reset(model);
    const { highWatermark } = model.log;
    model.before = { batches: model.batches, count: model.batches.length, highWatermark };
    model.storedHighWatermark = Math.min(model.storedHighWatermark, cutAt.base);
    model.batches = model.batches.slice(0, kept);
    model.cutTo = cutAt.base;
    model.durableEnd = Math.min(model.durableEnd, cutAt.base);
    model.writtenEnd = Math.min(model.writtenEnd, cutAt.base);
    await this.#world.settle(model.log.truncate(cutAt.base as Offset));
    model.before = undefined;
    model.cutTo = Number.POSITIVE_INFINITY;
    model.epoch = toLeaderEpoch(model.epoch + 1);
  }

  async #advanceStart(model: LogModel): Promise<void> {
    const batch = model.batches[this.#rng.below(Math.max(1, model.batches.length))];
    if (batch === undefined || batch.base <= model.startOffset || batch.base > model.log.durableEnd) return;
    await this.#raiseStart(model, batch.base);
  }

  /** D-15: as a leader does it, what must be known of producers is in the log before it begins further up, and is never cut. */
  async #raiseStart(model: LogModel, startOffset: number): Promise<void> {
    const { log, batches, epoch } = model;
    const { checksum } = this.#options.host;
    if (!this.#opened.hasRoom) return;
    const told = tellProducers(log, { startOffset, epoch, checksum, nowMs: Math.floor(this.#world.nowMs) });
    batches.push(...told);
    model.toldEnd = log.producers.unsettledEnd;
    while (model.durableEnd < model.toldEnd) await this.#world.runFor(1);
    log.noteHighWatermark(toOffset(Math.max(log.highWatermark, model.toldEnd)));
    model.startOffset = startOffset;
    await this.#world.settle(log.advanceStart(startOffset as Offset));
  }

  /** S-26: by size. */
  async #retain(model: LogModel): Promise<void> {
    const { log } = model;
    const state = {
      segments: log.segmentViews(),
      startOffset: log.startOffset,
      highWatermark: log.highWatermark,
      endOffset: log.endOffset,
    };
    const settings = { cleanupPolicy: CLEANUP.DELETE, retentionMs: -1, retentionBytes: RETENTION_BYTES };
    const { startOffset } = retained(state, settings, { nowMs: 0, byTimeMax: 0 });
    if (startOffset > model.startOffset) await this.#raiseStart(model, startOffset);
  }

  /** Beside what comes after. */
  async #clean(model: LogModel): Promise<void> {
    if (model.cleaning !== undefined) return;
    const log = model.log as ReplicaLogImpl;
    log.configure(compactedSettings(this.#options.config));
    model.cleaning = cleanLog(log, present(this.#deps, "the store's life")).then(
      () => void (model.cleaning = undefined),
      (error: unknown) => this.#cleaningFailed(model, error),
    );
    await this.#world.runFor(this.#rng.between(0, 300));
  }

  #cleaningFailed(model: LogModel, error: unknown): void {
    model.cleaning = undefined;
    // The log went away meanwhile.
    if (!(error instanceof OttlaError)) this.#world.fail(error instanceof Error ? error : new Error(String(error)));
  }

  async #startEpoch(model: LogModel): Promise<void> {
    model.epoch = toLeaderEpoch(model.epoch + 1);
    await this.#world.settle(model.log.startEpoch(model.epoch));
  }

  async #reopen(): Promise<void> {
    await this.#world.settle(this.#opened.close());
    for (const model of this.#models.values()) {
      if (!model.mustExist) this.#models.delete(model.topicId);
      else
        model.durableEnd = model.writtenEnd =
          model.batches.at(-1) === undefined ? model.startOffset : (model.batches.at(-1)?.last ?? 0) + 1;
    }
    await this.#open();
  }
}
