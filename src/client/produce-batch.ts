// One record batch on its way out, and the lane it travels in: all batches of one (topic, partition, acks), in order.
import type { RecordBatchBuilder } from "../model/records.ts";
import { Ring } from "../base/ring.ts";
import type { OttlaError } from "../model/errors.ts";
import type { Alarm } from "../link/alarms.ts";
import type { Generation } from "./flush-tracker.ts";
import type { SendResult } from "./types.ts";

/** A send() that waits for its batch. */
export interface BatchWaiter {
  resolve(result: SendResult): void;
  reject(error: OttlaError): void;
  /** Position of its record in the batch. */
  index: number;
  /** Which flush() has to wait for it. */
  readonly generation: Generation;
}

/**
 * open: takes records. sealed: its bytes are made, it waits to be sent, for the first time or again. in-flight: a request carries it.
 * settled: its fate was told; an answer that comes later changes nothing.
 */
export type BatchState = "open" | "sealed" | "in-flight" | "settled";

export class ProduceBatch {
  /** Another one once it was moved to a partition with a leader. */
  lane: Lane;
  /** Order within the producer, thus within the lane. */
  readonly sequence: number;
  readonly createdMs: number;
  readonly generation: Generation;
  /** Its builder has the producer's batch size and is used again. */
  readonly isUsual: boolean;
  state: BatchState = "open";
  /** Open: full, lingered long enough, or flushed. */
  isDue = false;
  /** While open, and while its buffer holds `bytes`. */
  builder: RecordBatchBuilder | undefined;
  /** From sealing on. */
  bytes: Uint8Array | undefined;
  /** Of the topic that it was sent to last. */
  topicId: string | undefined;
  recordCount = 0;
  /** Uncompressed; what the buffer's bound counts. */
  sizeBytes = 0;
  hasEnqueued = false;
  /** A record of it has a key, or was given its partition: it belongs here and nowhere else. */
  isBound = false;
  readonly waiters: BatchWaiter[] = [];
  alarm: Alarm | undefined;
  attempts = 0;
  /** Under way for so long that later ones of its lane do not wait for it any more. */
  isGivenUp = false;

  constructor(
    lane: Lane,
    options: {
      readonly sequence: number;
      readonly createdMs: number;
      readonly generation: Generation;
      readonly builder: RecordBatchBuilder;
      readonly isUsual: boolean;
    },
  ) {
    this.lane = lane;
    this.sequence = options.sequence;
    this.createdMs = options.createdMs;
    this.generation = options.generation;
    this.builder = options.builder;
    this.isUsual = options.isUsual;
  }
}

export class Lane {
  readonly topic: string;
  readonly partition: number;
  /** 0, 1, or -1 for all. */
  readonly acks: number;
  /** The one that takes records: the last of `#batches`. */
  open: ProduceBatch | undefined;
  /** Requests that carry a batch of this lane. */
  inFlightCount = 0;
  /** Those of them that are given up. */
  givenUpCount = 0;
  /** The highest sequence that was ever sent. */
  lastSentSequence = -1;
  /** In a broker's queue. */
  isQueued = false;
  /** Waits for a back-off or for metadata. */
  isBlocked = false;
  /** Answers in a row that said the topic does not exist. */
  missingCount = 0;
  /** Failures in a row. */
  failureCount = 0;
  /** The last one, in words that do not name the partition. */
  lastError: OttlaError | undefined;
  readonly #batches = new Ring<ProduceBatch>();
  /** Batches to be sent again, by sequence. */
  #retries: ProduceBatch[] = [];
  /** The one of them that is under way. */
  #sentAgain: ProduceBatch | undefined;

  constructor(topic: string, partition: number, acks: number) {
    this.topic = topic;
    this.partition = partition;
    this.acks = acks;
  }

  /** Batches that wait or are under way. */
  get backlog(): number {
    return this.#batches.length + this.#retries.length + this.inFlightCount;
  }

  push(batch: ProduceBatch): void {
    this.#batches.push(batch);
  }

  retry(batch: ProduceBatch): void {
    const at = this.#retries.findIndex((other) => other.sequence > batch.sequence);
    this.#retries.splice(at < 0 ? this.#retries.length : at, 0, batch);
  }

  /**
   * The batch to send next, if it may be sent now. While a batch waits to be sent again, later ones stay behind it, and until the
   * refused ones are through only one request of the lane is under way.
   */
  next(): ProduceBatch | undefined {
    if (this.isBlocked) return undefined;
    const batch = this.head();
    if (batch === undefined || (batch.state === "open" && !batch.isDue)) return undefined;
    const isOneAtATime = this.#retries.length > 0 || this.#sentAgain !== undefined;
    return isOneAtATime && this.inFlightCount > 0 ? undefined : batch;
  }

  /** Removes what `next` gave. */
  take(batch: ProduceBatch): void {
    if (this.#retries[0] === batch) {
      this.#retries.shift();
      this.#sentAgain = batch;
    } else this.#batches.shift();
  }

  /** A batch under way is not waited for any more. */
  giveUp(batch: ProduceBatch): void {
    if (batch.isGivenUp) return;
    batch.isGivenUp = true;
    this.givenUpCount++;
  }

  /** A later one was sent while it was under way: sent again it would stand behind that one. */
  isOvertaken(batch: ProduceBatch): boolean {
    return this.lastSentSequence > batch.sequence;
  }

  /** The request that carried the batch has ended. */
  landed(batch: ProduceBatch): void {
    this.inFlightCount--;
    if (batch.isGivenUp) this.givenUpCount--;
    batch.isGivenUp = false;
    if (this.#sentAgain === batch) this.#sentAgain = undefined;
  }

  /** First unsettled batch that is not in flight. */
  head(): ProduceBatch | undefined {
    while (this.#retries[0]?.state === "settled") this.#retries.shift();
    if (this.#retries[0] !== undefined) return this.#retries[0];
    while (this.#batches.peek()?.state === "settled") this.#batches.shift();
    return this.#batches.peek();
  }

  /** Removes and returns what waits and may go to any other partition as well. */
  takeUnbound(): ProduceBatch[] {
    const waiting = [...this.#retries, ...this.#batches].filter((batch) => batch.state !== "settled");
    const kept = waiting.filter((batch) => batch.isBound);
    if (kept.length === waiting.length) return [];
    const retries = new Set(this.#retries);
    this.#retries = kept.filter((batch) => retries.has(batch));
    this.#batches.clear();
    for (const batch of kept) if (!retries.has(batch)) this.#batches.push(batch);
    if (this.open?.isBound === false) this.open = undefined;
    return waiting.filter((batch) => !batch.isBound);
  }

  /** Removes and returns all that is not in flight. */
  drain(): ProduceBatch[] {
    const left = [...this.#retries, ...this.#batches].filter((batch) => batch.state !== "settled");
    this.#retries = [];
    this.#batches.clear();
    this.open = undefined;
    return left;
  }
}
