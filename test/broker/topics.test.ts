// Topics and metadata through the broker: creating, deleting, listing, and what a restart makes of them.
import { describe, expect, test } from "vitest";
import { SUPPORTED_METADATA_VERSIONS } from "../../src/metadata/records.ts";
import { utf8Encode } from "../../src/base/bytes.ts";
import { API } from "../../src/wire/native/apis.ts";
import { batchOf, BrokerWorld, startWorld, type TestClient } from "./support.ts";

const create = async (
  client: TestClient,
  name: string,
  options: {
    partitions?: number;
    replicationFactor?: number;
    validateOnly?: boolean;
    configs?: { key: string; value: string }[];
  } = {},
) => {
  const { partitions = 1, replicationFactor = -1, validateOnly = false, configs = [] } = options;
  const topics = [{ name, partitions, replicationFactor, configs }];
  const [answer] = (await client.call(API.CREATE_TOPICS, { validateOnly, topics, requestId: null })).response.topics;
  return answer;
};

const remove = async (client: TestClient, ...names: string[]) =>
  (await client.call(API.DELETE_TOPICS, { names, requestId: null })).response.topics.map(({ error }) => error);

/** Runs the world until Metadata no longer lists the topic. */
async function untilGone(broker: BrokerWorld, client: TestClient, name: string): Promise<void> {
  for (let round = 0; round < 100; round++) {
    if ((await client.metadata()).topics.every((topic) => topic.name !== name)) return;
    await broker.world.runFor(50);
  }
  throw new Error(`${name} is still there`);
}

describe("creating", () => {
  test("a topic is listed with its leader, and takes a produce at once", async () => {
    const { client } = await startWorld();
    const topicId = await client.createTopic("orders", { partitions: 3, configs: { "segment.bytes": "64KiB" } });
    const { topics, brokers, controllerId } = await client.metadata();
    expect(topics).toHaveLength(1);
    expect(topics[0]).toMatchObject({
      name: "orders",
      error: "NONE",
      topicId,
      isDeleting: false,
      maxMessageBytes: 1_048_588,
      configs: [{ key: "segment.bytes", value: "65536" }],
    });
    expect(
      topics[0]?.partitions.map(({ index, leader, leaderEpoch, isr }) => [index, leader, leaderEpoch, isr]),
    ).toEqual([0, 1, 2].map((index) => [index, 1, 0, [1]]));
    expect(brokers).toEqual([{ nodeId: 1, address: "node1:7070", isFenced: false }]);
    expect(controllerId).toBe(1);
    expect(await client.produce(topicId, batchOf(["a"]), { partition: 2 })).toMatchObject({ error: "NONE" });
  });

  test("refusals come topic by topic, with a message that names what was wrong", async () => {
    const { client } = await startWorld();
    expect(await create(client, "a b")).toMatchObject({ error: "INVALID_TOPIC_EXCEPTION", topicId: null });
    expect(await create(client, "a", { partitions: 0 })).toMatchObject({ error: "INVALID_PARTITIONS" });
    expect(await create(client, "a", { replicationFactor: 3 })).toMatchObject({ error: "INVALID_REPLICATION_FACTOR" });
    expect(await create(client, "a", { configs: [{ key: "segment.byte", value: "1" }] })).toMatchObject({
      error: "INVALID_CONFIG",
      message: expect.stringContaining("segment.byte"),
    });
    expect(await create(client, "a")).toMatchObject({ error: "NONE", partitions: 1 });
    expect(await create(client, "a")).toMatchObject({ error: "TOPIC_ALREADY_EXISTS" });
  });

  test("validateOnly decides and changes nothing", async () => {
    const { client } = await startWorld();
    expect(await create(client, "a", { partitions: 2, validateOnly: true })).toMatchObject({
      error: "NONE",
      partitions: 2,
    });
    expect((await client.metadata()).topics).toEqual([]);
  });

  test("metadata comes in pages, sorted by name, and by name with unknown ones in their place", async () => {
    const { client } = await startWorld();
    const names = Array.from({ length: 20 }, (_, index) => `t${String(index).padStart(3, "0")}`);
    const topics = [...names].reverse().map((name) => ({ name, partitions: 40, replicationFactor: -1, configs: [] }));
    await client.call(API.CREATE_TOPICS, { validateOnly: false, topics, requestId: null });
    const seen: string[] = [];
    let after: string | null = null;
    do {
      const page = await client.metadata(null, after);
      seen.push(...page.topics.map(({ name }) => name));
      after = page.next;
    } while (after !== null);
    expect(seen).toEqual(names);
    const some = await client.metadata(["zz", "t001", "t001"]);
    expect(some.topics.map(({ name, error }) => [name, error])).toEqual([
      ["t001", "NONE"],
      ["zz", "UNKNOWN_TOPIC_OR_PARTITION"],
    ]);
    expect((await client.metadata(null, "t018")).topics.map(({ name }) => name)).toEqual(["t019"]);
  });
});

