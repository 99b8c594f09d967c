// Producers and consumers of the package against a cluster that is hurt while they work: every record once, in order, and nothing else.
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { createRng } from "../../src/base/rng.ts";
import { type TestCluster, type TestClusterOptions, testCluster } from "../../src/index.ts";
import { holds, hurtAtRandom, PARTITIONS } from "./load.ts";
import { readAll, Reader, upTo } from "./support.ts";

let cluster: TestCluster | undefined;

beforeAll(async () => {
  await (await testCluster({ topics: { t: {} } })).close(); // loads the modules
});

afterEach(async () => {
  await cluster?.close();
  cluster = undefined;
});

async function opened(options: TestClusterOptions = {}): Promise<TestCluster> {
  cluster = await testCluster({ topics: { t: { partitions: PARTITIONS } }, ...options });
  return cluster;
}

describe("a producer and a consumer go on, each record once and in order,", () => {
  it("when the leader is killed, and again when it is back", async () => {
    const made = await opened();
    await holds(made, async (load) => {
      const leader = await made.leaderOf("t");
      await made.kill(leader);
      await load.goesOn();
      await made.start(leader);
      await made.waitUntilInSync();
      await load.goesOn();
      await made.kill(await made.leaderOf("t"));
      await load.goesOn();
    });
  });

  it("when each node is killed in turn", async () => {
    const made = await opened();
    await holds(made, async (load) => {
      for (const { id } of made.brokers) {
        await made.kill(id);
        await load.goesOn();
        await made.start(id);
        await made.waitUntilInSync();
      }
    });
  });

  it("when the controller that is a leader, too, is killed", async () => {
    const made = await opened();
    await holds(made, async (load) => {
      const controller = await made.controller();
      await made.kill(controller);
      await load.goesOn();
      await made.start(controller);
    });
  });

  it("when the whole cluster is killed and started again", async () => {
    const made = await opened();
    await holds(made, async (load) => {
      for (let round = 0; round < 2; round++) {
        await Promise.all(made.brokers.map(({ id }) => made.kill(id)));
        await Promise.all(made.brokers.map(({ id }) => made.start(id)));
        await load.goesOn();
      }
    });
  });

  it("when the whole cluster is stopped and started again, on real disks", async ({ onTestFinished }) => {
    const { mkdtemp, rm } = await import("node:fs/promises");
    const { tmpdir } = await import("node:os");
    const directory = await mkdtemp(`${tmpdir()}/ottla-test-cluster-`);
    const made = await opened({ directory });
    onTestFinished(async () => {
      await made.close();
      await rm(directory, { recursive: true });
    });
    await holds(made, async () => {
      await Promise.all(made.brokers.map(({ id }) => made.stop(id)));
      await Promise.all(made.brokers.map(({ id }) => made.start(id)));
    });
  });

  it("when the leader is paused, and resumed after others lead", async () => {
    const made = await opened();
    await holds(made, async (load) => {
      const leader = await made.leaderOf("t");
      await made.pause(leader);
      await made.leaderOf("t");
      await load.goesOn();
      await made.resume(leader);
      await made.waitUntilInSync();
      await load.goesOn();
    });
  });

  it("when the leader is paused for a moment that nobody takes for death", async () => {
    const made = await opened();
    await holds(made, async () => {
      const leader = await made.leaderOf("t");
      for (let round = 0; round < 3; round++) {
        await made.pause(leader);
        await new Promise<void>((resolve) => void setTimeout(resolve, 150));
        await made.resume(leader);
      }
    });
  });

  it("when all nodes are restarted in order, one by one", async () => {
    const made = await opened();
    await holds(made, async () => {
      for (const { id } of made.brokers) {
        await made.restart(id);
        await made.waitUntilInSync();
      }
    });
  });
});

it("what only a dead leader had is never read; others have its offsets, and every replica is as they are", async () => {
  const made = await opened({ topics: { t: {} } });
  const client = await made.connect();
  const producer = client.producer();
  const send = (from: number, count: number, acks: 1 | "all") =>
    producer.sendBatch(
      "t",
      upTo(count).map((number) => ({ value: `${acks} ${from + number}` })),
      { acks },
    );
  const reader = new Reader(await made.connect(), "t");
  await send(0, 20, "all");
  const leader = await made.leaderOf("t");
  const followers = made.brokers.map(({ id }) => id).filter((id) => id !== leader);
  for (const id of followers) await made.pause(id);
  const lost = await send(20, 20, 1);
  expect(lost.map(({ offset }) => offset)).toEqual(upTo(40).slice(20));
  await made.kill(leader);
  for (const id of followers) await made.resume(id);
  const kept = await send(20, 30, "all");
  expect(kept.map(({ offset }) => offset)).toEqual(upTo(50).slice(20));
  await made.start(leader);
  await made.waitUntilInSync();
  await reader.until(50);
  expect(reader.fallen).toEqual([]);
  const values = upTo(50).map((number) => `all ${number}`);
  expect(reader.records.map(({ value }) => value)).toEqual(values);
  expect(reader.offsets().get(0)).toEqual(upTo(50));
  await reader.close();
  // The one that had others leads alone: what it shows is what it has.
  for (const id of followers) await made.stop(id);
  expect(await made.leaderOf("t")).toBe(leader);
  const [state] = await client.admin().describePartitions("t");
  expect(state?.endOffset).toBe(50);
});

it("a name is one producer's: whoever takes it over fences the one before, also when all nodes were killed meanwhile", async () => {
  const made = await opened();
  const [first, second] = [await made.connect(), await made.connect()];
  const before = first.producer({ name: "ledger" });
  await before.send("t", { partition: 0, value: "first" });
  await Promise.all(made.brokers.map(({ id }) => made.kill(id)));
  await Promise.all(made.brokers.map(({ id }) => made.start(id)));
  await before.send("t", { partition: 0, value: "second" });
  const after = second.producer({ name: "ledger" });
  await after.send("t", { partition: 0, value: "third" });
  await expect(before.send("t", { partition: 0, value: "fenced" })).rejects.toMatchObject({
    code: "PRODUCER_FENCED",
  });
  await after.send("t", { partition: 0, value: "fourth" });
  expect(await readAll(await made.connect(), "t")).toEqual(["first", "second", "third", "fourth"]);
});

const SECONDS = Number(process.env["OTTLA_TEST_CHAOS_SECONDS"] ?? 10);

it(`a producer and a consumer go on through ${SECONDS} s of whatever comes`, {
  timeout: 300_000 + SECONDS * 1000,
}, async () => {
  const seed = Number(process.env["OTTLA_TEST_CHAOS_SEED"] ?? Date.now() % 1_000_000);
  console.log(`OTTLA_TEST_CHAOS_SEED=${seed}`);
  const made = await opened();
  await holds(made, () => hurtAtRandom(made, createRng([seed, 0, 0, 0]), SECONDS * 1000));
});
