// What `ottla bench` says in the end of what it measured.
import { describe, expect, it } from "vitest";
import type { BenchResult, BenchRun } from "../../src/bench/result.ts";
import { verdict } from "../../src/cli/commands/bench.ts";

function of(...runs: readonly Partial<BenchRun>[]) {
  const named = runs.map((run, index) => ({ name: `consume ${index + 1}`, labels: {}, errors: {}, ...run }));
  return { result: { runs: named } as unknown as BenchResult, losses: runs.map(() => undefined) };
}

describe("a benchmark", () => {
  it("ends well where every run has records, with 1 where some failed", () => {
    expect(verdict({ verb: "consume" }, of({ records: 1 }, { records: 2 }))).toBe(0);
    expect(verdict({ verb: "consume" }, of({ records: 1 }, { records: 0, errors: { CLOSED: 1 } }))).toBe(1);
  });

  it("in which nothing came through, and nothing failed either, has measured nothing", () => {
    expect(() => verdict({ verb: "consume" }, of({ records: 1 }, { records: 0 }))).toThrow(
      expect.objectContaining({
        code: "NOTHING_MEASURED",
        message: "consume 2: no record came through in the measured time",
        hint: expect.stringContaining("ottla cluster health") as unknown,
        exitCode: 1,
      }),
    );
  });
});
