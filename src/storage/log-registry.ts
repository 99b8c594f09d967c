// The logs of a store by name and by key: making, deleting and resetting them in an order that a crash can cut anywhere (D-14).
import { isNoSpace, isPassing, diskFailed, isNotFound, storageError, storageFull, untilItPasses } from "./faults.ts";
import { assert, present } from "../base/assert.ts";
import { EMPTY_BYTES } from "../base/bytes.ts";
import { mutant } from "../base/mutant.ts";
import type { OttlaError } from "../model/errors.ts";
import { type Offset, type PartitionIndex, type TopicId, toLogId } from "../model/ids.ts";
import { ByteWriter } from "./format.ts";
import type { HandleCache } from "./handle-cache.ts";
import { emptyLogImage, type LogImage, writeSpec } from "./image.ts";
import { KIND } from "./journal-record.ts";
import { moveLogDirectory, openLogDirectory, readPartitionMetadata, removeTree } from "./log-directory.ts";
import { UNCONFIGURED_LOG } from "./log-settings.ts";
import { join, partitionDirectory } from "./paths.ts";
import type { ReadBuffers } from "./read-buffers.ts";
import { type LogServices, ReplicaLogImpl } from "./replica-log.ts";
import { Segments } from "./segments.ts";
import type { LogSpec, ReplicaLog, StorageConfig, StorageDeps } from "./types.ts";

const keyOf = (topicId: TopicId, partition: PartitionIndex): string => `${topicId}/${partition}`;

/** What the registry needs of its store. */
export interface RegistryHost extends LogServices {
  readonly deps: StorageDeps;
  readonly config: StorageConfig;
  readonly handles: HandleCache;
  readonly buffers: ReadBuffers;
  /** Resolves when no checkpoint is under way. */
  readonly idle: Promise<void>;
  /** Throws when the store is closed or has failed. */
  checkRunning(): void;
  /** The disk failed; gives what was told. */
  fail(error: OttlaError): OttlaError;
}

export class LogRegistry {
  readonly #host: RegistryHost;
  readonly #byKey = new Map<string, ReplicaLogImpl>();
  /** By the name of the directory. */
  readonly #byName = new Map<string, ReplicaLogImpl>();
  readonly #creating = new Map<string, Promise<ReplicaLogImpl>>();
  /** Directories being renamed away, by their old name. */
  readonly #removals = new Map<string, Promise<void>>();
  #nextLogId = 1;

  constructor(host: RegistryHost) {
    this.#host = host;
  }

  get nextLogId(): number {
    return this.#nextLogId;
  }

  useLogId(logId: number): void {
    this.#nextLogId = Math.max(this.#nextLogId, logId + 1);
  }

  get logs(): Iterable<ReplicaLogImpl> {
    return this.#byKey.values();
  }

  find(topicId: TopicId, partition: PartitionIndex): ReplicaLogImpl | undefined {
    return this.#byKey.get(keyOf(topicId, partition));
  }

