// Real clients that send with acks=all to partitions of three replicas, while brokers are restarted in order, killed, cut off and paused.
import { describe, expect, it } from "vitest";
import { Fleet, Load } from "./fleet.ts";

const NODES = [1, 2, 3];

async function underLoad(seed = 1) {
  const fleet = await new Fleet({ seed, config: { "default.replication.factor": 3 } }).start();
  const who = await fleet.open("load");
  const load = new Load(who, { topic: "steady", partitions: 6 });
  await load.begin();
  await fleet.run(500);
  return { fleet, who, load };
}

/** All replicas of all partitions, as any node that is up says. */
async function untilInSync(fleet: Fleet, nodeId: number): Promise<void> {
  await fleet.until("all are in sync", async () => {
    const { topics } = await (await fleet.client(nodeId)).metadata(["steady"]);
    return topics.every(({ partitions }) => partitions.every(({ isr, replicas }) => isr.length === replicas.length));
  });
}

describe("three brokers under load", () => {
  it("restarted in order one after another: no send fails, none is lost", async () => {
    const { fleet, load } = await underLoad();
    for (const nodeId of NODES) {
      await fleet.restart(nodeId);
      await untilInSync(fleet, nodeId);
    }
    await load.end();
    expect(load.errors.map(({ code, message }) => `${code}: ${message}`)).toEqual([]);
    expect(load.acknowledged.size).toBeGreaterThan(100);
    expect(await load.lost()).toEqual([]);
  });

  it.each([2])(
    "killed, losing power, cut off, paused, one after another (seed %i): nothing acknowledged is lost",
    async (seed) => {
      const { fleet, load } = await underLoad(seed);
      for (const nodeId of NODES) {
        fleet.node(nodeId).crash(nodeId % 2 === 0 ? "process death" : "power loss");
        await fleet.run(4_000);
        await fleet.settle(fleet.node(nodeId).begin());
        await untilInSync(fleet, nodeId);
        fleet.isolate(nodeId);
        await fleet.run(5_000);
        fleet.rejoin(nodeId);
        await untilInSync(fleet, nodeId);
        fleet.pause(nodeId);
        await fleet.run(5_000);
        fleet.resume(nodeId);
        await fleet.run(1_000);
        await untilInSync(fleet, nodeId);
      }
      await load.end();
      expect(load.acknowledged.size).toBeGreaterThan(500);
      expect(await load.lost()).toEqual([]);
    },
    120_000,
  );
});
