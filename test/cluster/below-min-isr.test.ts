// Three real processes, a partition of two replicas: both are killed, the one that followed comes back alone.
import { afterAll, beforeAll, expect, it } from "vitest";
import { LocalCluster } from "../../scripts/cluster/local-cluster.ts";
import { type Client, connect, type PartitionInfo } from "../../src/index.ts";
import { ensureBuilt } from "../cli/support.ts";

const RECORDS = 10;
const TIMEOUT_MS = 180_000;
/** Nobody else comes, however long it waits. */
const READ_MS = 20_000;

let cluster: LocalCluster;
let client: Client;

beforeAll(async () => {
  await ensureBuilt();
  cluster = new LocalCluster();
  await cluster.untilUp();
  client = await connect({ brokers: [...cluster.addresses.values()], clientId: "below-min-isr" });
}, TIMEOUT_MS);

afterAll(async () => {
  await client.close();
  await cluster.down();
  cluster.remove();
}, TIMEOUT_MS);

async function untilPartition(what: string, holds: (partition: PartitionInfo) => boolean): Promise<PartitionInfo> {
  const endMs = Date.now() + 60_000;
  for (;;) {
    const view = await client
      .admin()
      .describeMetadata({ topics: ["t"], from: "controller" })
      .catch(() => undefined);
    const partition = view?.topics[0]?.partitions[0];
    if (partition !== undefined && holds(partition)) return partition;
    if (Date.now() > endMs) throw new Error(`not within 60 s: ${what}: ${JSON.stringify(partition)}`);
    await new Promise((resolve) => void setTimeout(resolve, 20));
  }
}

it("what was acknowledged is readable at once from a replica that was killed and leads alone, below min ISR", {
  timeout: TIMEOUT_MS,
}, async () => {
  await client.admin().createTopic("t", { partitions: 1, replicationFactor: 2 });
  const { leader, replicas } = await untilPartition("both in sync", ({ isr }) => isr.length === 2);
  const follower = replicas.find((nodeId) => nodeId !== leader) ?? 0;
  const producer = client.producer();
  for (let count = 0; count < RECORDS; count++) await producer.send("t", { value: `v${count}` }, { acks: "all" });
  await producer.close();
  // Two polls of the follower and an idle moment of its journal, a hundred times over: nothing tells when they are past.
  await new Promise((resolve) => void setTimeout(resolve, 3_000));
  await cluster.kill(follower);
  await untilPartition("the leader is alone", ({ isr }) => isr.length === 1);
  await cluster.kill(leader);
  await cluster.start(follower);
  await untilPartition("the other leads", (partition) => partition.leader === follower && partition.isr.length === 1);
  const startedMs = Date.now();
  const consumer = client.consumer({ topics: ["t"], from: "start", untilEnd: true, timeoutMs: READ_MS });
  const values: string[] = [];
  for await (const { value } of consumer) values.push(new TextDecoder().decode(value ?? undefined));
  await consumer.close();
  const readMs = Date.now() - startedMs;
  console.log(JSON.stringify({ belowMinIsr: { readMs } }));
  expect(values).toEqual(Array.from({ length: RECORDS }, (_, place) => `v${place}`));
  expect(readMs).toBeLessThan(READ_MS);
  await cluster.start(leader);
});
