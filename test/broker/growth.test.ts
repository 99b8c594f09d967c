// A quorum that changes: a single node grows to three without losing a record, and shrinks again; a voter whose disk was lost is replaced; the
// leadership is handed over (D-20, Q-16).
import { beforeAll, describe, expect, it } from "vitest";
import type { ClusterId } from "../../src/model/ids.ts";
import { changedFiles, filesOf, Fleet, type FleetClient } from "./fleet.ts";

const NODES = [1, 2, 3];
const LIST = NODES.map((nodeId) => `${nodeId}@node${nodeId}:7070`).join(",");
const LISTED = { "controller.quorum.voters": LIST };

const ascending = (ids: readonly number[]) => ids.toSorted((one, other) => one - other);
type Quorum = Awaited<ReturnType<FleetClient["admin"]["describeQuorum"]>>;
const votersOf = ({ voters }: Quorum) => ascending(voters.map(({ nodeId }) => nodeId));

/** A node that was never told of others, with all that metadata can hold. */
async function single(): Promise<{ fleet: Fleet; who: FleetClient }> {
  const fleet = new Fleet();
  fleet.change(1, { config: {} });
  await fleet.settle(fleet.node(1).begin());
  const who = await fleet.open("user", [1]);
  const { admin } = who;
  await fleet.settle(admin.createTopic("orders", { partitions: 3, configs: { "max.message.bytes": 65_536 } }));
  await fleet.settle(admin.createTopic("plain"));
  await fleet.settle(admin.createTopic("doomed"));
  await fleet.settle(admin.alterTopicConfigs("plain", { "segment.bytes": 1_048_576 }));
  await fleet.settle(admin.alterBrokerConfigs("default", { "segment.bytes": 2_097_152 }));
  await fleet.settle(admin.deleteTopic("doomed", { wait: true }));
  const producer = who.client.producer({ lingerMs: 1 });
  const records = Array.from({ length: 200 }, (_, number) => ({ partition: number % 3, value: `order ${number}` }));
  await fleet.settle(producer.sendBatch("orders", records));
  await fleet.settle(producer.sendBatch("plain", [{ key: "k", value: "v", headers: { h: "1" } }]));
  await fleet.settle(producer.close());
  return { fleet, who };
}

const logsOf = (fleet: Fleet, nodeId: number) =>
  new Map(
    [...filesOf(fleet.node(nodeId).disk, "/data")].filter(([path]) => /\/(orders|plain)-\d+\/\d+\.log$/.test(path)),
  );

async function topicsOf(fleet: Fleet, nodeId: number) {
  const { topics } = await fleet.metadata(nodeId);
  return topics.map(({ name, topicId, configs }) => ({ name, topicId, configs }));
}

