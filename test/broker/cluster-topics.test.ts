// Topics whose partitions are on several brokers: their configuration while they run, their deletion while a broker is away, changes asked for twice.
import { describe, expect, test } from "vitest";
import type { Uuid } from "../../src/model/ids.ts";
import { API, type ApiTypes } from "../../src/wire/native/apis.ts";
import { ClusterWorld } from "./cluster-world.ts";
import { batchOf, type BrokerWorld } from "./support.ts";

type Change = { readonly key: string; readonly value: string | null };
type Resource = ApiTypes[typeof API.ALTER_CONFIGS]["request"]["resource"];

const ID = "AAAAAAAAAAAAAAAAAAAAAQ" as Uuid;

/** A topic with a partition on each node, all open. */
async function withTopic(name = "t") {
  const cluster = await new ClusterWorld().start();
  const topicId = await cluster.createTopic(name, 3);
  await allLead(cluster, 1);
  return { cluster, topicId };
}

async function allLead(cluster: ClusterWorld, partitions: number): Promise<void> {
  const leads = (node: BrokerWorld) => !node.isUp || node.metrics.values.get("leader_partitions") === partitions;
  await cluster.until("every node leads", () => cluster.nodes.every(leads));
}

async function alter(cluster: ClusterWorld, to: { resource: Resource; name: string }, ...changes: Change[]) {
  const client = await cluster.client(await cluster.controller());
  return client.call(API.ALTER_CONFIGS, { ...to, changes, validateOnly: false, requestId: null });
}

async function describeAt(
  cluster: ClusterWorld,
  nodeId: number,
  of: { resource: Resource; name: string },
  key: string,
) {
  const client = await cluster.client(nodeId);
  const { response, error } = await client.call(API.DESCRIBE_CONFIGS, { ...of, keys: [key], barrier: false });
  if (error !== "NONE") throw new Error(error);
  return response.configs.map(({ value, source }) => `${source} ${value}`);
}

