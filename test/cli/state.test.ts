// The state file of a cluster, and which process a pid means.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { identify, isAlive, signalProcess } from "../../src/cli/process-identity.ts";
import { createSignalRule } from "../../src/cli/signals.ts";
import { liveState, readState, removeState, stateFileOf, writeState } from "../../src/cli/state-file.ts";

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

describe("state file", () => {
  const state = () => ({
    cluster: "local",
    startedAt: "2026-01-01T00:00:00.000Z",
    launcher: identify(process.pid),
    nodes: [{ nodeId: 1, process: identify(process.pid), address: "ws://127.0.0.1:1", dataDir: "d", logFile: "l" }],
  });

  it("comes back as it was written", () => {
    writeState(folder, state());
    expect(readState(folder)).toEqual({ kind: "found", state: { version: 1, ...state() } });
    expect(liveState(folder)?.cluster).toBe("local");
    removeState(folder);
    expect(readState(folder)).toEqual({ kind: "none" });
  });

  it("of dead processes is no running cluster", () => {
    const gone = { ...identify(process.pid), startTicks: 1 };
    writeState(folder, {
      ...state(),
      launcher: gone,
      nodes: state().nodes.map((node) => ({ ...node, process: gone })),
    });
    expect(liveState(folder)).toBeUndefined();
  });

  it.each([
    "",
    "{",
    "[]",
    "null",
    '{"version":1}',
    '{"version":1,"launcher":{"pid":-1,"startTicks":1,"bootId":""},"nodes":[]}',
  ])("refuses %j", (text) => {
    writeFileSync(stateFileOf(folder), text);
    expect(readState(folder).kind).toBe("unreadable");
  });

  it("of a newer version is named and not used", () => {
    writeFileSync(stateFileOf(folder), JSON.stringify({ ...state(), version: 2 }));
    expect(readState(folder)).toEqual({ kind: "unreadable", reason: "its version is 2, this build reads 1" });
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
