// The producer: takes records in order, holds them within its bound, and tells each caller what became of its record.
import { Ring } from "../base/ring.ts";
import { asOttlaError, OttlaError } from "../model/errors.ts";
import type { TopicMetadata } from "../wire/native/apis.ts";
import { Accumulator, type PlacedRecord } from "./accumulator.ts";
import { orAborted } from "./aborted.ts";
import type { Alarm } from "../link/alarms.ts";
import { backoffMs } from "../link/backoff.ts";
import type { ClientContext } from "./context.ts";
import { topicInfoOf } from "./metadata-cache.ts";
import { checkOptions, invalid, isList, withDefaults } from "./options.ts";
import { checkRecord, checkTopicName, normalise, wireAcks } from "./outgoing.ts";
import { partitionOfKey } from "./partitioner.ts";
import type { BatchWaiter, ProduceBatch } from "./produce-batch.ts";
import {
  CHECKS,
  CLOSE_CHECKS,
  FLUSH_CHECKS,
  KeyRule,
  refuseFalsePromise,
  SEND_CHECKS,
  unfenced,
} from "./producer-checks.ts";
import { FlushTracker } from "./flush-tracker.ts";
import { withOutcome } from "./outcomes.ts";
import { type BatchFate, Sender } from "./sender.ts";
import { isConfirmedGone } from "./stale.ts";
import type { OutgoingRecord, Producer, ProducerOptions, SendOptions, SendResult, TopicInfo } from "./types.ts";

interface PendingSend extends BatchWaiter {
  readonly topic: string;
  readonly record: OutgoingRecord;
  readonly acks: number;
  readonly signal: AbortSignal | undefined;
  /** While it waits for metadata or for room; then its batch has one. */
  alarm: Alarm | undefined;
  onAbort: (() => void) | undefined;
  isSettled: boolean;
}

const DEFAULTS = {
  acks: "all",
  idempotent: true,
  lingerMs: 5,
  batchBytes: 65_536,
  compression: "none",
  deliveryTimeoutMs: 120_000,
  requestTimeoutMs: 30_000,
  bufferBytes: 32 * 1024 * 1024,
  maxInFlight: 16,
  partitioner: partitionOfKey,
} as const satisfies ProducerOptions;

const CLOSE_TIMEOUT_MS = 5_000;

