// One life of one simulated client process: a real client with a producer, a tailing consumer and now and then a second reader.
import type { Rng } from "../../base/rng.ts";
import type { Acks, BatchReport, Client, Consumer, Producer, StartPosition } from "../../client/types.ts";
import { asOttlaError, type ErrorName, type OttlaError } from "../../model/errors.ts";
import type { Codecs } from "../../ports/codecs.ts";
import type { Timers } from "../../ports/timers.ts";
import { type HistoryEvent, type PartitionName, partitionName } from "../../checkers/history.ts";
import { MARK } from "../marks.ts";
import type { SimNetwork } from "../network.ts";
import type { ClientPlan } from "../swarm.ts";
import { createSimTimers, type Incarnation, type SimWorld } from "../world.ts";
import { openSimClient } from "./open-client.ts";
import { historyOf, makeRecord, nameOf, sumOf } from "../../checkers/named-records.ts";
import type { TopicBoard, TopicPlan } from "./topics.ts";

export interface ClientParts {
  readonly world: SimWorld;
  readonly network: SimNetwork;
  readonly codecs: Codecs;
  readonly board: TopicBoard;
  readonly record: (event: HistoryEvent) => void;
  readonly nextOperation: () => number;
  readonly brokers: readonly string[];
  /** The partition's disk is gone: nobody takes or gives its records any more. */
  readonly isLost: (place: { readonly topic: string; readonly partition: number }) => boolean;
}

/** The process as its lives see it. */
export interface Liver {
  readonly name: string;
  readonly isStopping: boolean;
  /** Nothing more is to be found out by load. */
  readonly isCalm: boolean;
  onBatch(): void;
  onAcknowledged(): void;
}

/** Sends not yet settled; more wait. */
const OUTSTANDING_MAX = 64;
/** Of one partition: those of a node that is down must not keep the others' from being sent. */
const PARTITION_OUTSTANDING_MAX = 16;
const REREAD_CHANCE = 0.05;
/** Mean time between two questions of where a topic ends. */
const ASK_EVERY_MS = 600;
const CALM_FACTOR = 6;
/** Tries that need no pause: a new leader was found, a connection ended. */
const ATTEMPTS_AT_ONCE = 12;
/** More often than this in the long run is a loop without back-off (44). */
const ATTEMPT_EVERY_MS = 20;
/** No answer that a client gets which keeps to the protocol. */
const FORBIDDEN: ReadonlySet<string> = new Set([
  "INVALID_REQUEST",
  "INVALID_REQUIRED_ACKS",
  "INVALID_RECORD",
  "CORRUPT_MESSAGE",
  "PROTOCOL_ERROR",
] satisfies ErrorName[]);

export class ClientLife {
  /** Of the process in this life. */
  readonly process: string;
  readonly number: number;
  /** A send of it was acknowledged. */
  hasAcknowledged = false;
  /** Resolves when another one has taken its name. */
  readonly fenced: Promise<void>;
  readonly #liver: Liver;
  readonly #parts: ClientParts;
  readonly #plan: ClientPlan;
  readonly #rng: Rng;
  readonly #owner: Incarnation;
  readonly #timers: Timers;
  readonly #open = new Set<number>();
  readonly #openOf = new Map<PartitionName, number>();
  #client: Client | undefined;
  #sequence = 0;
  #sessions = 0;
  #isFenced = false;
  #markFenced: () => void = () => undefined;
  #wake: (() => void) | undefined;

  constructor(
    number: number,
    liver: Liver,
    { parts, plan }: { readonly parts: ClientParts; readonly plan: ClientPlan },
  ) {
    this.number = number;
    this.process = number === 0 ? liver.name : `${liver.name}/${number}`;
    this.#liver = liver;
    this.#parts = parts;
    this.#plan = plan;
    this.#rng = parts.world.fork(`workload ${this.process}`);
    this.#owner = parts.world.startIncarnation(liver.name);
    this.#timers = createSimTimers(parts.world, this.#owner);
    this.fenced = new Promise((resolve) => {
      this.#markFenced = resolve;
    });
  }

  async connect(): Promise<Client> {
    this.#client ??= await openSimClient(this.process, this.#parts, this.#owner, this.#timers);
    return this.#client;
  }

