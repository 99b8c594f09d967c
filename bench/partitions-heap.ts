// A process of its own for bench/partitions.ts: heap and timers of a broker in this process before and after it has many idle partitions. Run with
// --expose-gc. Tells its parent and ends.
import { join } from "node:path";
import { startNode } from "../src/index.ts";
import { withTemporaryDirectory } from "./harness.ts";
import type { IdleCost } from "./partitions.ts";

const partitions = Number(process.argv[2]);
/** As often as the heap still shrinks. */
const COLLECTIONS = 5;

interface State {
  readonly heapBytes: number;
  readonly timers: number;
}

const countOf = (kind: string) => process.getActiveResourcesInfo().filter((each) => each === kind).length;

const pause = () => new Promise((resolve) => setTimeout(resolve, 200));

async function state(): Promise<State> {
  // Files that are still being written are not idle.
  while (countOf("FSReqCallback") > 0) await pause();
  for (let turn = 0; turn < COLLECTIONS; turn++) {
    globalThis.gc?.();
    await pause();
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return { heapBytes: heapUsed + arrayBuffers, timers: countOf("Timeout") };
}

async function measure(dataDir: string): Promise<IdleCost> {
  const node = await startNode({
    dataDir,
    listeners: "ws://127.0.0.1:0",
    config: { "max.partitions": partitions + 1 },
  });
  const client = await node.connect();
  const admin = client.admin();
  await admin.createTopic("first", { partitions: 1, replicationFactor: 1 });
  const before = await state();
  await admin.createTopic("idle", { partitions, replicationFactor: 1, timeoutMs: 120_000 });
  await client.close();
  const after = await state();
  await node.close();
  return {
    heapBytes: (after.heapBytes - before.heapBytes) / partitions,
    timers: Math.max(0, after.timers - before.timers),
  };
}

const cost = await withTemporaryDirectory((root) => measure(join(root, "data")));
process.send?.(cost, () => process.exit(0));
