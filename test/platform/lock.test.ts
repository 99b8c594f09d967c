import { spawn } from "node:child_process";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readBootId } from "../../src/platform/host.ts";
import { lockDirectory } from "../../src/platform/lock.ts";

let directory = "";
beforeEach(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "ottla-lock-"));
});
afterEach(async () => {
  await rm(directory, { recursive: true });
});

/** Pid of a process that has ended. */
async function deadPid(): Promise<number> {
  const child = spawn(process.execPath, ["-e", ""]);
  await new Promise((resolve) => child.once("exit", resolve));
  return child.pid ?? 0;
}

describe("the lock of a data directory", () => {
  it("a dead owner's lock is taken over with the next number, and its file goes", async () => {
    await writeFile(path.join(directory, "lock.3"), `${await deadPid()}\n123\n${readBootId()}\nabc\n`);
    const outcome = await lockDirectory(directory);
    expect(outcome.kind).toBe("acquired");
    expect(await readdir(directory)).toEqual(["lock.4"]);
    if (outcome.kind === "acquired") await outcome.release();
    expect(await readdir(directory)).toEqual([]);
  });

  it("a live owner keeps it and is named", async () => {
    const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"]);
    try {
      await writeFile(path.join(directory, "lock.1"), `${child.pid}\n\n${readBootId()}\nabc\n`);
      expect(await lockDirectory(directory)).toEqual({ kind: "held", ownerPid: child.pid });
      expect(await readdir(directory)).toEqual(["lock.1"]);
    } finally {
      child.kill();
    }
  });

  it("a pid that was used again, or another boot's, does not hold it", async () => {
    await writeFile(path.join(directory, "lock.1"), `${process.pid}\n1\n${readBootId()}\nabc\n`);
    const reused = await lockDirectory(directory);
    expect(reused.kind).toBe("acquired");
    if (reused.kind === "acquired") await reused.release();
    await writeFile(path.join(directory, "lock.1"), `${process.pid}\n\n00000000-0000-0000-0000-000000000000\nabc\n`);
    expect((await lockDirectory(directory)).kind).toBe("acquired");
  });

  it("a lock file that says nothing holds nothing", async () => {
    await writeFile(path.join(directory, "lock.7"), "");
    expect((await lockDirectory(directory)).kind).toBe("acquired");
    expect(await readdir(directory)).toEqual(["lock.8"]);
  });

  it("of many that want it at once, at most one gets it", async () => {
    await writeFile(path.join(directory, "lock.1"), `${await deadPid()}\n123\n${readBootId()}\nabc\n`);
    const outcomes = await Promise.all(Array.from({ length: 20 }, () => lockDirectory(directory)));
    expect(outcomes.filter((outcome) => outcome.kind === "acquired").length).toBeLessThanOrEqual(1);
    expect((await readdir(directory)).length).toBeLessThanOrEqual(1);
  });
});