  /** Produces and consumes until the process is stopping, or another life has taken its name; resolves when all its sends have ended. */
  async run(): Promise<void> {
    const client = await this.connect();
    const producer = client.producer({
      ...(this.#plan.isNamed ? { name: `name of ${this.#liver.name}` } : { idempotent: this.#plan.isIdempotent }),
      lingerMs: this.#plan.lingerMs,
      batchBytes: this.#plan.batchBytes,
      compression: this.#plan.compression,
      maxInFlight: this.#plan.maxInFlight,
      deliveryTimeoutMs: this.#rng.pick(this.#plan.deliveryMs),
      requestTimeoutMs: this.#rng.pick([500, 2000]),
      bufferBytes: 64 * 1024,
      onBatch: (report) => this.#onBatch(report),
    });
    await Promise.all([this.#produce(producer), this.#tail(client), this.#askAgainAndAgain(client)]);
    await producer.close({ timeoutMs: 20_000 });
  }

  #onBatch({ topic, partition, error, attempts, latencyMs }: BatchReport): void {
    if (error === undefined) this.#liver.onBatch();
    if (error === undefined && attempts > 1) this.#parts.world.sometimes(MARK.SENT_AGAIN);
    if (attempts > ATTEMPTS_AT_ONCE + latencyMs / ATTEMPT_EVERY_MS)
      this.#judge({ topic, partition }, 44, `${attempts} requests in ${Math.round(latencyMs)} ms carried one batch`);
    if (error !== undefined && FORBIDDEN.has(error.code))
      this.#judge({ topic, partition }, 17, `it sent what the protocol forbids: ${error.code} ${error.message}`);
  }

  #judge(place: { readonly topic: string; readonly partition: number }, invariant: number, message: string): void {
    const { world, record } = this.#parts;
    record({ type: "verdict", timeMs: world.nowMs, process: this.process, ...place, invariant, message });
  }

  /** The process ends here and now; its machine may still send what it was given (N3), its sockets may be left open. */
  kill(): void {
    const { world, network, record } = this.#parts;
    world.countFault("P1 client death");
    this.#owner.end();
    network.forget(this.#owner);
    for (const operation of this.#open)
      record({ type: "send unknown", timeMs: world.nowMs, operation, offset: undefined, reason: "the client died" });
    this.#open.clear();
  }

  async close(): Promise<void> {
    await this.#client?.close();
  }

  wait(delayMs: number): Promise<void> {
    return new Promise((resolve) => void this.#timers.after(delayMs, resolve));
  }

  get #isEnding(): boolean {
    return this.#liver.isStopping || this.#isFenced;
  }

  async #produce(producer: Producer): Promise<void> {
    while (!this.#isEnding) {
      const thinkMs = this.#plan.thinkMs * (this.#liver.isCalm ? CALM_FACTOR : 1);
      await this.wait(-Math.log((this.#rng.u32() + 1) / 2 ** 32) * thinkMs);
      const topics = this.#parts.board.live;
      if (topics.length === 0 || this.#isEnding) continue;
      const topic = this.#rng.pick(topics);
      const burst = this.#rng.between(1, this.#plan.burstMax);
      for (let count = 0; count < burst && this.#open.size < OUTSTANDING_MAX; count++) this.#sendAny(producer, topic);
      if (this.#open.size >= OUTSTANDING_MAX) await this.#oneEnded();
    }
    while (this.#open.size > 0) await this.#oneEnded();
  }

  #oneEnded(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  #sendAny(producer: Producer, topic: TopicPlan): void {
    const partition = this.#rng.below(topic.partitions);
    const place = { topic: topic.name, partition };
    const acks = this.#plan.isNamed ? "all" : this.#rng.pick(this.#plan.acks);
    if (this.#parts.isLost(place) || this.#openAt(place, 0) >= PARTITION_OUTSTANDING_MAX) return;
    void this.sendTo(producer, topic, { partition, acks, isNumbered: this.#plan.isNamed || this.#plan.isIdempotent });
  }

  /** True when it was acknowledged. */
  sendTo(
    producer: Producer,
    topic: TopicPlan,
    how: { readonly partition: number; readonly acks: Acks; readonly isNumbered: boolean },
  ): Promise<boolean> {
    const { world, record, nextOperation } = this.#parts;
    const { partition, acks } = how;
    const place = { topic: topic.name, partition };
    const identity = { producer: this.process, sequence: this.#sequence++, partition };
    const options = {
      valueBytesMax: this.#plan.valueBytesMax,
      timestamp: world.startWallMs + Math.floor(world.nowMs),
      checksum: world.checksum,
      isKeyed: topic.isCompacted === true,
    };
    const made = makeRecord(this.#rng, identity, options);
    const operation = nextOperation();
    const isNumbered = acks === "all" && how.isNumbered;
    const named = this.#plan.isNamed ? { named: { name: this.#liver.name, life: this.number } } : {};
    const what = { process: this.process, ...place, acks, isNumbered, ...historyOf(made), ...named };
    record({ type: "send invoked", timeMs: world.nowMs, operation, ...what });
    this.#open.add(operation);
    this.#openAt(place, 1);
    return producer.send(topic.name, made.record, { acks }).then(
      ({ offset }) => {
        this.hasAcknowledged = true;
        this.#liver.onAcknowledged();
        this.#openAt(place, -1);
        this.#ended({ type: "send ok", timeMs: world.nowMs, operation, offset });
        return true;
      },
      (thrown: unknown) => {
        this.#openAt(place, -1);
        this.#failed(operation, asOttlaError(thrown));
        return false;
      },
    );
  }

  #openAt(place: { readonly topic: string; readonly partition: number }, change: number): number {
    const name = partitionName(place);
    const count = (this.#openOf.get(name) ?? 0) + change;
    this.#openOf.set(name, count);
    return count;
  }

  #failed(operation: number, error: OttlaError): void {
    const { world } = this.#parts;
    const isCertain = error.outcome === "not appended";
    world.sometimes(`send ended ${error.code}, ${error.outcome ?? "no outcome"}`);
    if (error.code === "UNKNOWN_SERVER_ERROR") world.fail(error);
    if (error.code === "PRODUCER_FENCED") this.#fence(error);
    const type = isCertain ? "send failed" : "send unknown";
    this.#ended({ type, timeMs: world.nowMs, operation, offset: undefined, reason: error.code });
  }

  #fence(error: OttlaError): void {
    if (!this.#plan.isNamed) this.#parts.world.fail(error);
    this.#isFenced = true;
    this.#markFenced();
  }

  #ended(event: HistoryEvent & { readonly operation: number }): void {
    this.#open.delete(event.operation);
    this.#parts.record(event);
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }

  /** Reads every topic from somewhere on, in sessions that end when topics come and go or something fails. */
  async #tail(client: Client): Promise<void> {
    while (!this.#isEnding) {
      const topics = this.#parts.board.live;
      if (topics.length > 0) await this.#session(client, topics);
      await this.wait(this.#rng.between(10, 200) * (this.#liver.isCalm ? CALM_FACTOR : 1));
    }
  }

  async #session(client: Client, topics: readonly TopicPlan[]): Promise<void> {
    const from = this.#rng.pick<StartPosition>(["start", "end", { fromEnd: 10 }, { fromEnd: 100 }]);
    const topic = this.#rng.pick(topics);
    const isReread = this.#rng.chance(REREAD_CHANCE);
    const consumer = client.consumer({
      topics: [topic.name],
      from: isReread ? "start" : from,
      untilEnd: isReread,
      maxWaitMs: this.#rng.pick([10, 100, 500]),
      minBytes: this.#rng.pick([1, 1, 2000]),
      maxBytes: this.#plan.fetchBytes,
      maxPartitionBytes: this.#plan.fetchBytes,
      onOutOfRange: "error",
    });
    const timer = this.#timers.after(this.#rng.between(200, 6000), () => void consumer.close());
    try {
      await this.#read(consumer, `${this.process} session ${this.#sessions++}`);
    } catch (thrown) {
      const error = asOttlaError(thrown);
      this.#parts.world.sometimes(`read ended ${error.code}`);
      if (error.code === "UNKNOWN_SERVER_ERROR" || error.code === "CORRUPT_MESSAGE") this.#parts.world.fail(error);
    } finally {
      timer.cancel();
      await consumer.close();
    }
  }

  async #askAgainAndAgain(client: Client): Promise<void> {
    const rng = this.#parts.world.fork(`questions of ${this.process}`);
    while (!this.#isEnding) {
      await this.wait(-Math.log((rng.u32() + 1) / 2 ** 32) * ASK_EVERY_MS);
      const topics = this.#parts.board.live;
      if (topics.length > 0 && !this.#isEnding) await this.#ask(client, rng.pick(topics));
    }
  }

  /** As a reader that looks for its lag does. */
  async #ask(client: Client, topic: TopicPlan): Promise<void> {
    const { world, record } = this.#parts;
    const invokedMs = world.nowMs;
    try {
      for (const { partition, endOffset } of await client.admin().offsets(topic.name, { timeoutMs: 1000 }))
        record({
          type: "latest",
          timeMs: world.nowMs,
          invokedMs,
          process: this.process,
          topic: topic.name,
          partition,
          endOffset,
        });
    } catch (thrown) {
      const error = asOttlaError(thrown);
      world.sometimes(`question for the end ended ${error.code}`);
      if (error.code === "UNKNOWN_SERVER_ERROR") world.fail(error);
    }
  }

  async #read(consumer: Consumer, session: string): Promise<void> {
    const { world, record } = this.#parts;
    const next = new Map<number, number>();
    for await (const batch of consumer.batches()) {
      for (const each of batch) {
        const expected = next.get(each.partition);
        next.set(each.partition, each.offset + 1);
        const { topic, partition, offset } = each;
        const after = expected === undefined ? {} : { afterOffset: expected - 1 };
        const read = { topic, partition, offset, value: nameOf(each), sum: sumOf(each, world.checksum) };
        record({
          type: "read",
          timeMs: world.nowMs,
          process: session,
          ...read,
          highWatermark: batch.highWatermark,
          fromOffset: 0,
          ...after,
        });
      }
      if (this.#isEnding) return;
    }
  }
}
