// Cold segments damaged under running nodes: found, served by nobody, mended from the others.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { createRng } from "../../../src/base/rng.ts";
import { type ChaosCluster, startCluster } from "../../../src/chaos/cluster.ts";
import { faultKind } from "../../../src/chaos/faults/all.ts";
import type { FaultKind } from "../../../src/chaos/faults/types.ts";

const HEALTHY_MS = 60_000;
const RECORDS = 800;
const VALUE_BYTES = 1_000;
/** Of each target. */
const STRIKES = 2;

let cluster: ChaosCluster | undefined;
let directory = "";
afterEach(async () => {
  expect(await cluster?.close()).toEqual([]);
  cluster = undefined;
  rmSync(directory, { recursive: true, force: true });
});

function kind(): FaultKind {
  const found = faultKind("corrupt-cold");
  if (found === undefined) throw new Error("there is no such kind");
  return found;
}

/** With enough records for closed segments in each partition. */
async function filled(settings: Readonly<Record<string, string | number>> = {}): Promise<ChaosCluster> {
  directory = mkdtempSync(join(tmpdir(), "ottla-cold-"));
  cluster = await startCluster({ nodes: 3, directory, settings: { ...kind().cluster?.settings, ...settings } });
  const client = await cluster.client();
  await client.admin().createTopic("t", { partitions: 2, replicationFactor: 3 });
  const producer = client.producer({ acks: "all", batchBytes: 16_384 });
  const send = async (at: number) =>
    producer.send("t", { partition: at % 2, value: `${at} `.padEnd(VALUE_BYTES, "x") });
  await Promise.all(Array.from({ length: RECORDS }, (_, at) => send(at)));
  await producer.close();
  return cluster;
}

/** What is wrong with what a reader gets; undefined: all is there, in order. */
async function readFault(from: ChaosCluster): Promise<string | undefined> {
  const next = [0, 0];
  for await (const { partition, offset, value } of (await from.client()).consumer({ topics: ["t"], untilEnd: true })) {
    const number = Number(
      Buffer.from(value ?? [])
        .toString()
        .split(" ")[0],
    );
    if (number % 2 !== partition) return `record ${number} in partition ${partition} at ${offset}`;
    next[partition] = (next[partition] ?? 0) + 1;
  }
  return next.join() === `${RECORDS / 2},${RECORDS / 2}` ? undefined : `${next.join()} records`;
}

describe("corrupt-cold", () => {
  it.each(["leader", "follower"])("at a %s is found, served by nobody, and mended", async (target) => {
    const running = await filled();
    const rng = createRng(5).fork(target);
    for (let strike = 0; strike < STRIKES; strike++) {
      const leader = (await running.leaderOf("t", 0)) ?? 1;
      const nodeId = target === "leader" ? leader : (leader % 3) + 1;
      const fault = await kind().inject(running, [nodeId], rng, () => undefined);
      expect(await readFault(running)).toBeUndefined();
      await fault.heal();
      console.log(`${fault.description}: ${await fault.observed()}`);
      expect(await fault.observed()).toMatch(/^found within \d+ ms, (mended by segment|fetched anew) within \d+ ms$/);
      await running.untilHealthy(HEALTHY_MS);
      expect(await readFault(running)).toBeUndefined();
    }
    expect(running.nodes.flatMap(({ exits }) => exits)).toEqual([]);
  });
});
