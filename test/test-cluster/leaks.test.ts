// Test clusters one after another: what they leave behind in the process and on its ports.
import { createServer } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { testCluster } from "../../src/index.ts";
import { Reader, upTo } from "./support.ts";

const CLUSTERS = 20;
/** What counts for the comparison begins behind these: modules are loaded and code is compiled. */
const FIRST = 5;
const MiB = 1024 * 1024;

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

const turns = async (count: number): Promise<void> => {
  for (let turn = 0; turn < count; turn++) await new Promise<void>((resolve) => void setImmediate(resolve));
};

/** Those of sockets, servers, files and timers. */
const resources = (): string[] => process.getActiveResourcesInfo().toSorted();

async function heapBytes(): Promise<number> {
  await turns(3);
  collect();
  await turns(3);
  collect();
  return process.memoryUsage().heapUsed + process.memoryUsage().arrayBuffers;
}

const isFree = (address: string): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer()
      .once("error", () => resolve(false))
      .listen(Number(address.split(":")[1]), "127.0.0.1", () => server.close(() => resolve(true)));
  });

/** Everything that a test would do to one, and an end in the middle of it; without the waits for other leaders where it is `brief`. */
async function useOne(isBrief: boolean): Promise<readonly string[]> {
  const cluster = await testCluster({ topics: { t: { partitions: 3 } } });
  const client = await cluster.connect();
  const reader = new Reader(client, "t");
  const producer = client.producer();
  const hundred = upTo(100).map((number) => ({ value: `${number}` }));
  await producer.sendBatch("t", hundred);
  await reader.until(100);
  await cluster.kill(1);
  if (!isBrief) {
    await producer.sendBatch("t", hundred);
    await reader.until(200);
  }
  await cluster.pause(2);
  const given = producer.send("t", { value: "given up" });
  const unread = given.catch(() => undefined);
  await turns(10);
  await cluster.close();
  await unread;
  await reader.close().catch(() => undefined);
  return cluster.brokers.map(({ address }) => address);
}

it(`${CLUSTERS} test clusters one after another leave no handles, memory or ports behind`, {
  timeout: 600_000,
}, async () => {
  const heap: number[] = [];
  let before: string[] = [];
  for (let round = 0; round < CLUSTERS; round++) {
    const addresses = await useOne(round % 5 !== 4);
    await turns(100);
    if (round === 0) before = resources();
    expect(resources(), `after ${round + 1} clusters`).toEqual(before);
    expect(await Promise.all(addresses.map(isFree))).toEqual([true, true, true]);
    heap.push(await heapBytes());
  }
  if (process.env["OTTLA_TEST_SHOW"] !== undefined)
    console.log(heap.map((bytes) => (bytes / MiB).toFixed(1)).join(" "));
  const sockets = before.filter((name) => /TCP|Server/.test(name));
  expect(sockets).toEqual([]);
  const [first = 0, last = 0] = [heap[FIRST], heap.at(-1)];
  expect(last - first, heap.map((bytes) => (bytes / MiB).toFixed(1)).join(" ")).toBeLessThan(8 * MiB);
});
