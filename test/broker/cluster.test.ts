// Brokers as one cluster: how it starts, what a node does without the others, how it stops.
import { describe, expect, test } from "vitest";
import { API } from "../../src/wire/native/apis.ts";
import { ClusterWorld } from "./cluster-world.ts";
import { BrokerWorld, batchOf } from "./support.ts";

const NOBODY_BARRIER = { topics: null, after: null, barrier: true };

describe("a cluster of three", () => {
  test("forms, lets every broker in, spreads partitions; every node tells the same", async () => {
    const cluster = await new ClusterWorld().start();
    const controller = await cluster.controller();
    const topicId = await cluster.createTopic("t", 3);
    const isLed = () => cluster.nodes.every(({ metrics }) => metrics.values.get("leader_partitions") === 1);
    await cluster.until("its logs are open", isLed);
    for (const nodeId of [1, 2, 3]) {
      await cluster.until("the topic", async () => (await cluster.leaders(nodeId, "t")).length === 3);
      const { brokers, controllerId, clusterId } = await cluster.metadata(nodeId);
      expect(controllerId).toBe(controller);
      expect(clusterId).toBe(cluster.node(1).broker.identity.clusterId);
      expect(brokers).toEqual(
        [1, 2, 3].map((each) => ({ nodeId: each, address: `node${each}:7070`, isFenced: false })),
      );
      expect(cluster.node(nodeId).broker.health()).toMatchObject({
        ready: true,
        checks: { quorum: "ok", registration: "ok", controller: `node ${controller}` },
      });
    }
    const leaders = await cluster.leaders(1, "t");
    expect(new Set(leaders)).toEqual(new Set([1, 2, 3]));
    for (const [partition, leader] of leaders.entries()) {
      const { metrics } = cluster.node(leader);
      await cluster.until("its log is open", () => metrics.values.get("leader_partitions") === 1);
      const client = await cluster.client(leader);
      expect(await client.produce(topicId, batchOf(["x"]), { partition })).toMatchObject({ error: "NONE" });
      const other = await cluster.client((leader % 3) + 1);
      expect(await other.produce(topicId, batchOf(["x"]), { partition })).toMatchObject({
        error: "NOT_LEADER_OR_FOLLOWER",
        outcome: "not appended",
      });
    }
  });

  test("observers are members too: they register, lead, and know what was committed", async () => {
    const cluster = await new ClusterWorld({ nodes: 4, voters: 1 }).start();
    const topicId = await cluster.createTopic("t", 4);
    await cluster.until("its log is open", () => cluster.node(4).metrics.values.get("leader_partitions") === 1);
    const partition = await cluster.partitionOf(4, "t");
    const client = await cluster.client(4);
    expect(await client.produce(topicId, batchOf(["x"]), { partition })).toMatchObject({ error: "NONE" });
    expect(await cluster.leaders(4, "t")).toEqual(await cluster.leaders(1, "t"));
  });

  test("changes and reads with a barrier are the controller's alone", async () => {
    const cluster = await new ClusterWorld().start();
    const topics = [{ name: "t", partitions: 1, replicationFactor: -1, configs: [] }];
    const other = await cluster.client(await cluster.follower());
    const answers = [
      await other.call(API.CREATE_TOPICS, { validateOnly: false, topics, requestId: null }),
      await other.call(API.DELETE_TOPICS, { names: ["t"], requestId: null }),
      await other.call(API.METADATA, NOBODY_BARRIER, { version: 1 }),
      await other.call(API.RAISE_METADATA_VERSION, { version: 2 }),
      await other.call(API.ALTER_CONFIGS, {
        resource: "broker",
        name: "",
        changes: [],
        validateOnly: true,
        requestId: null,
      }),
    ];
    for (const { error, message } of answers) {
      expect(error).toBe("NOT_CONTROLLER");
      expect(message).toContain(`node ${await cluster.controller()}`);
    }
    const controller = await cluster.client(await cluster.controller());
    const { error, response } = await controller.call(API.METADATA, NOBODY_BARRIER, { version: 1 });
    expect(error).toBe("NONE");
    expect(response.metadataEnd).toBeGreaterThan(0);
  });
});