describe("a single node grows to three", () => {
  let fleet: Fleet;
  let who: FleetClient;
  let clusterId: ClusterId;
  let topics: Awaited<ReturnType<typeof topicsOf>>;
  let logs: Map<string, Uint8Array>;
  let orders: Map<string, string>;
  const quorum = () => fleet.settle(who.admin.describeQuorum());

  beforeAll(async () => {
    ({ fleet, who } = await single());
    clusterId = fleet.node(1).broker.identity.clusterId;
    topics = await topicsOf(fleet, 1);
    orders = await who.readAll("orders");
    // Segments are written behind the journal: a stop leaves them whole.
    await fleet.restart(1);
    logs = logsOf(fleet, 1);
  });

  it("is a quorum of one, with topics, configuration and records", async () => {
    expect(votersOf(await quorum())).toEqual([1]);
    expect(topics.map(({ name }) => name).toSorted()).toEqual(["orders", "plain"]);
    expect(logs.size).toBe(4);
    expect(orders.size).toBe(200);
  });

  it("started again with the list of three it goes on alone, and waits for nobody", async () => {
    await fleet.restart(1, { config: LISTED });
    expect(votersOf(await quorum())).toEqual([1]);
    await fleet.settle(who.admin.createTopic("alone"));
    await fleet.settle(who.admin.deleteTopic("alone", { wait: true }));
  });

  it("new nodes with empty disks become observers and brokers of the same cluster; they do not vote", async () => {
    for (const nodeId of [2, 3]) await fleet.settle(fleet.node(nodeId).begin());
    for (const nodeId of [2, 3]) expect(fleet.node(nodeId).broker.identity.clusterId).toBe(clusterId);
    expect(votersOf(await quorum())).toEqual([1]);
    const { brokers } = await fleet.settle(who.admin.describeCluster());
    expect(brokers.map(({ nodeId, role, isFenced }) => [nodeId, role, isFenced])).toEqual([
      [1, "controller", false],
      [2, "observer", false],
      [3, "observer", false],
    ]);
  });

  it("each is added and votes; added again it is refused as one that votes already", async () => {
    await fleet.settle(who.admin.addVoter(2));
    expect(votersOf(await quorum())).toEqual([1, 2]);
    await fleet.settle(who.admin.addVoter(3));
    const now = await quorum();
    expect(votersOf(now)).toEqual(NODES);
    expect(now.voters.every(({ isLearner }) => !isLearner)).toBe(true);
    expect((await who.refused(who.admin.addVoter(3))).code).toBe("DUPLICATE_VOTER");
    expect((await who.refused(who.admin.addVoter(4))).code).toBe("BROKER_ID_NOT_REGISTERED");
  });

  it("every record is where it was, byte for byte; every topic has its id; every node has all of the metadata", async () => {
    await fleet.node(1).stop();
    expect(changedFiles(logs, logsOf(fleet, 1))).toEqual([]);
    await fleet.settle(fleet.node(1).begin());
    expect(await who.readAll("orders")).toEqual(orders);
    await fleet.sameImages(NODES);
    for (const nodeId of NODES) expect(await topicsOf(fleet, nodeId), `node ${nodeId}`).toEqual(topics);
  });

  it("without the first node metadata changes go on", async () => {
    fleet.node(1).crash("power loss");
    await fleet.settle(who.admin.createTopic("after", { partitions: 2 }));
    await fleet.settle(who.admin.alterTopicConfigs("orders", { "max.message.bytes": 131_072 }));
    await fleet.settle(who.admin.deleteTopic("plain"));
    const producer = who.client.producer({ lingerMs: 1 });
    await fleet.settle(
      producer.sendBatch("after", [
        { value: "x", partition: 0 },
        { value: "y", partition: 1 },
      ]),
    );
    await fleet.settle(producer.close());
    expect([2, 3]).toContain((await quorum()).leaderId);
  });

  it("the first node comes back as one of three, with every record", async () => {
    await fleet.settle(fleet.node(1).begin());
    await fleet.sameImages(NODES);
    expect(await who.readAll("orders")).toEqual(orders);
    const ordersOnly = (files: ReadonlyMap<string, Uint8Array>) =>
      new Map([...files].filter(([path]) => path.includes("/orders-")));
    expect(changedFiles(ordersOnly(logs), ordersOnly(logsOf(fleet, 1)))).toEqual([]);
  });
});

describe("a quorum of three", () => {
  let fleet: Fleet;
  let who: FleetClient;
  const quorum = () => fleet.settle(who.admin.describeQuorum());
  let made = 0;
  const create = () => fleet.settle(who.admin.createTopic(`t${made++}`, { partitions: 3 }));

  beforeAll(async () => {
    fleet = await new Fleet().start();
    who = await fleet.open("user");
    await create();
  });

  it("hands the leadership to the node that is named", async () => {
    for (const nodeId of [2, 3, 1]) {
      await fleet.settle(who.admin.transferLeadership(nodeId));
      await fleet.until("the new leader", async () => (await quorum()).leaderId === nodeId);
      await create();
    }
  });

  it("lets a voter go, which stays a broker; also the leader itself; one that is started again stays without a vote", async () => {
    await fleet.settle(who.admin.transferLeadership(1));
    await fleet.settle(who.admin.removeVoter(3));
    expect(votersOf(await quorum())).toEqual([1, 2]);
    await create();
    await fleet.sameImages(NODES);
    await fleet.restart(3);
    await create();
    await fleet.sameImages(NODES);
    expect(votersOf(await quorum())).toEqual([1, 2]);
    await fleet.settle(who.admin.addVoter(3));
    expect(votersOf(await quorum())).toEqual(NODES);
    const { leaderId } = await quorum();
    await fleet.settle(who.admin.removeVoter(leaderId));
    await fleet.until("another leader", async () => ![leaderId, -1].includes((await quorum()).leaderId));
    expect(votersOf(await quorum())).toEqual(NODES.filter((nodeId) => nodeId !== leaderId));
    await create();
    await fleet.sameImages(NODES);
    await fleet.settle(who.admin.addVoter(leaderId));
    await create();
    await fleet.sameImages(NODES);
  });

  it("shrinks to one, which goes on alone when the others are gone", async () => {
    await fleet.settle(who.admin.transferLeadership(1));
    for (const nodeId of [3, 2]) await fleet.settle(who.admin.removeVoter(nodeId));
    expect(votersOf(await quorum())).toEqual([1]);
    for (const nodeId of [2, 3]) await fleet.node(nodeId).stop();
    await fleet.settle(who.admin.createTopic("alone"));
    expect((await who.refused(who.admin.removeVoter(1))).code).toBe("INCONSISTENT_VOTER_SET");
    for (const nodeId of [2, 3]) await fleet.settle(fleet.node(nodeId).begin());
    for (const nodeId of [2, 3]) await fleet.settle(who.admin.addVoter(nodeId));
    await fleet.sameImages(NODES);
  });
});

