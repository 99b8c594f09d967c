// Starts that do not go as they should: a damaged disk among three, a port that is taken, two launchers at once; and a cluster that grows.
import { cpSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { once } from "node:events";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { isAlive } from "../../src/cli/process-identity.ts";
import { drawFreePorts } from "../../src/cli/free-ports.ts";
import { type ClusterState, readState } from "../../src/cli/state-file.ts";
import { clusterFolder } from "./cluster-folder.ts";
import { json, ottla, upArguments, writeThreeNodesFile } from "./support.ts";

const folder = clusterFolder();
const dataDir = () => folder.dataDir;

function state(): ClusterState {
  const outcome = readState(dataDir());
  if (outcome.kind !== "found") throw new Error(`no state file: ${outcome.kind}`);
  return outcome.state;
}

const addresses = () =>
  state()
    .nodes.map(({ address }) => address.replace("ws://", ""))
    .join(",");
/** A command against the cluster as it is now. */
const run = (...args: readonly string[]) =>
  ottla(args, { env: { OTTLA_DATA_DIR: dataDir(), OTTLA_BOOTSTRAP: addresses() } });
const up = (...more: readonly string[]) =>
  ottla([
    ...upArguments(folder.path, writeThreeNodesFile(folder.path)),
    ...["--any-port", "--detach", "--timeout", "90s"],
    ...more,
  ]);

describe("a start of three nodes", () => {
  it("goes on without one whose disk is damaged, says so and ends with 10", async () => {
    expect((await up("-q")).code).toBe(0);
    expect((await run("cluster", "down")).code).toBe(0);
    // Of a node that belongs to a cluster this is damage (D-20), not a first start.
    rmSync(join(dataDir(), "node-3", "data", "metadata"), { recursive: true });
    const { code, stdout, stderr } = await up();
    expect(stderr).toMatch(/^error\[DATA_DAMAGED\]: node 3 did not start: /m);
    expect(stdout).toMatch(/\n1\trunning\t.*\n2\trunning\t.*\n3\tfailed\t/);
    expect(code).toBe(10);
    expect(state().nodes.map((node) => node.state)).toEqual(["running", "running", "failed"]);
    const created = await run("topic", "create", "t");
    expect(created.code, created.stderr).toBe(0);
    // The way that health and wipe name: its disk is given up, it joins as new and gets its vote back.
    expect((await run("cluster", "wipe", "3", "--yes")).code).toBe(0);
    const started = await run("cluster", "start", "3");
    expect(started.code, started.stderr).toBe(0);
    await expect
      .poll(async () => (await run("cluster", "health")).stdout)
      .toMatch(/runs on another disk than the one that is a voter/);
    const replaced = await run("quorum", "replace", "3");
    expect(replaced.code, replaced.stderr).toBe(0);
    const health = await run("cluster", "health", "--wait", "--timeout", "60s");
    expect(health.code, health.stdout).toBe(0);
  });

  it("with a port that is taken leaves nothing running", async () => {
    const ports = await drawFreePorts(3);
    const server = createServer().listen(ports[1], "127.0.0.1");
    await once(server, "listening");
    const file = join(folder.path, "taken.json");
    const nodes = ports.map((port, index) => ({ "node.id": index + 1, listeners: `ws://127.0.0.1:${port}` }));
    writeFileSync(file, JSON.stringify({ nodes }));
    const { code, stderr } = await ottla([...upArguments(folder.path, file), "--detach"]);
    server.close();
    expect(stderr).toMatch(new RegExp(`error\\[PORT_IN_USE\\]: node 2 did not start: .*${ports[1]}`));
    expect(code).toBe(1);
    expect(readState(dataDir()).kind).toBe("none");
    const after = await drawFreePorts(1);
    expect(after).toHaveLength(1);
    for (const port of ports) await expect(portIsFree(port)).resolves.toBe(true);
  });

  it("by two launchers at once: one of them is refused, the other's nodes stay", async () => {
    const both = await Promise.all([up(), up()]);
    const codes = both.map(({ code }) => code);
    expect(new Set(codes)).toEqual(new Set([0, 1]));
    expect(both.find(({ code }) => code === 1)?.stderr).toMatch(/^error\[ALREADY_RUNNING\]/m);
    const { launcher, nodes } = state();
    expect([launcher, ...nodes.map((node) => node.process)].map(isAlive)).toEqual([true, true, true, true]);
  });
});

async function portIsFree(port: number): Promise<boolean> {
  const server = createServer();
  const outcome = new Promise<boolean>((resolve) => {
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
  return await outcome;
}

describe("an older copy of a voter's disk", () => {
  it("is refused as a voter; health says why and what to do, and that helps", async () => {
    expect((await up("-q")).code).toBe(0);
    const disk = join(dataDir(), "node-3", "data");
    const copy = join(folder.path, "copy");
    const stop = async () => {
      expect((await run("cluster", "kill", "3", "-s", "TERM")).code).toBe(0);
      await expect.poll(() => state().nodes[2]?.state).toBe("stopped");
    };
    await stop();
    cpSync(disk, copy, { recursive: true });
    expect((await run("cluster", "start", "3")).code).toBe(0);
    // While it changes, the others write down at least once a second how far it has been (D-20).
    for (const sinceMs = Date.now(); Date.now() < sinceMs + 2500; )
      expect((await run("topic", "create", `t-${Date.now()}`)).code).toBe(0);
    await stop();
    rmSync(disk, { recursive: true });
    cpSync(copy, disk, { recursive: true });
    expect((await run("cluster", "start", "3")).code).toBe(0);
    await expect
      .poll(async () => json(await run("cluster", "health", "--json")))
      .toMatchObject({
        condition: "degraded",
        voters: { total: 3, up: 2 },
        findings: expect.arrayContaining([
          expect.objectContaining({
            code: "VOTER_REFUSED",
            nodeId: 3,
            hint: "stop it, ottla cluster wipe 3 --yes, start it, then ottla quorum replace 3",
          }),
        ]) as unknown,
      });
    expect((await run("cluster", "health")).code).toBe(10);
    await stop();
    expect((await run("cluster", "wipe", "3", "--yes")).code).toBe(0);
    expect((await run("cluster", "start", "3")).code).toBe(0);
    const replaced = await run("quorum", "replace", "3");
    expect(replaced.code, replaced.stderr).toBe(0);
    await expect
      .poll(async () => json(await run("cluster", "health", "--json"))["voters"])
      .toEqual({ total: 3, up: 3 });
  });
});

describe("a cluster of one node", () => {
  it("grows to three voters without losing a record, also under other ports, and then bears the loss of the first", async () => {
    expect((await up("-n", "1", "-q")).code).toBe(0);
    expect((await run("topic", "create", "t", "-P", "2")).code).toBe(0);
    const input = Array.from({ length: 500 }, (_, index) => `${index}\n`).join("");
    expect((await ottla(["produce", "t"], { input, env: { OTTLA_BOOTSTRAP: addresses() } })).code).toBe(0);
    const all = async () => {
      const { stdout } = await run("consume", "t", "-e");
      return stdout
        .trimEnd()
        .split("\n")
        .map(Number)
        .sort((one, other) => one - other);
    };
    const expected = Array.from({ length: 500 }, (_, index) => index);
    expect(await all()).toEqual(expected);
    expect((await run("cluster", "down")).code).toBe(0);

    const grown = await up();
    expect(grown.code, grown.stderr).toBe(0);
    expect(grown.stdout).toMatch(/\n1\trunning\tcontroller\t.*\n2\trunning\tobserver\t.*\n3\trunning\tobserver\t/);
    expect(await all()).toEqual(expected);
    for (const nodeId of ["2", "3"]) {
      const added = await run("quorum", "add", nodeId);
      expect(added.code, added.stderr).toBe(0);
    }
    expect((await run("cluster", "down")).code).toBe(0);

    const again = await up("--json");
    expect(again.code, again.stderr).toBe(0);
    const health = await run("cluster", "health", "--wait", "--timeout", "60s", "--json");
    expect(json(health)).toMatchObject({ isHealthy: true, voters: { total: 3, up: 3 } });
    expect((await run("cluster", "kill", "1")).code).toBe(0);
    const created = await run("topic", "create", "without-the-first", "--timeout", "30s");
    expect(created.code, created.stderr).toBe(0);
    expect((await run("cluster", "start", "1")).code).toBe(0);
    expect(await all()).toEqual(expected);
  });
});
