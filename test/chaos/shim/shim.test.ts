// The preload shim's switches on a process that writes: each fault strikes as said, is counted, and ends when it is switched off.
import { spawnSync } from "node:child_process";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { shimSource } from "../../../src/chaos/shim/build.ts";
import { DROP_ALL, KEEP_ALL } from "../../../src/chaos/shim/choices.ts";
import { COUNTER_SLOTS, FAULT_SLOTS, NO_FAULTS, type ShimControl } from "../../../src/chaos/shim/control.ts";
import { losePower } from "../../../src/chaos/shim/power-loss.ts";
import { prepareShim } from "../../../src/chaos/shim/setup.ts";
import { createRng } from "../../../src/base/rng.ts";
import { canPreload } from "./can-preload.ts";

interface Rig {
  readonly dataDir: string;
  readonly undoDir: string;
  readonly control: ShimControl;
  /** Runs a piece of a program under the shim: `fs`, `dir` and `say(value)` are there. Returns what it said. */
  run(program: string): unknown[];
}

async function openRig(): Promise<Rig> {
  const directory = mkdtempSync(join(tmpdir(), "ottla-shim-test-"));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const dataDir = join(directory, "data");
  mkdirSync(dataDir);
  const { env, control } = (await prepareShim(directory)).nodeFor(1, dataDir);
  onTestFinished(() => control.close());
  const head = `const fs = require("fs"); const dir = ${JSON.stringify(dataDir)};
    const say = (value) => process.stdout.write(JSON.stringify(value) + "\\n");
    const code = (act) => { try { return act() ?? "ok"; } catch (error) { return error.code; } };`;
  const run = (program: string): unknown[] => {
    const child = spawnSync(process.execPath, ["-e", `${head}\n${program}`], {
      encoding: "utf8",
      env: { ...process.env, ...env },
      timeout: 120_000,
    });
    expect(child.stderr).toBe("");
    expect(child.status).toBe(0);
    return child.stdout
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as unknown);
  };
  return { dataDir, undoDir: join(directory, "shim-1", "undo"), control, run };
}

const WRITE_AND_SYNC = `
  const fd = fs.openSync(dir + "/f", "w+");
  say(code(() => fs.writeSync(fd, Buffer.alloc(1000, 7), 0, 1000, 0)));
  say(code(() => fs.fdatasyncSync(fd)));
  say(code(() => fs.fsyncSync(fd)));`;

