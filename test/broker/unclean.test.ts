// Partitions that nobody may lead, and what an operator is told and can do (R-60, D-17).
import { describe, expect, test } from "vitest";
import { API, type ElectLeadersRequest } from "../../src/wire/native/apis.ts";
import { ReplicaWorld } from "./replica-world.ts";
import { batchOf } from "./support.ts";

/** Voters 1 to 3; replicas 4 and 5, of which 4 leads alone and has ten records more; then 4 is down and 5 is up again. */
async function leaderless() {
  const cluster = await new ReplicaWorld({ nodes: 5, voters: 3 }).start();
  // So many that one of them is on the two.
  const configs = { "min.insync.replicas": "1" };
  const topicId = await cluster.createReplicated("u", { partitions: 10, replicationFactor: 2, configs });
  const { topics } = await cluster.metadata(await cluster.controller());
  const place = topics[0]?.partitions.find(({ replicas }) => replicas.every((nodeId) => nodeId > 3));
  if (place === undefined) throw new Error("no partition is on nodes 4 and 5");
  const { index, leader } = place;
  const other = leader === 4 ? 5 : 4;
  const client = await cluster.client(leader);
  const append = async (count: number) => {
    for (let round = 0; round < count; round++)
      await client.produce(topicId, batchOf([`${round}`]), { partition: index });
  };
  await append(10);
  cluster.node(other).crash("process death");
  await append(10);
  cluster.node(leader).crash("process death");
  await cluster.node(other).start();
  const untilPartition = async (what: string, holds: (now: { leader: number; elr: readonly number[] }) => boolean) =>
    cluster.until(what, async () => holds(await cluster.partition("u", index)));
  await untilPartition("nobody leads", (now) => now.leader === -1 && now.elr.includes(leader));
  const elect = async (more: Partial<ElectLeadersRequest> = {}) => {
    const operator = await cluster.client(await cluster.controller());
    const wish = { kind: "unclean", topic: "u", partitions: [index], nodeId: -1, isForced: false, ...more } as const;
    return (await operator.call(API.ELECT_LEADERS, wish)).response.entries[0];
  };
  return { cluster, topicId, index, leader, other, elect, untilPartition };
}

describe("an unclean election", () => {
  test("is refused while the one with everything is only down, which is named; by force it is done", async () => {
    const { cluster, index, leader, other, elect } = await leaderless();
    expect(await elect()).toMatchObject({
      error: "ELIGIBLE_LEADER_DOWN",
      message: `u-${index}: node ${leader} has everything and is only down: start it`,
      leader: -1,
    });
    expect((await cluster.partition("u", index)).uncleanEpoch).toBe(-1);
    expect(await elect({ isForced: true })).toMatchObject({ error: "NONE", leader: other, endOffset: 10 });
  });

  test("takes the replica that has most, not the first, which has lost its disk; what each has is told", async () => {
    const { cluster, topicId, index, leader, other, elect, untilPartition } = await leaderless();
    cluster.node(leader).replaceDisk();
    await cluster.node(leader).start();
    await untilPartition("nobody has everything", (now) => now.elr.length === 0);
    await cluster.until(
      "both tell what they have",
      async () => (await told(leader)) === 0 && (await told(other)) === 10,
    );
    const entry = await elect();
    expect(entry).toMatchObject({ error: "NONE", leader: other, endOffset: 10 });
    expect(entry?.message).toMatch(
      new RegExp(`^node ${other} has offsets 0 to 9 \\(epoch \\d+\\), node ${leader} has nothing$`),
    );
    const next = await cluster.client(other);
    await cluster.until("it serves", async () => (await produceTo(next)) === "NONE");
    await cluster.until("the other one has it too", () => cluster.ends(leader, topicId, index).durableEnd === 11);

    async function told(nodeId: number): Promise<number | undefined> {
      const asked = await cluster.client(nodeId);
      const { response } = await asked.call(API.DESCRIBE_PARTITIONS, { entries: [{ topicId, partition: index }] });
      const [described] = response.entries;
      expect(described).toMatchObject({ error: "NOT_LEADER_OR_FOLLOWER", replicas: [] });
      return described?.endOffset;
    }

    async function produceTo(to: typeof next) {
      return (await to.produce(topicId, batchOf(["x"]), { partition: index })).error;
    }
  });
});
