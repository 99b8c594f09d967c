// The consumer without a group: reads partitions from a position on, for ever or to the end that was current at the start.
import { asOttlaError, OttlaError } from "../model/errors.ts";
import { batchSizeAt, DECOMPRESSED_BYTES_MAX, isControlBatchAt, lastOffsetAt } from "../model/record-batch.ts";
import { decodeRecords } from "../model/records.ts";
import type { TopicMetadata } from "../wire/native/apis.ts";
import { BatchView } from "./batch-view.ts";
import { CALL_TIMEOUT_MS, retrying } from "./calls.ts";
import { ConsumerPartition } from "./consumer-partition.ts";
import type { ClientContext } from "./context.ts";
import { type Chunk, Fetcher } from "./fetcher.ts";
import { partitionOf } from "./metadata-cache.ts";
import {
  aBoolean,
  aDuration,
  aListOf,
  anInteger,
  aSignal,
  aText,
  type Checks,
  checkOptions,
  invalid,
  oneOf,
  withDefaults,
} from "./options.ts";
import { isConfirmedGone } from "./stale.ts";
import { startPositionFault } from "./start-position.ts";
import { failureOfPartitions } from "./unreadable.ts";
import type { ConsumedRecord, Consumer, ConsumerOptions, RecordBatchView, StartPosition } from "./types.ts";

const DEFAULTS = {
  from: "start",
  untilEnd: false,
  minBytes: 1,
  maxWaitMs: 500,
  maxBytes: 8 * 1024 * 1024,
  maxPartitionBytes: 1024 * 1024,
  onOutOfRange: "start",
  timeoutMs: CALL_TIMEOUT_MS,
} as const;

const CHECKS: Checks<ConsumerOptions> = {
  topics: aListOf(aText, "topic names"),
  partitions: aListOf(anInteger(0), "partition numbers"),
  from: startPositionFault,
  untilEnd: aBoolean,
  minBytes: anInteger(0),
  maxWaitMs: aDuration("zero"),
  maxBytes: anInteger(1),
  maxPartitionBytes: anInteger(1),
  onOutOfRange: oneOf("start", "end", "error"),
  timeoutMs: aDuration(),
  signal: aSignal,
};

/** A batch damaged on the way is fetched again; one that stays damaged is not. */
const CORRUPT_MAX = 3;

const isLost = ({ lastError }: ConsumerPartition): boolean => lastError?.code === "NO_INTACT_REPLICA";

interface Given {
  readonly partition: ConsumerPartition;
  readonly version: number;
  readonly view: BatchView;
}