describe.runIf(canPreload)("the preload shim", () => {
  test("lets everything pass while nothing is switched on, and counts it", async () => {
    const { control, run, dataDir } = await openRig();
    expect(control.faults()).toEqual(NO_FAULTS);
    expect(run(WRITE_AND_SYNC)).toEqual([1000, "ok", "ok"]);
    const { writes, syncs, undoLost, unsupported, writesFailed, syncsFailed, clockReads } = control.counters();
    expect({ writes, syncs }).toEqual({ writes: 1, syncs: 2 });
    expect({ undoLost, unsupported, writesFailed, syncsFailed, clockReads }).toEqual({
      ...{ undoLost: 0, unsupported: 0, writesFailed: 0, syncsFailed: 0, clockReads: 0 },
    });
    expect(readFileSync(join(dataDir, "f"))).toEqual(Buffer.alloc(1000, 7));
  });

  test("fails so many syncs with EIO as it is told, or all", async () => {
    const { control, run } = await openRig();
    control.set({ failSyncs: 1 });
    expect(run(WRITE_AND_SYNC)).toEqual([1000, "EIO", "ok"]);
    control.set({ failSyncs: -1 });
    expect(run(WRITE_AND_SYNC)).toEqual([1000, "EIO", "EIO"]);
    control.clear();
    expect(run(WRITE_AND_SYNC)).toEqual([1000, "ok", "ok"]);
    expect(control.counters().syncsFailed).toBe(3);
  });

  test("fails and shortens writes, and only of the files that it is told", async () => {
    const { control, run, dataDir } = await openRig();
    control.set({ failWrites: -1, match: "/f" });
    expect(run(WRITE_AND_SYNC)[0]).toBe("EIO");
    control.set({ match: "/another" });
    expect(run(WRITE_AND_SYNC)[0]).toBe(1000);
    control.clear();
    control.set({ shortWrites: true });
    // libuv goes on with the rest by itself.
    expect(run(WRITE_AND_SYNC)[0]).toBe(1000);
    expect(readFileSync(join(dataDir, "f"))).toEqual(Buffer.alloc(1000, 7));
    expect(control.counters().writesFailed).toBe(1);
    expect(control.counters().writesShortened).toBeGreaterThan(0);
  });

  test("is a full disk for what grows, not for what is overwritten", async () => {
    const { control, run, dataDir } = await openRig();
    control.set({ spaceLeftBytes: 600 });
    const program = `
      const fd = fs.openSync(dir + "/f", "w+");
      const write = (position) => say(code(() => fs.writeSync(fd, Buffer.alloc(1000, 7), 0, 1000, position)));
      write(0); write(600); write(0); fs.writeSync(fd, Buffer.alloc(600), 0, 600, 0);`;
    expect(run(program)).toEqual([600, "ENOSPC", 600]);
    expect(statSync(join(dataDir, "f")).size).toBe(600);
    expect(control.counters().writesRefused).toBeGreaterThan(0);
    expect(control.faults().spaceLeftBytes).toBe(0);
  });

  test("slows syncs and writes", async () => {
    const { control, run } = await openRig();
    control.set({ syncDelayMs: 120, writeDelayMs: 80 });
    const [ms] = run(`const fd = fs.openSync(dir + "/f", "w+"); const start = performance.now();
      fs.writeSync(fd, "x"); fs.fsyncSync(fd); say(performance.now() - start);`);
    expect(ms).toBeGreaterThanOrEqual(200);
    expect(control.counters()).toMatchObject({ syncsDelayed: 1, writesDelayed: 1 });
  });

  test("shifts the wall clock of the process, not the monotonic one", async () => {
    const { control, run } = await openRig();
    control.set({ clockOffsetMs: -86_400_500 });
    const start = process.hrtime();
    const [wall, mono] = run(`say(Date.now()); say(process.hrtime()[0]);`);
    expect(Math.abs(Number(wall) - (Date.now() - 86_400_500))).toBeLessThan(30_000);
    expect(Number(mono) - start[0]).toBeLessThan(30);
    expect(control.counters().clockReads).toBeGreaterThan(0);
  });

  test("keeps after a failed sync what it should have covered unsettled, also when a later one succeeds", async () => {
    const { control, run, dataDir, undoDir } = await openRig();
    run(`const fd = fs.openSync(dir + "/f", "w+"); fs.writeSync(fd, "old"); fs.fsyncSync(fd);
      const d = fs.openSync(dir, "r"); fs.fsyncSync(d);`);
    control.set({ failSyncs: 1 });
    run(`const fd = fs.openSync(dir + "/f", "r+"); fs.writeSync(fd, "new", 0); code(() => fs.fsyncSync(fd));
      fs.writeSync(fd, "more", 3); fs.fsyncSync(fd);`);
    expect(readFileSync(join(dataDir, "f"), "latin1")).toBe("newmore");
    expect(losePower({ dataDir, undoDir }, DROP_ALL)).toMatchObject({ pending: 1, dropped: 1, problems: [] });
    expect(readFileSync(join(dataDir, "f"), "latin1")).toBe("oldmore");
  });

  test("says when something changed the files and did not pass it", async () => {
    const { run, dataDir, undoDir, control } = await openRig();
    // The very last change may not have been made when a process is killed: it is looked at only when another one follows.
    const write = `fs.writeFileSync(dir + "/f", "abcdef"); fs.mkdirSync(dir + "/after-" + process.pid)`;
    run(write);
    appendFileSync(join(dataDir, "f"), "!");
    expect(losePower({ dataDir, undoDir }, KEEP_ALL).problems).toHaveLength(1);
    run(write);
    writeFileSync(join(dataDir, "f"), "abcdeX");
    expect(losePower({ dataDir, undoDir }, KEEP_ALL).problems).toHaveLength(1);
    run(write);
    rmSync(join(dataDir, "f"));
    expect(losePower({ dataDir, undoDir }, KEEP_ALL).problems.length).toBeGreaterThan(0);
    run(write);
    appendFileSync(join(dataDir, "f"), "!");
    await control.settle();
    expect(losePower({ dataDir, undoDir }, DROP_ALL)).toEqual({
      pending: 0,
      kept: 0,
      dropped: 0,
      torn: 0,
      problems: [],
    });
  });

  test("refuses a power loss after a change that it cannot take back", async () => {
    const { control, run } = await openRig();
    run(`fs.writeFileSync(dir + "/f", "x"); fs.symlinkSync("f", dir + "/link");`);
    await expect(control.powerLoss(createRng(1))).rejects.toThrow(/1 not supported/);
  });

  test("has the slots that the control file has", () => {
    const source = readFileSync(shimSource(), "utf8");
    const [, list] = /enum \{\n\s+FAIL_SYNCS([\s\S]*?)\n\};/.exec(source) ?? [];
    const slots = new Map<string, number>();
    let next = 0;
    for (const entry of `FAIL_SYNCS${list ?? ""}`.split(",")) {
      const [name = "", value] = entry.split("=").map((part) => part.trim());
      next = value === undefined ? next : Number(value);
      slots.set(name.replaceAll("_", ""), next++);
    }
    const upper = (name: string) =>
      name.replace(/Bytes$/, (word) => (name === "spaceLeftBytes" ? "" : word)).toUpperCase();
    for (const [name, slot] of Object.entries({ ...FAULT_SLOTS, ...COUNTER_SLOTS }))
      expect([name, slots.get(upper(name))]).toEqual([name, slot]);
    expect(existsSync(shimSource())).toBe(true);
  });
});
