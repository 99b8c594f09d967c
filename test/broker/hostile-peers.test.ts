// Peers that say too much or what is not so, through the port: the cluster goes on, and what they leave behind is bounded.
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import { toNodeId, uuidFromBytes } from "../../src/model/ids.ts";
import { API } from "../../src/wire/native/apis.ts";
import { ClusterWorld } from "./cluster-world.ts";
import { BrokerWorld, batchOf } from "./support.ts";

afterEach(() => activateMutants([]));

function idOf(label: number): never {
  const bytes = new Uint8Array(16).fill(7);
  new DataView(bytes.buffer).setUint32(0, label);
  return uuidFromBytes(bytes) as never;
}

describe("registrations", () => {
  test("more than can be listed are refused; every node goes on answering", async () => {
    const cluster = await new ClusterWorld({ nodes: 1 }).start();
    const client = await cluster.client(1);
    const { clusterId } = await cluster.metadata(1);
    const registration = {
      clusterId: clusterId as never,
      restart: "first",
      versionsMin: 1,
      versionsMax: 99,
      lastBrokerEpoch: -1,
    } as const;
    const errors = new Map<string, number>();
    for (let at = 0; at < 1_100; at += 100) {
      const answers = Array.from({ length: 100 }, (_, each) => {
        const label = at + each;
        const ids = {
          nodeId: toNodeId(1_000 + label),
          directoryId: idOf(2 * label),
          incarnationId: idOf(2 * label + 1),
        };
        const host = "h".repeat(253);
        return client.send(API.REGISTER_BROKER, { ...registration, ...ids, address: `${host}:${1_000 + label}` });
      });
      for (const { error } of await cluster.world.settle(Promise.all(answers)))
        errors.set(error, (errors.get(error) ?? 0) + 1);
    }
    expect(Object.fromEntries(errors)).toEqual({ NONE: 999, INVALID_REGISTRATION: 101 });
    await cluster.createTopic("t", 20);
    const { brokers, topics } = await cluster.metadata(1);
    expect([brokers.length, topics.length]).toEqual([1_000, 1]);
    expect(cluster.node(1).fatal).toEqual([]);
    const odd = { nodeId: toNodeId(1), directoryId: idOf(1), incarnationId: idOf(2), address: "€".repeat(1_000) };
    expect(await client.call(API.REGISTER_BROKER, { ...registration, ...odd })).toMatchObject({
      error: "INVALID_REGISTRATION",
    });
  });

  test("I-39: one whose versions nobody could read is refused, and ends no node, now or at its next start", async () => {
    const cluster = await new ClusterWorld({ nodes: 1 }).start();
    const client = await cluster.client(1);
    const { clusterId } = await cluster.metadata(1);
    const registration = {
      clusterId: clusterId as never,
      nodeId: toNodeId(9),
      directoryId: idOf(1),
      incarnationId: idOf(2),
      restart: "first",
      address: "elsewhere:7070",
      lastBrokerEpoch: -1,
    } as const;
    const odd = await client.call(API.REGISTER_BROKER, { ...registration, versionsMin: -1, versionsMax: 99 });
    expect(odd).toMatchObject({ error: "INVALID_REGISTRATION" });
    expect(await client.call(API.REGISTER_BROKER, { ...registration, versionsMin: 0, versionsMax: 99 })).toMatchObject({
      error: "NONE",
    });
    await cluster.node(1).stop();
    await cluster.node(1).start();
    expect(cluster.node(1).fatal).toEqual([]);
  });

  test("a dead broker is taken off the list, from then on nobody waits for it", async () => {
    const cluster = await new ClusterWorld({ nodes: 4, voters: 3 }).start();
    const client = await cluster.client(await cluster.controller());
    const unregister = (nodeId: number) =>
      client.call(API.UNREGISTER_BROKER, { nodeId: toNodeId(nodeId), isForced: false });
    expect(await unregister(4)).toMatchObject({ error: "INVALID_REQUEST" });
    await cluster.node(4).stop();
    expect(await unregister(4)).toMatchObject({ error: "NONE" });
    const { brokers } = await cluster.metadata(1, false);
    await cluster.until("it is gone", async () => (await cluster.metadata(1)).brokers.length === 3);
    expect(brokers.length).toBeLessThanOrEqual(4);
    const voter = await cluster.follower();
    await cluster.node(voter).stop();
    expect(await unregister(voter)).toMatchObject({ error: "INVALID_REQUEST" });
    await cluster.node(4).start();
    await cluster.until("it is back", async () => (await cluster.metadata(4)).brokers.length === 4);
  });
});

