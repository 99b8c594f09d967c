// Nodes that are stopped in order and started again under load: how long a partition answers nobody (D-37: 250 ms at most).
import { expect, test } from "vitest";
import { Fleet, type FleetClient } from "./fleet.ts";

const GAP_MS = 250;
const EVERY_MS = 15;

/** Of one partition: the longest time between two acknowledgements. */
class Gap {
  maxMs = 0;
  readonly errors: unknown[] = [];
  isStopping = false;
  #lastMs: number | undefined;

  acknowledged(nowMs: number): void {
    if (this.#lastMs !== undefined) this.maxMs = Math.max(this.maxMs, nowMs - this.#lastMs);
    this.#lastMs = nowMs;
  }

  async run(fleet: Fleet, who: FleetClient, partition: number): Promise<void> {
    // One with a name, too: a leader that goes takes nothing of a name from then on.
    const name = partition === 0 ? { name: "first" } : {};
    const producer = who.client.producer({ lingerMs: 0, ...name });
    for (; !this.isStopping; await who.wait(EVERY_MS))
      producer.send("t", { partition, value: "x" }, { acks: "all" }).then(
        () => this.acknowledged(fleet.world.nowMs),
        (thrown: unknown) => this.errors.push(thrown),
      );
    await producer.close({ timeoutMs: 60_000 });
  }
}

test("D-37: nodes stopped in order one after another, and started again: no error, and no gap of 250 ms", async () => {
  const fleet = new Fleet({ seed: 3, config: { "default.replication.factor": 3 } });
  await fleet.start();
  const clients = [await fleet.open("c0"), await fleet.open("c1"), await fleet.open("c2")];
  const [first] = clients;
  if (first === undefined) throw new Error("three clients");
  await fleet.settle(first.admin.createTopic("t", { partitions: 3 }));
  const gaps = clients.map(() => new Gap());
  const works = gaps.map((gap, partition) => gap.run(fleet, clients[partition] ?? first, partition));
  await fleet.run(1_000);
  const controller = await fleet.controller();
  const longest: string[] = [];
  for (const nodeId of [(controller % 3) + 1, controller]) {
    const led = (await fleet.leaders(nodeId, "t")).filter((leader) => leader === nodeId);
    expect(led.length, `node ${nodeId} leads`).toBeGreaterThan(0);
    await fleet.node(nodeId).stop();
    await fleet.run(500);
    await fleet.node(nodeId).start();
    await fleet.until("it leads again", async () => (await fleet.leaders(nodeId, "t")).includes(nodeId));
    await fleet.run(300);
    for (const [partition, gap] of gaps.entries()) {
      if (gap.maxMs > GAP_MS)
        longest.push(`node ${nodeId}: partition ${partition} answered nobody for ${gap.maxMs} ms`);
      gap.maxMs = 0;
    }
  }
  for (const gap of gaps) gap.isStopping = true;
  await fleet.settle(Promise.all(works));
  expect(gaps.flatMap(({ errors }) => errors)).toEqual([]);
  expect(longest).toEqual([]);
});