export class ConsumerImpl implements Consumer {
  readonly #context: ClientContext;
  readonly #options: ConsumerOptions & Required<Pick<ConsumerOptions, keyof typeof DEFAULTS>>;
  readonly #onClosed: () => void;
  readonly #onAbort = () => void this.close();
  #partitions: readonly ConsumerPartition[] = [];
  #fetcher: Fetcher | undefined;
  /** Seeks from before the first record. */
  #seeks: { readonly topic: string; readonly partition: number; readonly to: StartPosition }[] = [];
  #isIterated = false;
  #isClosed = false;
  #wake: (() => void) | undefined;
  #markClosed: () => void = () => undefined;
  readonly #closed = new Promise<void>((resolve) => {
    this.#markClosed = resolve;
  });

  constructor(context: ClientContext, options: ConsumerOptions, onClosed: () => void) {
    checkOptions("consumer", options, CHECKS);
    if (options.topics === undefined) throw invalid("consumer: topics", "a list of topic names", undefined);
    this.#context = context;
    this.#options = withDefaults(DEFAULTS, options);
    this.#onClosed = onClosed;
    if (options.signal?.aborted === true) this.#isClosed = true;
    options.signal?.addEventListener("abort", this.#onAbort, { once: true });
  }

  /** Hand-made rather than a generator: half the cost per record. */
  [Symbol.asyncIterator](): AsyncIterator<ConsumedRecord> {
    this.#claim();
    let given: Given | undefined;
    let records: Iterator<ConsumedRecord> | undefined;
    const take = (): IteratorResult<ConsumedRecord> | undefined => {
      if (given === undefined || records === undefined) return undefined;
      const isVoid = this.#isClosed || given.version !== given.partition.version;
      const result = isVoid ? undefined : records.next();
      if (result !== undefined && result.done !== true) {
        given.partition.position = result.value.offset + 1;
        return result;
      }
      if (!isVoid) given.partition.position = given.view.nextOffset;
      given = records = undefined;
      return undefined;
    };
    const advance = async (): Promise<IteratorResult<ConsumedRecord>> => {
      for (;;) {
        given = await this.#nextGiven();
        if (given === undefined) return { done: true, value: undefined };
        records = given.view[Symbol.iterator]();
        const result = take();
        if (result !== undefined) return result;
      }
    };
    let waited: Promise<IteratorResult<ConsumedRecord>> | undefined;
    const next = () => {
      const result = waited === undefined ? take() : undefined;
      if (result !== undefined) return Promise.resolve(result);
      // Who asks again before the one before is there gets the one behind it, as of a generator.
      const behind = () => Promise.resolve(take() ?? advance());
      const own = waited === undefined ? advance() : waited.then(behind, behind);
      const end = () => {
        if (waited === own) waited = undefined;
      };
      waited = own;
      own.then(end, end);
      return own;
    };
    return {
      next,
      return: async () => {
        await this.close();
        return { done: true, value: undefined };
      },
    };
  }

  batches(): AsyncIterableIterator<RecordBatchView> {
    const given = this.#eachBatch();
    return {
      next: () => given.next(),
      // The generator's own would wait for a `next` that waits for records.
      return: async () => {
        await this.close();
        return given.return(undefined);
      },
      [Symbol.asyncIterator]() {
        return this;
      },
    };
  }

  async *#eachBatch(): AsyncGenerator<RecordBatchView> {
    this.#claim();
    try {
      for (;;) {
        const given = await this.#nextGiven();
        if (given === undefined) return;
        // A seek came between.
        if (given.version !== given.partition.version) continue;
        given.partition.position = given.view.nextOffset;
        if (given.view.recordCount > 0) yield given.view;
      }
    } finally {
      await this.close();
    }
  }

  seek(topic: string, partition: number, to: StartPosition): void {
    const takes = startPositionFault(to);
    if (takes !== undefined) throw invalid("seek", takes, to);
    if (this.#fetcher === undefined) {
      this.#seeks.push({ topic, partition, to });
      return;
    }
    this.#find(topic, partition).jump(to);
    this.#fetcher.plan();
    this.#notify();
  }

  position(topic: string, partition: number): number | undefined {
    const found = this.#partitions.find((entry) => entry.topic === topic && entry.index === partition);
    return found === undefined || found.position < 0 ? undefined : found.position;
  }

  close(): Promise<void> {
    if (!this.#isClosed) {
      this.#isClosed = true;
      this.#fetcher?.stop();
      this.#options.signal?.removeEventListener("abort", this.#onAbort);
      this.#notify();
      this.#markClosed();
      this.#onClosed();
    }
    return Promise.resolve();
  }

  #claim(): void {
    if (this.#isIterated) throw new OttlaError("INVALID_REQUEST", "a consumer is iterated once: make another one");
    this.#isIterated = true;
  }

  #find(topic: string, partition: number): ConsumerPartition {
    const found = this.#partitions.find((entry) => entry.topic === topic && entry.index === partition);
    if (found !== undefined) return found;
    throw new OttlaError("UNKNOWN_TOPIC_OR_PARTITION", `this consumer does not read ${topic}-${partition}`);
  }

  #notify(): void {
    this.#wake?.();
    this.#wake = undefined;
  }

  /** The next batch with something to give; undefined at the end, after close() and after an abort. */
  async #nextGiven(): Promise<Given | undefined> {
    try {
      if (this.#fetcher === undefined && !this.#isClosed) await Promise.race([this.#begin(), this.#closed]);
      for (;;) {
        if (this.#isClosed) return undefined;
        const given = this.#takeBuffered();
        if (given !== undefined) return given;
        if (this.#fetcher?.failure !== undefined) throw this.#fetcher.failure;
        if (this.#options.untilEnd && this.#partitions.every((partition) => partition.isAtEnd)) break;
        await this.#untilProgress();
      }
    } catch (error) {
      if (this.#isClosed) return undefined;
      await this.close();
      throw error;
    }
    await this.close();
    return undefined;
  }

  /**
   * With untilEnd, partitions of which nothing comes are not waited for any longer than `timeoutMs`: throws when no others are left. Those of
   * which no replica is intact are not waited for at all.
   */
  async #untilProgress(): Promise<void> {
    const { alarms } = this.#context;
    const { timeoutMs, untilEnd } = this.#options;
    const left = this.#partitions.filter((partition) => !partition.isAtEnd);
    if (left.length > 0 && left.every(isLost)) throw this.#failureOf(left, "");
    const progress = new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    if (!untilEnd || timeoutMs === Number.POSITIVE_INFINITY) return progress;
    const nowMs = alarms.nowMs();
    const dueMs = Math.max(...left.map(({ waitingSinceMs }) => (waitingSinceMs ?? nowMs) + timeoutMs));
    if (dueMs > nowMs) {
      const alarm = alarms.after(dueMs - nowMs, () => this.#notify());
      return progress.finally(() => alarm.cancel());
    }
    throw this.#failureOf(left, ` (waited for ${timeoutMs} ms)`);
  }

  #failureOf(left: readonly ConsumerPartition[], addition: string): OttlaError {
    const failures = left.map(({ topic, index, lastError }) => {
      const error = lastError ?? new OttlaError("REQUEST_TIMED_OUT", "its leader does not answer");
      return { topic, partition: index, error };
    });
    const others = left.length < this.#partitions.length ? "; all other partitions were read to their end" : "";
    return failureOfPartitions(failures, `${addition}${others}`);
  }

  async #begin(): Promise<void> {
    const { topics, partitions: wanted, from, untilEnd } = this.#options;
    const partitions: ConsumerPartition[] = [];
    for (const name of new Set(topics)) {
      const topic = await this.#lookUp(name);
      const indexes = wanted ?? topic.partitions.map((partition) => partition.index);
      for (const index of new Set(indexes)) {
        if (partitionOf(topic, index) === undefined) {
          throw new OttlaError("UNKNOWN_TOPIC_OR_PARTITION", `${name} has no partition ${index}`);
        }
        partitions.push(new ConsumerPartition(name, index, { start: from, wantsEnd: untilEnd }));
      }
    }
    this.#partitions = partitions;
    for (const { topic, partition, to } of this.#seeks) this.#find(topic, partition).start = to;
    if (this.#isClosed) return;
    this.#fetcher = new Fetcher(this.#context, this.#options, { partitions, onProgress: () => this.#notify() });
    this.#fetcher.plan();
  }

  /** That the topic does not exist must be certain. */
  #lookUp(name: string): Promise<TopicMetadata> {
    const { alarms, metadata } = this.#context;
    const deadlineMs = alarms.nowMs() + this.#options.timeoutMs;
    return retrying(this.#context, deadlineMs, (leftMs) => metadata.refresh(name, leftMs), isConfirmedGone);
  }

  #takeBuffered(): Given | undefined {
    for (;;) {
      const chunk = this.#fetcher?.peek();
      if (chunk === undefined) return undefined;
      const given = this.#takeFrom(chunk);
      if (given !== undefined) return given;
    }
  }

  /** The chunk's next batch; undefined when it has nothing to give: all below the position, or a control batch (D-33). */
  #takeFrom(chunk: Chunk): Given | undefined {
    const { partition, bytes } = chunk;
    const start = chunk.at;
    const end = start + batchSizeAt(bytes, start);
    const lastOffset = lastOffsetAt(bytes, start);
    chunk.at = end;
    if (end >= bytes.length) this.#fetcher?.finish(chunk);
    if (lastOffset < partition.position) return undefined;
    const view = isControlBatchAt(bytes, start) ? undefined : this.#open(chunk, bytes.subarray(start, end));
    if (view !== undefined) return { partition, version: partition.version, view };
    // Also where the batch was damaged and the partition has jumped: then its position stays.
    if (chunk.version === partition.version) partition.position = lastOffset + 1;
    return undefined;
  }

  #open({ partition, topicId }: Chunk, batch: Uint8Array): BatchView | undefined {
    try {
      const { checksum, codecs } = this.#context;
      const decoded = decodeRecords(batch, { checksum, codecs, decompressedBytesMax: DECOMPRESSED_BYTES_MAX });
      return new BatchView(partition, topicId, decoded);
    } catch (thrown) {
      const { topic, index, position } = partition;
      const where = `${topic}-${index} at offset ${position}, in the batch that ends with offset ${lastOffsetAt(batch, 0)}`;
      const error = asOttlaError(thrown);
      partition.corruptCount = partition.corruptAt === position ? partition.corruptCount + 1 : 1;
      partition.corruptAt = position;
      if (error.code === "CORRUPT_MESSAGE" && partition.corruptCount <= CORRUPT_MAX) {
        this.#context.logger.warn("batch_damaged", { where, reason: error.message });
        partition.jump({ offset: position });
        this.#fetcher?.plan();
        return undefined;
      }
      throw new OttlaError(error.code, `${where}: ${error.message}`, { cause: error });
    }
  }
}