describe("a voter whose disk was lost", () => {
  it("comes back as an observer, is not counted as a voter, and votes on its new disk once it is replaced", async () => {
    const fleet = await new Fleet().start();
    const who = await fleet.open("user");
    const quorum = () => fleet.settle(who.admin.describeQuorum());
    await fleet.settle(who.admin.createTopic("t", { partitions: 3 }));
    const before = (await quorum()).voters.find(({ nodeId }) => nodeId === 3)?.directoryId;
    fleet.node(3).crash("process death");
    fleet.node(3).replaceDisk();
    await fleet.settle(fleet.node(3).begin());
    const { directoryId } = fleet.node(3).broker.identity;
    expect(directoryId).not.toBe(before);
    expect((await quorum()).voters.find(({ nodeId }) => nodeId === 3)?.directoryId).toBe(before);
    // A broker all the same; what it held is gone and says so.
    await fleet.settle(who.admin.createTopic("new", { partitions: 3 }));
    expect(ascending(await fleet.leaders(1, "new"))).toEqual(NODES);
    await fleet.until("the lost partition to have no leader", async () => (await fleet.leaders(1, "t")).includes(-1));

    const refusal = await who.refused(who.admin.addVoter(3));
    expect([refusal.code, refusal.message]).toEqual([
      "INVALID_VOTER_KEY",
      `node 3 votes with another disk (3:${before}): replace it`,
    ]);
    await fleet.settle(who.admin.replaceVoter(3));
    const after = await quorum();
    expect(votersOf(after)).toEqual(NODES);
    expect(after.voters.find(({ nodeId }) => nodeId === 3)?.directoryId).toBe(directoryId);
    // Its vote counts: another one may go.
    fleet.node(after.leaderId).crash("process death");
    await fleet.settle(who.admin.createTopic("by-two"));
    await fleet.settle(fleet.node(after.leaderId).begin());
    await fleet.sameImages(NODES);
  });
});

describe("a node that was started alone by mistake, before it was told of the others", () => {
  it("is a cluster of its own and says so; a new node does not join whichever answers first, but the one that cluster.id names", async () => {
    const fleet = new Fleet();
    for (const nodeId of [1, 2]) {
      fleet.change(nodeId, { config: {} });
      await fleet.settle(fleet.node(nodeId).begin());
    }
    const who = await fleet.open("user", [1]);
    for (const nodeId of [1, 2]) await fleet.restart(nodeId, { config: LISTED });
    const quorumOf = (nodeId: number) => fleet.node(nodeId).broker.health().checks["quorum"];
    await fleet.until("the stray to notice", () => (quorumOf(2) ?? "").startsWith("node 1 belongs to another cluster"));
    await fleet.until("the others to notice", () =>
      (quorumOf(1) ?? "").startsWith("node 2 belongs to another cluster"),
    );
    expect((await who.refused(who.admin.addVoter(2))).code).toBe("BROKER_ID_NOT_REGISTERED");

    const ids = new Map([1, 2].map((nodeId) => [nodeId, fleet.node(nodeId).broker.identity.clusterId]));
    fleet
      .node(3)
      .begin()
      .catch(() => undefined);
    await fleet.run(10_000);
    expect(fleet.node(3).broker.state).toBe("starting");
    expect(quorumOf(3)).toContain("belong to different clusters");
    for (const [nodeId, clusterId] of ids) expect(quorumOf(3)).toContain(`node ${nodeId} of ${clusterId}`);
    await fleet.node(3).stop();
    fleet.change(3, { config: { ...LISTED, "cluster.id": ids.get(1) } });
    await fleet.settle(fleet.node(3).begin());
    await fleet.settle(who.admin.addVoter(3));

    // The way out: the stray's disk is emptied.
    await fleet.node(2).stop();
    fleet.node(2).replaceDisk();
    await fleet.settle(fleet.node(2).begin());
    await fleet.settle(who.admin.addVoter(2));
    await fleet.sameImages(NODES);
    for (const nodeId of NODES) expect(quorumOf(nodeId)).toBe("ok");
  });
});
