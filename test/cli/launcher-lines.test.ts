// `cluster up` without a terminal: one JSON line for each change, bounded logs, and nodes that end with their launcher.
import { appendFileSync, existsSync, readFileSync, statSync } from "node:fs";
import type { ChildProcess } from "node:child_process";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { isAlive } from "../../src/cli/process-identity.ts";
import { type ClusterState, readState } from "../../src/cli/state-file.ts";
import {
  ensureBuilt,
  ottla,
  outputMatching,
  start,
  temporaryFolder,
  upArguments,
  writeThreeNodesFile,
} from "./support.ts";

type Line = Readonly<Record<string, unknown>>;

const folder = temporaryFolder();
const dataDir = join(folder.path, "data");
const LOG_BYTES = 4096;
const SOON = { timeout: 40_000 };
let up: ChildProcess;
const lines: Line[] = [];

const of = (event: string) => lines.filter((one) => one["event"] === event);
const lastOf = (nodeId: number) => of("node").findLast((one) => one["nodeId"] === nodeId);
const run = (...args: readonly string[]) => ottla(["cluster", ...args, "--data-dir", dataDir]);

function state(): ClusterState {
  const outcome = readState(dataDir);
  if (outcome.kind !== "found") throw new Error(`no state file: ${outcome.kind}`);
  return outcome.state;
}

beforeAll(async () => {
  ensureBuilt();
  const file = writeThreeNodesFile(folder.path, { "log.file.max.bytes": LOG_BYTES });
  up = start([...upArguments(folder.path, file), "--any-port", "-v"]);
  let rest = "";
  up.stdout?.on("data", (chunk: Buffer) => {
    const parts = (rest + chunk.toString()).split("\n");
    rest = parts.pop() ?? "";
    lines.push(...parts.map((text) => JSON.parse(text) as Line));
  });
  await vi.waitFor(() => expect(of("ready")).toHaveLength(1), { timeout: 80_000 });
});
afterAll(async () => {
  up.kill("SIGTERM");
  await run("down");
  folder.remove();
});

const TEXT = expect.any(String) as string;
const COUNT = expect.any(Number) as number;

