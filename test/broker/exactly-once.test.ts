// Real clients over brokers that die, one after another, under load: what was sent with acks=all is there exactly once, and in its order.
import { describe, expect, test } from "vitest";
import type { Producer } from "../../src/client/types.ts";
import { asOttlaError } from "../../src/model/errors.ts";
import { Fleet, type FleetClient } from "./fleet.ts";

const PARTITIONS = 3;
/** Less than a batch takes to be synced: some are always under way. */
const SEND_EVERY_MS = 6;

/** Sends without a pause; the number of a record says how it stands in its partition. */
class Stream {
  readonly errors: string[] = [];
  sent = 0;
  acknowledged = 0;
  readonly #producer: Producer;
  readonly #who: FleetClient;
  #isStopping = false;
  #work: Promise<unknown> = Promise.resolve();

  constructor(who: FleetClient, options: { readonly name?: string } = {}) {
    this.#who = who;
    this.#producer = who.client.producer({
      lingerMs: 2,
      requestTimeoutMs: 1_000,
      deliveryTimeoutMs: 60_000,
      ...options,
    });
  }

  begin(): void {
    this.#work = this.#send();
  }

  async end(): Promise<void> {
    this.#isStopping = true;
    await this.#who.fleet.settle(this.#work);
    await this.#who.fleet.settle(this.#producer.close({ timeoutMs: 60_000 }));
  }

  async #send(): Promise<void> {
    const sends: Promise<void>[] = [];
    for (; !this.#isStopping; await this.#who.wait(SEND_EVERY_MS)) sends.push(this.#one(this.sent++));
    await Promise.all(sends);
  }

  async #one(number: number): Promise<void> {
    const record = { partition: number % PARTITIONS, value: `${Math.floor(number / PARTITIONS)}` };
    try {
      await this.#producer.send("t", record, { acks: "all" });
      this.acknowledged++;
    } catch (thrown) {
      this.errors.push(asOttlaError(thrown).code);
    }
  }
}

/** In a row: 0, 1, 2, ... of each partition. */
async function faultsOf(who: FleetClient, sent: number): Promise<string[]> {
  const places = await who.readAll("t");
  const faults: string[] = [];
  for (let partition = 0; partition < PARTITIONS; partition++) {
    const values = [...places]
      .filter(([place]) => place.startsWith(`${partition}@`))
      .map(([place, text]) => [Number(place.split("@")[1]), Number(text.split("=")[1])] as const)
      .toSorted(([left], [right]) => left - right)
      .map(([, value]) => value);
    const expected = Math.ceil((sent - partition) / PARTITIONS);
    if (values.length !== expected) faults.push(`partition ${partition}: ${values.length} records of ${expected}`);
    const at = values.findIndex((value, index) => value !== index);
    if (at >= 0) faults.push(`partition ${partition}: ${values[at]} at place ${at}`);
  }
  return faults;
}

describe("a client that sends while brokers die", () => {
  test.each(["process death", "power loss"] as const)("each node once, by %s, and then all at once", async (kind) => {
    const fleet = new Fleet({ config: { "default.replication.factor": 3 } });
    await fleet.start();
    const who = await fleet.open("client");
    await fleet.settle(who.admin.createTopic("t", { partitions: PARTITIONS }));
    const stream = new Stream(who);
    stream.begin();
    await fleet.run(1_000);
    for (const nodeId of [1, 2, 3]) {
      fleet.node(nodeId).crash(kind);
      const before = stream.acknowledged;
      await fleet.run(4_500);
      expect(stream.acknowledged, `with node ${nodeId} dead`).toBeGreaterThan(before + 100);
      await fleet.node(nodeId).start();
      await fleet.run(2_000);
    }
    for (const node of fleet.nodes) node.crash(kind);
    await fleet.run(500);
    await fleet.start();
    await fleet.run(2_000);
    await stream.end();
    expect(stream.errors).toEqual([]);
    expect(stream.acknowledged).toBe(stream.sent);
    expect(await faultsOf(who, stream.sent)).toEqual([]);
  });

  test("a producer of a name goes on while brokers die; one of the same name ends it", async () => {
    const fleet = new Fleet({ config: { "default.replication.factor": 3 } });
    await fleet.start();
    const who = await fleet.open("client");
    await fleet.settle(who.admin.createTopic("t", { partitions: PARTITIONS }));
    const stream = new Stream(who, { name: "numbers" });
    stream.begin();
    await fleet.run(1_000);
    const old = await fleet.controller();
    fleet.node(old).crash("process death");
    await fleet.run(5_000);
    await fleet.node(old).start();
    await fleet.run(3_000);
    expect(stream.errors).toEqual([]);
    const acknowledged = stream.acknowledged;
    expect(acknowledged).toBeGreaterThan(500);
    const successor = who.client.producer({ name: "numbers" });
    await fleet.settle(successor.send("t", { partition: 0, value: "end" }));
    await stream.end();
    expect(new Set(stream.errors)).toEqual(new Set(["PRODUCER_FENCED"]));
    const first = [...(await who.readAll("t"))].filter(([place]) => place.startsWith("0@")).toSorted(byOffset);
    expect(first.at(-1)?.[1], "nothing of the predecessor comes after what its successor was told is there").toBe(
      "null=end",
    );
    expect(first.slice(0, -1).map(([, text]) => text)).toEqual(first.slice(0, -1).map((_entry, at) => `null=${at}`));
    await fleet.settle(successor.close());
  });
});

const byOffset = ([left]: readonly [string, string], [right]: readonly [string, string]): number =>
  Number(left.split("@")[1]) - Number(right.split("@")[1]);
