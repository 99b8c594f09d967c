// T14: a real node's disk is filled to the last block and freed again, over and over: the node stays up, reads are served, produce is refused as one
// that may be tried again, and is taken again within 10 s; nothing that was acknowledged is lost and no torn batch is ever seen.
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { fillDisk } from "../../src/chaos/faults/space.ts";
import { createRng } from "../../src/base/rng.ts";
import { ensureBuilt } from "../cli/support.ts";
import { canMount, type DiskLoad, DiskWorld, tailOf, until } from "./disk-world.ts";

const MiB = 1024 * 1024;
/** Of each file system. T14 asks for 200: OTTLA_DISK_CYCLES=200. */
const CYCLES = Number(process.env["OTTLA_DISK_CYCLES"] ?? 2);
const BACK_MS_MAX = 10_000;
/** Between two deaths on the full disk, and between two topics deleted on it. */
const KILL_EVERY = 3;
const DELETE_EVERY = 3;
const REFUSED_MS = 400;
const SETTINGS = {
  // So that nothing is refused before a write has met the full disk.
  "disk.low.space.bytes": 0,
  "disk.reserve.bytes": MiB,
  "journal.bytes": MiB,
  "segment.bytes": MiB,
  "checkpoint.interval.ms": 500,
};

let world: DiskWorld | undefined;
beforeAll(ensureBuilt);
afterEach(async () => {
  await world?.close();
  world = undefined;
});

/** Milliseconds from the moment at which there is space again to the first record that is taken. */
async function untilBack(load: DiskLoad): Promise<number> {
  const startedMs = performance.now();
  await until(async () => (await load.probe(REFUSED_MS)) === "taken", "produce is taken again");
  return performance.now() - startedMs;
}

for (const kind of ["tmpfs", "loop"] as const) {
  const isPossible = canMount(kind);
  if (!isPossible) console.warn(`NOT RUN: a full disk on ${kind}: no right to mount one`);
  describe.skipIf(!isPossible)(`a full ${kind === "tmpfs" ? "tmpfs" : "ext4"}`, () => {
    it(`T14: is left as if nothing had been, ${CYCLES} times`, { timeout: 300_000 + CYCLES * 30_000 }, async () => {
      world = await DiskWorld.open({ mount: { kind, sizeBytes: 96 * MiB }, settings: SETTINGS });
      const { node, client } = world;
      const rng = createRng(7).fork(kind);
      const backMs: number[] = [];
      const reasons = new Set<string>();
      let records = 0;
      let previous: string | undefined;
      for (let cycle = 0; cycle < CYCLES; cycle++) {
        const load = await world.load(`t${cycle}`);
        await load.goesOn(100 + rng.below(400));
        const free = fillDisk(node.dataDir);
        await until(async () => {
          const became = await load.probe(REFUSED_MS);
          if (typeof became !== "object") return false;
          reasons.add(became.refused.replaceAll(/\d+/g, "n"));
          // A machine that stands still for so long lets it time out before the node was even asked.
          return became.refused.includes("free space is below");
        }, "produce is refused");
        expect(await load.readSome(50)).toBe(50);
        if (previous !== undefined && cycle % DELETE_EVERY === 0) {
          await client.admin().deleteTopic(previous);
          previous = undefined;
        }
        if (cycle % KILL_EVERY === KILL_EVERY - 1) await dieOnFullDisk(world, load, free);
        else free();
        backMs.push(await untilBack(load));
        await load.goesOn(50);
        await load.stop();
        records += await load.audit(cycle === 0);
        if (previous !== undefined) await client.admin().deleteTopic(previous);
        previous = load.topic;
      }
      expect(node.exits.filter(({ isExpected }) => !isExpected)).toEqual([]);
      const worst = Math.max(...backMs);
      console.log(`${kind}: ${CYCLES} cycles, ${records} records, back after ${Math.round(worst)} ms at most`);
      expect(reasons.size).toBeGreaterThan(0);
      for (const reason of reasons) expect(reason).toMatch(/not acknowledged within n ms(: free space is below|$)/);
      expect(worst).toBeLessThanOrEqual(BACK_MS_MAX);
    });
  });
}

/** Killed while nothing can be written, and started when there is space again. */
async function dieOnFullDisk({ node }: DiskWorld, load: DiskLoad, free: () => void): Promise<void> {
  await node.kill();
  load.ledger.killed();
  free();
  expect(await node.start(), tailOf(node)).toBe(true);
}
