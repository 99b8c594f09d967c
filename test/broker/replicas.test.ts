// Partitions with three replicas on three brokers: what producers are told, who leads, who is in sync.
import { describe, expect, test } from "vitest";
import type { ReplicaProbe } from "../../src/broker/replica-probe.ts";
import type { Offset } from "../../src/model/ids.ts";
import { batchOf } from "./support.ts";
import { ReplicaWorld } from "./replica-world.ts";

/** With replica.lag.time.max.ms 3 s, one check more, and a command of the controller. */
const LEFT_MS = 5_000;

async function started(
  settings: ConstructorParameters<typeof ReplicaWorld>[0] = {},
  configs: Record<string, string> = {},
) {
  const cluster = await new ReplicaWorld(settings).start();
  const topicId = await cluster.createReplicated("t", { configs });
  const { leader, replicas } = await cluster.partition("t");
  const [first = 0, second = 0] = replicas.filter((nodeId) => nodeId !== leader);
  return { cluster, topicId, leader, followers: [first, second] as const };
}

describe("acks=all", () => {
  test("is answered when all that are in sync have it on their disks, and read from there on", async () => {
    const { cluster, topicId, leader } = await started();
    expect(new Set((await cluster.partition("t")).isr)).toEqual(new Set([1, 2, 3]));
    const client = await cluster.client(leader);
    const answer = await client.produce(topicId, batchOf(["a", "b"]));
    expect(answer).toMatchObject({ error: "NONE", baseOffset: 0, outcome: "appended" });
    for (const nodeId of [1, 2, 3]) expect(cluster.ends(nodeId, topicId).durableEnd).toBe(2);
    expect((await client.fetch(topicId, 0)).highWatermark).toBe(2);
  });

  test("D-8: waits for a follower that stands still, for less than five seconds; then goes on without it", async () => {
    const { cluster, topicId, leader, followers } = await started();
    const client = await cluster.client(leader);
    await client.produce(topicId, batchOf(["a"]));
    cluster.isolate(followers[0]);
    const sentMs = cluster.world.nowMs;
    const answer = await client.produce(topicId, batchOf(["b"]), { timeoutMs: 30_000 });
    expect(answer).toMatchObject({ error: "NONE", baseOffset: 1 });
    const waitedMs = cluster.world.nowMs - sentMs;
    expect(waitedMs).toBeGreaterThan(1_000);
    expect(waitedMs).toBeLessThan(LEFT_MS);
    expect((await cluster.partition("t", 0, leader)).isr).not.toContain(followers[0]);
    cluster.rejoin(followers[0]);
    await cluster.untilIsr("t", [1, 2, 3]);
    expect(cluster.ends(followers[0], topicId).durableEnd).toBe(2);
  });

  test("R-39, R-40: below min ISR nothing more is taken, and what was appended before is told apart at its deadline", async () => {
    const { cluster, topicId, leader, followers } = await started();
    const client = await cluster.client(leader);
    for (const follower of followers) cluster.pause(follower);
    // Two of three voters stand still: no controller can shrink the ISR, and nothing can be committed.
    const late = await client.produce(topicId, batchOf(["a"]), { timeoutMs: 2_000 });
    expect(late).toMatchObject({ error: "REQUEST_TIMED_OUT", outcome: "unknown" });
    for (const follower of followers)
      expect(late.message).toMatch(
        new RegExp(
          `^it waited for the replicas in sync: .*node ${follower} (lacks 1 record, and had all|has not reported for) \\d`,
        ),
      );
    for (const follower of followers) cluster.resume(follower);
    await cluster.until("what was appended is committed", () => cluster.ends(leader, topicId).highWatermark === 1);
  });
});

