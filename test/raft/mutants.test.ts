import { afterEach, describe, expect, it } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import { figure8, forgottenVote } from "../../src/sim/raft/directed.ts";
import { runRaftSeed } from "../../src/sim/raft/run-raft-seed.ts";

/** Random seeds that show each planted bug, from `from` on. A change of the core moves them, so a few more are tried. */
const BUDGET = 30;
const RANDOM = [
  { id: "M16", about: "a vote is answered before it is durable", invariant: 37, from: 6 },
  { id: "M18", about: "a membership change before the previous one is committed", invariant: 41, from: 6 },
  { id: "M19", about: "the log is cut before the snapshot is durable", invariant: 39, from: 7 },
  { id: "M33r", about: "elections without asking beforehand", invariant: 45, from: 6 },
];
const DIRECTED = [
  { id: "M16", about: "a vote is answered before it is durable", invariant: 37, run: forgottenVote },
  { id: "M17", about: "an entry of an older term is committed by counting", invariant: 37, run: figure8 },
];

afterEach(() => activateMutants([]));

describe("planted bugs in the Raft core", () => {
  it.each(RANDOM)("$id: $about: random seeds show it, and are clean without it", ({ id, invariant, from }) => {
    let found: number | undefined;
    for (let seed = from; found === undefined && seed < from + BUDGET; seed++) {
      activateMutants([id]);
      found = runRaftSeed(seed).violation?.invariant;
      activateMutants([]);
      expect(runRaftSeed(seed).violation).toBeUndefined();
    }
    expect(found).toBe(invariant);
  });

  it.each(DIRECTED)("$id: $about: a directed schedule shows it, and is clean without it", ({ id, invariant, run }) => {
    expect(run()).toBeUndefined();
    activateMutants([id]);
    expect(run()?.invariant).toBe(invariant);
  });
});
