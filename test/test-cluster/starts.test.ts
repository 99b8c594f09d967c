// testCluster(): starts that cannot come to anything end, in a code, and leave nothing behind; a test that fakes time fakes its own only.
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it, vi } from "vitest";
import { connect, type Logger, testCluster } from "../../src/index.ts";
import { openTestCluster } from "../../src/test-cluster/test-cluster.ts";
import { readAll } from "./support.ts";

const nothing = (): void => undefined;
const silentLogger: Logger = {
  debug: nothing,
  info: nothing,
  warn: nothing,
  error: nothing,
  child: () => silentLogger,
};

afterEach(() => {
  vi.useRealTimers();
  vi.resetModules();
});

async function inDirectory(test: (directory: string) => Promise<void>): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "ottla-test-cluster-"));
  try {
    await test(directory);
  } finally {
    await rm(directory, { recursive: true });
  }
}

it("goes on while a test fakes time, also from before it is made: clients, kills, waits and the end", async () => {
  vi.useFakeTimers();
  const cluster = await testCluster({ topics: { t: { partitions: 1 } } });
  try {
    const client = await cluster.connect();
    const producer = client.producer();
    await producer.send("t", { value: "a" });
    const leader = await cluster.leaderOf("t");
    await cluster.kill(leader);
    await producer.send("t", { value: "b" });
    await cluster.start(leader);
    await cluster.waitUntilInSync();
    const other = await cluster.leaderOf("t");
    await cluster.pause(other);
    await cluster.resume(other);
    expect(await readAll(client, "t")).toEqual(["a", "b"]);
  } finally {
    await cluster.close();
  }
});

it("is refused at once where time was faked before the package was loaded", async () => {
  vi.useFakeTimers();
  vi.resetModules();
  const late = await import("../../src/index.ts");
  await expect(late.testCluster()).rejects.toMatchObject({
    code: "INVALID_REQUEST",
    message: expect.stringContaining("faked"),
    hint: expect.stringContaining("import ottla before"),
  });
});

it("is refused at once on a directory of more nodes, which goes on with as many as before", async () => {
  await inDirectory(async (directory) => {
    await (await testCluster({ directory, nodes: 5, topics: { t: {} } })).close();
    await expect(testCluster({ directory, nodes: 1 })).rejects.toMatchObject({
      code: "INVALID_REQUEST",
      message: `testCluster: ${directory} holds 5 nodes, and nodes is 1`,
      hint: expect.stringContaining("nodes: 5"),
    });
    const again = await testCluster({ directory, nodes: 5 });
    await again.leaderOf("t");
    await again.close();
  });
});

it("gives up where the majority of a directory's nodes is gone, and lets the directory go", async () => {
  await inDirectory(async (directory) => {
    await (await testCluster({ directory })).close();
    for (const lost of ["node-2", "node-3"]) await rm(join(directory, lost), { recursive: true });
    for (const _ of ["once", "and again: nothing holds it"])
      await expect(openTestCluster({ directory }, { connect, silentLogger, startMs: 1_000 })).rejects.toMatchObject({
        code: "REQUEST_TIMED_OUT",
        message: expect.stringMatching(/^node [123] did not serve within 1000 ms/),
      });
    await rm(directory, { recursive: true });
    await (await testCluster({ directory })).close();
    expect(await readdir(directory)).toHaveLength(3);
  });
});

it("of one node alone gives up, and that node can be started again beside others", async () => {
  const cluster = await openTestCluster({ topics: { t: {} } }, { connect, silentLogger, startMs: 8_000 });
  try {
    for (const { id } of cluster.brokers) await cluster.kill(id);
    await expect(cluster.start(1)).rejects.toMatchObject({
      code: "REQUEST_TIMED_OUT",
      message: "node 1 did not serve within 8000 ms",
      hint: expect.stringContaining("majority"),
    });
    expect(cluster.brokers[0]).toMatchObject({ state: "failed", failure: { code: "REQUEST_TIMED_OUT" } });
    await Promise.all([1, 2].map((id) => cluster.start(id)));
    await cluster.leaderOf("t");
  } finally {
    await cluster.close();
  }
});
