// Whole clusters with a planted bug: each is found by an invariant that it breaks, on the seed that is known to show it or one soon after.
import { afterEach, describe, expect, it } from "vitest";
import type { SeedOptions } from "../../src/sim/run-seed.ts";
import { bundledRuns } from "./bundled-runs.ts";

const { activateMutants, createSimHost, KNOWN_BUDGET, knownScene, MUTANTS, runSeed } = await bundledRuns();
const host = await createSimHost();
const OPTIONS: SeedOptions = { host, codecs: host.codecs, baseConfig: host.baseConfig };

afterEach(() => activateMutants([]));

describe("planted bugs", { timeout: 1_800_000 }, () => {
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
