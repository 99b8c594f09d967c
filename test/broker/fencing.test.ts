// Brokers that die, stand still or are cut off: who leads when, and what their clients are told (D-1, D-6, D-10, D-22, Q-21).
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import type { TopicId } from "../../src/model/ids.ts";
import { leaderEpochAt } from "../../src/model/record-batch.ts";
import type { MetadataRecord } from "../../src/metadata/records.ts";
import { ClusterWorld, type ClusterSettings } from "./cluster-world.ts";
import { batchOf } from "./support.ts";

const SESSION_MS = 3_000;

afterEach(() => activateMutants([]));

/** A topic with a partition on each node, and a node that is not the controller. */
async function withTopic(settings: ClusterSettings = {}) {
  const cluster = await new ClusterWorld(settings).start();
  const count = cluster.nodes.length;
  const topicId = await cluster.createTopic("t", count);
  const isLed = () => cluster.nodes.every(({ metrics }) => metrics.values.get("leader_partitions") === 1);
  await cluster.until("every node leads", isLed);
  const nodeId = await cluster.follower();
  return { cluster, topicId, nodeId, partition: await cluster.partitionOf(nodeId, "t") };
}

async function partitionAt(cluster: ClusterWorld, observer: number, partition: number) {
  const { topics } = await cluster.metadata(observer);
  const found = topics.find(({ name }) => name === "t")?.partitions[partition];
  if (found === undefined) throw new Error("no such partition");
  return found;
}

async function produceAt(cluster: ClusterWorld, nodeId: number, to: { topicId: TopicId; partition: number }) {
  const client = await cluster.client(nodeId);
  return client.produce(to.topicId, batchOf(["x"]), { partition: to.partition });
}

/** Once, after all is done: the metadata log as one node has it. */
async function recordsOf(cluster: ClusterWorld, nodeId: number): Promise<MetadataRecord[]> {
  await cluster.node(nodeId).stop();
  return cluster.node(nodeId).metadataRecords();
}

describe("a broker whose process dies", () => {
  test("D-22: its port refuses, so it is fenced at once, and elected again when it is back", async () => {
    // In this seed the dead process's connection to the controller is reset: in some it ends without a word.
    const { cluster, topicId, nodeId, partition } = await withTopic({ seed: 6 });
    const controller = await cluster.controller();
    const before = await partitionAt(cluster, controller, partition);
    const diedMs = cluster.world.nowMs;
    cluster.node(nodeId).crash("process death");
    await cluster.until("it is fenced", async () => (await cluster.fenced(controller)).includes(nodeId));
    expect(cluster.world.nowMs - diedMs).toBeLessThan(500);
    const dead = await partitionAt(cluster, controller, partition);
    expect(dead).toMatchObject({ leader: -1, leaderEpoch: before.leaderEpoch + 1, isr: [], elr: [nodeId] });
    // Version 0 of Metadata has no word for a fenced broker: it is left out.
    const old = await (await cluster.client(controller)).metadata();
    expect(old.brokers.map((broker) => broker.nodeId)).not.toContain(nodeId);
    await cluster.node(nodeId).start();
    const back = await partitionAt(cluster, nodeId, partition);
    expect(back).toMatchObject({ leader: nodeId, leaderEpoch: before.leaderEpoch + 2 });
    expect(await produceAt(cluster, nodeId, { topicId, partition })).toMatchObject({ error: "NONE" });
  });

  test("P3, D-1: one that is back within its session is a new incarnation, in new leader epochs", async () => {
    const { cluster, topicId, nodeId, partition } = await withTopic();
    const client = await cluster.client(nodeId);
    await client.produce(topicId, batchOf(["kept"]), { partition, acks: -1 });
    const before = await partitionAt(cluster, nodeId, partition);
    cluster.node(nodeId).crash("process death");
    const startedMs = cluster.world.nowMs;
    await cluster.node(nodeId).start();
    expect(cluster.world.nowMs - startedMs, "nothing had to expire").toBeLessThan(SESSION_MS / 2);
    const after = await partitionAt(cluster, nodeId, partition);
    expect(after.leader).toBe(nodeId);
    expect(after.leaderEpoch).toBe(before.leaderEpoch + 2);
    const again = await cluster.client(nodeId);
    const late = await again.produce(topicId, batchOf(["late"]), { partition, leaderEpoch: before.leaderEpoch });
    expect(late).toMatchObject({ error: "FENCED_LEADER_EPOCH", outcome: "not appended" });
    expect(await again.produce(topicId, batchOf(["new"]), { partition })).toMatchObject({
      error: "NONE",
      baseOffset: 1,
    });
    const { bytes } = await again.fetch(topicId, 1, { partition });
    expect(leaderEpochAt(bytes, 0)).toBe(after.leaderEpoch);
  });

  test("the controller's: the next one finds it refused, fences it, and everybody else keeps what it leads", async () => {
    const { cluster } = await withTopic({ seed: 4 });
    const old = await cluster.controller();
    const diedMs = cluster.world.nowMs;
    cluster.node(old).crash("process death");
    const next = await cluster.controller(old);
    await cluster.until("it is fenced", async () => (await cluster.fenced(next)).includes(old));
    expect(cluster.world.nowMs - diedMs).toBeLessThan(2_500);
    await (await cluster.client(next)).createTopic("u");
    expect(cluster.world.nowMs - diedMs).toBeLessThan(3_000);
    // Nobody else was fenced, then or later: they have found the new controller.
    await cluster.world.runFor(2 * SESSION_MS);
    expect(await cluster.fenced(next)).toEqual([old]);
    await cluster.node(old).start();
    await cluster.until("it leads again", async () => !(await cluster.leaders(next, "t")).includes(-1));
    const fences = (await recordsOf(cluster, next)).filter(({ type }) => type === "fence-broker");
    expect(fences).toEqual([
      expect.objectContaining({ nodeId: old, reason: "refused" }),
      expect.objectContaining({ nodeId: next, reason: "shutdown" }),
    ]);
  });
});

