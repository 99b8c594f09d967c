// What users see when voters are lost: one of three, two of three, and two of three for good (unsafe recovery). Four real nodes, the fourth of
// which observes.
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { connect } from "../../src/index.ts";
import { json, startTestCluster, type TestCluster } from "./support.ts";

let cluster: TestCluster;
/** The node that stays. */
const SURVIVOR = 1;
const PARTITIONS = [0, 1, 2, 3, 4, 5, 6, 7];
/** In a topic of which every node has a replica. */
const COPIED = Array.from({ length: 300 }, (_, index) => `copied ${index}`);
const SOON = { timeout: 40_000 };

beforeAll(async () => {
  cluster = await startTestCluster({ nodeCount: 4 });
});
afterAll(() => cluster.stop());

const diskOf = (nodeId: number) => join(cluster.dataDir, `node-${nodeId}`, "data");

async function health(): Promise<{ readonly code: number | null; readonly said: Record<string, unknown> }> {
  const result = await cluster.run(["cluster", "health", "--json"]);
  return { code: result.code, said: json(result) };
}

const healthy = () =>
  expect(cluster.run(["cluster", "health", "--wait", "--timeout", "60s"])).resolves.toMatchObject({ code: 0 });

async function voters(): Promise<Record<number, string>> {
  const status = json(await cluster.run(["cluster", "status", "--json"]));
  const nodes = status["nodes"] as readonly { readonly nodeId: number; readonly role: string }[];
  return Object.fromEntries(nodes.map(({ nodeId, role }) => [nodeId, role]));
}

/** Everything that the survivor leads is still there after the disaster. */
const kept: string[] = [];

describe("all well", () => {
  it("health is good, and topics lie on all nodes", async () => {
    await healthy();
    const created = await cluster.run(["topic", "create", "keep", "-P", String(PARTITIONS.length), "-R", "1"]);
    expect(created.code, created.stderr).toBe(0);
    const client = await connect({ brokers: cluster.addresses.split(",") });
    const producer = client.producer();
    await Promise.all(PARTITIONS.map((partition) => producer.send("keep", { partition, value: `in ${partition}` })));
    await client.close();
    expect((await cluster.run(["topic", "create", "copied", "-P", "2", "-R", "4"])).code).toBe(0);
    const sent = await cluster.run(["produce", "copied"], { input: COPIED.join("\n") });
    expect(sent.code, sent.stderr).toBe(0);
    await expect.poll(health, SOON).toMatchObject({
      code: 0,
      said: {
        isHealthy: true,
        condition: "healthy",
        voters: { total: 3, up: 3 },
        partitions: PARTITIONS.length + 2,
      },
    });
    const { stdout } = await cluster.run(["topic", "describe", "keep", "--json"]);
    const { partitions } = JSON.parse(stdout) as { partitions: { index: number; leader: number }[] };
    for (const { index, leader } of partitions) if (leader === SURVIVOR) kept.push(`in ${index}`);
    expect(kept.length).toBeGreaterThan(0);
  });
});

describe("one of three voters gone", () => {
  it("health says so with 10 and the way back; topics are still created", async () => {
    expect((await cluster.run(["cluster", "kill", "3"])).code).toBe(0);
    await expect
      .poll(async () => (await health()).said, SOON)
      .toMatchObject({
        condition: "degraded",
        voters: { total: 3, up: 2 },
        findings: expect.arrayContaining([
          expect.objectContaining({
            code: "NODE_DOWN",
            nodeId: 3,
            means: "a voter: 0 more losses of voters can be borne",
            hint: expect.stringContaining("ottla cluster start 3") as string,
          }),
          expect.objectContaining({ code: "PARTITIONS_OFFLINE" }),
        ]) as unknown,
      });
    expect((await health()).code).toBe(10);
    const created = await cluster.run(["topic", "create", "meanwhile", "-P", "2"]);
    expect(created.code, created.stderr).toBe(0);
  });
});

describe("two of three voters gone", () => {
  it("health says no-quorum, what works and what does not", async () => {
    expect((await cluster.run(["cluster", "kill", "2"])).code).toBe(0);
    const { code, stdout } = await cluster.run(["cluster", "health"]);
    expect(stdout).toMatch(
      /^no-quorum\nno quorum: 1 of 3 voters up, missing nodes 2, 3\n {2}means: partitions whose leader is up/,
    );
    expect(stdout).toMatch(/\n {2}hint: start nodes 2, 3 \(ottla cluster start 2 3\); only when .*unsafe-recover/);
    expect(code).toBe(10);
  });

  it("what the survivor leads is read and written; a topic is not created, and the error has a hint", async () => {
    const [first = ""] = kept;
    const partition = first.replace("in ", "");
    const read = await cluster.run(["consume", "keep", "-P", partition, "-e"]);
    expect({ out: read.stdout, code: read.code }, read.stderr).toEqual({ out: `${first}\n`, code: 0 });
    const sent = await cluster.run(["produce", "keep", "-p", partition], { input: "later\n" });
    expect(sent.code, sent.stderr).toBe(0);
    const created = await cluster.run(["topic", "create", "never", "--timeout", "2s"]);
    expect(created.stderr).toMatch(/^error\[[A-Z_]+\]: .*\nhint: \S/m);
    expect([1, 3]).toContain(created.code);
  });

  it("a node that restarts now waits, says for what, and stops at once when asked", async () => {
    expect((await cluster.run(["cluster", "kill", "1", "-s", "TERM"])).code).toBe(0);
    await expect
      .poll(async () => (await cluster.run(["cluster", "status", "--json"])).stdout, SOON)
      .toContain('"nodeId":1,"state":"stopped"');
    const started = await cluster.run(["cluster", "start", "1", "--timeout", "10s"]);
    expect(started.stderr).toMatch(/error\[NODE_NOT_READY\]: node 1 was started: waiting for a quorum: 1 of 3 voters/);
    expect(started.code).toBe(10);
    await expect
      .poll(async () => (await cluster.run(["cluster", "status"])).stdout, SOON)
      .toMatch(/\n1\twaiting\tvoter\t.*waiting for a quorum: 1 of 3 voters/);
    expect((await cluster.run(["cluster", "kill", "1", "-s", "TERM"])).code).toBe(0);
    const toldMs = performance.now();
    await expect
      .poll(async () => (await cluster.run(["cluster", "status", "--json"])).stdout, SOON)
      .toContain('"nodeId":1,"state":"stopped"');
    // One that hangs ends after `shutdown.timeout.ms`, 10 s.
    expect(performance.now() - toldMs).toBeLessThan(9_000);
    const none = await cluster.run(["cluster", "health"]);
    expect(none.stdout).toMatch(/^no-quorum\nno quorum: 0 of 3 voters up, missing nodes 1, 2, 3\n/);
    expect(none.code).toBe(10);
  });

  it("all is well again when one of them is started", async () => {
    const started = await cluster.run(["cluster", "start", "1", "2", "3"]);
    expect(started.code, started.stderr).toBe(0);
    await healthy();
    const { stdout } = await cluster.run(["consume", "keep", "-e"]);
    expect(stdout.trimEnd().split("\n").toSorted()).toEqual([
      ...PARTITIONS.map((partition) => `in ${partition}`),
      "later",
    ]);
  });
});

