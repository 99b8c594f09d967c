// Many partitions with three replicas: a broker that dies, or stops in order, is replaced everywhere at once.
import { describe, expect, test } from "vitest";
import { batchOf } from "./support.ts";
import { ReplicaWorld } from "./replica-world.ts";

const TOPICS = 200;

async function withTopics(topics = TOPICS) {
  const cluster = await new ReplicaWorld().start();
  const client = await cluster.client(await cluster.controller());
  for (let index = 0; index < topics; index++)
    await client.createTopic(`t${index}`, { replicationFactor: 3, partitions: 3 });
  await cluster.world.runFor(2_000);
  const victim = await cluster.follower();
  return { cluster, victim };
}

/** Partitions that some broker that is up leads in fact, not only by the word of the metadata. */
function ledCount(cluster: ReplicaWorld): number {
  const all = cluster.nodes
    .filter(({ isUp }) => isUp)
    .map(({ metrics }) => metrics.values.get("leader_partitions") ?? 0);
  return all.reduce((sum, count) => sum + count, 0);
}

/** Six hundred logs on each of three simulated disks take their time where other tests run, too. */
const LIMIT_MS = 120_000;

describe("a broker that leads 200 of 600 partitions", () => {
  test(
    "dies: the others lead them a few syncs after the controller has fenced it",
    async () => {
      const { cluster, victim } = await withTopics();
      expect(cluster.node(victim).metrics.values.get("leader_partitions")).toBe(TOPICS);
      const controller = await cluster.controller();
      cluster.node(victim).crash("process death");
      await cluster.until("it is fenced", async () => (await cluster.fenced(controller)).includes(victim));
      const fencedMs = cluster.world.nowMs;
      await cluster.until("all are led", () => ledCount(cluster) === 3 * TOPICS);
      expect(cluster.world.nowMs - fencedMs).toBeLessThan(100);
    },
    LIMIT_MS,
  );

  test("R-62: stops in order: nobody is told anything but who leads now, and no send is lost or doubtful", async () => {
    const { cluster, victim } = await withTopics(20);
    const topics = (await cluster.metadata(victim)).topics.filter(({ partitions }) =>
      partitions.some(({ leader }) => leader === victim),
    );
    const client = await cluster.client(victim);
    const sends = topics.flatMap(({ topicId, partitions }) =>
      partitions
        .filter(({ leader }) => leader === victim)
        .map(({ index }) => client.sendProduce(topicId, batchOf(["x"]), { partition: index })),
    );
    // They have come, and none is answered yet.
    const { values } = cluster.node(victim).metrics;
    const { length } = client.answered;
    while ((values.get("topic_records_in_total") ?? 0) < 20) await cluster.world.runFor(0.02);
    expect(client.answered).toHaveLength(length);
    const stopping = cluster.node(victim).broker.stop();
    const answers = await cluster.world.settle(Promise.all(sends));
    const told = new Set(answers.map(({ error, response }) => (error === "NONE" ? response.entries[0]?.error : error)));
    expect([...told]).toEqual(["NONE"]);
    await cluster.world.settle(stopping);
    cluster.node(victim).crash("process death");
    expect(ledCount(cluster)).toBe(60);
  });
});