describe("configuration that changes while brokers run", () => {
  test("of a topic reaches every live partition, and is taken back", async () => {
    const { cluster, topicId } = await withTopic();
    const batch = batchOf(["x"], { padBytes: 2_000 });
    const of = { resource: "topic", name: "t" } as const;
    const { error, response } = await alter(cluster, of, { key: "max.message.bytes", value: "1000" });
    expect(error).toBe("NONE");
    for (const nodeId of [1, 2, 3]) {
      await cluster.until(
        "it is applied",
        async () => (await cluster.metadata(nodeId)).metadataEnd >= response.metadataEnd,
      );
      const partition = await cluster.partitionOf(nodeId, "t");
      const answer = await (await cluster.client(nodeId)).produce(topicId, batch, { partition });
      expect(answer).toMatchObject({ error: "MESSAGE_TOO_LARGE", outcome: "not appended" });
      expect(await describeAt(cluster, nodeId, of, "max.message.bytes")).toEqual(["topic 1000"]);
      const [listed] = (await cluster.metadata(nodeId)).topics;
      expect(listed?.maxMessageBytes).toBe(1000);
    }
    await alter(cluster, of, { key: "max.message.bytes", value: null });
    const nodeId = await cluster.follower();
    const partition = await cluster.partitionOf(nodeId, "t");
    await cluster.until("it is taken back", async () => {
      return (await (await cluster.client(nodeId)).produce(topicId, batch, { partition })).error === "NONE";
    });
    expect(await describeAt(cluster, nodeId, of, "max.message.bytes")).toEqual(["static 1048588"]);
  });

  test("of all brokers counts where neither topic nor broker say anything else; of one broker for that one only", async () => {
    const { cluster } = await withTopic();
    const key = "segment.bytes";
    expect((await alter(cluster, { resource: "broker", name: "" }, { key, value: "2MiB" })).error).toBe("NONE");
    expect((await alter(cluster, { resource: "broker", name: "2" }, { key, value: "3MiB" })).error).toBe("NONE");
    const of = { resource: "topic", name: "t" } as const;
    const valueAt = (nodeId: number) => describeAt(cluster, nodeId, of, key);
    await cluster.until("all have it", async () => (await valueAt(2)).join() === `broker ${3 * 2 ** 20}`);
    await cluster.until("all have it", async () => (await valueAt(3)).join() === `cluster ${2 * 2 ** 20}`);
    expect(await describeAt(cluster, 2, { resource: "broker", name: "2" }, key)).toEqual([`broker ${3 * 2 ** 20}`]);
    expect(await describeAt(cluster, 1, { resource: "broker", name: "" }, key)).toEqual([`cluster ${2 * 2 ** 20}`]);
    const other = await (await cluster.client(1)).call(API.DESCRIBE_CONFIGS, {
      resource: "broker",
      name: "2",
      keys: null,
      barrier: false,
    });
    expect(other).toMatchObject({ error: "INVALID_REQUEST", message: expect.stringContaining("broker 2") });
    await alter(cluster, of, { key, value: "1MiB" });
    await cluster.until("the topic's own is stronger", async () => (await valueAt(2)).join() === `topic ${2 ** 20}`);
  });

  test("a smaller segment.bytes holds for what is written next", async () => {
    const { cluster, topicId } = await withTopic();
    const nodeId = await cluster.follower();
    const partition = await cluster.partitionOf(nodeId, "t");
    const client = await cluster.client(nodeId);
    const batch = () => batchOf(["x"], { padBytes: 3_000 });
    await client.produce(topicId, batch(), { partition });
    await alter(cluster, { resource: "topic", name: "t" }, { key: "segment.bytes", value: "2KiB" });
    await cluster.until("it is refused now", async () => {
      return (await client.produce(topicId, batch(), { partition })).error === "RECORD_LIST_TOO_LARGE";
    });
    expect((await client.fetch(topicId, 0, { partition })).bytes.length, "what was taken before stays").toBeGreaterThan(
      3_000,
    );
  });

  test("what is wrong is told, and changes nothing", async () => {
    const { cluster } = await withTopic();
    const faults = [
      await alter(cluster, { resource: "topic", name: "t" }, { key: "segment.bytes", value: "1" }),
      await alter(cluster, { resource: "topic", name: "t" }, { key: "listeners", value: "x" }),
      await alter(cluster, { resource: "topic", name: "nope" }, { key: "segment.bytes", value: "1MiB" }),
      await alter(cluster, { resource: "broker", name: "x" }, { key: "segment.bytes", value: "1MiB" }),
      await alter(cluster, { resource: "broker", name: "9" }, { key: "segment.bytes", value: "1MiB" }),
    ];
    expect(faults.map(({ error }) => error)).toEqual([
      "INVALID_CONFIG",
      "INVALID_CONFIG",
      "UNKNOWN_TOPIC_OR_PARTITION",
      "INVALID_REQUEST",
      "INVALID_REQUEST",
    ]);
  });
});