describe("a node without a quorum", () => {
  test("waits, says for what, and serves when enough others are there", async () => {
    const cluster = new ClusterWorld();
    const [one, two] = [cluster.node(1), cluster.node(2)];
    const starting = one.begin();
    await cluster.world.runFor(3_000);
    const { ready, live, checks } = one.broker.health();
    expect({ ready, live }).toEqual({ ready: false, live: true });
    expect(checks["quorum"]).toContain("waiting");
    const client = await one.connect();
    const { response } = await client.call(API.DESCRIBE_QUORUM, {});
    expect(response).toMatchObject({ clusterId: null, nodeId: 1, role: "starting", leaderId: -1 });
    expect(response.waitingFor).toBe(checks["quorum"]);
    const answer = await client.call(API.METADATA, { topics: null, after: null, barrier: false });
    expect(answer.error).toBe("BROKER_NOT_AVAILABLE");
    expect(answer.message).toContain(checks["quorum"]);
    const others = [two.begin(), cluster.node(3).begin()];
    await cluster.world.settle(Promise.all([starting, ...others]));
    expect(one.broker.state).toBe("running");
    expect((await client.call(API.METADATA, { topics: null, after: null, barrier: false })).error).toBe("NONE");
  });

  test("of a formed cluster, restarted alone: leads nothing, and one more voter is enough", async () => {
    const cluster = await new ClusterWorld().start();
    await cluster.createTopic("t", 3);
    for (const node of cluster.nodes) node.crash("process death");
    const starting = cluster.node(1).begin();
    await cluster.world.runFor(5_000);
    expect(cluster.node(1).broker.state).toBe("starting");
    // D-1: its image on the disk says that it leads; that was another incarnation.
    expect(cluster.node(1).metrics.values.get("leader_partitions") ?? 0).toBe(0);
    expect(cluster.node(1).broker.health().checks["quorum"]).toMatch(/waiting for a quorum: 1 of 3/);
    await cluster.world.settle(Promise.all([starting, cluster.node(2).begin()]));
    await cluster.until("the third is fenced", async () => (await cluster.fenced(1)).join() === "3");
    expect((await cluster.leaders(1, "t")).filter((leader) => leader === -1)).toHaveLength(1);
  });

  test("a stop ends the wait at once, and releases everything", async () => {
    const cluster = new ClusterWorld();
    const one = cluster.node(1);
    const starting = one.begin();
    const refusal = expect(starting).rejects.toMatchObject({ code: "CLOSED" });
    await cluster.world.runFor(2_000);
    const beforeMs = cluster.world.nowMs;
    await one.stop();
    await refusal;
    expect(cluster.world.nowMs - beforeMs).toBeLessThan(1_000);
    expect(one.broker.state).toBe("stopped");
    await cluster.start();
  });

  test("whose disk fails while it waits ends its start at once, and its directory is not a clean one (D-13)", async () => {
    const cluster = await new ClusterWorld().start();
    for (const node of cluster.nodes) node.crash("process death");
    const one = cluster.node(1);
    const refusal = expect(one.begin()).rejects.toMatchObject({ code: "DISK_FAILED" });
    await cluster.world.runFor(2_000);
    one.disk.faults.failingSyncs = 1;
    const others = Promise.all([cluster.node(2).begin(), cluster.node(3).begin()]);
    await cluster.until("its vote or log could not be kept", () => one.broker.state !== "starting");
    const failedMs = cluster.world.nowMs;
    await cluster.world.settle(refusal);
    expect(cluster.world.nowMs - failedMs).toBeLessThan(100);
    await cluster.world.settle(others);
    one.crash("process death");
    await one.start();
    await one.stop();
    const registrations = (await one.metadataRecords()).filter((record) => record.type === "register-broker");
    const own = registrations.filter(({ nodeId }) => nodeId === 1);
    expect(own.map(({ restart }) => restart)).toEqual(["first", "process-death"]);
  });

  test("that lost it while it runs goes on with what it leads; nothing of the metadata changes (Q-21)", async () => {
    const cluster = await new ClusterWorld().start();
    const topicId = await cluster.createTopic("t", 3);
    await cluster.until("the topic", async () => (await cluster.leaders(1, "t")).length === 3);
    const partition = await cluster.partitionOf(1, "t");
    cluster.node(2).crash("process death");
    cluster.node(3).crash("process death");
    await cluster.world.runFor(10_000);
    const client = await cluster.client(1);
    expect(await client.produce(topicId, batchOf(["x"]), { partition })).toMatchObject({ error: "NONE" });
    const { ready, checks } = cluster.node(1).broker.health();
    expect(ready).toBe(true);
    expect(checks["quorum"]).toMatch(/1 of 3/);
    expect(checks["controller"]).toContain("none known");
    expect(checks["registration"]).toMatch(/not heard of by a controller: .* goes on serving/);
    const { controllerId } = await cluster.metadata(1);
    expect(controllerId).toBe(-1);
    const topics = [{ name: "u", partitions: 1, replicationFactor: -1, configs: [] }];
    const { error } = await client.call(API.CREATE_TOPICS, { validateOnly: false, topics, requestId: null });
    expect(error).toBe("NOT_CONTROLLER");
    // Without anybody to say goodbye to it stops all the same.
    const beforeMs = cluster.world.nowMs;
    await cluster.node(1).stop();
    expect(cluster.world.nowMs - beforeMs).toBeLessThan(2_500);
  });
});

