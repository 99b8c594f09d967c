// From one node to three, as docs/operations.md says, with real processes: a node that an application embeds, the same directory under
// `ottla server start`, three voters, and the first one killed.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import type { ChildProcess } from "node:child_process";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { drawFreePorts } from "../../src/cli/free-ports.ts";
import { type Client, connect, type OttlaError, startNode } from "../../src/index.ts";
import {
  ensureBuilt,
  ottla,
  outputMatching,
  type RunResult,
  SMALL_NODE,
  start,
  temporaryFolder,
  upArguments,
} from "./support.ts";

const folder = temporaryFolder();
const nodes = new Map<number, ChildProcess>();
let addresses: readonly string[] = [];
const dirOf = (nodeId: number) => join(folder.path, `node-${nodeId}`);
const addressOf = (nodeId: number) => addresses[nodeId - 1] ?? "";
const listed = () => [
  "-X",
  `controller.quorum.voters=${addresses.map((address, at) => `${at + 1}@${address}`).join(",")}`,
];

beforeAll(async () => {
  ensureBuilt();
  const ports = await drawFreePorts(3);
  addresses = ports.map((port) => `127.0.0.1:${port}`);
});
afterAll(() => {
  for (const node of nodes.values()) node.kill("SIGKILL");
  folder.remove();
});

async function startServer(nodeId: number, more: readonly string[] = []): Promise<void> {
  const args = ["server", "start", "--node-id", String(nodeId), "--data-dir", dirOf(nodeId), "-q"];
  const listeners = ["--listeners", `ws://${addressOf(nodeId)}`];
  const node = start([...args, ...listeners, ...SMALL_NODE.flatMap((pair) => ["-X", pair]), ...more]);
  nodes.set(nodeId, node);
  await outputMatching(node, "stdout", /ready ws:/);
}

async function end(nodeId: number, signal: NodeJS.Signals): Promise<void> {
  const node = nodes.get(nodeId);
  const closed = new Promise((resolve) => node?.once("close", resolve));
  node?.kill(signal);
  await closed;
}

const run = (...args: readonly string[]) => ottla(args, { env: { OTTLA_BOOTSTRAP: addresses.join(",") } });

async function ok(...args: readonly string[]): Promise<RunResult> {
  const result = await run(...args);
  expect(result.code, `${args.join(" ")}: ${result.stderr}`).toBe(0);
  return result;
}

/** Contents by name, of an ordered stop. */
function logsOf(nodeId: number): Record<string, string> {
  const hash = (path: string) => createHash("sha256").update(readFileSync(path)).digest("hex");
  const topics = readdirSync(dirOf(nodeId)).filter((name) => /^(embedded|served)-\d+$/.test(name));
  const files = topics.flatMap((topic) => readdirSync(join(dirOf(nodeId), topic)).map((name) => join(topic, name)));
  return Object.fromEntries(
    files.filter((name) => name.endsWith(".log")).map((name) => [name, hash(join(dirOf(nodeId), name))]),
  );
}

/** Asks as an application does: quicker than a process for each question. */
async function asking<T>(ask: (client: Client) => Promise<T>, brokers = addresses): Promise<T> {
  const client = await connect({ brokers, connectTimeoutMs: 10_000 });
  try {
    return await ask(client);
  } finally {
    await client.close();
  }
}

const topicIds = () =>
  asking(async (client) =>
    Object.fromEntries(
      (await client.admin().listTopics({ linearizable: true })).map(({ name, topicId }) => [name, topicId]),
    ),
  );

const votersOf = () =>
  asking(async (client) => {
    const { voters } = await client.admin().describeQuorum();
    return voters.flatMap(({ isLearner, nodeId }) => (isLearner ? [] : [nodeId])).toSorted((one, other) => one - other);
  });

const read = (topic: string) =>
  asking(async (client) => {
    const found: string[] = [];
    for await (const { partition, offset, value } of client.consumer({ topics: [topic], untilEnd: true }))
      found.push(`${partition} ${offset} ${Buffer.from(value ?? []).toString()}`);
    return found.toSorted().join("\n");
  });

