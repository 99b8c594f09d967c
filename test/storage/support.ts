// A store over memory: its dependencies, small limits, batches, and a listener that remembers.
import { concatBytes } from "../../src/base/bytes.ts";
import type { LeaderEpoch, NodeId, Offset, PartitionIndex, TopicId } from "../../src/model/ids.ts";
import { uuidFromBytes } from "../../src/model/ids.ts";
import type { OttlaError } from "../../src/model/errors.ts";
import { assignOffsets, baseOffsetAt, lastOffsetAt, type ProducerFields } from "../../src/model/record-batch.ts";
import { forEachBatch, RecordBatchBuilder } from "../../src/model/records.ts";
import { createChecksum } from "../../src/platform/checksum.ts";
import type { Codecs } from "../../src/ports/codecs.ts";
import type { Files } from "../../src/ports/files.ts";
import type { Logger } from "../../src/ports/logger.ts";
import type { Metrics } from "../../src/ports/metrics.ts";
import type { Timers } from "../../src/ports/timers.ts";
import { openLogStore } from "../../src/storage/log-store.ts";
import type { LogStoreImpl } from "../../src/storage/store.ts";
import type {
  LogSpec,
  ReadResult,
  ReplicaLog,
  StorageConfig,
  StorageDeps,
  StoreListener,
} from "../../src/storage/types.ts";

export const checksum = createChecksum();

const quiet: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => quiet,
};

const metrics: Metrics = {
  counter: () => ({ add: () => undefined }),
  gauge: () => ({ set: () => undefined }),
  histogram: () => ({ observe: () => undefined }),
};

export const codecs: Codecs = {
  compress: (_, bytes) => bytes,
  decompress: (_, bytes) => bytes,
};

/** Timers that fire when the test says so. */
export class ManualTimers implements Timers {
  readonly pending = new Map<number, { readonly delayMs: number; readonly callback: () => void }>();
  #next = 0;

  after(delayMs: number, callback: () => void): { cancel(): void } {
    const id = this.#next++;
    this.pending.set(id, { delayMs, callback });
    return { cancel: () => this.pending.delete(id) };
  }

  defer(callback: () => void): void {
    setImmediate(callback);
  }

  /** Fires all that are due within this delay. */
  fire(delayMs: number): void {
    for (const [id, timer] of [...this.pending]) {
      if (timer.delayMs > delayMs) continue;
      this.pending.delete(id);
      timer.callback();
    }
  }
}

export function makeDeps(
  files: Files,
  options: { readonly bootId?: string; readonly timers?: Timers } = {},
): StorageDeps {
  let drawn = 1;
  return {
    files,
    clock: { monoMs: () => 0, wallMs: () => 1_700_000_000_000 },
    timers: options.timers ?? new ManualTimers(),
    checksum,
    codecs,
    entropy: {
      fill: (target) => {
        for (let at = 0; at < target.length; at++) target[at] = drawn = (drawn * 48271) % 0x7fffffff;
      },
    },
    logger: quiet,
    metrics,
    bootId: options.bootId ?? "boot-1",
  };
}

export const baseConfig: StorageConfig = {
  directory: "/data",
  nodeId: 1 as NodeId,
  clusterId: undefined,
  segmentBytes: 2000,
  indexIntervalBytes: 200,
  journalBytes: 1024 * 1024,
  checkpointIntervalMs: 60_000,
  journalPinnedBytes: 64 * 1024,
  tailCacheBytes: 0,
  diskLowSpaceBytes: 0,
  diskReserveBytes: 0,
  openFilesMax: 8,
};

export async function openStore(
  files: Files,
  config: Partial<StorageConfig> = {},
  deps: StorageDeps = makeDeps(files),
): Promise<LogStoreImpl> {
  return (await openLogStore(deps, { ...baseConfig, ...config })) as LogStoreImpl;
}

export function specOf(topic: string, partition = 0, topicNumber = 1): LogSpec {
  const topicId: TopicId = uuidFromBytes(new Uint8Array(16).fill(topicNumber));
  return { topicId, topic, partition: partition as PartitionIndex };
}