describe("min.insync.replicas", () => {
  test("three of three: one that is dead refuses acks=all and acks=1, appended nowhere; what waits is told so", async () => {
    const { cluster, topicId, leader, followers } = await started({}, { "min.insync.replicas": "3" });
    const client = await cluster.client(leader);
    const before = await client.produce(topicId, batchOf(["a"]));
    expect(before.error).toBe("NONE");
    cluster.node(followers[0]).crash("process death");
    const waiting = client.sendProduce(topicId, batchOf(["b"]), { timeoutMs: 8_000 });
    await cluster.until("the leader knows", async () => (await cluster.partition("t", 0, leader)).isr.length === 2);
    for (const acks of [-1, 1]) {
      const refused = await client.produce(topicId, batchOf(["c"]), { acks });
      expect(refused).toMatchObject({ error: "NOT_ENOUGH_REPLICAS", outcome: "not appended" });
      expect(refused.message).toMatch(/^2 in sync \(nodes \d, \d\), 3 needed; node \d is not$/);
    }
    const { response } = await cluster.world.settle(waiting);
    expect(response.entries[0]).toMatchObject({ error: "NOT_ENOUGH_REPLICAS_AFTER_APPEND", outcome: "unknown" });
    expect(response.entries[0]?.message).toContain(`3 needed; node ${followers[0]} is not`);
    expect((await client.fetch(topicId, 0)).highWatermark).toBe(1);
    // Readers go on all the same, and so does what waited once it is back.
    await cluster.node(followers[0]).start();
    await cluster.untilIsr("t", [1, 2, 3]);
    await cluster.until("committed", () => cluster.ends(leader, topicId).highWatermark === 2);
  });

  test("D-29: acks 0 and 1 are taken below it where the topic allows it by name, and not read before", async () => {
    const configs = { "min.insync.replicas": "3", "allow.acks.below.min.isr": "1" };
    const { cluster, topicId, leader, followers } = await started({}, configs);
    const client = await cluster.client(leader);
    cluster.node(followers[0]).crash("process death");
    await cluster.until("the leader knows", async () => (await cluster.partition("t", 0, leader)).isr.length === 2);
    expect(await client.produce(topicId, batchOf(["a"]), { acks: 1 })).toMatchObject({ error: "NONE", baseOffset: 0 });
    expect((await client.produce(topicId, batchOf(["b"]))).error).toBe("NOT_ENOUGH_REPLICAS");
    expect((await client.fetch(topicId, 0)).bytes.length).toBe(0);
  });

  test("lowered, what waited is committed by those that are left", async () => {
    const { cluster, topicId, leader, followers } = await started({}, { "min.insync.replicas": "3" });
    const client = await cluster.client(leader);
    cluster.node(followers[0]).crash("process death");
    const waiting = client.sendProduce(topicId, batchOf(["b"]), { timeoutMs: 20_000 });
    await cluster.until("the leader knows", async () => (await cluster.partition("t", 0, leader)).isr.length === 2);
    await cluster.alterTopic("t", { "min.insync.replicas": "2" });
    expect((await cluster.world.settle(waiting)).response.entries[0]).toMatchObject({ error: "NONE", baseOffset: 0 });
    expect((await cluster.partition("t")).elr).toEqual([]);
  });
});

describe("a leader that dies", () => {
  test.each(["process death", "power loss"] as const)(
    "%s: another one in sync leads, nothing acknowledged is lost",
    async (kind) => {
      const { cluster, topicId, leader } = await started();
      const client = await cluster.client(leader);
      for (let round = 0; round < 20; round++) await client.produce(topicId, batchOf([`a${round}`]));
      const before = await cluster.partition("t");
      cluster.node(leader).crash(kind);
      const after = await cluster.untilLeader("t", (now) => now > 0 && now !== leader);
      expect(after.leaderEpoch).toBeGreaterThan(before.leaderEpoch);
      expect(after.isr).not.toContain(leader);
      const next = await cluster.client(after.leader);
      await cluster.until(
        "it says where the partition ends",
        async () => (await next.fetch(topicId, 0)).highWatermark >= 0,
      );
      expect((await next.fetch(topicId, 0)).highWatermark).toBe(20);
      expect(await next.produce(topicId, batchOf(["b"]))).toMatchObject({ error: "NONE", baseOffset: 20 });
      await cluster.node(leader).start();
      await cluster.untilIsr("t", [1, 2, 3]);
      expect(cluster.ends(leader, topicId)).toMatchObject({ endOffset: 21, durableEnd: 21 });
      // it is the first replica, so it leads again before long.
      const backMs = cluster.world.nowMs;
      await cluster.untilLeader("t", (now) => now === leader);
      expect(cluster.world.nowMs - backMs).toBeLessThan(10_000);
      expect(await (await cluster.client(leader)).produce(topicId, batchOf(["c"]))).toMatchObject({
        error: "NONE",
        baseOffset: 21,
      });
    },
  );

  test("acks=1 that nobody has fetched is cut where another one leads (R-13)", async () => {
    const { cluster, topicId, leader, followers } = await started();
    const client = await cluster.client(leader);
    await client.produce(topicId, batchOf(["a"]));
    cluster.isolate(leader);
    expect(await client.produce(topicId, batchOf(["lost"]), { acks: 1 })).toMatchObject({
      error: "NONE",
      baseOffset: 1,
    });
    const at = followers[0];
    await cluster.until(
      "another one leads",
      async () => (await cluster.partition("t", 0, at)).leader !== leader,
      30_000,
    );
    const { leader: next } = await cluster.partition("t", 0, at);
    const other = await cluster.client(next);
    await cluster.until("it takes", async () => (await other.produce(topicId, batchOf(["kept"]))).error === "NONE");
    cluster.rejoin(leader);
    await cluster.untilIsr("t", [1, 2, 3]);
    for (const nodeId of [1, 2, 3])
      expect(cluster.ends(nodeId, topicId)).toMatchObject({ endOffset: 2, durableEnd: 2 });
    expect(cluster.replica(leader, topicId).log.truncations).toBe(1);
  });
});

