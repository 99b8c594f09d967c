// The benchmark with real processes: a sound build loses nothing with acks=all, and one that acknowledges too early is found out.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { faultById, type ReliabilityFault } from "../../../src/bench/reliability/matrix.ts";
import type { ReliabilityParts } from "../../../src/bench/reliability/run.ts";
import { runReliability } from "../../../src/bench/reliability/run.ts";
import { verdictOf } from "../../../src/bench/reliability/verdict.ts";
import { plantedBugsModule } from "../../../src/chaos/build.ts";
import { probeCapabilities } from "../../../src/chaos/capabilities.ts";
import { ensureBuilt } from "../../cli/support.ts";

const LIMIT_MS = 240_000;

async function run(id: string, more: Partial<ReliabilityParts> = {}) {
  ensureBuilt();
  const fault = faultById(id) as ReliabilityFault;
  const settings = {
    ...{ nodes: 3, replicas: 3, minInSync: 2, rounds: 1, beforeMs: 500, faultMs: 4_000, afterMs: 500 },
    ...{ recordsPerSecond: 50, valueBytesMax: 100, seed: 1 },
  };
  const result = await runReliability({
    ...{ faults: [fault], settings, command: "test", say: (line: string) => console.error(line) },
    capabilities: await probeCapabilities(),
    signal: new AbortController().signal,
    ...more,
  });
  return { cells: result.cells, verdict: verdictOf(result) };
}

/** Processes that were told of this directory. */
function processesIn(directory: string): readonly string[] {
  return readdirSync("/proc").filter((pid) => {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return false;
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(directory);
    } catch {
      return false;
    }
  });
}

describe("ottla bench reliability", () => {
  it(
    "leaves no process when it is ended while its cluster starts",
    async () => {
      const keepIn = mkdtempSync(join(tmpdir(), "ottla-reliability-test-"));
      const stop = new AbortController();
      const ended = run("leader-killed", { keepIn, signal: stop.signal });
      try {
        await expect.poll(() => processesIn(keepIn).length, { timeout: 120_000 }).toBeGreaterThan(0);
        stop.abort(new Error("ended"));
        expect((await ended).cells).toEqual([]);
        expect(processesIn(keepIn)).toEqual([]);
        expect(existsSync(join(keepIn, "leader-killed", "history"))).toBe(true);
      } finally {
        rmSync(keepIn, { recursive: true, force: true });
      }
    },
    LIMIT_MS,
  );

  it(
    "finds that acks=all keeps everything where the leader is killed, and measures the time until another one leads",
    async () => {
      const { cells, verdict } = await run("leader-killed");
      expect(verdict).toEqual({ exitCode: 0, broken: [], worthless: [] });
      const ofAll = cells.find(({ acks }) => acks === "all")?.figures;
      expect(ofAll).toMatchObject({ lost: 0, duplicated: 0, outOfOrder: 0, failed: 0, unjudged: 0 });
      expect(ofAll?.sent).toBeGreaterThan(200);
      expect(ofAll?.longestGapMs).toBeGreaterThan(20);
      expect(ofAll?.observed).toEqual([expect.stringContaining("SIGKILL")]);
    },
    LIMIT_MS,
  );

  it(
    "finds out a build that acknowledges acks=all when the leader alone has it",
    async (context) => {
      const planted = { preload: plantedBugsModule(), env: { OTTLA_TEST_PLANTED_BUGS: "M1" } };
      const { cells, verdict } = await run("partition", { planted });
      const reason = cells.find(({ notRun }) => notRun !== null)?.notRun;
      if (typeof reason === "string") return context.skip(`NOT RUN: ${reason}`);
      expect(cells.find(({ acks }) => acks === "all")?.figures?.lost).toBeGreaterThan(0);
      expect(verdict.exitCode).toBe(20);
      expect(verdict.broken.join("\n")).toContain("invariant 1:");
    },
    LIMIT_MS,
  );
});