describe("a broker that stands still", () => {
  test("is fenced when its session ends, not before; back, it leads again in a new epoch and loses nothing", async () => {
    const { cluster, topicId, nodeId, partition } = await withTopic();
    const controller = await cluster.controller();
    const before = await partitionAt(cluster, controller, partition);
    const client = await cluster.client(nodeId);
    await client.produce(topicId, batchOf(["a"]), { partition });
    cluster.pause(nodeId);
    // What comes while it stands still is read before it learns anything: in the old epoch, which is still its own as far as it knows (D-10).
    const zombie = client.sendProduce(topicId, batchOf(["b"]), { partition, acks: 1 });
    await cluster.world.runFor(SESSION_MS - 600);
    expect(await cluster.fenced(controller)).toEqual([]);
    await cluster.until("it is fenced", async () => (await cluster.fenced(controller)).includes(nodeId), 1_600);
    await cluster.world.runFor(5_000);
    expect((await partitionAt(cluster, controller, partition)).leader).toBe(-1);
    cluster.resume(nodeId);
    const { response } = await cluster.world.settle(zombie);
    const [answer] = response.entries;
    await cluster.until("it leads again", async () => {
      const { leader, leaderEpoch } = await partitionAt(cluster, nodeId, partition);
      return leader === nodeId && leaderEpoch > before.leaderEpoch;
    });
    const after = await partitionAt(cluster, nodeId, partition);
    expect(after.leaderEpoch).toBe(before.leaderEpoch + 2);
    expect(await produceAt(cluster, nodeId, { topicId, partition })).toMatchObject({ error: "NONE" });
    // Whatever it was told to append went in once, below the new epoch.
    const again = await cluster.client(nodeId);
    const epochs: number[] = [];
    for (let offset = 0; ; offset++) {
      const { bytes } = await again.fetch(topicId, offset, { partition });
      if (bytes.length === 0) break;
      epochs.push(leaderEpochAt(bytes, 0));
    }
    const zombieEpochs = answer?.error === "NONE" ? [before.leaderEpoch] : [];
    expect(epochs).toEqual([before.leaderEpoch, ...zombieEpochs, after.leaderEpoch]);
    expect(cluster.node(nodeId).metrics.values.get("broker_registrations"), "the same incarnation").toBe(1);
  });

  test("several that lose their sessions at one moment are fenced in one command", async () => {
    const { cluster } = await withTopic({ nodes: 5, voters: 3 });
    const controller = await cluster.controller();
    cluster.pause(4);
    cluster.pause(5);
    await cluster.until("both are fenced", async () => (await cluster.fenced(controller)).join() === "4,5");
    const commands = (await cluster.node(controller).stop(), await cluster.node(controller).metadataCommands());
    const fencing = commands.filter((records) => records.some(({ type }) => type === "fence-broker"));
    expect(fencing[0]?.map((record) => record.type === "fence-broker" && record.nodeId)).toEqual([4, 5]);
  });

  test.each([
    { mutants: [], fenced: 0 },
    { mutants: ["D-22"], fenced: 3 },
  ])(
    "D-22: a controller that stood still for longer than a session looks again before it fences ($mutants)",
    async ({ mutants, fenced }) => {
      activateMutants(mutants);
      const { cluster } = await withTopic({ voters: 1 });
      cluster.pause(1);
      await cluster.world.runFor(2 * SESSION_MS);
      cluster.resume(1);
      await cluster.world.runFor(SESSION_MS);
      const fences = (await recordsOf(cluster, 1)).filter(
        (record) => record.type === "fence-broker" && record.version === 2 && record.reason === "session",
      );
      expect(fences).toHaveLength(fenced);
    },
  );
});