// Real processes start slowly on a busy machine.
describe("a single node grows to three, and the first is killed", () => {
  const before = { logs: {} as Record<string, string>, ids: {} as Record<string, string>, texts: ["", ""] };

  it("begins in an application (startNode) and goes on as a server, without any configuration of a quorum", async () => {
    const small = Object.fromEntries(SMALL_NODE.map((pair) => pair.split("=") as [string, string]));
    const node = await startNode({ dataDir: dirOf(1), listeners: `ws://${addressOf(1)}`, config: small });
    const client = await node.connect();
    await client.admin().createTopic("embedded", { partitions: 3, configs: { "max.message.bytes": 65_536 } });
    const producer = client.producer();
    const records = Array.from({ length: 300 }, (_, number) => ({
      partition: number % 3,
      value: `embedded ${number}`,
    }));
    await producer.sendBatch("embedded", records);
    await producer.close();
    await node.close();

    await startServer(1);
    await ok("topic", "create", "served", "-P", "2");
    await ok("topic", "alter", "served", "-c", "segment.bytes=1MiB");
    for (const partition of ["0", "1"]) {
      const input = Array.from({ length: 100 }, (_, number) => `served ${partition} ${number}\n`).join("");
      const env = { OTTLA_BOOTSTRAP: addressOf(1) };
      expect((await ottla(["produce", "served", "-p", partition], { input, env })).code).toBe(0);
    }
    before.ids = await topicIds();
    before.texts = [await read("embedded"), await read("served")];
    expect(await votersOf()).toEqual([1]);
    await end(1, "SIGTERM");
    before.logs = logsOf(1);
    expect(Object.keys(before.logs)).toHaveLength(5);
  });

  it("step 1: started with the list of three, beside two empty nodes, which serve and do not vote yet; health names the next step", async () => {
    await Promise.all([1, 2, 3].map((nodeId) => startServer(nodeId, listed())));
    expect(await votersOf()).toEqual([1]);
    expect((await ok("cluster", "health", "--wait", "--timeout", "60s")).stderr).toContain(
      "ottla quorum add 2, ottla quorum add 3",
    );
  });

  it("step 2: each is added and votes; every record, every topic id and every setting is as before", async () => {
    expect((await ok("quorum", "add", "2")).stdout).toBe("2\tvotes\n");
    expect((await ok("quorum", "add", "3")).stdout).toBe("3\tvotes\n");
    expect(await votersOf()).toEqual([1, 2, 3]);
    expect(await topicIds()).toEqual(before.ids);
    expect([await read("embedded"), await read("served")]).toEqual(before.texts);
    await end(1, "SIGTERM");
    expect(logsOf(1)).toEqual(before.logs);
    await startServer(1, listed());
    expect((await ok("topic", "describe", "served", "--json")).stdout).toContain('"segment.bytes":"1048576"');
  });

  it("kill -9 of the first: topics are created, changed and deleted; it comes back with every record", async () => {
    await ok("quorum", "transfer", "1");
    await end(1, "SIGKILL");
    const startedMs = performance.now();
    await ok("topic", "create", "after", "-P", "2");
    expect(performance.now() - startedMs).toBeLessThan(10_000); // 1 s on a quiet machine
    await ok("topic", "alter", "embedded", "-c", "max.message.bytes=128KiB");
    await ok("topic", "rm", "after", "--yes", "--wait");
    expect(await topicIds()).toEqual(before.ids);
    await startServer(1, listed());
    expect([await read("embedded"), await read("served")]).toEqual(before.texts);
  });

  it("a voter whose disk is gone: added it is refused by name, replaced it votes; removed it goes on as a broker", async () => {
    await end(3, "SIGKILL");
    rmSync(dirOf(3), { recursive: true });
    await startServer(3, listed());
    const refused = await run("quorum", "add", "3");
    expect(refused.stderr).toMatch(/^error\[INVALID_VOTER_KEY\]: .*: replace it\nhint: .*ottla quorum replace/);
    expect(refused.code).toBe(1);
    expect((await ok("quorum", "replace", "3")).stdout).toBe("3\tvotes on its new disk\n");
    expect((await ok("quorum", "remove", "3")).stdout).toBe("3\tvotes no more\n");
    expect(await votersOf()).toEqual([1, 2]);
    await ok("topic", "create", "spread", "-P", "3");
    expect((await ok("topic", "describe", "spread", "--json")).stdout).toContain('"leader":3');
    await ok("quorum", "add", "3");
    expect((await ok("cluster", "health", "--wait", "--timeout", "60s")).stdout).toMatch(/^healthy\n/);
  });

  it("a replacement that is cut short between its steps leaves four voters: health says so, and the same command ends it", async () => {
    await end(3, "SIGKILL");
    rmSync(dirOf(3), { recursive: true });
    await startServer(3, listed());
    // Stopped, it cannot catch up: the request's time is over while its new disk is no voter yet. It becomes one by itself afterwards, unless the
    // leader does not know that disk yet and takes it out again: it asks each second, so that it has by one of the next times. Stopped for two
    // seconds it would be a disk that is not there (the leader's question to it has timed out).
    const isCutShort = () =>
      asking(
        async (client) => {
          await client.admin().describeQuorum();
          nodes.get(3)?.kill("SIGSTOP");
          const code = await client
            .admin()
            .replaceVoter(3, { timeoutMs: 500 })
            .catch((thrown: unknown) => (thrown as OttlaError).code)
            .finally(() => nodes.get(3)?.kill("SIGCONT"));
          expect(code).toBe("REQUEST_TIMED_OUT");
          await expect.poll(votersOf, { timeout: 5_000 }).toEqual([1, 2, 3, 3]);
          return true;
        },
        addresses.slice(0, 2),
      );
    await expect.poll(isCutShort, { timeout: 60_000 }).toBe(true);
    const health = await run("cluster", "health");
    expect([health.code, health.stdout]).toEqual([10, expect.stringContaining("ottla quorum replace 3 once more")]);
    expect(health.stdout).toContain("node 3 votes on its new disk, and the one before still is a voter");
    expect((await ok("quorum", "replace", "3")).stdout).toBe("3\tvotes on its new disk\n");
    expect(await votersOf()).toEqual([1, 2, 3]);
    expect((await ok("cluster", "health", "--wait", "--timeout", "60s")).stdout).toMatch(/^healthy\n/);
    // Once more is no harm: nothing is left to do, and it says so.
    const again = await run("quorum", "replace", "3");
    expect([again.code, again.stderr]).toEqual([1, expect.stringMatching(/^error\[DUPLICATE_VOTER\]: /)]);
    expect(await votersOf()).toEqual([1, 2, 3]);
  });

  it("a new cluster is at the newest metadata.version already, and status says so", async () => {
    expect((await ok("quorum", "status")).stderr).toContain("metadata.version 2 (node");
    expect((await ok("quorum", "upgrade")).stdout).toBe("metadata.version is 2 already\n");
    const lower = await run("quorum", "upgrade", "--to", "1");
    expect([lower.code, lower.stderr]).toEqual([2, expect.stringContaining("it is never lowered")]);
    const beyond = await run("quorum", "upgrade", "--to", "3");
    expect(beyond.stderr).toMatch(/^error\[UNSUPPORTED_VERSION\]: metadata\.version 3: the controller knows up to 2/);
  });
});

