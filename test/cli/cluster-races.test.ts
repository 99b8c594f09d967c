// Commands on a local cluster that something else happens beside: a new start behind `cluster down`, a process of its own under `cluster wipe`.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { clusterDown } from "../../src/cli/commands/cluster.ts";
import { clusterWipe } from "../../src/cli/commands/cluster-wipe.ts";
import { createOutput } from "../../src/cli/output.ts";
import { identify } from "../../src/cli/process-identity.ts";
import { readState, stateFileOf, writeState } from "../../src/cli/state-file.ts";
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

describe("cluster wipe", () => {
  it("deletes nothing of any node while one is in use", async () => {
    const [first = "", second = ""] = [1, 2].map((nodeId) => join(folder.path, `node-${nodeId}`, "data"));
    for (const data of [first, second]) mkdirSync(data, { recursive: true });
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
});