describe("a broker that is cut off from the others", () => {
  test("Q-21: serves what it leads as far as it knows; when it learns that it was fenced, it stops, and is elected anew", async () => {
    const { cluster, topicId, nodeId, partition } = await withTopic();
    const before = await partitionAt(cluster, nodeId, partition);
    cluster.isolate(nodeId);
    await cluster.world.runFor(2 * SESSION_MS);
    const controller = await cluster.controller(nodeId);
    await cluster.until("it is fenced", async () => (await cluster.fenced(controller)).includes(nodeId));
    expect(await produceAt(cluster, nodeId, { topicId, partition }), "R-68").toMatchObject({ error: "NONE" });
    expect(cluster.node(nodeId).broker.health().ready).toBe(true);
    cluster.rejoin(nodeId);
    await cluster.until("it leads anew", async () => {
      const { leader, leaderEpoch } = await partitionAt(cluster, nodeId, partition);
      return leader === nodeId && leaderEpoch === before.leaderEpoch + 2;
    });
    expect(await produceAt(cluster, nodeId, { topicId, partition })).toMatchObject({ error: "NONE", baseOffset: 1 });
  });

  test("ends what waits when its leadership is taken: long polls look again, produce is told that its outcome is unknown", async () => {
    const { cluster, topicId, nodeId, partition } = await withTopic();
    cluster.isolate(nodeId);
    const controller = await cluster.controller(nodeId);
    await cluster.until("it is fenced", async () => (await cluster.fenced(controller)).includes(nodeId), 10_000);
    const client = await cluster.client(nodeId);
    const poll = client.sendFetch(topicId, 0, { partition, maxWaitMs: 25_000 });
    // Not durable for long: acks=all has to wait.
    cluster.node(nodeId).latencies.syncMs = 20_000;
    await cluster.world.runFor(50);
    const produce = client.sendProduce(topicId, batchOf(["x"]), { partition, acks: -1, timeoutMs: 30_000 });
    await cluster.world.runFor(50);
    const beganMs = cluster.world.nowMs;
    cluster.rejoin(nodeId);
    const told = (await cluster.world.settle(produce)).response.entries[0];
    expect(told).toMatchObject({ error: "NOT_LEADER_OR_FOLLOWER", outcome: "unknown" });
    const polled = (await cluster.world.settle(poll)).response.entries[0];
    expect(polled).toMatchObject({ error: "NOT_LEADER_OR_FOLLOWER" });
    expect(cluster.world.nowMs - beganMs).toBeLessThan(15_000);
  });

  test("finds the controller when that has moved meanwhile", async () => {
    const { cluster } = await withTopic();
    const old = await cluster.controller();
    cluster.isolate(old);
    const next = await cluster.controller(old);
    await cluster.until("the old one is fenced", async () => (await cluster.fenced(next)).includes(old), 10_000);
    cluster.rejoin(old);
    await cluster.until("it is back", async () => (await cluster.fenced(next)).length === 0);
    expect(await cluster.controller()).toBe(next);
    expect(cluster.node(old).metrics.values.get("broker_registrations")).toBe(1);
  });
});