describe("JSON lines", () => {
  it("name the command, the version of their shape, the event and the time", () => {
    for (const one of lines) {
      expect(one).toMatchObject({ _command: "cluster.up", _version: 1, event: TEXT, time: TEXT });
      expect(new Date(String(one["time"])).toISOString()).toBe(one["time"]);
    }
    expect(new Set(lines.map((one) => one["event"]))).toEqual(new Set(["started", "node", "cluster", "ready"]));
  });

  it("begin with the nodes and where they keep everything", () => {
    const [first] = lines;
    expect(first).toMatchObject({ event: "started", cluster: "test", dataDir, launcherPid: up.pid });
    const nodes = first?.["nodes"] as readonly Line[];
    expect(nodes.map(({ nodeId, state: how }) => [nodeId, how])).toEqual([1, 2, 3].map((id) => [id, "starting"]));
    expect(nodes[0]).toEqual({
      nodeId: 1,
      state: "starting",
      pid: COUNT,
      address: TEXT,
      dataDir: join(dataDir, "node-1", "data"),
      logFile: join(dataDir, "node-1", "log", "ottla.log"),
      reason: null,
    });
  });

  it("tell each node's row when it changes, and the cluster", async () => {
    await expect
      .poll(() => [1, 2, 3].map((id) => lastOf(id)?.["state"]), SOON)
      .toEqual(["running", "running", "running"]);
    // A row may come before what the node answers.
    await expect
      .poll(() => lastOf(1), SOON)
      .toEqual({
        _command: "cluster.up",
        _version: 1,
        event: "node",
        time: TEXT,
        nodeId: 1,
        state: "running",
        role: expect.stringMatching(/^(controller|voter)$/) as string,
        leaders: 0,
        inSync: 0,
        replicas: 0,
        address: TEXT,
        pid: COUNT,
        reason: null,
      });
    await expect.poll(() => of("cluster").at(-1)?.["condition"], SOON).toBe("healthy");
    expect(of("cluster").at(-1)).toMatchObject({
      clusterId: TEXT,
      controllerId: COUNT,
      voters: { total: 3, up: 3 },
      findings: [],
    });
    expect(of("ready")[0]).toMatchObject({ seconds: COUNT, failedNodes: [] });
  });

  it("tell of a kill, with what it means, and of the way back", async () => {
    expect((await run("kill", "2")).code).toBe(0);
    await expect.poll(() => lastOf(2), SOON).toMatchObject({ state: "killed", pid: null, reason: "SIGKILL" });
    await expect
      .poll(() => of("cluster").at(-1), SOON)
      .toMatchObject({
        condition: "degraded",
        findings: [{ code: "NODE_DOWN", nodeId: 2, message: TEXT, means: TEXT, hint: TEXT }],
      });
    expect((await run("start", "2")).code).toBe(0);
    await expect.poll(() => lastOf(2)?.["state"], SOON).toBe("running");
    await expect.poll(() => of("cluster").at(-1)?.["condition"], SOON).toBe("healthy");
  });

  it("tell of a node that ends by itself, with its last words on stderr, and go on", async () => {
    const said = outputMatching(up, "stderr", /error\[NODE_ENDED\]: node 3 ended by itself: SIGABRT/);
    process.kill(state().nodes[2]?.process.pid ?? 0, "SIGABRT");
    const [words] = await said;
    expect(words).not.toBe("");
    await expect.poll(() => lastOf(3), SOON).toMatchObject({ state: "failed", pid: null, reason: "SIGABRT" });
    expect((await run("start", "3")).code).toBe(0);
    await expect.poll(() => of("cluster").at(-1)?.["condition"], SOON).toBe("healthy");
  });

  it("are quiet while nothing changes", async () => {
    // A node that a busy machine keeps from answering in time is a change.
    const saidMeanwhile = async () => {
      const before = lines.length;
      await expect(run("status")).resolves.toMatchObject({ code: 0 });
      await expect(run("status")).resolves.toMatchObject({ code: 0 });
      return lines.slice(before);
    };
    await expect.poll(saidMeanwhile, SOON).toEqual([]);
  });
});

describe("logs", () => {
  it("are bounded: the file and the one before it", async () => {
    const file = state().nodes[0]?.logFile ?? "";
    for (let turn = 0; turn < 20 && !existsSync(`${file}.1`); turn++) await run("restart", "1");
    for (const path of [file, `${file}.1`]) expect(statSync(path).size, path).toBeLessThanOrEqual(LOG_BYTES);
    const stderr = join(dataDir, "node-2", "log", "stderr.log");
    appendFileSync(stderr, "x".repeat(LOG_BYTES + 1));
    await expect.poll(() => statSync(stderr).size, SOON).toBe(0);
    expect(statSync(`${stderr}.1`).size).toBe(LOG_BYTES + 1);
  });
});

describe("kill -9 of the launcher", () => {
  // The last of this file: the cluster is gone after it.
  it("its nodes stop in order by themselves, and the next start finds a clean place", async () => {
    const { nodes } = state();
    up.kill("SIGKILL");
    await expect.poll(() => nodes.filter((node) => isAlive(node.process)).length, SOON).toBe(0);
    for (const { logFile } of nodes) expect(readFileSync(logFile, "utf8")).toMatch(/"event":"node_stopped"/);
    const status = await run("status");
    expect(status.stderr).toContain("the launcher is gone");
    expect(status.code).toBe(10);
    const again = await ottla([
      ...upArguments(folder.path, join(folder.path, "cluster.json")),
      "--any-port",
      "--detach",
    ]);
    expect(again.code, again.stderr).toBe(0);
    expect(again.stdout).toMatch(/\n1\trunning\t.*\n2\trunning\t.*\n3\trunning\t/);
  });
});
