// The quorum is lost and comes back (Q-21, D-22): who leads goes on serving; changes are refused by a code with a hint and never half done; afterwards
// everybody has a fresh session, and nobody is fenced by mistake.
import { describe, expect, it } from "vitest";
import type { OttlaError } from "../../src/model/errors.ts";
import { Fleet, type FleetClient, placeOf } from "./fleet.ts";

const NODES = [1, 2, 3];

async function scene() {
  const fleet = await new Fleet().start();
  const who = await fleet.open("user");
  await fleet.settle(who.admin.createTopic("t", { partitions: 3 }));
  await fleet.settle(who.admin.createTopic("old"));
  await fleet.run(500);
  return { fleet, who, leaders: await fleet.leaders(1, "t") };
}

/** Both directions between these two nodes; clients reach all. */
function between(fleet: Fleet, what: "cut" | "mend", one: number, other: number): void {
  fleet.network[what](`node${one}`, `node${other}`);
  fleet.network[what](`node${other}`, `node${one}`);
}

function cutAll(fleet: Fleet, what: "cut" | "mend"): void {
  for (const one of NODES) for (const other of NODES) if (one < other) between(fleet, what, one, other);
}

/** Leader epochs of t as the node knows them. */
async function epochs(fleet: Fleet, nodeId: number): Promise<number[]> {
  const { topics } = await fleet.metadata(nodeId);
  return topics.find(({ name }) => name === "t")?.partitions.map(({ leaderEpoch }) => leaderEpoch) ?? [];
}

async function produce(fleet: Fleet, who: FleetClient, partition: number, value: string): Promise<string> {
  const producer = who.client.producer({ lingerMs: 1, deliveryTimeoutMs: 5_000 });
  const { offset } = await fleet.settle(producer.send("t", { partition, value }, { acks: "all" }));
  await fleet.settle(producer.close());
  return placeOf(partition, offset ?? -1);
}

async function readPartition(fleet: Fleet, who: FleetClient, partition: number): Promise<string[]> {
  const values: string[] = [];
  const read = async () => {
    const consumer = who.client.consumer({ topics: ["t"], partitions: [partition], untilEnd: true });
    for await (const { value } of consumer) values.push(new TextDecoder().decode(value ?? new Uint8Array(0)));
  };
  await fleet.settle(read());
  return values;
}

/** Every kind of change, each told to give up soon. */
const changes = ({ admin }: FleetClient): Record<string, () => Promise<unknown>> => {
  const call = { timeoutMs: 2_000 };
  return {
    "create a topic": () => admin.createTopic("new", { partitions: 3, ...call }),
    "delete a topic": () => admin.deleteTopic("old", call),
    "alter a topic": () => admin.alterTopicConfigs("t", { "max.message.bytes": 65_536 }, call),
    "alter all brokers": () => admin.alterBrokerConfigs("default", { "segment.bytes": 1_048_576 }, call),
    "add a voter": () => admin.addVoter(3, call),
    "remove a voter": () => admin.removeVoter(3, call),
    "hand over": () => admin.transferLeadership(2, call),
    "raise the version": () => admin.raiseMetadataVersion(3, call),
    "read linearizably": () => admin.listTopics({ linearizable: true, ...call }),
  };
};

/** Nothing of the changes above is there, on any node. */
async function expectUntouched(fleet: Fleet): Promise<void> {
  await fleet.sameImages(NODES);
  const { topics } = await fleet.metadata(1);
  expect(topics.map(({ name, isDeleting, configs }) => [name, isDeleting, configs])).toEqual([
    ["old", false, []],
    ["t", false, []],
  ]);
}

describe("two of three voters stopped", () => {
  it("the third serves what it leads, to new clients too; every change is refused by a code with a hint, for sure not done", async () => {
    const { fleet, who, leaders } = await scene();
    const controller = await fleet.controller();
    const left = (controller % 3) + 1;
    const mine = leaders.indexOf(left);
    const epoch = (await epochs(fleet, left))[mine];
    await produce(fleet, who, mine, "before");
    for (const nodeId of NODES) if (nodeId !== left) await fleet.node(nodeId).stop();
    await fleet.run(10_000);

    const late = await fleet.open("late", [left]);
    await produce(fleet, late, mine, "meanwhile");
    expect(await readPartition(fleet, late, mine)).toEqual(["before", "meanwhile"]);
    for (const [what, change] of Object.entries(changes(late))) {
      const error = await late.refused(change());
      expect([error.code, error.outcome], what).toEqual(["NOT_CONTROLLER", undefined]);
      expect(error.message, what).toContain("there is no controller now");
      expect(hintOf(error), what).toContain("ottla cluster health");
    }
    // A partition of a broker that is gone waits, and is told as not appended.
    const other = leaders.findIndex((nodeId) => nodeId !== left);
    const producer = late.client.producer({ deliveryTimeoutMs: 3_000 });
    const lost = await late.refused(producer.send("t", { partition: other, value: "x" }, { acks: "all" }));
    expect([lost.code, lost.outcome]).toEqual(["DELIVERY_TIMED_OUT", "not appended"]);

    const back = NODES.filter((nodeId) => nodeId !== left);
    await fleet.settle(Promise.all(back.map((nodeId) => fleet.node(nodeId).begin())));
    await expectUntouched(fleet);
    await fleet.run(10_000);
    for (const nodeId of NODES) expect(await fleet.fenced(nodeId)).toEqual([]);
    // It was never fenced: its epoch is the one of before.
    expect((await epochs(fleet, left))[mine]).toBe(epoch);
    await fleet.settle(who.admin.createTopic("after"));
    expect(await readPartition(fleet, who, mine)).toEqual(["before", "meanwhile"]);
  });
});

