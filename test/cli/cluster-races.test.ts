// Commands on a local cluster that something else happens beside: a new start behind `cluster down`, a process of its own under `cluster wipe`. And
// what a directory of nodes holds that is none, or keeps elsewhere.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  dataDirOf,
  nodeFolder,
  nodeFolders,
  nodeLogOf,
  noteDataDir,
  ownDataDir,
} from "../../src/cli/cluster/folders.ts";
import { clusterDown } from "../../src/cli/commands/cluster.ts";
import { clusterWipe } from "../../src/cli/commands/cluster-wipe.ts";
import { clusterDataDir } from "../../src/cli/data-dir.ts";
import { createOutput } from "../../src/cli/output.ts";
import { identify } from "../../src/cli/process-identity.ts";
import { readState, stateFileOf, writeState } from "../../src/cli/state-file.ts";
import { UsageError } from "../../src/cli/values.ts";
import { uuidFromBytes } from "../../src/model/ids.ts";
import { createChecksum } from "../../src/platform/checksum.ts";
import { encodeSuperblock, type Superblock } from "../../src/storage/superblock.ts";
import { lockDirectory } from "../../src/platform/lock.ts";
import { temporaryFolder } from "./support.ts";

let folder = temporaryFolder();
beforeEach(() => {
  folder = temporaryFolder();
});
afterEach(() => folder.remove());

const output = createOutput({ quiet: true, json: true });
const invocation = (flags: object) => ({ args: [], flags: { dataDir: folder.path, ...flags }, output });

const stateOf = (pid: number) => ({
  cluster: "local",
  startedAt: "2026-01-01T00:00:00.000Z",
  launcher: identify(pid),
  socket: join(folder.path, "launcher.sock"),
  nodes: [],
});

describe("cluster down", () => {
  it("leaves the state of a cluster that was started from there behind it", async () => {
    const successor = join(folder.path, "successor.json");
    writeFileSync(successor, JSON.stringify({ version: 2, ...stateOf(process.pid) }));
    // A launcher whose directory the next one has taken as soon as it is gone.
    const script = `process.on("SIGTERM", () => {
      require("node:fs").renameSync(${JSON.stringify(successor)}, ${JSON.stringify(stateFileOf(folder.path))});
      process.exit(0);
    }); process.stdout.write("up"); setInterval(() => undefined, 1000);`;
    const launcher = spawn(process.execPath, ["-e", script], { stdio: ["ignore", "pipe", "inherit"] });
    await once(launcher.stdout, "data");
    writeState(folder.path, stateOf(launcher.pid ?? 0));
    expect(await clusterDown(invocation({}))).toBe(0);
    expect(readState(folder.path)).toMatchObject({ kind: "found", state: { launcher: { pid: process.pid } } });
  });
});

it("cluster down stops nothing when it is told wrongly how long it may take", async () => {
  const launcher = spawn(process.execPath, ["-e", "setInterval(() => undefined, 1000)"], { stdio: "ignore" });
  writeState(folder.path, stateOf(launcher.pid ?? 0));
  await expect(clusterDown(invocation({ timeout: "abc" }))).rejects.toThrow(/--timeout takes a duration/);
  expect(launcher.kill(0)).toBe(true);
  const ended = once(launcher, "exit");
  launcher.kill("SIGKILL");
  // A SIGTERM before would have been the one that ended it.
  expect(await ended).toEqual([null, "SIGKILL"]);
});

it("an empty OTTLA_DATA_DIR is none; an empty --data-dir is a mistake", () => {
  expect(clusterDataDir(undefined, { OTTLA_DATA_DIR: "" })).toBe(resolve("ottla-data"));
  expect(clusterDataDir(undefined, { OTTLA_DATA_DIR: "" }, "of-the-file")).toBe(resolve("of-the-file"));
  expect(() => clusterDataDir("")).toThrow(UsageError);
});

