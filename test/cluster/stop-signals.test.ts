// Scripts that start clusters leave none behind when they are told to end, whoever of their processes hears it.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { buildDirectory } from "../../src/platform/package-files.ts";
import { ensureBuilt } from "../cli/support.ts";

const directory = mkdtempSync(join(tmpdir(), "ottla-stop-signals-"));
const scripts: ChildProcess[] = [];
beforeAll(ensureBuilt);
afterEach(() => {
  scripts.splice(0).forEach((child) => void child.kill("SIGKILL"));
  // Of a failed test.
  for (const pid of processesIn(directory)) process.kill(Number(pid), "SIGKILL");
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** Whose temporary files are there: whoever is started by one of them has its environment. */
function processesIn(path: string): readonly string[] {
  return readdirSync("/proc").filter((pid) => {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return false;
    try {
      return readFileSync(`/proc/${pid}/environ`, "utf8").includes(`TMPDIR=${path}`);
    } catch {
      return false;
    }
  });
}

it.each([
  ["demo", ["--runs", "tail"]],
  ["demo", ["--runs", "rolling"]],
  ["failover", ["--kills", "1", "--kinds", "stop"]],
])("%s %j", async (script, flags) => {
  const temporary = mkdtempSync(join(directory, "tmp-"));
  const dist = process.env["OTTLA_TEST_DIST"] ?? buildDirectory();
  const child = spawn(process.execPath, ["--import", "tsx", `scripts/${script}.ts`, ...flags], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, TMPDIR: temporary, OTTLA_TEST_DIST: dist },
  });
  scripts.push(child);
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (said += chunk.toString()));
  // The script, who starts the nodes, and the nodes.
  await expect.poll(() => processesIn(temporary).length, { timeout: 150_000 }).toBeGreaterThanOrEqual(5);
  child.kill("SIGTERM");
  await once(child, "close");
  expect(child.exitCode, said).toBe(143);
  await expect.poll(() => processesIn(temporary)).toEqual([]);
  expect(readdirSync(temporary).filter((name) => name.startsWith("ottla-"))).toEqual([]);
});