describe("deleting", () => {
  test("is asynchronous, frees the name, and a new topic of that name is another one", async () => {
    const { broker, client } = await startWorld();
    const oldId = await client.createTopic("t");
    await client.produce(oldId, batchOf(["old"]));
    expect(await remove(client, "t", "nobody")).toEqual(["NONE", "UNKNOWN_TOPIC_OR_PARTITION"]);
    expect(await client.produce(oldId, batchOf(["late"]))).toMatchObject({
      error: "UNKNOWN_TOPIC_ID",
      outcome: "not appended",
    });
    await untilGone(broker, client, "t");
    const newId = await client.createTopic("t");
    expect(newId).not.toBe(oldId);
    expect(await client.fetch(newId, 0)).toMatchObject({ error: "NONE", highWatermark: 0 });
    expect(await client.fetch(oldId, 0)).toMatchObject({ error: "UNKNOWN_TOPIC_ID" });
  });

  test("a waiting fetch is answered at once", async () => {
    const { broker, client } = await startWorld();
    const topicId = await client.createTopic("t");
    const waiting = client.sendFetch(topicId, 0, { maxWaitMs: 20_000 });
    await broker.world.runFor(100);
    const startMs = broker.world.nowMs;
    await remove(client, "t");
    expect((await broker.world.settle(waiting)).response.entries[0]?.error).toBe("UNKNOWN_TOPIC_ID");
    expect(broker.world.nowMs - startMs).toBeLessThan(1_000);
  });

  test("D-28: a produce that waits meanwhile is told its fate, or that it is unknown", async () => {
    const seen = new Set<string>();
    // Which is durable first, the batch or the mark, is the seed's choice.
    for (let seed = 1; seed <= 12 && seen.size < 2; seed++) {
      const { broker, client } = await startWorld({ syncMs: 300, seed });
      const topicId = await client.createTopic("t");
      const producing = client.sendProduce(topicId, batchOf(["a"]), { timeoutMs: 20_000 });
      const deleting = client.send(API.DELETE_TOPICS, { names: ["t"], requestId: null });
      const entry = (await broker.world.settle(producing)).response.entries[0];
      seen.add(`${entry?.error} ${entry?.outcome}`);
      await broker.world.settle(deleting);
    }
    expect(seen).toEqual(new Set(["NONE appended", "UNKNOWN_TOPIC_OR_PARTITION unknown"]));
  });

  test("a deletion that a crash interrupted is finished after the restart", async () => {
    const { broker, client } = await startWorld();
    await client.createTopic("t", { partitions: 5 });
    await remove(client, "t");
    broker.crash("power loss");
    await broker.start();
    const again = await broker.connect();
    await untilGone(broker, again, "t");
    await again.createTopic("t");
  });
});

describe("restarts", () => {
  test("D-1: every restart raises the leader epoch, ordered or not, and what was acknowledged is there", async () => {
    const { broker, client } = await startWorld();
    const topicId = await client.createTopic("t");
    const epochs: number[] = [];
    let connection = client;
    for (const end of ["stop", "process death", "power loss"] as const) {
      await connection.produce(topicId, batchOf([end]));
      epochs.push((await connection.fetch(topicId, 0)).leaderEpoch);
      if (end === "stop") await broker.stop();
      else broker.crash(end);
      await broker.start();
      connection = await broker.connect();
    }
    const fetched = await connection.fetch(topicId, 0);
    expect(fetched.highWatermark).toBe(3);
    epochs.push(fetched.leaderEpoch);
    for (let index = 1; index < epochs.length; index++) expect(epochs[index]).toBeGreaterThan(epochs[index - 1] ?? 0);
  });

  test("D-6, D-32: each start registers a new incarnation and says what the restart may have lost", async () => {
    const broker = new BrokerWorld();
    await broker.start();
    for (const end of ["stop", "process death", "power loss", "stop"] as const) {
      if (end === "stop") await broker.stop();
      else broker.crash(end);
      await broker.start();
    }
    await broker.stop();
    const records = await broker.metadataRecords();
    const registrations = records.filter((record) => record.type === "register-broker");
    expect(registrations.map(({ restart }) => restart)).toEqual([
      "first",
      "clean",
      "process-death",
      "power-loss",
      "clean",
    ]);
    expect(new Set(registrations.map(({ incarnationId }) => incarnationId)).size).toBe(5);
    expect(new Set(registrations.map(({ directoryId }) => directoryId)).size).toBe(1);
    expect(records[0]).toMatchObject({ type: "cluster", metadataVersion: SUPPORTED_METADATA_VERSIONS.max });
  });

  test("D-31: a metadata record that this build does not know refuses the start by name, and again", async () => {
    const { broker } = await startWorld();
    await broker.stop();
    await broker.appendMetadata(
      utf8Encode(JSON.stringify({ version: 1, records: [{ type: "tiered-storage", version: 1 }] })),
    );
    for (let attempt = 0; attempt < 2; attempt++) {
      const refusal = expect(broker.start()).rejects;
      await refusal.toMatchObject({ code: "DATA_DIR_NEWER", message: expect.stringContaining("tiered-storage") });
    }
  });

  test("D-20: identity survives a restart; a directory whose metadata log is gone is refused", async () => {
    const { broker, client } = await startWorld();
    await client.createTopic("t");
    const { identity } = broker.broker;
    await broker.stop();
    await broker.start();
    expect(broker.broker.identity).toEqual(identity);
    await broker.stop();
    await wipe(broker, "/data/metadata");
    await expect(broker.start()).rejects.toMatchObject({ code: expect.stringMatching(/^DATA_/) });
  });

  test("another node id or cluster id is refused", async () => {
    const broker = new BrokerWorld();
    await broker.start();
    await broker.stop();
    for (const config of [{ "node.id": 2 }, { "cluster.id": "AAAAAAAAAAAAAAAAAAAAAQ" }]) {
      const other = new BrokerWorld({ config });
      Object.assign(other, { disk: broker.disk, world: broker.world, network: broker.network });
      await expect(other.start()).rejects.toMatchObject({ code: "DATA_DIR_FOREIGN" });
    }
  });
});

async function wipe(broker: BrokerWorld, directory: string): Promise<void> {
  const { world, disk } = broker;
  const files = disk.files(world.startIncarnation("vandal"));
  for (const { name } of await world.settle(files.list(directory)))
    await world.settle(files.unlink(`${directory}/${name}`));
  await world.settle(files.syncDirectory(directory));
}
