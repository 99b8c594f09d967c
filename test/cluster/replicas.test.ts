// Three real processes by `cluster up`, partitions of three replicas: one node is paused, stopped in order, killed while it leads a third of 600
// partitions. What the clients meet is measured and told.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { LocalCluster } from "../../scripts/cluster/local-cluster.ts";
import { type Client, connect, type OttlaError, type PartitionInfo } from "../../src/index.ts";
import { ensureBuilt } from "../cli/support.ts";

const TOPICS = 200;
const AT_ONCE = 20;
const TIMEOUT_MS = 180_000;
/** Each look asks for all partitions. */
const LOOK_MS = 100;

let cluster: LocalCluster;
let client: Client;

beforeAll(async () => {
  await ensureBuilt();
  cluster = new LocalCluster();
  await cluster.untilUp();
  client = await connect({ brokers: [...cluster.addresses.values()], clientId: "replicas" });
}, TIMEOUT_MS);

afterAll(async () => {
  await client.close();
  await cluster.down();
  cluster.remove();
}, TIMEOUT_MS);

async function partitionsOf(topics: readonly string[] | null): Promise<PartitionInfo[]> {
  const query = topics === null ? {} : { topics };
  const view = await client.admin().describeMetadata({ ...query, from: "controller" });
  return view.topics.flatMap(({ partitions }) => partitions);
}

async function partitionOf(topic: string): Promise<PartitionInfo> {
  const [partition] = await partitionsOf([topic]);
  if (partition === undefined) throw new Error(`no topic ${topic}`);
  return partition;
}

/** Milliseconds until it held. */
async function until(what: string, holds: () => Promise<boolean>, limitMs = 60_000): Promise<number> {
  const startedMs = Date.now();
  while (!(await holds().catch(() => false))) {
    if (Date.now() - startedMs > limitMs) throw new Error(`not within ${limitMs} ms: ${what}`);
    await new Promise((resolve) => void setTimeout(resolve, LOOK_MS));
  }
  return Date.now() - startedMs;
}

const areInSync = (partitions: readonly PartitionInfo[]): boolean =>
  partitions.every(({ isr, replicas }) => isr.length === replicas.length);

describe("three nodes", () => {
  it("a paused follower leaves the ISR within 5 s, acks=all goes on, and it comes back", {
    timeout: TIMEOUT_MS,
  }, async () => {
    await client.admin().createTopic("paused", { partitions: 1, replicationFactor: 3 });
    const producer = client.producer();
    const first = await producer.send("paused", { value: "a" }, { acks: "all" });
    const { leader, replicas } = await partitionOf("paused");
    const { controllerId } = await client.admin().describeMetadata({ topics: ["paused"] });
    const follower = replicas.find((nodeId) => nodeId !== leader && nodeId !== controllerId) ?? 0;
    await cluster.pause(follower);
    const pausedMs = Date.now();
    const second = await producer.send("paused", { value: "b" }, { acks: "all" });
    const waitedMs = Date.now() - pausedMs;
    expect((await partitionOf("paused")).isr).not.toContain(follower);
    await cluster.resume(follower);
    const backMs = await until("it is in sync again", async () => areInSync([await partitionOf("paused")]));
    console.log(JSON.stringify({ pausedFollower: { waitedMs, backMs } }));
    expect([first.offset, second.offset]).toEqual([0, 1]);
    expect(waitedMs).toBeLessThan(5_000);
    await producer.close();
  });

  it("restarted in order one after another, no send fails", {
    timeout: TIMEOUT_MS,
  }, async () => {
    await client.admin().createTopic("rolling", { partitions: 3, replicationFactor: 3 });
    const producer = client.producer();
    const failures: OttlaError[] = [];
    const sends: Promise<unknown>[] = [];
    let isDone = false;
    const load = (async () => {
      for (let number = 0; !isDone; number++) {
        const record = { partition: number % 3, value: `v${number}` };
        sends.push(
          producer
            .send("rolling", record, { acks: "all" })
            .catch((error: unknown) => failures.push(error as OttlaError)),
        );
        await new Promise((resolve) => void setTimeout(resolve, 5));
      }
    })();
    for (const nodeId of [1, 2, 3]) {
      await cluster.restart(nodeId);
      await until("all are in sync", async () => areInSync(await partitionsOf(["rolling"])));
    }
    isDone = true;
    await load;
    await Promise.all(sends);
    console.log(JSON.stringify({ rolling: { sends: sends.length, failed: failures.length } }));
    expect(failures.map(({ code, outcome }) => `${code} ${outcome}`)).toEqual([]);
    expect(sends.length).toBeGreaterThan(100);
    await producer.close();
  });

  it(`killed, a node that leads a third of ${TOPICS * 3} partitions is replaced everywhere at once`, {
    timeout: TIMEOUT_MS,
  }, async () => {
    const names = Array.from({ length: TOPICS }, (_, index) => `many-${index}`);
    for (let at = 0; at < TOPICS; at += AT_ONCE)
      await Promise.all(
        names
          .slice(at, at + AT_ONCE)
          .map((name) => client.admin().createTopic(name, { partitions: 3, replicationFactor: 3 })),
      );
    await until("first replicas lead", async () =>
      (await partitionsOf(null)).every(({ leader, replicas }) => leader === replicas[0]),
    );
    const { controllerId } = await client.admin().describeMetadata({ topics: ["rolling"] });
    const victim = [1, 2, 3].find((nodeId) => nodeId !== controllerId) ?? 0;
    const led = names.filter((_, index) => index % 10 === 0);
    const producer = client.producer({ lingerMs: 0 });
    const targets: { topic: string; partition: number }[] = [];
    for (const topic of led)
      for (const { index, leader } of await partitionsOf([topic]))
        if (leader === victim) targets.push({ topic, partition: index });
    // Connections are there, and metadata.
    for (const { topic, partition } of targets) await producer.send(topic, { partition, value: "a" }, { acks: "all" });
    await cluster.kill(victim);
    const killedMs = Date.now();
    await Promise.all(
      targets.map(({ topic, partition }) => producer.send(topic, { partition, value: "b" }, { acks: "all" })),
    );
    const takenMs = Date.now() - killedMs;
    await cluster.start(victim);
    const inSyncMs = await until("all are in sync", async () => areInSync(await partitionsOf(null)));
    const preferredMs =
      inSyncMs +
      (await until("first replicas lead", async () =>
        (await partitionsOf(null)).every(({ leader, replicas }) => leader === replicas[0]),
      ));
    console.log(JSON.stringify({ many: { partitions: targets.length, takenMs, inSyncMs, preferredMs } }));
    expect(targets.length).toBeGreaterThan(10);
    expect(takenMs).toBeLessThan(3_000);
    expect(preferredMs).toBeLessThan(20_000);
    await producer.close();
  });
});
