// One simulated client process: a real client with a producer, a tailing consumer and now and then a second reader.
import type { Rng } from "../../base/rng.ts";
import type { Acks, Client, Consumer, Producer, StartPosition } from "../../client/types.ts";
import { asOttlaError, type OttlaError } from "../../model/errors.ts";
import type { Codecs } from "../../ports/codecs.ts";
import type { Timers } from "../../ports/timers.ts";
import { type HistoryEvent, type PartitionName, partitionName } from "../history.ts";
import type { SimNetwork } from "../network.ts";
import type { ClientPlan } from "../swarm.ts";
import { createSimTimers, type Incarnation, type SimWorld } from "../world.ts";
import { openSimClient } from "./open-client.ts";
import { makeRecord, sumOf, valueOf } from "./records.ts";
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

interface Place {
  readonly topic: TopicPlan;
  readonly partition: number;
}

/** Sends not yet settled; more wait. */
const OUTSTANDING_MAX = 64;
/** Of one partition: those of a node that is down must not keep the others' from being sent. */
const PARTITION_OUTSTANDING_MAX = 16;
const REREAD_CHANCE = 0.05;
/** Mean time between two questions of where a topic ends. */
const ASK_EVERY_MS = 600;

export class SimClient {
  readonly name: string;
  /** Batches told to be appended. */
  batches = 0;
  /** Records acknowledged. */
  acknowledged = 0;
  isStopping = false;
  /** Of those that `reach` was called with. */
  readonly unreached = new Set<PartitionName>();
  readonly #parts: ClientParts;
  readonly #plan: ClientPlan;
  readonly #rng: Rng;
  readonly #owner: Incarnation;
  readonly #timers: Timers;
  #client: Client | undefined;
  #sequence = 0;
  #outstanding = 0;
  readonly #outstandingOf = new Map<PartitionName, number>();
  #sessions = 0;
  #wake: (() => void) | undefined;

  constructor(name: string, parts: ClientParts, plan: ClientPlan) {
    this.name = name;
    this.#parts = parts;
    this.#plan = plan;
    this.#rng = parts.world.fork(`workload ${name}`);
    this.#owner = parts.world.startIncarnation(name);
    this.#timers = createSimTimers(parts.world, this.#owner);
  }

  get outstanding(): number {
    return this.#outstanding;
  }

  async connect(): Promise<Client> {
    this.#client ??= await openSimClient(this.name, this.#parts, this.#owner, this.#timers);
    return this.#client;
  }

