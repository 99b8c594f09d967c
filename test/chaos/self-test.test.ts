// The test of the test: a planted bug that no run shows is missed, and is said to be; one that cannot be planted was not tried.
import { describe, expect, it } from "vitest";
import type { Capabilities } from "../../src/chaos/capabilities.ts";
import { QUICK_PLAN } from "../../src/chaos/plan.ts";
import { type CellReport, type RunReport, untried } from "../../src/chaos/report.ts";
import type { RunParts } from "../../src/chaos/run.ts";
import { PLANTED_BUGS, runSelfTest } from "../../src/chaos/self-test.ts";

const capabilitiesOf = (missing: string | null): Capabilities =>
  new Map([["planted bugs", { name: "planted bugs", says: "", missing }]]);

function partsOf(missing: string | null): RunParts {
  return {
    plan: { ...QUICK_PLAN, seed: 1 },
    capabilities: capabilitiesOf(missing),
    directory: "/nowhere",
    say: () => undefined,
    signal: new AbortController().signal,
  };
}

/** What a run gives that found these invariants broken; `null`: that could not run its cell. */
function reportOf({ plan }: RunParts, broken: readonly number[] | null): RunReport {
  const [cell] = plan.cells;
  const cells: CellReport[] = cell === undefined ? [] : [untried(cell, ["no shim here"])];
  const session = {
    name: "cluster 1",
    cells,
    violations: (broken ?? []).map((invariant) => ({ invariant, message: "told" })),
    excusedLosses: 0,
    tally: null,
    final: null,
    counts: {},
    clientsKilled: 0,
    events: 0,
    reasons: [],
    seconds: 1,
    directory: "/nowhere",
  };
  return {
    version: 1,
    seed: plan.seed,
    startedAt: "",
    seconds: 1,
    verdict: "not green",
    capabilities: [],
    sessions: broken === null ? [] : [session],
    notRun: broken === null ? cells : [],
    selfTest: [],
  };
}

const statusesOf = async (
  broken: readonly number[] | null,
  missing: string | null = null,
): Promise<readonly string[]> => {
  const rows = await runSelfTest(partsOf(missing), { run: (parts) => Promise.resolve(reportOf(parts, broken)) });
  return rows.map(({ status }) => status);
};

describe("self-test", () => {
  it("catches a bug by the invariant that it breaks", async () => {
    expect(await statusesOf([1])).toEqual(["caught", "caught", "caught"]);
  });

  it("misses what shows nothing, or something else", async () => {
    expect(await statusesOf([])).toEqual(["MISSED", "MISSED", "MISSED"]);
    expect(await statusesOf([40])).toEqual(["MISSED", "MISSED", "MISSED"]);
  });

  it("tries a bug again, with other random choices, three times at most", async () => {
    const seeds: number[] = [];
    const [bug] = PLANTED_BUGS;
    const run = (parts: RunParts) => {
      seeds.push(parts.plan.seed);
      expect(parts.env).toEqual({ OTTLA_TEST_PLANTED_BUGS: bug?.id });
      return Promise.resolve(reportOf(parts, []));
    };
    await runSelfTest(partsOf(null), { bugs: bug === undefined ? [] : [bug], run });
    expect(seeds).toEqual([1, 2, 3]);
  });

  it("says that it was not run where a build has no bugs, or a machine cannot do the fault", async () => {
    expect(await statusesOf([1], "it is a published one")).toEqual(["not run", "not run", "not run"]);
    expect(await statusesOf(null)).toEqual(["not run", "not run", "not run"]);
  });
});
