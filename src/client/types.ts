// The public types of the client: what `connect()` gives, and what goes in and out of a producer, a consumer and an admin.
import type { OttlaError } from "../model/errors.ts";
import type { CompressionName } from "../ports/codecs.ts";
import type { Admin, TopicInfo } from "./admin-types.ts";

export type * from "./admin-types.ts";

/**
 * What an acknowledgement is worth. 0: there is none; a send resolves when it is handed over. 1: the leader wrote it: survives kill -9 of its
 * process; lost where the leader's machine loses power, or another replica leads before it has been copied. "all": on the disk of every replica
 * in sync, at least min.insync.replicas: survives everything that leaves one of them.
 */
export type Acks = 0 | 1 | "all";

export type Headers = readonly (readonly [key: string, value: Uint8Array | null])[];

/** A record to send. A string is sent as UTF-8; null is Kafka's null (a null value is a tombstone). */
export interface OutgoingRecord {
  readonly key?: Uint8Array | string | null;
  readonly value: Uint8Array | string | null;
  readonly headers?: Headers | Readonly<Record<string, string | Uint8Array | null>>;
  /** Milliseconds since 1970; default: now, as read once per turn of the event loop and per batch. */
  readonly timestamp?: number;
  /** Default: the partitioner's choice. */
  readonly partition?: number;
}

export interface SendResult {
  readonly topic: string;
  readonly partition: number;
  /** Undefined with acks 0. */
  readonly offset: number | undefined;
}

export interface SendOptions {
  /** Overrides the producer's. Between batches of different acks no order is promised (D-28). */
  readonly acks?: Acks;
  /** Ends the wait for room or for metadata with ABORTED; a record that is in a batch already stays there. */
  readonly signal?: AbortSignal;
}

/** What became of one batch; told once for each. */
export interface BatchReport {
  readonly topic: string;
  /** Which topic of that name; undefined when it was sent to none. */
  readonly topicId: string | undefined;
  readonly partition: number;
  readonly recordCount: number;
  readonly sizeBytes: number;
  /** Undefined on error and with acks 0. */
  readonly baseOffset: number | undefined;
  /** From the batch's first record to its report. */
  readonly latencyMs: number;
  /** Requests that carried it. More than one: its answer was lost, or it was refused at first. */
  readonly attempts: number;
  /** Undefined on success; its `outcome` says appended, not appended or unknown. */
  readonly error: OttlaError | undefined;
}

export interface ProducerOptions {
  /** Default "all". */
  readonly acks?: Acks;
  /**
   * Default true: batches of acks "all" carry the producer's id and a sequence number, so that one that is sent again is there once, in its
   * place. False: what may be there already is not sent again, and its sender is told that its outcome is unknown. With acks 0
   * and 1, also of a single send, it is always so (D-28): given together, true is refused.
   */
  readonly idempotent?: boolean;
  /**
   * One producer at a time has this name, also over restarts of its process: from the moment a new one has begun to send, nothing of the one
   * before is appended any more; its sends fail with PRODUCER_FENCED. Only for acks "all": a send with others is refused. 1 to 249 characters, none
   * of them a control character. Default: none.
   */
  readonly name?: string;
  /** How long a batch waits for more records; 0 sends what a turn of the event loop gathered. Default 5. */
  readonly lingerMs?: number;
  /**
   * A batch is sent when it has grown to this. Default 65,536; never above the topic's max.message.bytes. While a partition has as many batches
   * under way as it may, its next one goes on growing, to four times this at most.
   */
  readonly batchBytes?: number;
  readonly compression?: CompressionName;
  /**
   * From the first record of a batch to its acknowledgement or DELIVERY_TIMED_OUT; a `send` that has to wait for room in the buffer before waits
   * no longer than that either. Default 120,000.
   */
  readonly deliveryTimeoutMs?: number;
  /** How long a broker may take for one produce request. Default 30,000. */
  readonly requestTimeoutMs?: number;
  /** Bound: bytes of records buffered and in flight; send() waits while it is full. Default 32 MiB. */
  readonly bufferBytes?: number;
  /**
   * Bound: produce requests in flight per broker. Default 16. An idempotent producer has at most 5 batches of a partition under way and
   * keeps their order. Without, or with acks 0 and 1, a batch that was refused and is sent again may come after a later one that was under way
   * already; 1 keeps strict order.
   */
  readonly maxInFlight?: number;
  /** Partition of a keyed record; default murmur2 as Kafka's. Null keys stick to one partition per batch. */
  readonly partitioner?: (key: Uint8Array, partitionCount: number) => number;
  /** Called once per batch. Must not throw. */
  readonly onBatch?: (report: BatchReport) => void;
}