export class ProducerImpl implements Producer {
  readonly #context: ClientContext;
  readonly #options: Required<Omit<ProducerOptions, "onBatch" | "name">> & Pick<ProducerOptions, "onBatch" | "name">;
  readonly #accumulator: Accumulator;
  readonly #sender: Sender;
  readonly #flushes = new FlushTracker();
  readonly #keyRule = new KeyRule();
  /** Sends of topics whose metadata is on its way. */
  readonly #byTopic = new Map<string, Ring<PendingSend>>();
  /** Sends that wait for room, in order. */
  readonly #waiting = new Ring<PendingSend>();
  readonly #inFlight = new Set<ProduceBatch>();
  readonly #acks: number;
  /** The record of the moment. Until it is appended nothing else may take its place. */
  readonly #record: PlacedRecord;
  #isAppending = false;
  /** Topics that were there once: when metadata knows one of them no more, it is gone. */
  readonly #prepared = new Set<string>();
  /** Time of the records of this turn of the event loop; -1: the turn has just begun. */
  #turnMs = -1;
  readonly #endTurn = () => {
    this.#turnMs = -1;
  };
  readonly #onClosed: () => void;
  #room: { readonly promise: Promise<void>; readonly resolve: () => void } | undefined;
  #isClosing = false;
  #closing: Promise<void> | undefined;

  constructor(context: ClientContext, options: ProducerOptions, onClosed: () => void) {
    this.#context = context;
    checkOptions("producer", options, CHECKS);
    this.#options = withDefaults(DEFAULTS, options);
    refuseFalsePromise(options);
    this.#acks = wireAcks(this.#options.acks);
    this.#record = {
      key: null,
      value: null,
      headers: [],
      timestamp: 0,
      partition: undefined,
      acks: this.#acks,
      waiter: undefined,
      generation: this.#flushes.current,
    };
    this.#onClosed = onClosed;
    this.#accumulator = new Accumulator(context, this.#options, {
      onBatchOpened: (batch) => this.#batchOpened(batch),
      onDue: (lane) => this.#sender.route(lane),
    });
    this.#sender = new Sender(context, this.#options, {
      accumulator: this.#accumulator,
      settle: (batch, fate) => this.#settle(batch, fate),
    });
  }

  send(topic: string, record: OutgoingRecord, options?: SendOptions): Promise<SendResult> {
    return new Promise((resolve, reject) => {
      try {
        this.#send({ topic, record, options, resolve, reject });
      } catch (thrown) {
        reject(unsent(thrown));
      }
    });
  }

  #send(asked: {
    readonly topic: string;
    readonly record: OutgoingRecord;
    readonly options: SendOptions | undefined;
    readonly resolve: (result: SendResult) => void;
    readonly reject: (error: OttlaError) => void;
  }): void {
    const { topic, record, options, resolve, reject } = asked;
    if (this.#isClosing) throw new OttlaError("CLOSED", "the producer was closed");
    checkTopicName(topic);
    const acks = options === undefined ? this.#acks : this.#acksOf(options);
    const signal = options?.signal;
    if (signal?.aborted === true) throw new OttlaError("ABORTED");
    const metadata = this.#hasToWait ? undefined : this.#context.metadata.peek(topic);
    if (metadata !== undefined) {
      const waiter = { resolve, reject, index: 0, generation: this.#flushes.begin() };
      return this.#sendNow(metadata, record, acks, waiter);
    }
    // What is wrong is told at once: the batch may be made long after.
    checkRecord(record);
    this.#admit({
      topic,
      record,
      acks,
      signal,
      resolve,
      reject,
      index: 0,
      generation: this.#flushes.begin(),
      alarm: undefined,
      onAbort: undefined,
      isSettled: false,
    });
  }

  async sendBatch(topic: string, records: readonly OutgoingRecord[], options?: SendOptions): Promise<SendResult[]> {
    if (!isList(records)) throw invalid("records", "a list of records", records);
    const settled = await Promise.allSettled(records.map((record) => this.send(topic, record, options)));
    const errors = settled.flatMap((result) => (result.status === "rejected" ? [result.reason as OttlaError] : []));
    if (errors.length > 0) throw new AggregateError(errors, `${errors.length} of ${records.length} records failed`);
    return settled.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
  }

  enqueue(topic: string, record: OutgoingRecord, options?: SendOptions): Promise<void> | undefined {
    try {
      if (this.#isClosing) throw new OttlaError("CLOSED", "the producer was closed");
      if (options?.signal?.aborted === true) throw new OttlaError("ABORTED");
      const metadata = this.#context.metadata.peek(topic);
      if (metadata === undefined) throw this.#unprepared(topic);
      // A caller that does not wait must not fill the memory.
      if (this.#accumulator.bufferedBytes >= 2 * this.#options.bufferBytes) {
        throw new OttlaError("BUSY", "the buffer is full: wait for the promise that enqueue returned");
      }
      this.#append(metadata, record, options === undefined ? this.#acks : this.#acksOf(options), undefined);
    } catch (thrown) {
      throw unsent(thrown);
    }
    return this.#isFull ? this.#untilRoom() : undefined;
  }

  #acksOf(options: SendOptions): number {
    checkOptions("send", options, SEND_CHECKS);
    if (options.acks === undefined) return this.#acks;
    if (options.acks !== "all" && this.#options.name !== undefined) throw unfenced();
    return wireAcks(options.acks);
  }

  #unprepared(topic: string): OttlaError {
    checkTopicName(topic);
    if (!this.#prepared.has(topic)) return new OttlaError("INVALID_REQUEST", `call prepare("${topic}") before enqueue`);
    return new OttlaError("UNKNOWN_TOPIC_OR_PARTITION", `${topic} does not exist any more`);
  }

  async prepare(topic: string): Promise<TopicInfo> {
    if (this.#isClosing) throw new OttlaError("CLOSED", "the producer was closed");
    checkTopicName(topic);
    this.#expectNumbers();
    const known = await this.#context.metadata.get(topic);
    const metadata = known.isDeleting ? await this.#context.metadata.refresh(topic) : known;
    this.#refuseDeleting(metadata);
    this.#prepared.add(topic);
    return topicInfoOf(metadata);
  }

  async flush(options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    checkOptions("flush", options, FLUSH_CHECKS);
    const done = this.#flushes.flush(() => options.signal?.aborted !== true);
    this.#accumulator.makeAllDue();
    return orAborted(done, options.signal);
  }

  async close(options: { readonly timeoutMs?: number } = {}): Promise<void> {
    checkOptions("close", options, CLOSE_CHECKS);
    this.#closing ??= this.#close(options.timeoutMs ?? CLOSE_TIMEOUT_MS);
    return this.#closing;
  }

  async #close(timeoutMs: number): Promise<void> {
    this.#isClosing = true;
    const gaveUp = () => new OttlaError("CLOSED", `not everything was sent within ${timeoutMs} ms`);
    try {
      await this.#context.alarms.within(this.flush(), timeoutMs, gaveUp);
    } catch (error) {
      this.#context.logger.warn("producer_closed_with_errors", { reason: asOttlaError(error).message });
    }
    this.#giveUp();
    this.#onClosed();
  }

  /** Tells everything that is left that it was not, or may not have been, sent. */
  #giveUp(): void {
    const closed = new OttlaError("CLOSED", "the producer was closed first");
    this.#sender.close();
    for (const queue of [...this.#byTopic.values(), this.#waiting]) {
      for (let send = queue.shift(); send !== undefined; send = queue.shift()) {
        this.#rejectSend(send, withOutcome(closed, "not appended"));
      }
    }
    for (const batch of [...this.#inFlight]) {
      const outcome = batch.isDoubtful ? "unknown" : "not appended";
      this.#settle(batch, { kind: "failed", error: withOutcome(closed, outcome) });
    }
    this.#accumulator.drain();
    this.#makeRoom();
  }

  /** Others are waiting, or will have to. */
  get #hasToWait(): boolean {
    return this.#byTopic.size > 0 || this.#waiting.length > 0 || this.#isFull;
  }

  get #isFull(): boolean {
    return this.#accumulator.bufferedBytes >= this.#options.bufferBytes;
  }

  #admit(send: PendingSend): void {
    const queue = this.#byTopic.get(send.topic);
    if (queue !== undefined) return this.#wait(send, queue);
    const metadata = this.#context.metadata.peek(send.topic);
    if (metadata === undefined) {
      this.#load(send.topic);
      return this.#admit(send);
    }
    if (this.#waiting.length > 0 || this.#isFull) {
      this.#wait(send, this.#waiting);
      return this.#accumulator.makeAllDue();
    }
    this.#accept(send, metadata);
  }

  /** Fetches the topic's metadata; its sends queue up meanwhile, each until its own deadline. */
  #load(topic: string): void {
    const queue = new Ring<PendingSend>();
    this.#expectNumbers();
    this.#byTopic.set(topic, queue);
    this.#loadMetadata(topic, queue).then(
      () => {
        this.#byTopic.delete(topic);
        for (let send = queue.shift(); send !== undefined; send = queue.shift()) if (!send.isSettled) this.#admit(send);
      },
      (error: unknown) => {
        this.#byTopic.delete(topic);
        const failure = withOutcome(asOttlaError(error), "not appended");
        for (let send = queue.shift(); send !== undefined; send = queue.shift()) this.#rejectSend(send, failure);
      },
    );
  }

  /** The id comes while the topic is looked for. */
  #expectNumbers(): void {
    if (this.#options.idempotent && this.#acks === -1) this.#sender.prepare();
  }

  /** Tries for as long as somebody waits; that the topic does not exist must be certain. */
  async #loadMetadata(topic: string, queue: Ring<PendingSend>): Promise<void> {
    const { alarms, metadata, rng } = this.#context;
    for (let attempt = 1; ; attempt++) {
      try {
        await metadata.get(topic);
        return;
      } catch (thrown) {
        const error = asOttlaError(thrown);
        if (!error.retriable || isConfirmedGone(error)) throw error;
        dropSettled(queue);
        if (queue.length === 0) return;
      }
      await alarms.sleep(backoffMs(attempt, rng));
    }
  }

  #wait(send: PendingSend, queue: Ring<PendingSend>): void {
    queue.push(send);
    if (send.alarm === undefined) {
      const { deliveryTimeoutMs } = this.#options;
      const timedOut = () => new OttlaError("DELIVERY_TIMED_OUT", `not sent within ${deliveryTimeoutMs} ms`);
      send.alarm = this.#context.alarms.after(deliveryTimeoutMs, () =>
        this.#rejectSend(send, withOutcome(timedOut(), "not appended")),
      );
    }
    if (send.signal !== undefined && send.onAbort === undefined) {
      send.onAbort = () => this.#rejectSend(send, new OttlaError("ABORTED", undefined, { outcome: "not appended" }));
      send.signal.addEventListener("abort", send.onAbort, { once: true });
    }
  }

  #stopWaiting(send: PendingSend): void {
    send.alarm?.cancel();
    if (send.onAbort !== undefined) send.signal?.removeEventListener("abort", send.onAbort);
  }

  #rejectSend(send: PendingSend, error: OttlaError): void {
    if (send.isSettled) return;
    send.isSettled = true;
    this.#stopWaiting(send);
    send.reject(error);
    this.#flushes.end(send.generation);
  }

  #accept(send: PendingSend, metadata: TopicMetadata): void {
    try {
      this.#append(metadata, send.record, send.acks, send);
      this.#stopWaiting(send);
      send.isSettled = true;
    } catch (error) {
      this.#rejectSend(send, withOutcome(asOttlaError(error), "not appended"));
    }
  }

  #sendNow(topic: TopicMetadata, record: OutgoingRecord, acks: number, waiter: BatchWaiter): void {
    try {
      this.#append(topic, record, acks, waiter);
    } catch (error) {
      waiter.reject(withOutcome(asOttlaError(error), "not appended"));
      this.#flushes.end(waiter.generation);
    }
  }

  #append(topic: TopicMetadata, record: OutgoingRecord, acks: number, waiter: BatchWaiter | undefined): void {
    if (topic.isDeleting) this.#refuseDeleting(topic);
    // A partitioner of the user's may send in its turn.
    const isWithin = this.#isAppending;
    const placed = isWithin ? { ...this.#record } : this.#record;
    normalise(record, this.#turnMs < 0 ? this.#beginTurn() : this.#turnMs, placed);
    this.#keyRule.check(topic, placed.key);
    placed.partition = record.partition;
    placed.acks = acks;
    placed.waiter = waiter;
    placed.generation = waiter === undefined ? this.#flushes.current : waiter.generation;
    this.#isAppending = true;
    try {
      this.#accumulator.append(topic, placed);
    } finally {
      this.#isAppending = isWithin;
    }
    if (this.#isFull) this.#accumulator.makeAllDue();
  }

  /** Nothing is sent to it, so that no answer tells when it is gone, or made anew: that is asked for here. */
  #refuseDeleting({ isDeleting, name }: TopicMetadata): void {
    if (!isDeleting) return;
    this.#context.metadata.keepFresh(name, undefined, false);
    throw new OttlaError("UNKNOWN_TOPIC_OR_PARTITION", `${name} is being deleted`);
  }

  /** Asking the clock for each record is a tenth of the whole. */
  #beginTurn(): number {
    this.#turnMs = this.#context.clock.wallMs();
    this.#context.timers.defer(this.#endTurn);
    return this.#turnMs;
  }

  #batchOpened(batch: ProduceBatch): void {
    // A turn may be long.
    if (this.#turnMs >= 0) this.#turnMs = this.#context.clock.wallMs();
    this.#inFlight.add(batch);
    this.#flushes.begin(batch.generation);
    this.#sender.watchDeadline(batch);
    // While somebody waits for a flush, nothing lingers: records that waited for room belong to it.
    if (this.#flushes.isFlushing) this.#context.timers.defer(() => this.#accumulator.makeAllDue());
  }

  #settle(batch: ProduceBatch, fate: BatchFate): void {
    this.#inFlight.delete(batch);
    batch.alarm?.cancel();
    batch.state = "settled";
    const sizeBytes = batch.bytes?.length ?? batch.sizeBytes;
    this.#accumulator.release(batch, fate.kind === "appended" && fate.baseOffset !== undefined);
    this.#tellWaiters(batch, fate);
    if (fate.kind === "failed" && batch.hasEnqueued) {
      this.#flushes.fail(fate.error, batch.recordCount - batch.waiters.length);
    }
    // A batch that is made due by the append of another record may turn out to be hopeless on the spot: sends that wait for room, and those of
    // the user's `onBatch`, would be appended within that append.
    if (this.#isAppending) this.#context.timers.defer(() => this.#settled(batch, fate, sizeBytes));
    else this.#settled(batch, fate, sizeBytes);
  }

  #settled(batch: ProduceBatch, fate: BatchFate, sizeBytes: number): void {
    this.#report(batch, fate, sizeBytes);
    this.#flushes.end(batch.generation);
    if (!this.#isFull) this.#makeRoom();
  }

  #tellWaiters(batch: ProduceBatch, fate: BatchFate): void {
    const { topic, partition } = batch.lane;
    for (const waiter of batch.waiters) {
      if (fate.kind === "failed") waiter.reject(fate.error);
      else {
        const offset = fate.baseOffset === undefined ? undefined : fate.baseOffset + waiter.index;
        waiter.resolve({ topic, partition, offset });
      }
      this.#flushes.end(waiter.generation);
    }
  }

  #report(batch: ProduceBatch, fate: BatchFate, sizeBytes: number): void {
    try {
      this.#options.onBatch?.({
        topic: batch.lane.topic,
        topicId: batch.topicId,
        partition: batch.lane.partition,
        recordCount: batch.recordCount,
        sizeBytes,
        baseOffset: fate.kind === "appended" ? fate.baseOffset : undefined,
        latencyMs: this.#context.alarms.nowMs() - batch.createdMs,
        attempts: batch.attempts,
        error: fate.kind === "failed" ? fate.error : undefined,
      });
    } catch (error) {
      this.#context.logger.error("on_batch_threw", { reason: asOttlaError(error).message });
    }
  }

  #untilRoom(): Promise<void> {
    if (this.#room === undefined) {
      let resolve: () => void = () => {};
      const promise = new Promise<void>((done) => {
        resolve = done;
      });
      this.#room = { promise, resolve };
    }
    return this.#room.promise;
  }

  #makeRoom(): void {
    while (this.#waiting.length > 0 && !this.#isFull) {
      const send = this.#waiting.shift();
      if (send === undefined || send.isSettled) continue;
      const metadata = this.#context.metadata.peek(send.topic);
      if (metadata === undefined) this.#admit(send);
      else this.#accept(send, metadata);
    }
    if (this.#isFull && !this.#isClosing) return;
    this.#room?.resolve();
    this.#room = undefined;
  }
}

const unsent = (thrown: unknown): OttlaError => withOutcome(asOttlaError(thrown), "not appended");

/** From the front on: sends time out in their order, if not cancelled. */
function dropSettled(queue: Ring<PendingSend>): void {
  while (queue.peek()?.isSettled === true) queue.shift();
}
