// Output that cannot be written, on a full disk say: a command says so and fails, a launcher keeps its nodes.
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { describe, expect, it } from "vitest";
import { nodeFolder, nodeLogOf } from "../../src/cli/cluster/folders.ts";
import { readState } from "../../src/cli/state-file.ts";
import { clusterFolder } from "./cluster-folder.ts";
import {
  cleanEnvironment,
  collect,
  MAIN,
  ottla,
  outputMatching,
  SMALL_NODE,
  upArguments,
  writeClusterFile,
} from "./support.ts";

const folder = clusterFolder();
const dataDir = () => folder.dataDir;

/** Its standard output is a device that is always full. */
function startOnFull(args: readonly string[]): ChildProcess {
  const full = openSync("/dev/full", "w");
  const env = cleanEnvironment({ OTTLA_DATA_DIR: dataDir() });
  const child = spawn(process.execPath, [MAIN, ...args], { env, stdio: ["ignore", full, "pipe"] });
  closeSync(full);
  return child;
}

const OUTPUT_FAILED = /^error\[OUTPUT_FAILED\]: the output cannot be written: ENOSPC: .*\nhint: .*\n$/;

describe("a command", () => {
  it.each([["errors"], ["completion", "bash"], ["--help"]])(
    "fails when what it printed last is not there: %s %s",
    async (...args) => {
      const { code, stderr } = await collect(startOnFull(args));
      expect(stderr).toMatch(OUTPUT_FAILED);
      expect(code).toBe(1);
    },
  );
});

it("a reader that is slow gets all of it", async () => {
  const log = nodeLogOf(nodeFolder(dataDir(), 1));
  mkdirSync(dirname(log), { recursive: true });
  const line = JSON.stringify({ level: 30, time: 1, msg: "x".repeat(300) });
  writeFileSync(log, `${line}\n`.repeat(1000));
  // More than a pipe holds.
  const command = `"${process.execPath}" "${MAIN}" cluster logs -n 1000 --json --data-dir "${dataDir()}" | (sleep 1; wc -l)`;
  const counting = spawn("sh", ["-c", command], { env: cleanEnvironment() });
  expect((await collect(counting)).stdout.trim()).toBe("1000");
});

it("a directory on standard input is no input", async () => {
  const directory = openSync(folder.path, "r");
  const child = spawn(process.execPath, [MAIN, "produce", "t"], {
    env: cleanEnvironment(),
    stdio: [directory, "pipe", "pipe"],
  });
  closeSync(directory);
  const { code, stderr } = await collect(child);
  expect(stderr).toMatch(/^error\[USAGE\]: standard input is a directory\n/);
  expect(code).toBe(2);
});

describe("server start", () => {
  it("--check says what a start would say", async () => {
    const env = { OTTLA_SEGMENT_BYTE: "1" };
    const { code, stderr } = await ottla(["server", "start", "--node-id", "1", "--data-dir", dataDir(), "--check"], {
      env,
    });
    expect(stderr).toMatch(/OTTLA_SEGMENT_BYTE is no configuration key/);
    expect(code).toBe(0);
  });

  it("serves although nobody can be told where", async () => {
    const settings = ["listeners=ws://127.0.0.1:0", ...SMALL_NODE].flatMap((pair) => ["-X", pair]);
    const node = startOnFull(["server", "start", "--node-id", "1", "--data-dir", dataDir(), ...settings]);
    const ended = collect(node, 50_000);
    await outputMatching(node, "stderr", /warning: the output cannot be written: ENOSPC/);
    node.kill("SIGTERM");
    expect((await ended).stderr).toMatch(/"event":"node_stopped"/);
    expect(node.exitCode).toBe(0);
  });
});

describe("cluster up", () => {
  const up = () => upArguments(folder.path, writeClusterFile(folder.path));

  it("goes on where its output goes to a full disk; a consume there fails in one line", async () => {
    const launcher = startOnFull(up());
    const ended = collect(launcher);
    await outputMatching(launcher, "stderr", /ready in/);
    const run = (...args: readonly string[]) => ottla(args, { env: { OTTLA_DATA_DIR: dataDir() }, input: "x\n" });
    expect((await run("topic", "create", "t", "-P", "1")).code).toBe(0);
    expect((await run("produce", "t")).code).toBe(0);
    const { code, stderr } = await collect(startOnFull(["consume", "t", "-e", "-q"]));
    expect(stderr).toMatch(OUTPUT_FAILED);
    expect(code).toBe(1);
    launcher.kill("SIGTERM");
    const end = await ended;
    expect(end.stderr).toMatch(/^warning: the output cannot be written: ENOSPC/m);
    expect(end.code).toBe(0);
  });

  it("stops in order when nobody reads its output any more", async () => {
    const launcher = spawn(process.execPath, [MAIN, ...up()], { env: cleanEnvironment() });
    const ended = collect(launcher);
    await outputMatching(launcher, "stdout", /"event":"ready"/);
    launcher.stdout.destroy();
    await ottla(["topic", "create", "t"], { env: { OTTLA_DATA_DIR: dataDir() } });
    expect((await ended).stderr).toMatch(/stopped; what was acknowledged is on disk\n$/);
    expect(launcher.exitCode).toBe(0);
    expect(readState(dataDir())).toEqual({ kind: "none" });
  });
});
