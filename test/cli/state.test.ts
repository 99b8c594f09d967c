// The state file of a cluster, and which process a pid means.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { identify, isAlive, isPaused, signalProcess } from "../../src/cli/process-identity.ts";
import { createSignalRule } from "../../src/cli/signals.ts";
import {
  liveState,
  type NodeState,
  readState,
  removeState,
  stateFileOf,
  writeState,
} from "../../src/cli/state-file.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "ottla-state-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe("process identity", () => {
  it("is alive only with the same start time and boot", () => {
    const own = identify(process.pid);
    expect(isAlive(own)).toBe(true);
    expect(isAlive({ ...own, startTicks: own.startTicks + 1 })).toBe(false);
    expect(isAlive({ ...own, bootId: "another" })).toBe(false);
    expect(isAlive({ ...own, pid: 2 ** 22 + 1 })).toBe(false);
  });

  it("never signals another process that got the pid", () => {
    const own = identify(process.pid);
    expect(signalProcess({ ...own, startTicks: own.startTicks + 1 }, "SIGKILL")).toBe(false);
  });
});

describe("a paused process", () => {
  it("is told from one that runs, and from another process of its pid", async () => {
    const child = spawn(process.execPath, ["-e", "setInterval(() => undefined, 1000)"]);
    const identity = identify(child.pid ?? 0);
    expect(isPaused(identity)).toBe(false);
    signalProcess(identity, "SIGSTOP");
    await expect.poll(() => isPaused(identity)).toBe(true);
    expect(isPaused({ ...identity, startTicks: identity.startTicks + 1 })).toBe(false);
    expect(isAlive(identity)).toBe(true);
    signalProcess(identity, "SIGKILL");
    await expect.poll(() => isAlive(identity)).toBe(false);
    expect(isPaused(identity)).toBe(false);
  });
});

describe("state file", () => {
  const node = (): NodeState => ({
    nodeId: 1,
    process: identify(process.pid),
    state: "running",
    since: "2026-01-01T00:00:00.000Z",
    reason: null,
    address: "ws://127.0.0.1:1",
    dataDir: "d",
    logFile: "l",
  });
  const state = () => ({
    cluster: "local",
    startedAt: "2026-01-01T00:00:00.000Z",
    launcher: identify(process.pid),
    socket: "/s",
    nodes: [node()],
  });

  it("comes back as it was written", () => {
    writeState(folder, state());
    expect(readState(folder)).toEqual({ kind: "found", state: { version: 2, ...state() } });
    expect(liveState(folder)?.cluster).toBe("local");
    removeState(folder);
    expect(readState(folder)).toEqual({ kind: "none" });
  });

  it("of dead processes is no running cluster", () => {
    const gone = { ...identify(process.pid), startTicks: 1 };
    writeState(folder, {
      ...state(),
      launcher: gone,
      nodes: [{ ...node(), process: gone }],
    });
    expect(liveState(folder)).toBeUndefined();
  });

  it.each([
    "",
    "{",
    "[]",
    "null",
    '{"version":2}',
    '{"version":2,"socket":"/s","launcher":{"pid":-1,"startTicks":1,"bootId":""},"nodes":[]}',
    '{"version":2,"socket":"/s","launcher":{"pid":2,"startTicks":1,"bootId":""},"nodes":[{"nodeId":1,"address":"a","state":"happy"}]}',
  ])("refuses %j", (text) => {
    writeFileSync(stateFileOf(folder), text);
    expect(readState(folder).kind).toBe("unreadable");
  });

  it("of a newer version is named and not used", () => {
    writeFileSync(stateFileOf(folder), JSON.stringify({ ...state(), version: 3 }));
    expect(readState(folder)).toEqual({ kind: "unreadable", reason: "its version is 3, this build reads 2" });
  });
});

describe("stop signals", () => {
  it("within 500 ms count as one; a later one insists", () => {
    const seen: string[] = [];
    const rule = createSignalRule({
      onFirst: (signal) => seen.push(`first ${signal}`),
      onAgain: (signal) => seen.push(`again ${signal}`),
    });
    rule("SIGINT", 1000);
    rule("SIGINT", 1004);
    rule("SIGTERM", 1499);
    rule("SIGINT", 1500);
    expect(seen).toEqual(["first SIGINT", "again SIGINT"]);
  });
});