  /** Resolves when nothing is being created or removed. */
  async settled(): Promise<void> {
    await Promise.allSettled([...this.#creating.values(), ...this.#removals.values()]);
  }

  /** Makes the log of an image known. */
  add(image: LogImage): ReplicaLogImpl {
    const { spec } = image;
    const { config, deps, handles, buffers } = this.#host;
    const segments = new Segments(
      { files: deps.files, handles, buffers, checksum: deps.checksum, clock: deps.clock, entropy: deps.entropy },
      {
        ...UNCONFIGURED_LOG,
        topicId: spec.topicId,
        partition: spec.partition,
        directory: join(config.directory, partitionDirectory(spec.topic, spec.partition)),
        segmentBytes: spec.segmentBytes ?? config.segmentBytes,
        indexIntervalBytes: spec.indexIntervalBytes ?? config.indexIntervalBytes,
      },
      image,
    );
    const log = new ReplicaLogImpl(this.#host, image, segments);
    this.#byKey.set(keyOf(spec.topicId, spec.partition), log);
    this.#byName.set(partitionDirectory(spec.topic, spec.partition), log);
    return log;
  }

  /** Starts at `fromOffset` when there is none yet. */
  create(spec: LogSpec, fromOffset: number): Promise<ReplicaLogImpl> {
    const key = keyOf(spec.topicId, spec.partition);
    const pending = this.#creating.get(key);
    if (pending !== undefined) return pending;
    const existing = this.#byKey.get(key);
    if (existing !== undefined) return Promise.resolve(existing);
    const created = this.#create(spec, fromOffset).finally(() => this.#creating.delete(key));
    this.#creating.set(key, created);
    return created;
  }

  async #create(spec: LogSpec, fromOffset: number): Promise<ReplicaLogImpl> {
    const name = partitionDirectory(spec.topic, spec.partition);
    while (this.#removals.has(name)) await this.#removals.get(name);
    const host = this.#host;
    host.checkRunning();
    const holder = this.#byName.get(name);
    if (holder !== undefined)
      throw storageError(`${name} is the directory of topic id ${holder.topicId}: delete that log first`);
    const spareId = toLogId(this.#nextLogId++);
    const logId = toLogId(this.#nextLogId++);
    try {
      await openLogDirectory(host.deps, { root: host.config.directory, metadata: { ...spec, logId }, spareId });
    } catch (thrown) {
      if (isNoSpace(thrown)) throw storageFull(thrown);
      if (isPassing(thrown)) throw storageError(`${name} could not be made: ${String(thrown)}`, thrown);
      throw host.fail(diskFailed(thrown));
    }
    while (host.gate !== undefined) await host.gate;
    host.checkRunning();
    const body = new ByteWriter();
    writeSpec(body, spec);
    const log = this.add(emptyLogImage(logId, spec, fromOffset));
    try {
      await this.#control(KIND.CREATE, log, body.bytes());
    } catch (thrown) {
      this.#forget(log);
      throw thrown;
    }
    return log;
  }

  #control(kind: number, log: ReplicaLogImpl, body: Uint8Array): Promise<void> {
    const { logId, endOffset, truncations } = log;
    return new Promise((resolve, reject) => {
      this.#host.push({
        kind,
        flags: 0,
        logId,
        base: endOffset,
        last: endOffset,
        epoch: -1,
        body,
        log,
        truncations,
        endOffset,
        undoEpochs: undefined,
        waiter: { resolve, reject },
      });
    });
  }

  /** LogStore.adoptLog */
  adopt(log: ReplicaLog, topicId: TopicId): void {
    const known = present(this.find(log.topicId, log.partition), "log to adopt");
    assert(known.damage !== undefined, `${known.topic}-${known.partition} is adopted though it is not damaged`);
    this.#byKey.delete(keyOf(known.topicId, known.partition));
    known.spec = { ...known.spec, topicId };
    this.#byKey.set(keyOf(topicId, known.partition), known);
  }

  async delete(log: ReplicaLog): Promise<void> {
    const host = this.#host;
    const known = this.find(log.topicId, log.partition);
    if (known !== log) return;
    while (host.gate !== undefined) await host.gate;
    host.checkRunning();
    if (known.isDeleted) return;
    this.#forget(known);
    const deleted = this.#control(KIND.DELETE, known, EMPTY_BYTES);
    const name = partitionDirectory(known.topic, known.partition);
    const removal = deleted.then(() => this.#removeDirectory(known)).finally(() => this.#removals.delete(name));
    this.#removals.set(
      name,
      removal.catch(() => undefined),
    );
    await deleted;
  }

  /** The old log is wholly gone before the new one is there: a crash between leaves none, which is made again. */
  async reset(log: ReplicaLog, fromOffset: Offset): Promise<ReplicaLogImpl> {
    const known = this.find(log.topicId, log.partition);
    if (known !== log) throw storageError(`the log of ${log.topic}-${log.partition} was deleted`);
    await this.delete(log);
    return this.create(known.spec, fromOffset);
  }

  #forget(log: ReplicaLogImpl): void {
    this.#byKey.delete(keyOf(log.topicId, log.partition));
    this.#byName.delete(partitionDirectory(log.topic, log.partition));
    log.markDeleted();
  }

  /** Nothing of the log may be working on its files any more when its directory changes its name. */
  async #removeDirectory(log: ReplicaLogImpl): Promise<void> {
    const { handles, deps } = this.#host;
    const { directory } = log.segments;
    await this.#host.idle;
    await log.flushing;
    try {
      // More than the segments that the log still speaks of: a cut that failed has dropped some and left their files.
      if (!mutant("D-14h")) await handles.forgetBelow(directory);
      else for (const segment of log.segments.all) await handles.forget(`${segment.path}.log`);
      const moved = await this.#whatPasses(() => this.#moveDirectory(log));
      if (moved === undefined) return;
      log.segments.forgetAll();
      await this.#whatPasses(() => removeTree(deps.files, moved));
    } catch (thrown) {
      if (!isNotFound(thrown)) this.#host.fail(diskFailed(thrown));
    } finally {
      // A reader that was under way may have opened a file again before the directory's name was free.
      if (!mutant("D-14h")) await handles.forgetBelow(directory);
    }
  }

  /** Undefined: the directory of a damaged log may be missing, or another's. */
  async #moveDirectory(log: ReplicaLogImpl): Promise<string | undefined> {
    const { deps, config } = this.#host;
    const owner = await readPartitionMetadata(deps, log.segments.directory);
    if (owner !== undefined && owner.logId !== log.logId) return undefined;
    return moveLogDirectory(deps.files, { root: config.directory, log });
  }

  /** A full disk or too few descriptors, that is. */
  #whatPasses<T>(work: () => Promise<T>): Promise<T | undefined> {
    const { deps } = this.#host;
    return untilItPasses(work, { timers: deps.timers, isRunning: () => this.#host.failure === undefined });
  }
}