  /** Produces and consumes until `isStopping`; resolves when all its sends have ended. */
  async run(): Promise<void> {
    const client = await this.connect();
    const producer = client.producer({
      lingerMs: this.#plan.lingerMs,
      batchBytes: this.#plan.batchBytes,
      compression: this.#plan.compression,
      maxInFlight: this.#plan.maxInFlight,
      deliveryTimeoutMs: this.#rng.pick([3000, 10_000]),
      requestTimeoutMs: this.#rng.pick([500, 2000]),
      bufferBytes: 64 * 1024,
      onBatch: (report) => {
        if (report.error === undefined) this.batches++;
      },
    });
    await Promise.all([this.#produce(producer), this.#tail(client), this.#askAgainAndAgain(client)]);
    await producer.close({ timeoutMs: 20_000 });
  }

  /** Resolves when each of these partitions has acknowledged a record, or has gone away, is lost, or is expected to take none any more. */
  async reach(places: readonly Place[], isExpected: (place: Place) => boolean): Promise<void> {
    const client = await this.connect();
    const producer = client.producer({ acks: "all", deliveryTimeoutMs: 10_000, requestTimeoutMs: 2000 });
    await Promise.all(
      places.map(async (place) => {
        const { topic, partition } = place;
        const { board, isLost } = this.#parts;
        const isThere = (): boolean =>
          board.has(topic.name) && !isLost({ topic: topic.name, partition }) && isExpected(place);
        const name = partitionName({ topic: topic.name, partition });
        this.unreached.add(name);
        while (isThere() && !(await this.#sendTo(producer, topic, { partition, acks: "all" }))) await this.wait(100);
        this.unreached.delete(name);
      }),
    );
    await producer.close();
  }

  async close(): Promise<void> {
    await this.#client?.close();
  }

  wait(delayMs: number): Promise<void> {
    return new Promise((resolve) => void this.#timers.after(delayMs, resolve));
  }

  async #produce(producer: Producer): Promise<void> {
    while (!this.isStopping) {
      await this.wait(-Math.log((this.#rng.u32() + 1) / 2 ** 32) * this.#plan.thinkMs);
      const topics = this.#parts.board.live;
      if (topics.length === 0) continue;
      const topic = this.#rng.pick(topics);
      const burst = this.#rng.between(1, this.#plan.burstMax);
      for (let count = 0; count < burst && this.#outstanding < OUTSTANDING_MAX; count++) this.#sendAny(producer, topic);
      if (this.#outstanding >= OUTSTANDING_MAX) await this.#oneEnded();
    }
    while (this.#outstanding > 0) await this.#oneEnded();
  }

  #oneEnded(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  #sendAny(producer: Producer, topic: TopicPlan): void {
    const partition = this.#rng.below(topic.partitions);
    const place = { topic: topic.name, partition };
    const acks = this.#rng.pick(this.#plan.acks);
    if (this.#parts.isLost(place) || this.#openAt(place, 0) >= PARTITION_OUTSTANDING_MAX) return;
    void this.#sendTo(producer, topic, { partition, acks });
  }

  /** True when it was acknowledged. */
  #sendTo(producer: Producer, topic: TopicPlan, how: { partition: number; acks: Acks }): Promise<boolean> {
    const { world, record, nextOperation } = this.#parts;
    const { partition, acks } = how;
    const place = { topic: topic.name, partition };
    const identity = { producer: this.name, sequence: this.#sequence++, partition };
    const options = {
      valueBytesMax: this.#plan.valueBytesMax,
      timestamp: world.startWallMs + Math.floor(world.nowMs),
      checksum: world.checksum,
    };
    const made = makeRecord(this.#rng, identity, options);
    const operation = nextOperation();
    const { value, sum } = made;
    record({ type: "send invoked", timeMs: world.nowMs, operation, process: this.name, ...place, acks, value, sum });
    this.#outstanding++;
    this.#openAt(place, 1);
    return producer.send(topic.name, made.record, { acks }).then(
      ({ offset }) => {
        this.acknowledged++;
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
    const count = (this.#outstandingOf.get(name) ?? 0) + change;
    this.#outstandingOf.set(name, count);
    return count;
  }

  #failed(operation: number, error: OttlaError): void {
    const { world } = this.#parts;
    const isCertain = error.outcome === "not appended";
    world.sometimes(`send ended ${error.code}, ${error.outcome ?? "no outcome"}`);
    if (error.code === "UNKNOWN_SERVER_ERROR") world.fail(error);
    this.#ended({
      type: isCertain ? "send failed" : "send unknown",
      timeMs: world.nowMs,
      operation,
      offset: undefined,
      reason: error.code,
    });
  }

  #ended(event: HistoryEvent): void {
    this.#outstanding--;
    this.#parts.record(event);
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }

  /** Reads every topic from somewhere on, in sessions that end when topics come and go or something fails. */
  async #tail(client: Client): Promise<void> {
    while (!this.isStopping) {
      const topics = this.#parts.board.live;
      if (topics.length > 0) await this.#session(client, topics);
      await this.wait(this.#rng.between(10, 200));
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
      await this.#read(consumer, `${this.name} session ${this.#sessions++}`);
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
    const rng = this.#parts.world.fork(`questions of ${this.name}`);
    while (!this.isStopping) {
      await this.wait(-Math.log((rng.u32() + 1) / 2 ** 32) * ASK_EVERY_MS);
      const topics = this.#parts.board.live;
      if (topics.length > 0 && !this.isStopping) await this.#ask(client, rng.pick(topics));
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
          process: this.name,
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
        const read = { topic, partition, offset, value: valueOf(each.value), sum: sumOf(each, world.checksum) };
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
      if (this.isStopping) return;
    }
  }
}
