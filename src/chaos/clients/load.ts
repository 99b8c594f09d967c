// A client process that sends: records that name themselves, at a steady rate, to all partitions.
import type { Acks, Producer, ProducerOptions } from "../../client/types.ts";
import { asOttlaError } from "../../model/errors.ts";
import { makeRecord } from "../../checkers/named-records.ts";
import type { ClientLife } from "./life.ts";
import { acknowledgedBy, type LoadRole, type TopicSpec } from "./order.ts";

const TICK_MS = 10;
/** Sends not yet settled; more are left out, so that one that is never answered stops the load and not the process's memory. */
const OUTSTANDING_MAX = 512;
/** Of one partition: those of a node that is down must not keep the others' from being sent. */
const PARTITION_OUTSTANDING_MAX = 128;
const CLOSE_MS = 30_000;

export async function runLoad(life: ClientLife, role: LoadRole): Promise<void> {
  const client = await life.client();
  const load = new Load(life, role, client.producer(optionsOf(life, role)));
  await load.run();
}

function optionsOf(life: ClientLife, role: LoadRole): ProducerOptions {
  const { lingerMs, batchBytes, compression, deliveryTimeoutMs, requestTimeoutMs } = role;
  return {
    ...(role.isNamed ? { name: `name of ${life.order.name}` } : {}),
    ...{ lingerMs, batchBytes, compression, deliveryTimeoutMs, requestTimeoutMs },
    onBatch: ({ attempts }) => {
      if (attempts > 1) life.count("batches sent again");
    },
  };
}

class Load {
  readonly #life: ClientLife;
  readonly #role: LoadRole;
  readonly #producer: Producer;
  readonly #open = new Map<string, number>();
  readonly #sends = new Set<Promise<void>>();
  #sequence = 0;
  #isFenced = false;

  constructor(life: ClientLife, role: LoadRole, producer: Producer) {
    this.#life = life;
    this.#role = role;
    this.#producer = producer;
  }

  async run(): Promise<void> {
    const startedMs = performance.now();
    let due = 0;
    while (!this.#life.isStopping && !this.#isFenced) {
      await this.#life.wait(TICK_MS);
      const should = ((performance.now() - startedMs) / 1_000) * this.#role.recordsPerSecond;
      for (; due < should; due++) this.#sendAny();
    }
    await Promise.all(this.#sends);
    if (this.#role.acks.includes(0)) await this.#untilTaken();
    await this.#producer.close({ timeoutMs: CLOSE_MS });
  }

  /** What was handed over with acks=0 and is on its way still would be lost to the end of the connection. A later question over it is answered later. */
  async #untilTaken(): Promise<void> {
    const admin = (await this.#life.client()).admin();
    const asked = this.#life.order.topics.map(async ({ name }) => admin.offsets(name, { timeoutMs: CLOSE_MS }));
    await Promise.allSettled(asked);
  }

  #sendAny(): void {
    const { rng, order } = this.#life;
    const topic = rng.pick(order.topics);
    const partition = rng.below(topic.partitions);
    const place = `${topic.name}-${partition}`;
    const open = this.#open.get(place) ?? 0;
    const { outstandingMax = OUTSTANDING_MAX, partitionOutstandingMax = PARTITION_OUTSTANDING_MAX } = this.#role;
    if (open >= partitionOutstandingMax || this.#sends.size >= outstandingMax || this.#life.isStopping) {
      this.#life.count("sends left out");
      return;
    }
    this.#open.set(place, open + 1);
    const send = this.#send(topic, partition, rng.pick(this.#role.acks)).finally(() => {
      this.#open.set(place, (this.#open.get(place) ?? 1) - 1);
      this.#sends.delete(send);
    });
    this.#sends.add(send);
  }

  async #send({ name: topic }: TopicSpec, partition: number, acks: Acks): Promise<void> {
    const life = this.#life;
    const { order, checksum, rng } = life;
    const { record, value, sum } = makeRecord(
      rng,
      { producer: order.process, sequence: this.#sequence++, partition },
      { valueBytesMax: this.#role.valueBytesMax, timestamp: Date.now(), checksum },
    );
    const operation = life.nextOperation();
    const named = this.#role.isNamed ? { named: { name: order.name, life: order.life } } : {};
    const what = { process: order.process, topic, partition, acks, value, sum, isNumbered: acks === "all", ...named };
    life.record({ type: "send invoked", operation, ...what });
    try {
      const { offset } = await this.#producer.send(topic, record, { acks });
      life.record({ type: "send ok", operation, offset });
      life.count("acknowledged");
      // With acks=0 nobody has answered.
      if (offset !== undefined) life.count(acknowledgedBy(topic, partition));
    } catch (thrown) {
      const error = asOttlaError(thrown);
      const type = error.outcome === "not appended" ? "send failed" : "send unknown";
      life.record({ type, operation, offset: undefined, reason: error.code });
      life.countError(type, error);
      if (error.code === "PRODUCER_FENCED") this.#isFenced = true;
    }
  }
}