describe("deletion", () => {
  const isListed = async (cluster: ClusterWorld, nodeId: number) => (await cluster.metadata(nodeId)).topics.length > 0;
  const remove = async (cluster: ClusterWorld) =>
    (await cluster.client(await cluster.controller())).call(API.DELETE_TOPICS, { names: ["t"], requestId: null });

  test("is over when every broker has dropped its logs; no interval has to pass", async () => {
    const { cluster } = await withTopic();
    const controller = await cluster.controller();
    const beganMs = cluster.world.nowMs;
    await remove(cluster);
    await cluster.until("it is gone", async () => !(await isListed(cluster, controller)));
    expect(cluster.world.nowMs - beganMs).toBeLessThan(200);
    for (const node of cluster.nodes)
      expect(node.disk.image.find("/data/t-0") ?? node.disk.image.find("/data/t-1")).toBeUndefined();
  });

  test("R-67: does not wait for a dead broker; that one drops what it owes before a topic of the same name gets its logs", async () => {
    const { cluster, topicId } = await withTopic();
    const nodeId = await cluster.follower();
    const partition = await cluster.partitionOf(nodeId, "t");
    await (await cluster.client(nodeId)).produce(topicId, batchOf(["old"]), { partition });
    cluster.node(nodeId).crash("process death");
    const controller = await cluster.controller();
    await cluster.until("it is fenced", async () => (await cluster.fenced(controller)).includes(nodeId));
    await remove(cluster);
    await cluster.until("it is gone", async () => !(await isListed(cluster, controller)));
    // The name is free: the other two take it, the third gets a partition of it only when it is back.
    const again = await cluster.createTopic("t", 2);
    expect(again).not.toBe(topicId);
    await cluster.node(nodeId).start();
    await cluster.until(
      "the old log is gone",
      () => cluster.node(nodeId).disk.image.find(`/data/t-${partition}`) === undefined,
    );
    await cluster.world.runFor(2_000);
    const client = await cluster.client(nodeId);
    expect(await client.produce(topicId, batchOf(["x"]), { partition })).toMatchObject({ error: "UNKNOWN_TOPIC_ID" });
    await remove(cluster);
    await cluster.until("it is gone", async () => !(await isListed(cluster, controller)));
    const third = await cluster.createTopic("t", 3);
    await allLead(cluster, 1);
    const mine = await cluster.partitionOf(nodeId, "t");
    expect(await client.produce(third, batchOf(["new"]), { partition: mine })).toMatchObject({
      error: "NONE",
      baseOffset: 0,
    });
    await cluster.node(controller).stop();
    const records = await cluster.node(controller).metadataRecords();
    const removals = records.filter((record) => record.type === "topic-removed");
    expect(removals.map(({ owed }) => owed)).toEqual([[nodeId], []]);
    expect(records.filter(({ type }) => type === "tombstone-settled")).toEqual([
      expect.objectContaining({ nodeId, topicIds: [topicId] }),
    ]);
  });

  test("goes on where a controller that died had begun it", async () => {
    const { cluster } = await withTopic();
    const old = await cluster.controller();
    const other = await cluster.follower();
    // A broker that cannot report holds it up until the controller is gone.
    cluster.pause(other);
    await remove(cluster);
    cluster.node(old).crash("process death");
    await cluster.world.runFor(100);
    cluster.resume(other);
    const next = await cluster.controller(old);
    await cluster.until("it is gone", async () => !(await isListed(cluster, next)));
  });

  test("a broker that stands still holds it up until it is fenced, and no longer", async () => {
    const { cluster } = await withTopic();
    const nodeId = await cluster.follower();
    const controller = await cluster.controller();
    cluster.pause(nodeId);
    await remove(cluster);
    await cluster.world.runFor(1_000);
    expect(await isListed(cluster, controller)).toBe(true);
    await cluster.until("it is gone", async () => !(await isListed(cluster, controller)), 5_000);
    cluster.resume(nodeId);
    await cluster.until("its log is gone", () => cluster.node(nodeId).metrics.values.get("leader_partitions") === 0);
  });
});

describe("a change that is asked for again under one request id", () => {
  test("is done once, and answered as done, also by the next controller", async () => {
    const cluster = await new ClusterWorld().start();
    const topics = [{ name: "t", partitions: 3, replicationFactor: -1, configs: [] }];
    const create = async () => {
      const client = await cluster.client(await cluster.controller());
      const answer = await client.call(
        API.CREATE_TOPICS,
        { validateOnly: false, topics, requestId: ID },
        { version: 1 },
      );
      return answer.response.topics[0];
    };
    const first = await create();
    expect(first).toMatchObject({ error: "NONE", partitions: 3 });
    expect(await create()).toEqual(first);
    cluster.node(await cluster.controller()).crash("process death");
    expect(await create()).toEqual(first);
    const client = await cluster.client(await cluster.controller());
    await client.call(API.DELETE_TOPICS, { names: ["t"], requestId: null });
    await cluster.until(
      "it is gone",
      async () => (await cluster.metadata(await cluster.controller())).topics.length === 0,
    );
    expect(await create()).toMatchObject({ error: "NONE", topicId: first?.topicId, partitions: -1 });
    expect((await cluster.metadata(await cluster.controller())).topics).toEqual([]);
  });

  test("a refused one is not remembered; an id goes with a single change", async () => {
    const cluster = await new ClusterWorld({ nodes: 1 }).start();
    const client = await cluster.client(1);
    const remove = (names: string[]) => client.call(API.DELETE_TOPICS, { names, requestId: ID }, { version: 1 });
    expect((await remove(["t"])).response.topics[0]).toMatchObject({ error: "UNKNOWN_TOPIC_OR_PARTITION" });
    await client.createTopic("t");
    expect((await remove(["t"])).response.topics[0]).toMatchObject({ error: "NONE" });
    expect(await remove(["a", "b"])).toMatchObject({ error: "INVALID_REQUEST" });
  });
});
