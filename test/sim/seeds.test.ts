// Whole clusters under faults: a few seeds, and the ones that failed once.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import type { SeedOptions } from "../../src/sim/run-seed.ts";
import { bundledRuns } from "./bundled-runs.ts";

const { createSimHost, faultOf, runSeed } = await bundledRuns();
const host = await createSimHost();
const OPTIONS: SeedOptions = { host, codecs: host.codecs, baseConfig: host.baseConfig };
const kept = readFileSync(fileURLToPath(new URL("seeds.txt", import.meta.url)), "utf8")
  .split("\n")
  .filter((line) => /^\d/.test(line))
  .map((line) => Number.parseInt(line, 10));

/** One node, and three nodes twice, that are soon through: the others are run by `npm run fresh-seeds`. */
const QUICK_SEEDS = [2, 22, 25];

describe("whole runs", { timeout: 1_800_000 }, () => {
  it.each(QUICK_SEEDS)("seed %i breaks nothing", async (seed) => {
    expect(
      faultOf(await runSeed(seed, { ...OPTIONS, adjust: (swarm) => ({ ...swarm, safetyMs: 6000 }) })),
    ).toBeUndefined();
  });

  it.each(kept)("seed %i, which failed once, breaks nothing", async (seed) => {
    expect(faultOf(await runSeed(seed, OPTIONS))).toBeUndefined();
  });

  it("a seed gives the same run each time, and another seed another one", async () => {
    const short: SeedOptions = { ...OPTIONS, adjust: (swarm) => ({ ...swarm, safetyMs: 2000 }) };
    const [first, again, other] = [await runSeed(22, short), await runSeed(22, short), await runSeed(25, short)];
    expect(again).toEqual(first);
    expect(other.hash).not.toBe(first.hash);
  });

  it("M36: the canary fails", async () => {
    const result = await runSeed(1, { ...OPTIONS, isCanary: true, adjust: (swarm) => ({ ...swarm, safetyMs: 500 }) });
    expect(result.failure).toContain("canary");
    expect(result.notCounted).toBeDefined();
  });
});
