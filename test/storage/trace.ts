// A random life of a store beside a model of it: what a log may be after a crash is one of the states it went through, none older
// than what was reported.
import { concatBytes } from "../../src/base/bytes.ts";
import { createRng, type Rng } from "../../src/base/rng.ts";
import type { LeaderEpoch, Offset } from "../../src/model/ids.ts";
import type { DiskImage } from "../../src/sim/disk-image.ts";
import type { LogStoreImpl } from "../../src/storage/store.ts";
import type { EpochEntry, LogSpec, ReplicaLog, StorageConfig, StoreListener } from "../../src/storage/types.ts";
import { MemoryFiles } from "./memory-files.ts";
import { emptied, encodeEmpty } from "../../src/storage/compaction/empty-batch.ts";
import type { ReplicaLogImpl } from "../../src/storage/replica-log.ts";
import { ReplacementWriter } from "../../src/storage/replacement-writer.ts";
import { checksum, contentOf, makeBatch, makeDeps, openStore, settle, specOf } from "./support.ts";

interface State {
  readonly batches: readonly Uint8Array[];
  readonly startOffset: number;
  readonly endOffset: number;
  readonly epochs: readonly EpochEntry[];
  readonly truncations: number;
}

/** All states of one log, oldest first, and how many of them are known to be written and durable. */
export class LogModel {
  readonly spec: LogSpec;
  readonly states: State[] = [];
  written = 0;
  durable = 0;
  /** Highest mark that was ever known, by the count of truncations. */
  readonly highest: number[] = [];
  isDeleting = false;
  /** Batches of which a replacement left only the header, or may have; see `nameOf`. */
  readonly emptied = new Set<string>();
  /** Of those, the ones that are not to come back. */
  readonly gone = new Set<string>();
  /** Being deleted to be made anew from here. */
  resetTo: number | undefined;

  constructor(spec: LogSpec) {
    this.spec = spec;
  }

  /** D-7: what a crash may leave of the high watermark is never above this. */
  highestOf(truncations: number): number {
    return this.highest[truncations] ?? 0;
  }

  noteMark(log: ReplicaLog): void {
    this.highest[log.truncations] = Math.max(this.highestOf(log.truncations), log.highWatermark);
  }

  get last(): State {
    return this.states.at(-1) as State;
  }

  note(log: ReplicaLog, batches: readonly Uint8Array[]): number {
    const { startOffset, endOffset, truncations } = log;
    this.states.push({ batches, startOffset, endOffset, truncations, epochs: [...log.epochs] });
    this.noteMark(log);
    return this.states.length - 1;
  }

  /** The newest state that this event proves. */
  indexOf(endOffset: number, truncations: number): number {
    for (let index = this.states.length - 1; index > 0; index--) {
      const state = this.states[index] as State;
      if (state.truncations === truncations && state.endOffset <= endOffset) return index;
    }
    return 0;
  }
}

/** The disk and the bounds at one moment. */
export interface Snapshot {
  readonly operation: string;
  readonly image: DiskImage;
  readonly logs: readonly {
    readonly model: LogModel;
    readonly written: number;
    readonly durable: number;
    readonly isDeleting: boolean;
    readonly resetTo: number | undefined;
    /** Batches that must be empty by now, and those that may be. */
    readonly gone: ReadonlySet<string>;
    readonly emptied: ReadonlySet<string>;
  }[];
}

export interface Trace {
  /** Of each replacement that ended, whether it took its place. */
  readonly outcomes: readonly boolean[];
  readonly snapshots: Snapshot[];
  readonly files: MemoryFiles;
  readonly operations: number;
}

export const traceConfig: Partial<StorageConfig> = {
  segmentBytes: 700,
  indexIntervalBytes: 150,
  journalPinnedBytes: 4096,
  tailCacheBytes: 500,
  openFilesMax: 3,
};

export class TraceRun implements StoreListener {
  readonly #rng: Rng;
  readonly #models = new Map<ReplicaLog, LogModel>();
  readonly files = new MemoryFiles();
  readonly snapshots: Snapshot[] = [];
  readonly outcomes: boolean[] = [];
  readonly #actions: number;
  readonly #replaces: number;
  #epoch = 0;
  #topics = 0;
  #fill = 0;

  /** `replaces`: how often an action is a replacement. */
  constructor(seed: number, actions: number, replaces = 0) {
    this.#rng = createRng(seed);
    this.#actions = actions;
    this.#replaces = replaces;
  }

