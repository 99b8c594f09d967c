// A producer and a consumer that work while a test cluster is hurt, what must hold of them afterwards, and hurt at random.
import { expect } from "vitest";
import type { Rng } from "../../src/base/rng.ts";
import { type Client, OttlaError, type Producer, type TestBroker, type TestCluster } from "../../src/index.ts";
import { Reader, upTo } from "./support.ts";

export const PARTITIONS = 3;

/** Sends numbered records, round robin over the partitions, at a pace, until it is told to stop. */
export class Load {
  readonly sent: Promise<{
    readonly partition: number;
    readonly offset: number | undefined;
    readonly value: string;
  }>[] = [];
  readonly #producer: Producer;
  #isStopping = false;
  #acknowledged = 0;
  readonly #done: Promise<void>;

  constructor(client: Client) {
    this.#producer = client.producer({ lingerMs: 2 });
    this.#done = this.#run();
  }

  get acknowledged(): number {
    return this.#acknowledged;
  }

  async #run(): Promise<void> {
    while (!this.#isStopping) {
      for (let count = 0; count < 10; count++) {
        const send = this.#send(this.sent.length);
        send.catch(() => (this.#isStopping = true)); // end() tells it
        this.sent.push(send);
      }
      await new Promise<void>((resolve) => void setTimeout(resolve, 2));
    }
  }

  async #send(number: number) {
    const value = `${number}`;
    const { partition, offset } = await this.#producer.send("t", { partition: number % PARTITIONS, value });
    this.#acknowledged++;
    return { partition, offset, value };
  }

  /** Resolves when so many more than now were acknowledged; rejects when a send failed. */
  async goesOn(more = 300): Promise<void> {
    const wanted = this.#acknowledged + more;
    while (this.#acknowledged < wanted) {
      if (this.#isStopping) await Promise.all(this.sent);
      await new Promise<void>((resolve) => void setTimeout(resolve, 5));
    }
  }

  /** What was acknowledged: everything, or it rejects. */
  async end() {
    this.#isStopping = true;
    await this.#done;
    return Promise.all(this.sent);
  }
}

/** Load and reader on clients of their own while `hurt` is done; then each record was read once, where it was said to be, in the order of the sends. */
export async function holds(made: TestCluster, hurt: (load: Load) => Promise<void>): Promise<void> {
  const load = new Load(await made.connect());
  const reader = new Reader(await made.connect(), "t");
  await load.goesOn();
  await hurt(load);
  await load.goesOn();
  const acknowledged = await load.end();
  await reader.until(acknowledged.length);
  await reader.close();
  expect(reader.fallen).toEqual([]);
  for (const [partition, offsets] of reader.offsets())
    expect(offsets, `partition ${partition}`).toEqual(upTo(offsets.length));
  const read = reader.records.map(({ partition, offset, value }) => `${partition}@${offset}: ${value}`);
  const told = acknowledged.map(({ partition, offset, value }) => `${partition}@${offset}: ${value}`);
  expect(read.toSorted()).toEqual(told.toSorted());
  for (const partition of upTo(PARTITIONS)) {
    const values = reader.records.filter((record) => record.partition === partition).map(({ value }) => Number(value));
    expect(values, `order in partition ${partition}`).toEqual(values.toSorted((one, other) => one - other));
  }
}

const PAUSE_MS_MAX = 1_000;

/** Whatever the state of the nodes allows, one after another and several at once, for so long; then all of them run again. */
export async function hurtAtRandom(made: TestCluster, rng: Rng, durationMs: number): Promise<void> {
  const endMs = performance.now() + durationMs;
  const acts = new Set<Promise<void>>();
  while (performance.now() < endMs) {
    const acting = hurtOnce(made, rng.pick(made.brokers), rng);
    acts.add(acting);
    void acting.finally(() => acts.delete(acting)).catch(() => undefined);
    await new Promise<void>((resolve) => void setTimeout(resolve, rng.below(PAUSE_MS_MAX)));
  }
  while (made.brokers.some(({ state }) => state !== "running")) {
    for (const broker of made.brokers) {
      expect(broker.failure).toBeUndefined();
      if (broker.state === "paused") await made.resume(broker.id);
      if (broker.state === "killed" || broker.state === "stopped") acts.add(made.start(broker.id));
    }
    await new Promise<void>((resolve) => void setTimeout(resolve, 20));
  }
  await Promise.all(acts);
  await made.waitUntilInSync();
}

async function hurtOnce(made: TestCluster, { id, state }: TestBroker, rng: Rng): Promise<void> {
  try {
    if (rng.chance(0.05)) await killAll(made);
    else if (state === "running") await made[rng.pick(["kill", "pause", "stop", "restart"] as const)](id);
    else if (state === "paused") await made[rng.pick(["resume", "resume", "kill"] as const)](id);
    else if (state === "killed" || state === "stopped") await made.start(id);
    else if (rng.chance(0.2)) await made.kill(id);
  } catch (thrown) {
    // Another act was faster, or a kill ended a start.
    if (!(thrown instanceof OttlaError) || thrown.code !== "WRONG_NODE_STATE") throw thrown;
  }
}

async function killAll(made: TestCluster): Promise<void> {
  const alive = made.brokers.filter(({ state }) => state !== "killed" && state !== "stopped");
  await Promise.all(alive.map(({ id }) => made.kill(id)));
}
