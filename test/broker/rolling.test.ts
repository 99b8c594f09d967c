// Real clients that send with acks=all to partitions of three replicas, while brokers are restarted in order, killed, cut off and paused.
import { describe, expect, it } from "vitest";
import { asOttlaError, type OttlaError } from "../../src/model/errors.ts";
import { Fleet, Load } from "./fleet.ts";

const NODES = [1, 2, 3];
/** Of the machine's time: about fifteen seconds, where nothing else runs. */
const LIMIT_MS = 300_000;

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
    LIMIT_MS,
  );
});

describe("leaders that come back", () => {
  it(
    "R-61: first replicas lead again under load, and who waits then is told what became of its records",
    async () => {
      const fleet = await new Fleet({ seed: 4, syncMs: 5, config: { "default.replication.factor": 3 } }).start();
      const who = await fleet.open("load");
      await fleet.settle(who.admin.createTopic("moved", { partitions: 3 }));
      const producer = who.client.producer({ lingerMs: 0, requestTimeoutMs: 5_000, deliveryTimeoutMs: 60_000 });
      const errors: OttlaError[] = [];
      const sends: Promise<unknown>[] = [];
      let isDone = false;
      const load = (async () => {
        for (let number = 0; !isDone; number++) {
          const record = { partition: number % 3, value: `v${number}` };
          const sending = producer.send("moved", record, { acks: "all" });
          sends.push(sending.catch((thrown: unknown) => errors.push(asOttlaError(thrown))));
          await who.wait(2);
        }
      })();
      const leads = async (nodeId: number) =>
        (await fleet.leaders(nodeId, "moved")).filter((leader) => leader === nodeId);
      await fleet.until("load", () => sends.length > 100);
      for (const nodeId of NODES) {
        await fleet.restart(nodeId);
        expect(await leads(nodeId), "others lead first").toEqual([]);
        await fleet.until("it leads its share again", async () => (await leads(nodeId)).length === 1);
        await fleet.run(200);
      }
      isDone = true;
      await fleet.settle(load);
      await fleet.settle(Promise.all(sends));
      expect(sends.length).toBeGreaterThan(2_000);
      // Only what the next leader had not fetched yet is doubtful: it was cut where it was appended. Thirteen are, where who waits is told at once.
      expect(errors.filter(({ outcome }) => outcome !== "unknown")).toEqual([]);
      expect(errors.length).toBeLessThan(6);
    },
    LIMIT_MS,
  );
});
