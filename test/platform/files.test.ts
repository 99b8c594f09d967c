// What the contract of ports/Files cannot ask for: a process that has no file descriptor left.
import { spawnSync } from "node:child_process";
import { closeSync, openSync, readdirSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { describe, expect, it } from "vitest";
import { createFiles } from "../../src/platform/files.ts";

const prlimit = (...args: string[]) =>
  spawnSync("prlimit", ["--pid", String(process.pid), ...args], { encoding: "utf8" });
const limits = prlimit("--nofile", "--noheadings", "--raw", "--output=SOFT,HARD");
const hasPrlimit = limits.status === 0;
if (!hasPrlimit) console.warn("NOT RUN: a process without file descriptors: no prlimit");

/** Once these are free again, a process can be started that gives the limit back: other files are tested by this process, too. */
const SPARE = 32;

/** Takes every descriptor that there is below a limit not far above those in use. */
function takeAll(): number[] {
  const highest = Math.max(...readdirSync("/proc/self/fd").map(Number));
  prlimit(`--nofile=${highest + SPARE}:`);
  const taken: number[] = [];
  for (;;) {
    try {
      taken.push(openSync("/dev/null", "r"));
    } catch {
      return taken;
    }
  }
}

describe.skipIf(!hasPrlimit)("without a file descriptor (EMFILE)", () => {
  it("D12: opening a file fails, and passes; syncing a directory, which may not fail, does not", async () => {
    const directory = await mkdtemp(path.join(tmpdir(), "ottla-files-"));
    const files = createFiles();
    await files.syncDirectory(directory);
    const taken = takeAll();
    try {
      await expect(files.open(path.join(directory, "file"), "open-or-create")).rejects.toMatchObject({
        kind: "too-many-open",
      });
      await Promise.all([files.syncDirectory(directory), files.syncDirectory(directory)]);
      await expect(files.syncDirectory(path.join(directory, "none"))).rejects.toMatchObject({ kind: "not-found" });
      await files.syncDirectory(directory);
    } finally {
      for (const fd of taken) closeSync(fd);
      expect(prlimit(`--nofile=${limits.stdout.trim().split(/\s+/)[0]}:`).status).toBe(0);
    }
    await (await files.open(path.join(directory, "file"), "open-or-create")).close();
    await rm(directory, { recursive: true });
  });
});