describe("a leader whose disk is full", () => {
  test("hands its partitions to another one in sync that has room, and is not given them back while it is full", async () => {
    const { cluster, topicId } = await started();
    const controller = await cluster.controller();
    // One that does not decide: it would step down first.
    const topics = await cluster.createReplicated("u", { partitions: 3 });
    const [victim = 0] = [1, 2, 3].filter((nodeId) => nodeId !== controller);
    const index = (await cluster.leaders(controller, "u")).indexOf(victim);
    const { disk } = cluster.node(victim);
    disk.faults.foreignBytes = 2 ** 31;
    const filledMs = cluster.world.nowMs;
    await cluster.until("another one leads", async () => (await cluster.partition("u", index)).leader !== victim);
    expect(cluster.world.nowMs - filledMs).toBeLessThan(4_000);
    const { leader } = await cluster.partition("u", index);
    const other = await cluster.client(leader);
    const sent = await other.produce(topics, batchOf(["a"]), { partition: index, timeoutMs: 20_000 });
    expect(sent).toMatchObject({ error: "NONE", baseOffset: 0 });
    await cluster.world.runFor(10_000);
    expect(await cluster.leaders(controller, "u")).not.toContain(victim);
    expect((await cluster.partition("t")).leader).not.toBe(victim);
    expect(cluster.replica(leader, topicId).core.role).not.toBe("stand-by");
    disk.faults.foreignBytes = 0;
    await cluster.until("it leads again", async () => (await cluster.partition("u", index)).leader === victim, 90_000);
  });
});

describe("an ordered stop of the leader", () => {
  test("R-62: hands over all that was answered for acks 1, and the others lead before it is gone", async () => {
    const { cluster, topicId, leader, followers } = await started();
    const client = await cluster.client(leader);
    await client.produce(topicId, batchOf(["a"]));
    const sends = Array.from({ length: 50 }, (_, index) =>
      client.sendProduce(topicId, batchOf([`b${index}`], { padBytes: 10_000 }), { acks: 1 }),
    );
    await cluster.world.settle(Promise.all(sends));
    await cluster.node(leader).stop();
    const { leader: next } = await cluster.partition("t", 0, followers[0]);
    expect(followers).toContain(next);
    expect(cluster.ends(next, topicId).endOffset).toBe(51);
  });
});

describe("all three lose power", () => {
  test("D-6: every partition is back by itself, with all that was acknowledged", async () => {
    const { cluster, topicId, leader } = await started();
    const client = await cluster.client(leader);
    for (let round = 0; round < 20; round++) await client.produce(topicId, batchOf([`a${round}`]));
    for (const node of cluster.nodes) node.crash("power loss");
    await cluster.world.settle(Promise.all(cluster.nodes.map((node) => node.begin())), 60_000);
    const { leader: next } = await cluster.untilLeader("t", (now) => now > 0);
    const reader = await cluster.client(next);
    await cluster.until(
      "it says where the partition ends",
      async () => (await reader.fetch(topicId, 0)).error === "NONE",
    );
    await cluster.until("all is committed", async () => (await reader.fetch(topicId, 0)).highWatermark === 20);
    await cluster.untilIsr("t", [1, 2, 3]);
  });
});