describe("an ordered stop", () => {
  test("R-62: the broker leads nothing any more before it is gone, without a session that has to end first", async () => {
    const cluster = await new ClusterWorld().start();
    await cluster.createTopic("t", 3);
    const leaver = await cluster.follower();
    const stopping = cluster.node(leaver).broker.stop();
    const rest = await cluster.controller(leaver);
    await cluster.world.settle(stopping);
    expect(await cluster.fenced(rest)).toEqual([leaver]);
    expect(await cluster.leaders(rest, "t")).not.toContain(leaver);
    const records = await cluster.node(leaver).metadataRecords();
    expect(records.filter(({ type }) => type === "fence-broker")).toEqual([
      expect.objectContaining({ nodeId: leaver, reason: "shutdown" }),
    ]);
  });

  test("of the controller hands over first: a topic can be created right after", async () => {
    const cluster = await new ClusterWorld().start();
    const old = await cluster.controller();
    await cluster.node(old).stop();
    const beforeMs = cluster.world.nowMs;
    const next = await cluster.controller(old);
    await (await cluster.client(next)).createTopic("t");
    expect(cluster.world.nowMs - beforeMs).toBeLessThan(1_000);
    expect(await cluster.fenced(next)).toEqual([old]);
  });

  test("of all three at once takes no session and no timeout", async () => {
    const cluster = await new ClusterWorld().start();
    const beforeMs = cluster.world.nowMs;
    await cluster.world.settle(Promise.all(cluster.nodes.map(({ broker }) => broker.stop())));
    expect(cluster.world.nowMs - beforeMs).toBeLessThan(1_000);
  });

  test("a single node with no list is a cluster of its own", async () => {
    const broker = new BrokerWorld();
    await broker.start();
    expect(broker.world.nowMs).toBeLessThan(100);
    const client = await broker.connect();
    const { response } = await client.call(API.DESCRIBE_QUORUM, {});
    expect(response).toMatchObject({ role: "controller", leaderId: 1, waitingFor: null });
    await broker.stop();
  });
});