  async run(): Promise<Trace> {
    const delays = this.#rng.fork("delays");
    this.files.delayTurns = () => delays.between(1, 12);
    const store = await openStore(this.files, traceConfig);
    store.listen(this);
    for (let partition = 0; partition < 3; partition++) await this.#create(store, partition);
    this.files.onOperation = ({ kind, path, number }) => this.#snapshot(`${number} ${kind} ${path}`);
    for (let action = 0; action < this.#actions; action++) await this.#act(store);
    await settle();
    await store.close();
    return { outcomes: this.outcomes, snapshots: this.snapshots, files: this.files, operations: this.files.operations };
  }

  #snapshot(operation: string): void {
    const logs = [...this.#models.values()].map((model) => ({
      model,
      written: model.written,
      durable: model.durable,
      isDeleting: model.isDeleting,
      resetTo: model.resetTo,
      gone: new Set(model.gone),
      emptied: new Set(model.emptied),
    }));
    this.snapshots.push({ operation, image: this.files.image.clone(), logs });
  }

  async #create(store: LogStoreImpl, partition: number): Promise<void> {
    const log = await store.createLog(specOf("t", partition, ++this.#topics));
    const model = new LogModel({ topicId: log.topicId, topic: log.topic, partition: log.partition });
    model.note(log, []);
    this.#models.set(log, model);
  }

  async #act(store: LogStoreImpl): Promise<void> {
    const rng = this.#rng;
    const choice = rng.below(100);
    const [log, model] = rng.pick([...this.#models].filter(([, each]) => !each.isDeleting));
    if (this.#replaces > 0 && rng.chance(this.#replaces)) return this.#replace(store);
    if (choice < 70) return this.#append(log, model);
    if (choice < 78) return void (await settle(1));
    if (choice < 85) return this.#truncate(log, model);
    if (choice < 89) return this.#startEpoch(log, model);
    if (choice < 93) return this.#advanceStart(log, model);
    if (choice < 95) return store.checkpoint();
    if (choice < 97) return void store.checkpoint();
    model.isDeleting = true;
    if (rng.chance(0.5)) return this.#reset(store, log, model);
    await store.deleteLog(log);
    await this.#create(store, log.partition);
  }

  async #reset(store: LogStoreImpl, log: ReplicaLog, model: LogModel): Promise<void> {
    const to = this.#rng.between(0, log.endOffset + 10);
    model.resetTo = to;
    const fresh = await store.resetLog(log, to as Offset);
    this.#models.delete(log);
    const next = new LogModel(model.spec);
    next.note(fresh, []);
    this.#models.set(fresh, next);
  }

  #append(log: ReplicaLog, model: LogModel): void {
    const count = this.#rng.between(1, 4);
    if (this.#rng.chance(0.1)) this.#epoch++;
    const epoch = Math.max(this.#epoch, log.epochs.at(-1)?.epoch ?? 0);
    const base = log.endOffset;
    const make = (at: number, records: number): Uint8Array =>
      makeBatch(at, { count: records, epoch, fill: ++this.#fill, valueBytes: this.#rng.between(0, 60) });
    const isRun = this.#rng.chance(0.3);
    const batches = isRun ? Array.from({ length: count }, (_, place) => make(base + place, 1)) : [make(base, count)];
    log.append(concatBytes(batches), (base + count - 1) as Offset, epoch as LeaderEpoch);
    model.note(log, [...model.last.batches, ...batches]);
    if (this.#rng.chance(0.3)) log.noteHighWatermark(this.#rng.between(0, log.durableEnd) as Offset);
    model.noteMark(log);
  }

  async #truncate(log: ReplicaLog, model: LogModel): Promise<void> {
    const { batches, startOffset, endOffset } = model.last;
    const offsets = batches.map((batch) => baseOf(batch)).filter((base) => base >= startOffset);
    if (offsets.length === 0) return;
    const to = this.#rng.pick(offsets.slice(-6));
    if (to >= endOffset) return;
    const cut = log.truncate(to as Offset);
    await this.#control(log, model, {
      done: cut,
      batches: batches.filter((batch) => baseOf(batch) < to),
      isApplied: () => log.endOffset === to && log.truncations > model.last.truncations,
    });
  }

  /** Some closed segments become one, in which some batches are empty. */
  async #replace(store: LogStoreImpl): Promise<void> {
    const rng = this.#rng;
    const candidates = [...this.#models].filter(([each, { isDeleting }]) => !isDeleting && closedOf(each) > 0);
    if (candidates.length === 0) return;
    const [log, model] = rng.pick(candidates);
    const { segments } = log as ReplicaLogImpl;
    if (segments.all.some(({ isDirty }) => isDirty)) await store.checkpoint();
    const place = rng.below(Math.max(1, segments.all.length - 1));
    const first = segments.all[place];
    const end = segments.all[Math.min(place + rng.between(1, 3), segments.all.length - 1)]?.base;
    if (first === undefined || end === undefined || end <= first.base || !segments.cleanedNames.isFree(first.base))
      return;
    log.noteHighWatermark(log.durableEnd);
    model.noteMark(log);
    if (!segments.isClosedRange(first.base, end) || log.startOffset > first.base) return;
    const writer = await ReplacementWriter.open(this.files, segments, first);
    const names: string[] = [];
    for (const batch of (await contentOf(log, first.base)).filter((each) => baseOf(each) < end)) {
      const isEmptied = rng.chance(0.4);
      if (isEmptied) names.push(nameOf(batch));
      await writer.append(isEmptied ? encodeEmpty(emptied(batch), checksum) : batch);
    }
    const state = await writer.finish(end);
    for (const each of names) model.emptied.add(each);
    const replaced = (log as ReplicaLogImpl).replace({ fromBase: first.base, endOffset: end, state });
    void replaced.then((isDone) => {
      this.outcomes.push(isDone);
      if (isDone) for (const each of names) model.gone.add(each);
    });
  }

  async #startEpoch(log: ReplicaLog, model: LogModel): Promise<void> {
    this.#epoch = Math.max(this.#epoch, log.epochs.at(-1)?.epoch ?? 0) + 1;
    const epoch = this.#epoch;
    const done = log.startEpoch(epoch as LeaderEpoch);
    await this.#control(log, model, {
      done,
      batches: model.last.batches,
      isApplied: () => log.epochs.at(-1)?.epoch === epoch,
    });
  }

  async #advanceStart(log: ReplicaLog, model: LogModel): Promise<void> {
    const to = this.#rng.between(log.startOffset, log.durableEnd);
    if (to <= log.startOffset) return;
    const done = log.advanceStart(to as Offset);
    await this.#control(log, model, { done, batches: model.last.batches, isApplied: () => log.startOffset === to });
  }

  /** Notes the state in the turn in which it is taken, and that it is durable when the call resolves. */
  async #control(
    log: ReplicaLog,
    model: LogModel,
    options: { done: Promise<void>; batches: readonly Uint8Array[]; isApplied: () => boolean },
  ): Promise<void> {
    while (!options.isApplied()) await undefined;
    const index = model.note(log, options.batches);
    await options.done;
    model.durable = Math.max(model.durable, index);
    model.written = Math.max(model.written, index);
  }

  onWritten(log: ReplicaLog, endOffset: Offset, truncations: number): void {
    const model = this.#models.get(log);
    if (model !== undefined) model.written = Math.max(model.written, this.#proven(model, endOffset, truncations));
  }

  onDurable(log: ReplicaLog, endOffset: Offset, truncations: number): void {
    const model = this.#models.get(log);
    if (model !== undefined) model.durable = Math.max(model.durable, this.#proven(model, endOffset, truncations));
  }

  /** The first state with these: a later one may differ by an epoch or a log start that is not proven yet. */
  #proven(model: LogModel, endOffset: number, truncations: number): number {
    return model.states.findIndex((state) => state.truncations === truncations && state.endOffset === endOffset);
  }

  onRefused(): void {
    throw new Error("refused on a disk with room");
  }

  onDamaged(log: ReplicaLog): void {
    throw new Error(log.damage?.reason);
  }

  onRoomChanged(): void {
    // The trace appends whatever the budget says.
  }

  onDiskFailed(error: Error): void {
    throw error;
  }
}

/** Another batch at the same place, after a truncation, has another one. */
export const nameOf = (batch: Uint8Array): string => `${baseOf(batch)} ${checksum.crc32c(batch)}`;

const closedOf = (log: ReplicaLog): number => (log as ReplicaLogImpl).segments.all.length - 1;

const baseOf = (batch: Uint8Array): number => new DataView(batch.buffer, batch.byteOffset).getInt32(4);

/** Opens a disk as a new process would. */
export function reopen(image: DiskImage): Promise<LogStoreImpl> {
  const files = new MemoryFiles(image);
  return openStore(files, traceConfig, makeDeps(files));
}