/** Arguments that make no sense (a key of the wrong type, an unknown option) throw or reject at once: INVALID_REQUEST names the field. */
export interface Producer {
  /** Resolves when acknowledged as asked (with acks 0: when handed to the connection). Rejects with OttlaError. */
  send(topic: string, record: OutgoingRecord, options?: SendOptions): Promise<SendResult>;
  /** All of them; resolves when every one is acknowledged, rejects with an AggregateError of the failed ones otherwise. */
  sendBatch(topic: string, records: readonly OutgoingRecord[], options?: SendOptions): Promise<SendResult[]>;
  /**
   * For bulk: buffers the record and tells its fate only through `onBatch` and `flush`. Returns undefined when there is room for more, or a
   * promise to wait for when the buffer is full. Throws OttlaError for a record that can never be sent (MESSAGE_TOO_LARGE,
   * INVALID_REQUEST). It goes before any `send` that waits for room. Needs `prepare(topic)` to have resolved; throws
   * UNKNOWN_TOPIC_OR_PARTITION when the topic is gone since.
   */
  enqueue(topic: string, record: OutgoingRecord, options?: SendOptions): Promise<void> | undefined;
  /** Loads the topic's metadata, so that `enqueue` needs no wait. Rejects with UNKNOWN_TOPIC_OR_PARTITION. */
  prepare(topic: string): Promise<TopicInfo>;
  /** Sends all that is buffered and waits for it. Rejects with an AggregateError of the errors of enqueued records since the last flush. */
  flush(options?: { readonly signal?: AbortSignal }): Promise<void>;
  /** Flushes for at most `timeoutMs` (default 5,000), then gives up what is left: its sends reject with CLOSED. Always ends. */
  close(options?: { readonly timeoutMs?: number }): Promise<void>;
}

export interface ConsumedRecord {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  /** Milliseconds since 1970. */
  readonly timestamp: number;
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
  readonly headers: Headers;
  /** Epoch of the leader that appended it. */
  readonly leaderEpoch: number;
}

/**
 * "start", "end", an offset, the last N records of each partition (more than 10,000 are not counted, but taken by their offsets, of which some have
 * no record), or the first record at or after a time.
 */
export type StartPosition =
  | "start"
  | "end"
  | { readonly offset: number }
  | { readonly fromEnd: number }
  | { readonly timestamp: number };

export interface ConsumerOptions {
  readonly topics: readonly string[];
  /** Default: all partitions. */
  readonly partitions?: readonly number[];
  /** Default "start". An offset that the partition does not have follows `onOutOfRange`. */
  readonly from?: StartPosition;
  /**
   * Stop by itself at the end offsets that were current at the start; where the topic was made anew meanwhile, or an unclean election has given up
   * records, at the end of then. Default false.
   */
  readonly untilEnd?: boolean;
  /** A fetch is answered when this much is there, or after `maxWaitMs`. Default 1. */
  readonly minBytes?: number;
  /** Default 500. */
  readonly maxWaitMs?: number;
  /** Bound: bytes of one fetch answer. Default 8 MiB. */
  readonly maxBytes?: number;
  /** Bound: bytes of one partition in a fetch answer. Default 1 MiB. */
  readonly maxPartitionBytes?: number;
  /** Below log start or above the end: "start" (default), "end" or an OFFSET_OUT_OF_RANGE error that names the valid range. */
  readonly onOutOfRange?: "start" | "end" | "error";
  /**
   * How long the topics are looked for, and, with `untilEnd`, how long a partition is waited for that has no leader, or whose leader does
   * not answer: then the iteration rejects, once all that can be had was given; the error names them. Default 30,000.
   */
  readonly timeoutMs?: number;
  /** Ends the iteration quietly, as close() does. */
  readonly signal?: AbortSignal;
}

/** Records of one partition, in order; views into the fetched bytes. */
export interface RecordBatchView extends Iterable<ConsumedRecord> {
  readonly topic: string;
  /** Which topic of that name. */
  readonly topicId: string;
  readonly partition: number;
  /** Of the fetch that brought it: what is below is readable. */
  readonly highWatermark: number;
  readonly recordCount: number;
}

/**
 * Reads partitions without a group. Iterate it once: `for await (const record of consumer)`, or by batches.
 *
 * Where a partition cannot be read, the iteration ends with the OttlaError after some tries, once all that was fetched before has been
 * given: STORAGE_ERROR (damaged on the broker, 5 answers in about 3 s), CORRUPT_MESSAGE or INVALID_RECORD (a batch that is damaged
 * or not built as its header says). The message names topic, partition and offset. To read on behind it, make another consumer
 * and `seek` past that offset before iterating.
 */
export interface Consumer extends AsyncIterable<ConsumedRecord> {
  batches(): AsyncIterable<RecordBatchView>;
  /** Takes effect with the next record given, or before the first one. */
  seek(topic: string, partition: number, to: StartPosition): void;
  /** Offset of the next record of the partition. */
  position(topic: string, partition: number): number | undefined;
  /** Ends iteration; always ends itself. */
  close(): Promise<void>;
}

export interface ConnectOptions {
  /** "host:port" or "ws://host:port" of one or more brokers. Default ["127.0.0.1:7070"]. */
  readonly brokers?: readonly string[];
  /** Told to brokers, for their logs. */
  readonly clientId?: string;
  /**
   * Until the first broker answered. Default 10,000; when it is not given, 3,000 of nothing but refused connections (no process
   * listens there) are enough to give up.
   */
  readonly connectTimeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** One client shares its connections among all that it makes. */
export interface Client {
  producer(options?: ProducerOptions): Producer;
  consumer(options: ConsumerOptions): Consumer;
  admin(): Admin;
  /** Closes everything made from it. Always ends. */
  close(options?: { readonly timeoutMs?: number }): Promise<void>;
}