describe("two of three disks lost for good", () => {
  const recover = (...more: readonly string[]) =>
    cluster.run(["quorum", "unsafe-recover", "--data-dir", diskOf(SURVIVOR), "--node", String(SURVIVOR), ...more]);

  it("unsafe recovery refuses while the node runs, for another node, and without --yes", async () => {
    const running = await recover("--yes");
    expect(running.stderr).toMatch(/^error\[DATA_DIR_LOCKED\]/m);
    expect(running.code).toBe(32);
    // What the survivor never hears of: agreed on by the two that are lost, and seen by the one that observes.
    await cluster.run(["cluster", "kill", String(SURVIVOR)]);
    const agreed = await cluster.run(["topic", "create", "given-up", "-P", "1", "--timeout", "30s"]);
    expect(agreed.code, agreed.stderr).toBe(0);
    await cluster.run(["cluster", "kill", "2", "3"]);
    const wiped = await cluster.run(["cluster", "wipe", "2", "3", "--yes"]);
    expect(wiped.code, wiped.stderr).toBe(0);
    const other = await cluster.run([
      "quorum",
      "unsafe-recover",
      "--data-dir",
      diskOf(SURVIVOR),
      "--node",
      "2",
      "--yes",
    ]);
    expect(other.stderr).toMatch(/is the disk of node 1, not of node 2/);
    expect(other.code).toBe(2);
    const unsaid = await recover();
    expect(unsaid.stderr).toMatch(/voters by that log: node 1, node 2, node 3/);
    expect(unsaid.stderr).toMatch(/error\[NOT_CONFIRMED\]/);
    expect(unsaid.code).toBe(6);
  });

  it("makes the survivor the only voter; its topics and records are there, the others join as observers", async () => {
    const done = await recover("--yes");
    expect(done.stdout, done.stderr).toMatch(/^node 1 is the only voter now/);
    expect(done.stderr).toMatch(/Never start nodes 2, 3 on an old disk again/);
    expect(done.code).toBe(0);
    const started = await cluster.run(["cluster", "start"]);
    expect(started.code, started.stderr).toBe(0);
    await expect.poll(voters, SOON).toEqual({ 1: "controller", 2: "observer", 3: "observer", 4: "observer" });
    const topics = (await cluster.run(["topic", "ls"])).stdout;
    expect(topics).toContain("keep");
    expect(topics).not.toContain("given-up");
    // The one that knew more than the cluster does now was started anew by its launcher.
    const running = await cluster.run(["cluster", "start"]);
    expect(running.code, running.stderr).toBe(0);
    await expect
      .poll(async () => (await cluster.run(["cluster", "logs", "launcher", "-n", "1000"])).stdout, SOON)
      .toContain("node 4 starting (started again: its metadata was not the cluster's any more)");
    const [first = ""] = kept;
    const read = await cluster.run(["consume", "keep", "-P", first.replace("in ", ""), "-e"]);
    expect(read.stdout, read.stderr).toBe(`${first}\nlater\n`);
    // The survivor has all that was acknowledged there; the empty disks are filled from it.
    const copied = await cluster.run(["consume", "copied", "-e"]);
    expect(copied.stdout.trimEnd().split("\n").toSorted(), copied.stderr).toEqual(COPIED.toSorted());
    await expect.poll(async () => (await cluster.run(["topic", "ls"])).stdout, SOON).toMatch(/\ncopied\t2\t4\t0\tok\n/);
    const created = await cluster.run(["topic", "create", "again", "-P", "3"]);
    expect(created.code, created.stderr).toBe(0);
    await expect
      .poll(async () => (await health()).said["remarks"], SOON)
      .toEqual([expect.stringContaining("ottla quorum add 2, ottla quorum add 3")]);
  });

  it("and vote again once they were added", async () => {
    for (const nodeId of ["2", "3"]) {
      const added = await cluster.run(["quorum", "add", nodeId]);
      expect(added.code, added.stderr).toBe(0);
    }
    await expect.poll(voters, SOON).toEqual({ 1: "controller", 2: "voter", 3: "voter", 4: "observer" });
  });
});