const hintOf = ({ hint }: OttlaError): string => hint ?? "";

describe("all three cut off from each other", () => {
  it("every broker serves what it leads; after ten sessions the quorum is back and nobody is fenced: no leader epoch has changed", async () => {
    const { fleet, who, leaders } = await scene();
    const before = await epochs(fleet, 1);
    cutAll(fleet, "cut");
    await fleet.run(15_000);
    for (const partition of leaders.keys()) await produce(fleet, who, partition, "meanwhile");
    const error = await who.refused(who.admin.createTopic("new", { timeoutMs: 2_000 }));
    expect([error.code, error.outcome]).toEqual(["NOT_CONTROLLER", undefined]);
    await fleet.run(15_000);
    cutAll(fleet, "mend");
    await fleet.settle(who.admin.createTopic("after"), 10_000);
    // Longer than a session, so that whoever is not heard of would be fenced by now.
    for (let round = 0; round < 10; round++) {
      await fleet.run(500);
      for (const partition of leaders.keys()) await produce(fleet, who, partition, `after ${round}`);
    }
    await fleet.sameImages(NODES);
    expect(await fleet.fenced(1)).toEqual([]);
    expect(await epochs(fleet, 1)).toEqual(before);
    for (const node of fleet.nodes) await node.stop();
    for (const node of fleet.nodes) {
      const records = await node.metadataRecords();
      const fences = records.filter((record) => record.type === "fence-broker");
      expect(fences.every((fence) => fence.version === 2 && fence.reason === "shutdown")).toBe(true);
    }
  });

  it("a broker that the new controller cannot hear yet has a whole session of grace", async () => {
    const { fleet, who, leaders } = await scene();
    const before = await epochs(fleet, 1);
    cutAll(fleet, "cut");
    await fleet.run(15_000);
    between(fleet, "mend", 1, 2);
    const controller = await fleet.controller();
    await fleet.run(1_000); // a session is 3 s, and the way back takes some of it
    expect(await fleet.fenced(controller)).toEqual([]);
    cutAll(fleet, "mend");
    await fleet.run(5_000);
    await fleet.sameImages(NODES);
    expect(await fleet.fenced(1)).toEqual([]);
    expect(await epochs(fleet, 3)).toEqual(before);
    await produce(fleet, who, leaders.indexOf(3), "after");
  });

  it.each([1, 2, 3])(
    "a change that is under way then is done whole or not at all, and its error says that nobody knows, seed %i",
    async (seed) => {
      const fleet = await new Fleet({ seed }).start();
      const who = await fleet.open("user");
      await fleet.settle(who.admin.createTopic("old"));
      const controller = await fleet.controller();
      const others = NODES.filter((nodeId) => nodeId !== controller);
      for (const other of others) between(fleet, "cut", controller, other);
      between(fleet, "cut", others[0] as number, others[1] as number);
      // The leader does not know yet that it is alone.
      const direct = await fleet.open("direct", [controller]);
      const errors = [
        await direct.refused(direct.admin.createTopic("new", { partitions: 5, timeoutMs: 4_000 })),
        await direct.refused(direct.admin.deleteTopic("old", { timeoutMs: 4_000 })),
      ];
      expect(errors[0]).toMatchObject({ code: "REQUEST_TIMED_OUT", outcome: "unknown" });
      expect(hintOf(errors[0] as OttlaError)).not.toBe("");
      await fleet.run(5_000);
      for (const other of others) between(fleet, "mend", controller, other);
      between(fleet, "mend", others[0] as number, others[1] as number);
      await fleet.settle(who.admin.createTopic("after"), 10_000);
      await fleet.sameImages(NODES);
      const { topics } = await fleet.metadata(1);
      const made = topics.find(({ name }) => name === "new");
      expect([0, 5]).toContain(made?.partitions.length ?? 0);
      // Whichever it was: the same change can be made now.
      if (made === undefined) await fleet.settle(who.admin.createTopic("new", { partitions: 5 }));
      else await fleet.settle(who.admin.deleteTopic("new", { wait: true }));
    },
  );
});
