// Writes while a sync is under way, from several threads of one process: the sync covers those that had ended when it began, and no other.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { DROP_ALL } from "../../../src/chaos/shim/choices.ts";
import { COUNTER_SLOTS } from "../../../src/chaos/shim/control.ts";
import { losePower } from "../../../src/chaos/shim/power-loss.ts";
import { prepareShim } from "../../../src/chaos/shim/setup.ts";
import { canPreload } from "./can-preload.ts";

const SLOT_BYTES = 2048;
const SLOTS = 4000;
const SYNC_DELAY_MS = 25;
const SYNCS = 12;
/** Of one sync: on a slow disk the first ones would take them all, and none was left to write beside the last. */
const SLOTS_PER_SYNC = Math.floor(SLOTS / SYNCS);

/**
 * Four writers and a syncer; what begins (i, b) and ends (w, e) is written down by the one thread that sees both. A sync that is called
 * may begin later, in its thread: (d) the shim is in its delay.
 */
const PROGRAM = `
  const fs = require("fs");
  const [dir, progressFile] = process.argv.slice(1);
  const progress = fs.openSync(progressFile, "w");
  const say = (what, number) => fs.writeSync(progress, what + number + "\\n");
  const file = fs.openSync(dir + "/f", "w+");
  fs.writeSync(file, Buffer.alloc(${SLOTS * SLOT_BYTES}, 1), 0, ${SLOTS * SLOT_BYTES}, 0);
  fs.fsyncSync(file);
  fs.fsyncSync(fs.openSync(dir, "r"));
  let slot = 0;
  const control = fs.openSync(process.env.PRELOAD_SHIM_CONTROL, "r");
  const counter = Buffer.alloc(8);
  let delayed = 0n;
  const write = () => {
    if (slot >= number * ${SLOTS_PER_SYNC}) return void setTimeout(write, 1);
    const mine = slot++;
    fs.readSync(control, counter, 0, 8, ${COUNTER_SLOTS.syncsDelayed * 8});
    if (counter.readBigInt64LE() > delayed) say("d", mine);
    delayed = counter.readBigInt64LE();
    say("i", mine);
    const bytes = Buffer.alloc(${SLOT_BYTES}, 2);
    fs.write(file, bytes, 0, bytes.length, mine * ${SLOT_BYTES}, (error) => {
      if (error) throw error;
      say("w", mine);
      setTimeout(write, 1);
    });
  };
  let number = 0;
  for (let writer = 0; writer < 4; writer++) write();
  const sync = () => {
    const mine = number++;
    say("b", mine);
    fs.fdatasync(file, (error) => {
      if (error) throw error;
      say("e", mine);
      // At once: no further sync may cover what was written beside this one.
      if (number === ${SYNCS}) process.kill(process.pid, "SIGKILL");
      // With some written between two syncs: each has something to cover and something not to.
      setTimeout(sync, 8);
    });
  };
  sync();`;

interface Seen {
  /** Slots that had been written when a sync began that succeeded. */
  readonly synced: ReadonlySet<number>;
  /** Slots whose write began when the last sync had begun for certain. */
  readonly unsynced: ReadonlySet<number>;
  readonly syncs: number;
}

function seenIn(progress: string): Seen {
  const written = new Set<number>();
  const writtenAt = new Map<number, ReadonlySet<number>>();
  let [synced, unsynced, syncs]: [ReadonlySet<number>, Set<number>, number] = [new Set(), new Set(), 0];
  let isUnderWay = false;
  // The last line may be cut.
  for (const line of progress.split("\n").slice(0, -1)) {
    const number = Number(line.slice(1));
    if (line.startsWith("d")) isUnderWay = true;
    else if (line.startsWith("i")) {
      if (isUnderWay) unsynced.add(number);
    } else if (line.startsWith("w")) written.add(number);
    else if (line.startsWith("b")) {
      writtenAt.set(number, new Set(written));
      unsynced = new Set();
      isUnderWay = false;
    } else {
      synced = writtenAt.get(number) ?? synced;
      syncs++;
    }
  }
  return { synced, unsynced, syncs };
}

describe.runIf(canPreload)("writes beside a sync", () => {
  test("are not covered by it", async () => {
    const directory = mkdtempSync(join(tmpdir(), "ottla-shim-test-"));
    onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
    const [dataDir, progressFile] = [join(directory, "data"), join(directory, "progress")];
    mkdirSync(dataDir);
    const { env, control } = (await prepareShim(directory)).nodeFor(1, dataDir);
    onTestFinished(() => control.close());
    control.set({ syncDelayMs: SYNC_DELAY_MS });
    const child = spawn(process.execPath, ["-e", PROGRAM, dataDir, progressFile], { env: { ...process.env, ...env } });
    await once(child, "exit");
    expect(child.signalCode).toBe("SIGKILL");
    const { synced, unsynced, syncs } = seenIn(readFileSync(progressFile, "latin1"));
    expect(syncs).toBe(SYNCS);
    expect(synced.size, "nothing synced: nothing shown").toBeGreaterThan(20);
    expect(unsynced.size, "nothing unsynced: nothing shown").toBeGreaterThan(0);
    const { problems } = losePower({ dataDir, undoDir: join(directory, "shim-1", "undo") }, DROP_ALL);
    expect(problems).toEqual([]);
    const bytes = readFileSync(join(dataDir, "f"));
    const isNew = (slot: number) => {
      const held = bytes.subarray(slot * SLOT_BYTES, (slot + 1) * SLOT_BYTES);
      expect(held.every((byte) => byte === held[0])).toBe(true);
      return held[0] === 2;
    };
    expect([...synced].filter((slot) => !isNew(slot))).toEqual([]);
    expect([...unsynced].filter(isNew)).toEqual([]);
  });
});
