// A disk that is full on one of three nodes (D9, D-18, D-19): it loses its part in the quorum and its writes for as long as that lasts, says so, and
// heals by itself; the others go on.
import { describe, expect, it } from "vitest";
import type { TopicId } from "../../src/model/ids.ts";
import { filesOf, Fleet, type FleetClient, placeOf } from "./fleet.ts";
import { batchOf } from "./support.ts";

const NODES = [1, 2, 3];
/** Beyond what the reserve gives back. */
const ALL_OF_IT = 2 ** 31;
/** Longer than a heartbeat, an election and the pause between two tries of a write. */
const SOON_MS = 3_000;

interface Scene {
  readonly fleet: Fleet;
  readonly who: FleetClient;
  readonly topicId: TopicId;
  readonly controller: number;
  /** Node by partition. */
  readonly leaders: readonly number[];
}

/** Each node leads one partition of t, which has one record. */
async function scene(): Promise<Scene> {
  const fleet = await new Fleet().start();
  const who = await fleet.open("user");
  const { topicId } = await fleet.settle(who.admin.createTopic("t", { partitions: 3 }));
  const producer = who.client.producer({ lingerMs: 1 });
  await fleet.settle(
    producer.sendBatch(
      "t",
      [0, 1, 2].map((partition) => ({ partition, value: "first" })),
    ),
  );
  await fleet.settle(producer.close());
  const leaders = await fleet.leaders(1, "t");
  return { fleet, who, topicId: topicId as TopicId, controller: await fleet.controller(), leaders };
}

const fill = (fleet: Fleet, nodeId: number) => void (fleet.node(nodeId).disk.faults.foreignBytes = ALL_OF_IT);
const makeRoom = (fleet: Fleet, nodeId: number) => void (fleet.node(nodeId).disk.faults.foreignBytes = 0);
const checks = (fleet: Fleet, nodeId: number) => fleet.node(nodeId).broker.health().checks;
const TROUBLE = /^the metadata log cannot be written: no space left/;

async function produceAt({ fleet, topicId, leaders }: Scene, nodeId: number) {
  const client = await fleet.client(nodeId);
  return client.produce(topicId, batchOf(["x"]), { partition: leaders.indexOf(nodeId) });
}

describe("a full disk", () => {
  it.each(["the controller", "another voter"])(
    "of %s: what it leads takes no writes and is read; topics are created on the others, changed and deleted everywhere; it heals by itself",
    async (which) => {
      const here = await scene();
      const { fleet, who, topicId, controller, leaders } = here;
      const full = which === "the controller" ? controller : (controller % 3) + 1;
      fill(fleet, full);
      expect(await produceAt(here, full)).toMatchObject({ error: "STORAGE_FULL", outcome: "not appended" });
      for (const nodeId of NODES) if (nodeId !== full) expect((await produceAt(here, nodeId)).error).toBe("NONE");
      // A producer goes on trying.
      const producer = who.client.producer({ lingerMs: 1, deliveryTimeoutMs: 60_000 });
      let isAcknowledged = false;
      const sent = producer.send("t", { partition: leaders.indexOf(full), value: "patient" }, { acks: "all" });
      void sent.then(() => (isAcknowledged = true));

      const beforeMs = fleet.world.nowMs;
      await fleet.settle(who.admin.alterTopicConfigs("t", { "max.message.bytes": 65_536 }));
      const gapMs = fleet.world.nowMs - beforeMs;
      expect(gapMs).toBeLessThan(SOON_MS); // D-37: leader = controller
      await fleet.run(SOON_MS);
      expect(await fleet.controller()).not.toBe(full);
      const { partitions } = await fleet.settle(who.admin.createTopic("new", { partitions: 4 }));
      expect(partitions.map(({ leader }) => leader)).not.toContain(full);
      expect(checks(fleet, full)["quorum"]).toMatch(TROUBLE);
      expect(checks(fleet, full)["disk"]).toMatch(/^low on space/);
      // Its image goes on, and it stays a broker: what is deleted gives it room.
      await fleet.settle(who.admin.createTopic("gone", { partitions: 2 }));
      await fleet.settle(who.admin.deleteTopic("gone", { wait: true }));
      await fleet.sameImages(NODES);
      expect(await fleet.fenced(full)).toEqual([]);
      const client = await fleet.client(full);
      expect((await client.fetch(topicId, 0, { partition: leaders.indexOf(full) })).error).toBe("NONE");
      expect((await produceAt(here, full)).error).toBe("STORAGE_FULL");
      expect(isAcknowledged).toBe(false);

      makeRoom(fleet, full);
      const { offset } = await fleet.settle(sent, SOON_MS);
      await fleet.until("no trouble", () => checks(fleet, full)["quorum"] === "ok", SOON_MS);
      expect(checks(fleet, full)["disk"]).toBe("ok");
      expect((await who.readAll("t")).get(placeOf(leaders.indexOf(full), offset ?? -1))).toBe("null=patient");
      expect((await produceAt(here, full)).error).toBe("NONE");
      for (const node of fleet.nodes) expect(node.fatal).toEqual([]);
    },
  );

  it("of a voter: its vote is missing, until there is room (D-19)", async () => {
    const { fleet, who, controller } = await scene();
    const [full, fine] = NODES.filter((nodeId) => nodeId !== controller) as [number, number];
    fill(fleet, full);
    await fleet.settle(who.admin.createTopic("seen"));
    await fleet.until("trouble", () => TROUBLE.test(checks(fleet, full)["quorum"] ?? ""));
    fleet.node(controller).crash("process death");
    await fleet.run(10_000);
    expect([full, fine].map((nodeId) => checks(fleet, nodeId)["controller"])).toEqual([
      expect.stringContaining("none known"),
      expect.stringContaining("none known"),
    ]);
    const late = await fleet.open("late", [full, fine]);
    const error = await late.refused(late.admin.createTopic("unseen", { timeoutMs: 2_000 }));
    expect([error.code, error.outcome]).toEqual(["NOT_CONTROLLER", undefined]);
    makeRoom(fleet, full);
    await fleet.settle(who.admin.createTopic("later"), 5_000);
    const names = (await fleet.metadata(fine)).topics.map(({ name }) => name);
    expect(names.toSorted()).toEqual(["later", "seen", "t"]);
  });

  it("of all: creations are refused by name, deletions give room; nothing is fenced for it", async () => {
    const { fleet, who } = await scene();
    // As much as others leave: the reserves are still there.
    for (const { disk } of fleet.nodes) disk.faults.foreignBytes = disk.freeBytes - 512 * 1024;
    await fleet.run(SOON_MS);
    const error = await who.refused(who.admin.createTopic("more"));
    expect([error.code, error.outcome]).toEqual(["STORAGE_FULL", undefined]);
    const isThere = (nodeId: number) =>
      [...filesOf(fleet.node(nodeId).disk, "/data").keys()].some((path) => path.startsWith("/data/t-"));
    await fleet.settle(who.admin.deleteTopic("t", { wait: true }));
    expect(NODES.filter(isThere)).toEqual([]);
    expect(await fleet.fenced(1)).toEqual([]);
    for (const nodeId of NODES) makeRoom(fleet, nodeId);
    await fleet.run(SOON_MS);
    await fleet.settle(who.admin.createTopic("more"));
  });
});