const superblockOf = (nodeId: number): Uint8Array => {
  const [clusterId, directoryId] = [1, 2].map((fill) => uuidFromBytes(new Uint8Array(16).fill(fill)));
  const block = {
    counter: 1,
    generation: 1,
    clusterId,
    directoryId,
    nodeId,
    nextLogId: 1,
    isClean: true,
    bootId: "b",
    brokerEpoch: null,
  };
  return encodeSuperblock(block as unknown as Superblock, createChecksum());
};

describe("cluster wipe", () => {
  it("deletes nothing of any node while one is in use", async () => {
    const [first = "", second = ""] = [1, 2].map((nodeId) => join(folder.path, `node-${nodeId}`, "data"));
    for (const data of [first, second]) {
      mkdirSync(data, { recursive: true });
      writeFileSync(join(data, "superblock"), "");
    }
    writeFileSync(join(first, "records"), "");
    const lock = await lockDirectory(second);
    await expect(clusterWipe(invocation({ yes: true }))).rejects.toMatchObject({
      code: "STILL_RUNNING",
      message: `the data of node 2 is used by a process (pid ${process.pid})`,
    });
    expect(existsSync(join(first, "records"))).toBe(true);
    if (lock.kind === "acquired") await lock.release();
    expect(await clusterWipe(invocation({ yes: true }))).toBe(0);
    expect([first, second].map((data) => existsSync(data))).toEqual([false, false]);
  });

  it("deletes only what is a node's", async () => {
    mkdirSync(join(folder.path, "node-20", "lib"), { recursive: true });
    writeFileSync(join(folder.path, "node-7"), "");
    mkdirSync(join(folder.path, "node-1", "log"), { recursive: true });
    writeFileSync(join(folder.path, "node-1", "log", "ottla.log"), "");
    expect(nodeFolders(folder.path)).toEqual([1]);
    expect(await clusterWipe(invocation({ yes: true }))).toBe(0);
    expect(readdirSync(folder.path).sort()).toEqual(["node-20", "node-7"]);
  });

  it("deletes the data of a node that keeps it elsewhere, and leaves the directory, which may be where a disk is mounted", async () => {
    const [node, disk] = [nodeFolder(folder.path, 1), join(folder.path, "disk")];
    const wipe = (...args: readonly string[]) => clusterWipe({ ...invocation({ yes: true }), args });
    for (const args of [["1"], []]) {
      for (const name of ["t-0", "lost+found"]) mkdirSync(join(disk, name), { recursive: true });
      writeFileSync(join(disk, "superblock"), superblockOf(1));
      noteDataDir(nodeLogOf(node), disk);
      expect(dataDirOf(node)).toBe(disk);
      expect(await wipe(...args)).toBe(0);
      expect(readdirSync(disk)).toEqual(["lost+found"]);
      expect(existsSync(node)).toBe(args.length > 0);
    }
    noteDataDir(nodeLogOf(node), disk);
    noteDataDir(nodeLogOf(node), ownDataDir(node));
    expect(dataDirOf(node)).toBe(ownDataDir(node));
  });

  it.each([
    ["no superblock", undefined],
    ["that of another node", superblockOf(2)],
    ["one that is not to be read", new Uint8Array(8192)],
  ])("deletes nothing where a node was to keep its data and there is something else: %s", async (_, superblock) => {
    const [node, disk] = [nodeFolder(folder.path, 1), join(folder.path, "disk")];
    mkdirSync(disk);
    writeFileSync(join(disk, "thesis.txt"), "");
    if (superblock !== undefined) writeFileSync(join(disk, "superblock"), superblock);
    noteDataDir(nodeLogOf(node), disk);
    await expect(clusterWipe(invocation({ yes: true }))).rejects.toMatchObject({ code: "DATA_DIR_FOREIGN" });
    expect(existsSync(join(disk, "thesis.txt"))).toBe(true);
    expect(existsSync(node)).toBe(true);
  });
});