describe("a local cluster of one grows by its cluster file", () => {
  it("cluster up -n 1, down, cluster up, quorum add: every record is there, and every node votes", async () => {
    const own = temporaryFolder();
    const file = join(own.path, "cluster.json");
    const ports = await drawFreePorts(3);
    const entries = ports.map((port, at) => ({ "node.id": at + 1, listeners: `ws://127.0.0.1:${port}` }));
    writeFileSync(file, JSON.stringify({ cluster: "test", nodes: entries }));
    const env = { OTTLA_DATA_DIR: join(own.path, "data") };
    const inCluster = async (args: readonly string[], input = "") => {
      const result = await ottla(args, { env, input });
      expect(result.code, `${args.join(" ")}: ${result.stderr}`).toBe(0);
      return result.stdout + result.stderr;
    };
    const up = [...upArguments(own.path, file), "--detach"];
    try {
      await inCluster([...up, "-n", "1"]);
      await inCluster(["topic", "create", "t"]);
      await inCluster(["produce", "t"], "one\ntwo\n");
      await inCluster(["cluster", "down"]);
      await inCluster(up);
      expect(await inCluster(["cluster", "health", "--wait", "--timeout", "60s"])).toContain(
        "ottla quorum add 2, ottla quorum add 3",
      );
      await inCluster(["quorum", "add", "2"]);
      await inCluster(["quorum", "add", "3"]);
      expect(await inCluster(["cluster", "health", "--wait", "--timeout", "60s"])).toContain("3 of 3 voters up");
      expect(await inCluster(["consume", "t", "-e", "-q"])).toContain("one\ntwo\n");
    } finally {
      await ottla(["cluster", "down"], { env });
      own.remove();
    }
  });
});