/** A batch of `count` records whose values repeat `fill`, placed at `base` in `epoch`. */
export function makeBatch(
  base: number,
  options: {
    readonly count?: number;
    readonly epoch?: number;
    readonly fill?: number;
    readonly valueBytes?: number;
    readonly timestamp?: number;
    readonly producer?: ProducerFields;
  } = {},
): Uint8Array {
  const { count = 1, epoch = 0, fill = base, valueBytes = 20, timestamp = 1000 + base } = options;
  const builder = new RecordBatchBuilder({ limitBytes: 1 << 20 });
  for (let index = 0; index < count; index++) {
    builder.tryAppend({
      key: null,
      value: new Uint8Array(valueBytes).fill(fill + index),
      headers: [],
      timestamp: timestamp + index,
    });
  }
  const producer = options.producer && { producer: options.producer };
  const batch = builder.build({ compression: "none", codecs, checksum, ...producer });
  assignOffsets(batch, base, epoch);
  return batch;
}

/** As a core does behind an append that has no producer. */
function keepInStep(log: ReplicaLog, base: number): void {
  if (log.producers.endOffset === base) log.producers.advance(log.endOffset);
}

/** Appends one batch at the log's end and returns it; one with a producer is the caller's to observe. */
export function appendBatch(log: ReplicaLog, options: Parameters<typeof makeBatch>[1] = {}): Uint8Array {
  const base = log.endOffset;
  const batch = makeBatch(base, options);
  log.append(batch, (base + (options.count ?? 1) - 1) as Offset, (options.epoch ?? 0) as LeaderEpoch);
  if (options.producer === undefined) keepInStep(log, base);
  return batch;
}

/** Appends one-record batches in one piece and returns them one by one. */
export function appendRun(log: ReplicaLog, count: number, options: Parameters<typeof makeBatch>[1] = {}): Uint8Array[] {
  const base = log.endOffset;
  const batches = Array.from({ length: count }, (_, place) => makeBatch(base + place, options));
  log.append(concatBytes(batches), (base + count - 1) as Offset, (options.epoch ?? 0) as LeaderEpoch);
  keepInStep(log, base);
  return batches;
}

export class Recorder implements StoreListener {
  readonly events: string[] = [];
  failure: OttlaError | undefined;
  refusedFrom: number | undefined;
  #waiting: (() => void)[] = [];

  onWritten(log: ReplicaLog, endOffset: Offset): void {
    this.#note(`written ${log.topic}-${log.partition} ${endOffset}`);
  }

  onDurable(log: ReplicaLog, endOffset: Offset): void {
    this.#note(`durable ${log.topic}-${log.partition} ${endOffset}`);
  }

  onRefused(log: ReplicaLog, fromOffset: Offset): void {
    this.refusedFrom = fromOffset;
    this.#note(`refused ${log.topic}-${log.partition} ${fromOffset}`);
  }

  onDamaged(log: ReplicaLog): void {
    this.#note(`damaged ${log.topic}-${log.partition}`);
  }

  onRoomChanged(): void {
    this.#note("room");
  }

  onDiskFailed(error: OttlaError): void {
    this.failure = error;
    this.#note("failed");
  }

  #note(event: string): void {
    this.events.push(event);
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }

  /** Resolves when the condition holds, looked at after each event. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }
}

/** Lets everything that needs no timer run to its end. */
export async function settle(turns = 20): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
}

export const readAll = { maxBytes: 1 << 20, atLeastOne: true };

/** Every batch from `from` to the log's end. */
export async function contentOf(log: ReplicaLog, from: number = log.startOffset): Promise<Uint8Array[]> {
  const batches: Uint8Array[] = [];
  for (let offset = from; offset < log.endOffset; ) {
    const result: ReadResult = await log.read(offset as Offset, { ...readAll, limitOffset: log.endOffset });
    if (result.sizeBytes === 0) throw new Error(`nothing readable at ${offset}`);
    for (const chunk of result.chunks) {
      forEachBatch(chunk, (position, sizeBytes) => batches.push(chunk.slice(position, position + sizeBytes)));
    }
    offset = result.nextOffset;
  }
  return batches;
}

export const offsetsOf = (batch: Uint8Array): string => `${baseOffsetAt(batch, 0)}..${lastOffsetAt(batch, 0)}`;

/** A store and who listens to it. */
export async function opened<F extends Files>(
  files: F,
  config: Partial<StorageConfig> = {},
  timers = new ManualTimers(),
) {
  const store = await openStore(files, config, makeDeps(files, { timers }));
  const recorder = new Recorder();
  store.listen(recorder);
  return { files, store, recorder, timers };
}
