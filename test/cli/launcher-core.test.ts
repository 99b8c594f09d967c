// The launcher by itself, over processes that stand in for nodes: what stops while it starts, and files that cannot be written.
import { mkdirSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { planCluster } from "../../src/cli/cluster-file.ts";
import { Launcher } from "../../src/cli/launcher/launcher.ts";
import { isAlive } from "../../src/cli/process-identity.ts";
import { readState, stateFileOf } from "../../src/cli/state-file.ts";
import { temporaryFolder, writeThreeNodesFile } from "./support.ts";

/** Says that it serves, and takes its time to stop. SIGUSR2: an unsafe recovery went by it. */
const STAND_IN = `
process.on("message", ({ kind }) => {
  if (kind === "start") process.send({ kind: "ready", address: "ws://127.0.0.1:1", clusterId: "c", startMs: 1 });
  else setTimeout(() => process.exit(0), 300);
});
process.on("disconnect", () => process.exit(0));
const failure = { code: "METADATA_DIVERGED", message: "its metadata is not the cluster's", hint: "", exitCode: 1 };
process.on("SIGUSR2", () => process.send({ kind: "failed", failure }, () => process.exit(1)));
process.send({ kind: "hello" });
`;

const standIn = vi.hoisted(() => ({ path: "" }));
vi.mock(import("../../src/platform/package-files.ts"), async (original) => ({
  ...(await original()),
  entryPoint: () => standIn.path,
}));

let folder = temporaryFolder();
const dataDir = () => join(folder.path, "data");
const notes: string[] = [];
let launcher: Launcher;

beforeEach(() => {
  folder = temporaryFolder();
  standIn.path = join(folder.path, "node.mjs");
  writeFileSync(standIn.path, STAND_IN);
  notes.length = 0;
  launcher = new Launcher(
    planCluster({
      file: writeThreeNodesFile(folder.path),
      dataDir: dataDir(),
      nodeCount: 2,
      pairs: [],
      environment: {},
    }),
    { verbosity: 0, note: (text) => notes.push(text), onChanged: () => undefined },
  );
});
afterEach(async () => {
  launcher.kill();
  folder.remove();
});

const states = () => launcher.nodes.map(({ state }) => state);

describe("a stop", () => {
  it("in the moment before the nodes have processes: none is started", async () => {
    const starting = launcher.start();
    void launcher.stop();
    await starting;
    await launcher.finished();
    expect(launcher.nodes).toEqual([]);
    expect(readState(dataDir())).toEqual({ kind: "none" });
  });

  it("while a node is started that was stopping: it ends, too", async () => {
    await launcher.start();
    const restarting = launcher.restart(1).catch((thrown: unknown) => thrown);
    const starting = launcher.startNode(1).catch((thrown: unknown) => thrown);
    void launcher.stop();
    await launcher.finished();
    expect(await restarting).toMatchObject({ code: "STOPPING" });
    expect(await starting).toMatchObject({ code: "STOPPING" });
    expect(states()).toEqual(["stopped", "stopped"]);
    expect(launcher.nodes.some(({ process: identity }) => isAlive(identity))).toBe(false);
  });
});

describe("a full disk", () => {
  it("keeps the state file as it was, not the nodes from running; it is written when that is possible again", async () => {
    await launcher.start();
    const inTheWay = `${stateFileOf(dataDir())}.new`;
    mkdirSync(inTheWay);
    launcher.killNode(1);
    await expect.poll(states).toEqual(["killed", "running"]);
    await launcher.startNode(1);
    await expect.poll(states).toEqual(["running", "running"]);
    expect(notes).toEqual([expect.stringMatching(/cluster-state\.json cannot be written \(EISDIR\)/)]);
    rmdirSync(inTheWay);
    launcher.killNode(2);
    await expect
      .poll(() => readState(dataDir()))
      .toMatchObject({ state: { nodes: [{ state: "running" }, { state: "killed" }] } });
  });
});

describe("a folder of a node that cannot be used", () => {
  it("is named, with the code and exit code of a data directory, and nothing is left running", async () => {
    mkdirSync(join(dataDir(), "node-2"), { recursive: true });
    writeFileSync(join(dataDir(), "node-2", "log"), "");
    await expect(launcher.start()).rejects.toMatchObject({
      code: "DATA_DIR_FOREIGN",
      message: `${join(dataDir(), "node-2", "log")} is not a directory`,
    });
    expect(launcher.hasRunning).toBe(false);
    expect(readState(dataDir())).toEqual({ kind: "none" });
  });
});

describe("a node that is to be started again, for its metadata was not the cluster's", () => {
  const diverge = (at: number) => process.kill(launcher.nodes[at]?.process.pid ?? 0, "SIGUSR2");

  it("but whose log cannot be opened has failed for that reason; the launcher and the others go on", async () => {
    await launcher.start();
    const log = join(dataDir(), "node-1", "log", "stderr.log");
    rmSync(log);
    mkdirSync(log);
    diverge(0);
    await expect.poll(states).toEqual(["failed", "running"]);
    expect(launcher.nodes[0]?.reason).toBe(`${log}: EISDIR`);
    rmdirSync(log);
    await launcher.startNode(1);
    await expect.poll(states).toEqual(["running", "running"]);
  });
});
