// Who a broker is: node ids, directories, incarnations, builds (D-1, D-6, D-20, D-31).
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import { API } from "../../src/wire/native/apis.ts";
import { ClusterWorld } from "./cluster-world.ts";
import { BrokerWorld, batchOf } from "./support.ts";

const SESSION_MS = 3_000;

afterEach(() => activateMutants([]));

/** Another process under node id 3, elsewhere, on an empty disk of its own. */
function rivalOf(cluster: ClusterWorld): BrokerWorld {
  const config = { ...cluster.node(3).config, listeners: "rival:7070" };
  return new BrokerWorld({ config, beside: { world: cluster.world, network: cluster.network, name: "rival" } });
}

/** Of three nodes, node 3 is cut off and not the controller; its session has ended. */
async function withLostThird() {
  const cluster = await new ClusterWorld({ nodes: 3, voters: 1 }).start();
  const topicId = await cluster.createTopic("t", 3);
  await cluster.until("all lead", () =>
    cluster.nodes.every(({ metrics }) => metrics.values.get("leader_partitions") === 1),
  );
  const partition = await cluster.partitionOf(3, "t");
  cluster.isolate(3);
  await cluster.until("it is fenced", async () => (await cluster.fenced(1)).includes(3), 10_000);
  return { cluster, topicId, partition };
}

describe("two processes under one node id", () => {
  test("the second is not let in while the first lives, says why, and gives up its start; the first is not disturbed", async () => {
    const cluster = await new ClusterWorld({ nodes: 3, voters: 1 }).start();
    const rival = rivalOf(cluster);
    const starting = expect(rival.begin()).rejects.toMatchObject({ code: "DUPLICATE_BROKER_REGISTRATION" });
    await cluster.world.runFor(SESSION_MS);
    expect(rival.broker.health().checks["registration"]).toContain("DUPLICATE_BROKER_REGISTRATION");
    await cluster.world.runFor(5 * SESSION_MS);
    await starting;
    expect(rival.broker.state).toBe("stopped");
    expect(await cluster.fenced(1)).toEqual([]);
    expect(cluster.node(3).metrics.values.get("broker_registrations")).toBe(1);
  });

  test("D-6: a replaced disk is let in when the session of the old one has ended; what only that had stays leaderless", async () => {
    const { cluster, partition } = await withLostThird();
    cluster.node(3).crash("process death");
    const rival = rivalOf(cluster);
    await rival.start();
    const { topics, brokers } = await cluster.metadata(1);
    expect(brokers.find(({ nodeId }) => nodeId === 3)).toMatchObject({ address: "rival:7070", isFenced: false });
    expect(topics[0]?.partitions[partition]).toMatchObject({ leader: -1, isr: [], error: "NO_INTACT_REPLICA" });
    // It takes part in what is created from now on.
    await cluster.createTopic("u", 3);
    expect(await cluster.leaders(1, "u")).toContain(3);
  });

  test.each([{ mutants: [] }, { mutants: ["D1-broker"] }])(
    "D-1: who has lost the node id to another process leads nothing that is given to that one ($mutants)",
    async ({ mutants }) => {
      const { cluster } = await withLostThird();
      const rival = rivalOf(cluster);
      await rival.start();
      activateMutants(mutants);
      cluster.rejoin(3);
      await cluster.until(
        "it knows",
        () => cluster.node(3).broker.health().checks["registration"]?.includes("another process") === true,
      );
      const topicId = await cluster.createTopic("u", 3);
      const partition = await cluster.partitionOf(3, "u");
      await cluster.until("the rival leads", () => rival.metrics.values.get("leader_partitions") === 1);
      const right = await (await rival.connect()).produce(topicId, batchOf(["right"]), { partition });
      expect(right).toMatchObject({ error: "NONE", baseOffset: 0 });
      const wrong = await (await cluster.client(3)).produce(topicId, batchOf(["wrong"]), { partition });
      const isCaught = wrong.error === "NOT_LEADER_OR_FOLLOWER" && wrong.outcome === "not appended";
      expect(isCaught, "two logs of one (offset, epoch)").toBe(mutants.length === 0);
      expect(cluster.node(3).broker.health().ready).toBe(false);
    },
  );

  test("D-6: an older copy of the disk is another disk", async () => {
    const cluster = await new ClusterWorld({ nodes: 3, voters: 1 }).start();
    await cluster.createTopic("t", 3);
    const partition = await cluster.partitionOf(3, "t");
    await cluster.node(3).stop();
    const copy = cluster.node(3).disk.image.clone();
    await cluster.node(3).start();
    expect(await cluster.leaders(1, "t")).toContain(3);
    await cluster.node(3).stop();
    cluster.node(3).disk.replace(copy);
    await cluster.node(3).start();
    await cluster.until("it is let in", async () => (await cluster.fenced(1)).length === 0);
    const { topics } = await cluster.metadata(1);
    expect(topics[0]?.partitions[partition]).toMatchObject({ leader: -1, isr: [] });
  });
});

describe("builds", () => {
  const OLD = { min: 1, max: 1 };

  async function raise(cluster: ClusterWorld, version: number) {
    const client = await cluster.client(await cluster.controller());
    return client.call(API.RAISE_METADATA_VERSION, { version });
  }

  async function versionsOf(cluster: ClusterWorld, nodeId: number) {
    const { response } = await (await cluster.client(nodeId)).call(API.DESCRIBE_QUORUM, {});
    return response.metadataVersion;
  }

  test("D-31: one after the other is upgraded; the version is raised when all know it, and an older build is not let in then", async () => {
    const cluster = new ClusterWorld({ metadataVersions: OLD });
    await cluster.start();
    expect(await versionsOf(cluster, 1)).toBe(1);
    const fences = async () => (await cluster.node(1).metadataRecords()).filter(({ type }) => type === "fence-broker");
    for (const nodeId of [3, 2, 1]) {
      const answer = await raise(cluster, 2);
      expect(answer).toMatchObject({ error: "UNSUPPORTED_VERSION" });
      await cluster.node(nodeId).stop();
      cluster.node(nodeId).metadataVersions = undefined;
      await cluster.node(nodeId).start();
      await cluster.until("nobody is fenced", async () => (await cluster.fenced(nodeId)).length === 0);
    }
    expect(await raise(cluster, 2)).toMatchObject({ error: "NONE" });
    await cluster.until("all know", async () => (await versionsOf(cluster, 1)) === 2);
    expect(await raise(cluster, 1)).toMatchObject({ error: "INVALID_UPDATE_VERSION" });
    const downgraded = cluster.node(await cluster.follower());
    await downgraded.stop();
    downgraded.metadataVersions = OLD;
    await expect(downgraded.start()).rejects.toMatchObject({ code: "DATA_DIR_NEWER" });
    downgraded.metadataVersions = undefined;
    await downgraded.start();
    await cluster.node(1).stop();
    const written = (await fences()).map(({ version }) => version);
    expect(written.slice(0, 3), "before it was raised").toEqual([1, 1, 1]);
    expect(written.slice(3).every((version) => version === 2)).toBe(true);
    expect(written.length).toBeGreaterThan(3);
  });
});
