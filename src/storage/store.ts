// The store: the journal, the logs, the flusher and the checkpoints of one data directory, and what they tell the broker.
import { assert, present } from "../base/assert.ts";
import { mutant } from "../base/mutant.ts";
import { OttlaError } from "../model/errors.ts";
import { type ClusterId, type Offset, type PartitionIndex, type TopicId, toOffset } from "../model/ids.ts";
import type { FileHandle } from "../ports/files.ts";
import type { CheckpointDeps } from "./checkpoint-files.ts";
import { FailStopFiles } from "./fail-stop-files.ts";
import { Checkpointer, type CheckpointHost, type SuperblockChange } from "./checkpointer.ts";
import { Cleaner, type CleanerHost } from "./compaction/cleaner.ts";
import type { PassResult } from "./compaction/pass.ts";
import {
  diskFailed,
  isNoSpace,
  isPassing,
  isStorageFull,
  isUnreadable,
  RETRY_AFTER_MS,
  storageFull,
} from "./faults.ts";
import { Flusher } from "./flusher.ts";
import { HandleCache } from "./handle-cache.ts";
import { RisenHighWatermarks } from "./high-watermark.ts";
import type { LogImage } from "./image.ts";
import {
  type Credit,
  damagedEntry,
  Journal,
  type JournalEntry,
  type JournalFile,
  type JournalHost,
} from "./journal.ts";
import { LogRegistry, type RegistryHost } from "./log-registry.ts";
import { StorageMetrics } from "./metrics.ts";
import { refusals } from "./refusals.ts";
import { ReadBuffers } from "./read-buffers.ts";
import type { LogServices, ReplicaLogImpl } from "./replica-log.ts";
import { Scrub, type ScrubHost } from "./scrub.ts";
import { SpaceWatch } from "./space.ts";
import { TailMemory } from "./tail-memory.ts";
import type { Superblock } from "./superblock.ts";
import type {
  Damage,
  LogSpec,
  LogStore,
  ReplicaLog,
  RestartKind,
  StorageConfig,
  StorageDeps,
  StoreIdentity,
  StoreListener,
} from "./types.ts";

/** A credit from before a truncation says nothing of what was appended since (D-12, D-34). */
const isOf = (log: ReplicaLogImpl, credit: Credit): boolean =>
  !log.isDeleted && (credit.truncations === log.truncations || mutant("M35"));

/** What recovery hands over to the running store. */
export interface OpenedStore {
  readonly superblock: Superblock;
  readonly superblockFile: FileHandle;
  readonly journalFile: JournalFile;
  readonly restart: RestartKind;
  readonly releaseLock: () => Promise<void>;
}

