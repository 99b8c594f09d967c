// Whole clusters under faults: a few seeds, the ones that failed once, and the alarms themselves.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it } from "vitest";
import { KNOWN_BUDGET, knownScene, MUTANTS } from "../../scripts/mutant-plans.ts";
import { createSimHost } from "../../scripts/sim-host.ts";
import { faultOf } from "../../scripts/sim-run.ts";
import { activateMutants } from "../../src/base/mutant.ts";
import { runSeed, type SeedOptions } from "../../src/sim/run-seed.ts";

const host = await createSimHost();
const OPTIONS: SeedOptions = { host, codecs: host.codecs, baseConfig: host.baseConfig };
const kept = readFileSync(fileURLToPath(new URL("seeds.txt", import.meta.url)), "utf8")
  .split("\n")
  .filter((line) => /^\d/.test(line))
  .map((line) => Number.parseInt(line, 10));

afterEach(() => activateMutants([]));

describe("whole runs", { timeout: 300_000 }, () => {
  it.each([1, 2, 3])("seed %i breaks nothing", async (seed) => {
    expect(
      faultOf(await runSeed(seed, { ...OPTIONS, adjust: (swarm) => ({ ...swarm, safetyMs: 6000 }) })),
    ).toBeUndefined();
  });

  it.each(kept)("seed %i, which failed once, breaks nothing", async (seed) => {
    expect(faultOf(await runSeed(seed, OPTIONS))).toBeUndefined();
  });

  it("a seed gives the same run each time, and another seed another one", async () => {
    const short: SeedOptions = { ...OPTIONS, adjust: (swarm) => ({ ...swarm, safetyMs: 2000 }) };
    const [first, again, other] = [await runSeed(4, short), await runSeed(4, short), await runSeed(5, short)];
    expect(again).toEqual(first);
    expect(other.hash).not.toBe(first.hash);
  });

  it("M36: the canary fails", async () => {
    const result = await runSeed(1, { ...OPTIONS, isCanary: true, adjust: (swarm) => ({ ...swarm, safetyMs: 500 }) });
    expect(result.failure).toContain("canary");
    expect(result.notCounted).toBeDefined();
  });
});

describe("planted bugs", { timeout: 600_000 }, () => {
  it.each(MUTANTS)("$id: $about", async (plan) => {
    const { id, invariants, knownSeed } = plan;
    const found = new Set<number>();
    const isCaught = (): boolean => invariants.some((invariant) => found.has(invariant));
    for (let seed = knownSeed; !isCaught() && seed < knownSeed + KNOWN_BUDGET; seed++) {
      activateMutants([id]);
      const [violation] = (await runSeed(seed, { ...OPTIONS, adjust: knownScene(plan) })).violations;
      if (violation !== undefined) found.add(violation.invariant);
    }
    expect(isCaught(), `caught by ${[...found].join() || "nothing"}`).toBe(true);
  });
});
