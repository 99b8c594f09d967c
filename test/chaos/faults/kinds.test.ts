// Kinds of fault on a real cluster that the quick set of `ottla chaos run` need not have: each shows by evidence that it struck, and all is well after it.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createRng } from "../../../src/base/rng.ts";
import type { HistoryEvent } from "../../../src/checkers/history.ts";
import { type ChaosCluster, startCluster } from "../../../src/chaos/cluster.ts";
import { faultKind } from "../../../src/chaos/faults/all.ts";

const directory = mkdtempSync(join(tmpdir(), "ottla-kinds-"));
const HEALTHY_MS = 60_000;
const RECORDS = 200;
let cluster: ChaosCluster;

beforeAll(async () => {
  cluster = await startCluster({ nodes: 3, directory });
  const admin = (await cluster.client()).admin();
  await admin.createTopic("t", { partitions: 2, replicationFactor: 3 });
});
afterAll(async () => {
  expect(await cluster.close()).toEqual([]);
  rmSync(directory, { recursive: true, force: true });
});

/** So many that every replica has something to lose. */
async function fill(): Promise<void> {
  const producer = (await cluster.client()).producer({ acks: "all" });
  const value = "x".repeat(500);
  await Promise.all(Array.from({ length: RECORDS }, async (_, at) => producer.send("t", { partition: at % 2, value })));
  await producer.close();
}

/** Not known for a moment where the machine is busy. */
async function leaderNow(): Promise<number> {
  for (;;) {
    const leader = await cluster.leaderOf("t", 0);
    if (leader !== undefined) return leader;
  }
}

describe("a fault", () => {
  it.each([
    ["crash-loop", "killed \\d times, \\d of them before it was ready"],
    ["failpoint-stop", "node \\d at [a-z-]+:1 \\("],
    ["failpoint-start", "node \\d at [a-z-]+:1 \\("],
    ["corrupt-segment", "log verify: error\\[DATA_DAMAGED\\]"],
    ["corrupt-journal", "journal_damaged in its log"],
    ["corrupt-slot", "superblock_slot_damaged and quorum_state_slot_damaged"],
    ["lose-vote", "refused to start: exit 20, DATA_DAMAGED"],
    ["new-disk", "directory [0-9a-f]+ in place of"],
  ])("%s is seen to strike, is survived, and leaves nothing behind", async (name, evidence) => {
    await fill();
    const leader = await leaderNow();
    const exits = cluster.node(leader).exits.length;
    const events: HistoryEvent[] = [];
    const fault = await faultKind(name)?.inject(cluster, [leader], createRng(11), (event) => void events.push(event));
    const early = await fault?.observed();
    await fault?.heal();
    expect(early ?? (await fault?.observed())).toMatch(new RegExp(evidence));
    await cluster.untilHealthy(HEALTHY_MS);
    await fill();
    expect(cluster.nodes.flatMap((node) => node.exits).filter(({ isExpected }) => !isExpected)).toEqual([]);
    const deaths = cluster
      .node(leader)
      .exits.slice(exits)
      .filter(({ signal }) => signal !== null).length;
    expect(events.length).toBeLessThanOrEqual(deaths + 1);
  });

  it("of damaged files strikes one node only, and one that is still counted on is not damaged", async () => {
    const inject = faultKind("lose-vote")?.inject(cluster, [1, 2], createRng(1), () => undefined);
    await expect(inject).rejects.toThrow(/one node at a time/);
    expect(cluster.nodes.map(({ pid }) => pid === undefined)).toEqual([false, false, false]);
  });
});