export class LogStoreImpl
  implements LogStore, JournalHost, LogServices, CheckpointHost, RegistryHost, ScrubHost, CleanerHost
{
  readonly deps: StorageDeps;
  readonly config: StorageConfig;
  readonly handles: HandleCache;
  readonly buffers = new ReadBuffers();
  readonly tailMemory: TailMemory;
  readonly checksum: StorageDeps["checksum"];
  readonly codecs: StorageDeps["codecs"];
  readonly #registry = new LogRegistry(this);
  readonly #flusher: Flusher;
  readonly #metrics: StorageMetrics;
  readonly #space: SpaceWatch;
  #opened: OpenedStore | undefined;
  #journal: Journal | undefined;
  #checkpoints: Checkpointer | undefined;
  #scrub: Scrub | undefined;
  #cleaner: Cleaner | undefined;
  #listener: StoreListener | undefined;
  #failure: OttlaError | undefined;
  #diskFailure: OttlaError | undefined;
  #isClosing = false;
  #closed: Promise<void> | undefined;
  /** Rejects when nothing more can be written; what waits for segments races with it. */
  #stopped: { readonly promise: Promise<never>; readonly reject: (error: OttlaError) => void };

  constructor(deps: StorageDeps, config: StorageConfig) {
    // While the directory is being opened, the opening rejects.
    const files = new FailStopFiles(deps.files, (thrown) => {
      if (this.#opened !== undefined) this.fail(diskFailed(thrown));
    });
    this.deps = { ...deps, files };
    this.config = config;
    this.checksum = deps.checksum;
    this.codecs = deps.codecs;
    this.#metrics = new StorageMetrics(deps.metrics);
    this.handles = new HandleCache(files, config.openFilesMax);
    this.tailMemory = new TailMemory(config.tailCacheBytes, this.buffers);
    this.#flusher = new Flusher(
      { pinnedBytes: config.journalPinnedBytes, cacheBytes: config.tailCacheBytes },
      {
        onFailure: (log, thrown) => this.#flushFailed(log, thrown),
        onRoomChanged: () => this.#listener?.onRoomChanged(),
      },
    );
    this.#space = new SpaceWatch(
      this.deps,
      { directory: config.directory, lowBytes: config.diskLowSpaceBytes, reserveBytes: config.diskReserveBytes },
      { onChange: () => this.#listener?.onRoomChanged(), onDiskFailed: (error) => this.fail(error) },
    );
    let reject: (error: OttlaError) => void = () => undefined;
    const promise = new Promise<never>((_, refuse) => {
      reject = refuse;
    });
    promise.catch(() => undefined);
    this.#stopped = { promise, reject };
  }

  // ---- opening, for recovery

  useLogId(logId: number): void {
    this.#registry.useLogId(logId);
  }

  get files(): StorageDeps["files"] {
    return this.deps.files;
  }

  get checkpointDeps(): CheckpointDeps {
    return { files: this.deps.files, handles: this.handles, checksum: this.checksum, directory: this.config.directory };
  }

  addLog(image: LogImage): ReplicaLogImpl {
    return this.#registry.add(image);
  }

  async start(opened: OpenedStore): Promise<void> {
    this.#opened = opened;
    this.#journal = new Journal(opened.journalFile, {
      host: this,
      checksum: this.checksum,
      timers: this.deps.timers,
      clock: this.deps.clock,
      risen: new RisenHighWatermarks(),
    });
    await this.#space.start();
    const { superblock, superblockFile } = opened;
    this.#checkpoints = new Checkpointer(this, {
      superblock,
      superblockFile,
      intervalMs: this.config.checkpointIntervalMs,
    });
    // The start left them to the first checkpoint, which may have nothing else to do.
    if ([...this.logs].some((log) => log.isEpochsDirty)) this.#checkpoints.want(false);
    const { maintenance } = this.config;
    this.#scrub = maintenance && new Scrub(this, maintenance);
    this.#scrub?.start();
    this.#cleaner = maintenance && new Cleaner(this, maintenance);
    this.#cleaner?.start();
  }

  // ---- LogStore

  get #superblock(): Superblock {
    return present(this.#checkpoints, "checkpoints").superblock;
  }

  get identity(): StoreIdentity {
    const { clusterId, nodeId, directoryId } = this.#superblock;
    return { clusterId, nodeId, directoryId };
  }

  get brokerEpoch(): number | null {
    return this.#superblock.brokerEpoch;
  }

  async adoptCluster(clusterId: ClusterId): Promise<void> {
    const known = this.#superblock.clusterId ?? this.config.clusterId;
    if (known !== undefined && known !== clusterId) {
      const { directory } = this.config;
      throw new OttlaError("DATA_DIR_FOREIGN", `${directory} is meant for cluster ${known}, not ${clusterId}`);
    }
    if (this.#superblock.clusterId === null) await this.#update({ clusterId });
  }

  async storeBrokerEpoch(epoch: number): Promise<void> {
    assert(epoch >= (this.brokerEpoch ?? 0), `broker epoch ${epoch} after ${this.brokerEpoch}`);
    await this.#update({ brokerEpoch: epoch });
  }

  async #update(change: SuperblockChange): Promise<void> {
    this.checkRunning();
    try {
      await present(this.#checkpoints, "checkpoints").update(change);
    } catch (thrown) {
      if (isNoSpace(thrown)) throw storageFull(thrown);
      throw this.fail(diskFailed(thrown));
    }
  }

  get restart(): RestartKind {
    return present(this.#opened, "opened store").restart;
  }

  get hasRoom(): boolean {
    return this.#flusher.hasRoom;
  }

  get isLowOnSpace(): boolean {
    return this.#space.isLow;
  }

  get logs(): Iterable<ReplicaLogImpl> {
    return this.#registry.logs;
  }

  get failure(): OttlaError | undefined {
    return this.#failure;
  }

  get hasFailed(): boolean {
    return this.#diskFailure !== undefined;
  }

  find(topicId: TopicId, partition: PartitionIndex): ReplicaLogImpl | undefined {
    return this.#registry.find(topicId, partition);
  }

  listen(listener: StoreListener): void {
    assert(this.#listener === undefined, "the store has a listener");
    this.#listener = listener;
    if (this.#diskFailure !== undefined) listener.onDiskFailed(this.#diskFailure);
  }

  createLog(spec: LogSpec): Promise<ReplicaLog> {
    return this.#registry.create(spec, 0);
  }

  adoptLog(log: ReplicaLog, topicId: TopicId): void {
    this.#registry.adopt(log, topicId);
  }

  deleteLog(log: ReplicaLog): Promise<void> {
    return this.#registry.delete(log);
  }

  resetLog(log: ReplicaLog, fromOffset: Offset): Promise<ReplicaLog> {
    return this.#registry.reset(log, fromOffset);
  }

  checkRunning(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  // ---- JournalHost and LogServices

  push(entry: JournalEntry): void {
    this.journal.push(entry);
  }

  onWritten(credit: Credit): void {
    const log = credit.log as ReplicaLogImpl;
    if (!isOf(log, credit)) return;
    log.onWritten(credit.endOffset);
    if (log.damage === undefined) this.#listener?.onWritten(log, toOffset(credit.endOffset), credit.truncations);
  }

  onDurable(credit: Credit): void {
    const log = credit.log as ReplicaLogImpl;
    if (!isOf(log, credit)) return;
    log.onDurable(credit.endOffset);
    this.#flusher.onDurable(log);
    if (log.damage === undefined) this.#listener?.onDurable(log, toOffset(credit.endOffset), credit.truncations);
  }

  onSynced(durationMs: number): void {
    this.#metrics.syncDuration.observe(durationMs / 1000);
  }

  onGroupWritten(sizeBytes: number): void {
    this.#metrics.journalBytes.add(sizeBytes);
    this.#metrics.pinnedBytes.set(this.#flusher.pinnedBytes);
    this.#metrics.cachedBytes.set(this.#flusher.cachedBytes);
    this.#metrics.openFiles.set(this.handles.openCount);
    this.#space.onWritten(sizeBytes);
    if (this.journal.sizeBytes >= this.config.journalBytes) this.#checkpoints?.start();
  }

  get isRunning(): boolean {
    return this.#failure === undefined;
  }

  get idle(): Promise<void> {
    return this.#checkpoints?.idle ?? Promise.resolve();
  }

  get stopped(): Promise<never> {
    return this.#stopped.promise;
  }

  get isClosing(): boolean {
    return this.#isClosing;
  }

  giveUpReserve(): Promise<boolean> {
    return this.#space.giveUpReserve();
  }

  refuse(entries: Iterable<JournalEntry>, gaveUpReserve: boolean): JournalEntry[] {
    const canRetry = !this.#isClosing || gaveUpReserve;
    const { kept, logs } = refusals(entries, { keepsCreates: gaveUpReserve, keepsControls: canRetry });
    for (const [log, state] of logs) if (!log.isDeleted) log.refuse(state.end, state.epochs);
    if (this.gate !== undefined) for (const log of this.logs) log.recapture();
    for (const [log, state] of logs) {
      if (!log.isDeleted && state.hasRefused) this.#listener?.onRefused(log, toOffset(state.end), log.truncations);
    }
    return kept;
  }

  onNextPutOff(thrown: unknown): void {
    this.deps.logger.warn("journal_waits", { error: String(thrown) });
  }

  onJournalFailed(error: OttlaError): void {
    this.fail(error);
  }

  onPinned(log: ReplicaLogImpl, sizeBytes: number): void {
    this.#flusher.onPinned(log, sizeBytes);
  }

  onUnpinned(log: ReplicaLogImpl, sizeBytes: number): void {
    this.#flusher.onUnpinned(log, sizeBytes);
  }

  onCached(log: ReplicaLogImpl, sizeBytes: number): void {
    this.#flusher.onCached(log, sizeBytes);
  }

  wantCheckpoint(now: boolean): void {
    this.#checkpoints?.want(now);
  }

  requestFlush(log: ReplicaLogImpl): void {
    this.#flusher.request(log);
  }

  onHighWatermarkRisen(log: ReplicaLogImpl): void {
    if (this.#failure === undefined) this.#journal?.highWatermarkRose(log);
  }

  /** In the journal too, so that a restart does not forget it before a read meets it again. */
  onDamageMet(log: ReplicaLogImpl, damage: Damage): void {
    const { topic, partition } = log;
    this.#metrics.damagedLogs.add(1);
    this.deps.logger.error("log_damaged", { topic, partition, ...damage });
    // While the store is being opened the image will tell.
    if (this.#failure === undefined) this.#journal?.push(damagedEntry(log, damage));
    this.#flusher.request(log);
    this.#listener?.onDamaged(log);
  }

  /** The disk failed: nothing is written any more, and the broker is told once. */
  fail(error: OttlaError): OttlaError {
    if (this.#diskFailure !== undefined) return this.#diskFailure;
    this.#diskFailure = error;
    this.#failure ??= error;
    this.#stopped.reject(error);
    this.#journal?.stop(error);
    for (const log of this.logs) log.giveUp(error);
    // A store that is closed on a full disk leaves what a crash would leave: nothing to stop for.
    if (this.#isClosing && error.code === "STORAGE_FULL") return error;
    this.deps.logger.error("disk_failed", { error: error.message });
    this.#listener?.onDiskFailed(error);
    return error;
  }

  giveUp(error: OttlaError): void {
    this.fail(error);
  }

  onScrubbed(sizeBytes: number): void {
    this.#metrics.scrubbedBytes.add(sizeBytes);
  }

  onScrubPass(durationMs: number): void {
    this.#metrics.scrubPasses.add(1);
    this.#metrics.scrubDuration.set(durationMs / 1000);
  }

  onScrubFailed(thrown: unknown): void {
    this.fail(diskFailed(thrown));
  }

  onCompacted(result: PassResult, durationMs: number): void {
    this.#metrics.compaction.observe(result, durationMs);
  }

  onCompactionFailed(): void {
    this.#metrics.compaction.failures.add(1);
  }

  onCleanerDiskFailed(thrown: unknown): void {
    this.fail(diskFailed(thrown));
  }

  /** True: try again. */
  async #flushFailed(log: ReplicaLogImpl, thrown: unknown): Promise<boolean> {
    if (log.isDeleted || this.#diskFailure !== undefined) return false;
    if (isUnreadable(thrown)) {
      log.markUnflushable(thrown);
      return false;
    }
    if (!isPassing(thrown)) {
      this.fail(diskFailed(thrown));
      return false;
    }
    if (isNoSpace(thrown) && (await this.#space.giveUpReserve())) return true;
    if (this.#isClosing) {
      this.#stopped.reject(storageFull(thrown));
      return false;
    }
    await new Promise<void>((resolve) => this.deps.timers.after(RETRY_AFTER_MS, resolve));
    return true;
  }

  // ---- checkpoints

  get gate(): Promise<void> | undefined {
    return this.#checkpoints?.gate;
  }

  get nextLogId(): number {
    return this.#registry.nextLogId;
  }

  get journal(): Journal {
    return present(this.#journal, "journal");
  }

  /** Runs a checkpoint, or joins the one under way. Never rejects: a failure stops the store, a full disk is tried again later. */
  checkpoint(): Promise<void> {
    return present(this.#checkpoints, "checkpoints").run();
  }

  onCheckpointFailed(thrown: unknown): void {
    if (isPassing(thrown) || isStorageFull(thrown))
      this.deps.logger.warn("checkpoint_put_off", { error: String(thrown) });
    else if (!this.#isClosing || this.#diskFailure === undefined) this.fail(diskFailed(thrown));
  }

  // ---- closing

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    this.#isClosing = true;
    this.#failure ??= new OttlaError("CLOSED", "the store is closed");
    await Promise.all([this.#scrub?.stop(), this.#cleaner?.stop()]);
    await this.#registry.settled();
    await this.#checkpoints?.idle;
    await this.#space.stop();
    if (this.#diskFailure === undefined) await this.#closeClean();
    for (const log of this.logs) log.giveUp(this.#failure);
    await this.#journal?.close().catch(() => undefined);
    await this.handles.closeAll();
    await this.#opened?.superblockFile.close().catch(() => undefined);
    await this.#opened?.releaseLock().catch(() => undefined);
  }

  async #closeClean(): Promise<void> {
    try {
      await this.#checkpoints?.close();
    } catch (thrown) {
      this.deps.logger.error("store_not_closed_clean", { error: String(thrown) });
    }
  }
}
