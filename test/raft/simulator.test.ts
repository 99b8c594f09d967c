import { describe, expect, it } from "vitest";
import { NAMED_RAFT_STATES, runRaftSeed } from "../../src/sim/raft/run-raft-seed.ts";
import { simulatedPerSecond } from "../speed.ts";

const SEEDS = Array.from({ length: 30 }, (_, at) => at + 1);

describe("the simulator of the core alone", () => {
  const results = SEEDS.map((seed) => runRaftSeed(seed));

  it("30 seeds break nothing, and nearly all count", () => {
    expect(results.flatMap(({ seed, violation }) => (violation === undefined ? [] : [{ seed, violation }]))).toEqual(
      [],
    );
    expect(results.filter(({ notCounted }) => notCounted === undefined).length).toBeGreaterThanOrEqual(27);
  });

  // 10380, 12327: a late answer to an earlier leader was taken for a lie. 22795: a learner with an empty log was promoted.
  // 40886: a snapshot that its host had deleted was named again and again.
  it.each([10380, 12327, 22795, 40886])("seed %i, which failed once, breaks nothing", (seed) => {
    expect(runRaftSeed(seed).violation).toBeUndefined();
  });

  it("a seed gives the same run each time, and another seed another one", () => {
    const [first, other] = results;
    expect(runRaftSeed(1)).toEqual(first);
    expect(other?.hash).not.toBe(first?.hash);
  });

  it("does more than 500 simulated seconds in a second of computing", () => {
    const fastest = simulatedPerSecond((seed) => runRaftSeed(seed).simulatedMs, [101, 111, 121], 10);
    console.log(`${Math.round(fastest)} simulated s a second`);
    expect(fastest).toBeGreaterThan(500);
  });

  it.each(NAMED_RAFT_STATES)("reaches: %s", (mark) => {
    expect(results.some(({ marks }) => marks.has(mark))).toBe(true);
  });
});