describe("damage (D-17)", () => {
  /** Nothing is served from memory, and segments are written at once. */
  const ON_DISK = { "tail.cache.bytes": 0, "checkpoint.interval.ms": 50 };

  test("met by a read of the leader: another one leads, the log is dropped, fetched anew, in sync again", async () => {
    const { cluster, topicId, leader } = await started({ config: ON_DISK });
    const client = await cluster.client(leader);
    for (let round = 0; round < 10; round++) await client.produce(topicId, batchOf([`a${round}`], { padBytes: 2_000 }));
    await cluster.world.runFor(1_000);
    const before = cluster.replica(leader, topicId).log.logId;
    cluster.rot(leader, "t", 5_000);
    const met = await client.fetch(topicId, 2);
    expect(met.error).toBe("STORAGE_ERROR");
    const after = await cluster.untilLeader("t", (now) => now > 0 && now !== leader, 2_000);
    const other = await cluster.client(after.leader);
    await cluster.until("it serves", async () => (await other.fetch(topicId, 2)).bytes.length > 0);
    expect(await other.produce(topicId, batchOf(["b"]))).toMatchObject({ error: "NONE", baseOffset: 10 });
    await cluster.untilIsr("t", [1, 2, 3]);
    expect(cluster.replica(leader, topicId).log.logId).not.toBe(before);
    expect(cluster.replica(leader, topicId).damage).toBeUndefined();
    expect(cluster.ends(leader, topicId)).toMatchObject({ endOffset: 11, durableEnd: 11 });
    await cluster.untilLeader("t", (now) => now === leader, 10_000);
    await cluster.until("it serves again", async () => (await client.fetch(topicId, 2)).bytes.length > 0);
  });

  test("a broker that is stopped while a log is repaired asks for no more of it, and does not use up its time", async () => {
    const { cluster, topicId, leader } = await started({ config: ON_DISK }, { "segment.bytes": "4KiB" });
    const client = await cluster.client(leader);
    for (let round = 0; round < 10; round++) await client.produce(topicId, batchOf([`a${round}`], { padBytes: 2_000 }));
    await cluster.world.runFor(1_000);
    cluster.rot(leader, "t", 1_000);
    const { log } = cluster.replica(leader, topicId);
    const beginRepair = log.beginRepair.bind(log);
    let isUnderWay = false;
    log.beginRepair = () => {
      isUnderWay = true;
      cluster.isolate(leader);
      return beginRepair();
    };
    expect((await client.fetch(topicId, 0)).error).toBe("STORAGE_ERROR");
    await cluster.until("it is being repaired", () => isUnderWay);
    const sinceMs = cluster.world.nowMs;
    await cluster.node(leader).stop();
    expect(cluster.world.nowMs - sinceMs).toBeLessThan(cluster.node(leader).config["shutdown.timeout.ms"] / 2);
  });

  test("found at a start: the broker serves what else it has while the log is repaired, however long that takes", async () => {
    const { cluster, topicId, leader, followers } = await started({ config: ON_DISK }, { "segment.bytes": "4KiB" });
    const client = await cluster.client(leader);
    for (let round = 0; round < 10; round++) await client.produce(topicId, batchOf([`a${round}`], { padBytes: 2_000 }));
    await cluster.world.runFor(1_000);
    const node = cluster.node(followers[0]);
    node.crash("process death");
    node.disk.image.unlink(`/data/t-0/${"0".repeat(20)}.log`);
    const probe = node.replicaProbe as ReplicaProbe;
    const endless = { nextOffset: 0 as Offset, take: () => new Promise<void>(() => {}) };
    let isUnderWay = false;
    node.replicaProbe = {
      ...probe,
      onOpened: (replica) => {
        probe.onOpened(replica);
        replica.log.beginRepair = () => {
          isUnderWay = true;
          return { ...endless, finish: () => Promise.resolve(true), giveUp: () => Promise.resolve() };
        };
      },
    };
    await cluster.world.settle(node.begin(), 30_000);
    await cluster.until("it is being repaired", () => isUnderWay);
    expect(node.broker.health().ready).toBe(true);
  });

  test("of the only replica: nobody leads, and clients are told so", async () => {
    const cluster = await new ReplicaWorld({ config: ON_DISK }).start();
    const topicId = await cluster.createReplicated("t", { replicationFactor: 1 });
    const { leader } = await cluster.partition("t");
    const client = await cluster.client(leader);
    for (let round = 0; round < 10; round++) await client.produce(topicId, batchOf([`a${round}`], { padBytes: 2_000 }));
    await cluster.world.runFor(1_000);
    cluster.rot(leader, "t", 5_000);
    expect((await client.fetch(topicId, 2)).error).toBe("STORAGE_ERROR");
    const { error, isr, elr } = await cluster.untilLeader("t", (now) => now === -1);
    expect([error, isr, elr]).toEqual(["NO_INTACT_REPLICA", [], []]);
    expect(cluster.node(leader).broker.health().checks["logs"]).toMatch(/^1 damaged/);
    expect((await client.produce(topicId, batchOf(["b"]))).error).toBe("STORAGE_ERROR");
  });
});
