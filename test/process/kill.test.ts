// `kill -9` of a real node in mid-stream, again and again: what was acknowledged is there, byte-identical, at its offset, once.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { ensureBuilt } from "../cli/support.ts";
import { KillWorld, Load, PARTITIONS } from "./load.ts";

/** Of each acks level. Nights may ask for more. */
const KILLS = Number(process.env["OTTLA_KILLS"] ?? 3);

let world: KillWorld;
beforeAll(ensureBuilt);
afterEach(() => world.end());

const superblocks = () =>
  readdirSync(world.node.dataDir)
    .filter((name) => name.startsWith("superblock"))
    .map((name) => readFileSync(join(world.node.dataDir, name)).toString("hex"))
    .join();

const filesBelow = (directory: string): string[] =>
  readdirSync(directory, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? filesBelow(join(directory, entry.name)) : [join(directory, entry.name)],
  );

describe("kill -9 in mid-stream", () => {
  for (const acks of ["all", 1] as const) {
    it(`keeps what was acknowledged with acks=${acks}, over ${KILLS} kills`, {
      timeout: 300_000 + KILLS * 40_000,
    }, async () => {
      world = await KillWorld.start(`mid-stream ${acks}`);
      const { client, ledger, rng } = world;
      const load = new Load(ledger, client, { acks, rng });
      const before = superblocks();
      const segments = () => filesBelow(world.node.dataDir).filter((path) => path.endsWith(".log")).length;
      // The kills hit what they were meant to hit: requests under way, between checkpoints, over several segments. With acks=all those are sent
      // again until their outcome is known.
      const hasHit = () => (acks === 1 ? ledger.unknown > 0 : load.sentAgain > 0) && segments() > PARTITIONS + 1;
      for (let kill = 0; kill < KILLS || (!hasHit() && kill < 4 * KILLS); kill++) {
        const stop = new AbortController();
        const done = load.run(stop.signal);
        await world.killInMidStream();
        await world.node.start();
        stop.abort();
        await done;
        await world.audit();
      }
      await world.node.stop();
      await world.node.start();
      const found = await world.audit();
      console.log(
        `acks=${acks}: ${ledger.acknowledged} acknowledged, ${ledger.unknown} unknown, ${ledger.failed} refused, ${found} there`,
      );
      expect(ledger.refusals).toEqual([]);
      expect(found).toBeGreaterThanOrEqual(ledger.acknowledged);
      expect(found).toBeLessThanOrEqual(ledger.acknowledged + ledger.unknown);
      expect(hasHit(), `${ledger.unknown} unknown, ${load.sentAgain} sent again, ${segments()} segments`).toBe(true);
      if (acks === "all") expect(ledger.unknown).toBe(0);
      expect(superblocks()).not.toBe(before);
      world.expectAlarms();
    });
  }
});
