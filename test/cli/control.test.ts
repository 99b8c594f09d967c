// The launcher's socket: one request, one answer, only for its owner.
import { existsSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { connect } from "node:net";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CommandFailure } from "../../src/cli/failure.ts";
import { askLauncher, type ControlDoor, type ControlHandler, openControl } from "../../src/cli/launcher/control.ts";
import { identify } from "../../src/cli/process-identity.ts";
import type { NodeState } from "../../src/cli/state-file.ts";
import { temporaryFolder } from "./support.ts";

let folder = temporaryFolder();
const doors: ControlDoor[] = [];

beforeEach(() => {
  folder = temporaryFolder();
});
afterEach(() => {
  for (const door of doors.splice(0)) door.close();
  folder.remove();
});

async function open(handle: ControlHandler, dataDir = folder.path): Promise<string> {
  const door = await openControl(dataDir, handle);
  doors.push(door);
  return door.path;
}

const NODE: NodeState = {
  nodeId: 2,
  process: identify(process.pid),
  state: "starting",
  since: "2026-01-01T00:00:00.000Z",
  reason: null,
  address: "ws://127.0.0.1:1",
  dataDir: "d",
  logFile: "l",
};

/** What comes back for these bytes. */
function raw(path: string, bytes: string): Promise<string> {
  return new Promise((resolve) => {
    let text = "";
    const socket = connect(path, () => socket.write(bytes));
    socket.on("data", (chunk: Buffer) => (text += chunk.toString()));
    socket.on("error", () => undefined);
    socket.on("close", () => resolve(text));
  });
}

describe("the launcher's socket", () => {
  it("hands a request over and gives the answer back", async () => {
    const seen: unknown[] = [];
    const path = await open((request) => {
      seen.push(request);
      return Promise.resolve([NODE]);
    });
    expect(path).toBe(join(folder.path, "launcher.sock"));
    expect(await askLauncher(path, { kind: "start", nodeIds: [2] }, 5000)).toEqual([NODE]);
    expect(seen).toEqual([{ version: 1, kind: "start", nodeIds: [2] }]);
  });

  it("is for its owner alone", async () => {
    expect(statSync(await open(() => Promise.resolve([]))).mode & 0o777).toBe(0o600);
  });

  it("gives a refusal back as it was", async () => {
    const failure = { code: "STOPPING", message: "it stops", hint: "wait", exitCode: 1 };
    const path = await open(() => Promise.reject(new CommandFailure(failure)));
    await expect(askLauncher(path, { kind: "restart", nodeIds: [1] }, 5000)).rejects.toMatchObject(failure);
  });

  it.each([
    '{"version":2,"kind":"start","nodeIds":[1]}',
    '{"version":1,"kind":"eat","nodeIds":[1]}',
    '{"version":1,"kind":"start","nodeIds":["1"]}',
    "null",
  ])("does not carry out %s", async (line) => {
    const path = await open(() => Promise.reject(new Error("carried out")));
    expect(JSON.parse(await raw(path, `${line}\n`))).toMatchObject({
      kind: "failed",
      failure: { code: "LAUNCHER_OTHER_VERSION" },
    });
  });

  it("survives nonsense and what never ends", async () => {
    const path = await open(() => Promise.resolve([NODE]));
    expect(JSON.parse(await raw(path, "}\n"))).toMatchObject({ kind: "failed" });
    expect(await raw(path, "x".repeat(200_000))).toBe("");
    expect(await askLauncher(path, { kind: "start", nodeIds: [2] }, 5000)).toEqual([NODE]);
  });

  it("a launcher that does not answer is given up in time", async () => {
    const path = await open(() => new Promise(() => undefined));
    const startedMs = performance.now();
    await expect(askLauncher(path, { kind: "start", nodeIds: [1] }, 200)).rejects.toMatchObject({
      code: "LAUNCHER_SILENT",
    });
    expect(performance.now() - startedMs).toBeLessThan(5000);
    await expect(askLauncher(join(folder.path, "none"), { kind: "start", nodeIds: [1] }, 200)).rejects.toMatchObject({
      code: "LAUNCHER_SILENT",
      exitCode: 3,
    });
  });

  it("takes the place of one that was left behind, and goes away with the launcher", async () => {
    const first = await openControl(folder.path, () => Promise.resolve([]));
    const path = await open(() => Promise.resolve([NODE]));
    expect(path).toBe(first.path);
    expect(await askLauncher(path, { kind: "start", nodeIds: [2] }, 5000)).toEqual([NODE]);
    doors.splice(0)[0]?.close();
    expect(existsSync(path)).toBe(false);
  });

  it("lies elsewhere when the directory's path is too long for a socket", async () => {
    const deep = join(folder.path, "d".repeat(60), "e".repeat(60));
    mkdirSync(deep, { recursive: true });
    const path = await open(() => Promise.resolve([NODE]), deep);
    expect(readdirSync(deep)).toEqual([]);
    expect(statSync(dirname(path)).mode & 0o077).toBe(0);
    expect(await askLauncher(path, { kind: "start", nodeIds: [2] }, 5000)).toEqual([NODE]);
    doors.splice(0)[0]?.close();
    expect(existsSync(dirname(path))).toBe(false);
  });
});