describe("pulls of metadata", () => {
  test("of those that do not read: one answer each, counted with all that is unsent; others are answered", async () => {
    const config = { "unsent.bytes": "4MiB", "connection.unsent.bytes": "1MiB" };
    const cluster = await new ClusterWorld({ nodes: 1, config }).start();
    for (let at = 0; at < 12; at++) await cluster.createTopic(`topic-${at}`, 500);
    const { clusterId } = await cluster.metadata(1);
    const from = { start: 0, startTerm: 0, maxWaitMs: 0, maxBytes: 2 ** 30, snapshotEnd: -1, snapshotPosition: 0 };
    const pull = { ...from, clusterId: clusterId as never, nodeId: toNodeId(9) };
    const peers = await Promise.all(Array.from({ length: 40 }, () => cluster.node(1).connect()));
    for (const peer of peers) {
      peer.connection.pause();
      for (let at = 0; at < 20; at++) void peer.send(API.FETCH_METADATA, pull);
    }
    let most = 0;
    for (let at = 0; at < 100; at++) {
      await cluster.world.runFor(20);
      most = Math.max(most, cluster.node(1).metrics.values.get("unsent_bytes") ?? 0);
    }
    expect(most).toBeGreaterThan(1024 * 1024);
    expect(most).toBeLessThan(6 * 1024 * 1024);
    expect((await cluster.metadata(1)).topics, "a short page, while there is no room for a long one").not.toHaveLength(
      0,
    );
    expect(cluster.node(1).fatal).toEqual([]);
  });
});

describe("a copy of a living node's disk", () => {
  async function withCopy() {
    const cluster = await new ClusterWorld({ nodes: 3, voters: 1 }).start();
    const topicId = await cluster.createTopic("t", 3);
    await cluster.until("all lead", () =>
      cluster.nodes.every(({ metrics }) => metrics.values.get("leader_partitions") === 1),
    );
    const partition = await cluster.partitionOf(3, "t");
    const config = { ...cluster.node(3).config, listeners: "elsewhere:7070" };
    const other = new BrokerWorld({
      config,
      beside: { world: cluster.world, network: cluster.network, name: "elsewhere" },
    });
    return { cluster, topicId, partition, other };
  }

  test.each([{ mutants: [] }, { mutants: ["D1-copy"] }])(
    "started elsewhere is not let in: the original leads on, and keeps its partitions when the copy is gone ($mutants)",
    async ({ mutants }) => {
      const { cluster, topicId, partition, other } = await withCopy();
      const copy = cluster.node(3).disk.image.clone();
      copy.closeAll();
      other.disk.replace(copy);
      activateMutants(mutants);
      const outcome = other.begin().then(
        () => "runs",
        (thrown: { code: string }) => thrown.code,
      );
      await cluster.world.runFor(5_000);
      const isHarmed =
        (await cluster.fenced(1)).includes(3) || (await cluster.metadata(1)).brokers[2]?.address !== "node3:7070";
      expect(isHarmed).toBe(mutants.length > 0);
      if (mutants.length > 0) return;
      const client = await cluster.client(3);
      expect(await client.produce(topicId, batchOf(["x"]), { partition })).toMatchObject({
        error: "NONE",
        baseOffset: 0,
      });
      expect(await cluster.world.settle(outcome, 60_000)).toBe("DUPLICATE_BROKER_REGISTRATION");
      expect(cluster.node(3).metrics.values.get("broker_registrations")).toBe(1);
      expect(await cluster.leaders(1, "t")).toContain(3);
    },
  );

  test("P3: a restart of the same disk at another address is let in at once", async () => {
    const { cluster, partition, other } = await withCopy();
    cluster.node(3).crash("process death");
    other.disk.replace(cluster.node(3).disk.image);
    const startMs = cluster.world.nowMs;
    await other.start();
    expect(cluster.world.nowMs - startMs).toBeLessThan(1_000);
    expect((await cluster.metadata(1)).brokers[2]).toMatchObject({ address: "elsewhere:7070", isFenced: false });
    expect((await cluster.leaders(1, "t"))[partition]).toBe(3);
  });
});
