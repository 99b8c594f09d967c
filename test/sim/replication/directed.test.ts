// Each planted bug of the data plane has a schedule that finds it, and that finds nothing without it.
import { afterEach, describe, expect, it } from "vitest";
import { activateMutants } from "../../../src/base/mutant.ts";
import { DIRECTED_SCHEDULES } from "../../../src/sim/replication/directed/all.ts";
import { play } from "../../../src/sim/replication/directed/stage.ts";

/** What the rules and the list of mutations ask for. */
const WANTED = [
  ...["M1", "M3", "M4", "M5", "M6", "M7", "M8", "M9", "M10", "M11", "M12", "M13", "M14", "M15", "M30", "M31", "M32"],
  ...["D-1", "D-1e", "D-3", "D-5", "D-6", "D-6p", "D-7", "D-8", "D-8w", "D-9", "D-17e", "D-36", "R-32"],
  ...["M23", "M23", "M23w", "D-15", "D-15b", "D-15c", "D-15f", "M24", "M24"],
];

afterEach(() => activateMutants([]));

describe("schedules played by hand", () => {
  it("there is one for each mutant", () => {
    expect(DIRECTED_SCHEDULES.map(({ mutant }) => mutant).toSorted()).toEqual(WANTED.toSorted());
  });

  it.each(DIRECTED_SCHEDULES)("$mutant breaks one of $invariants", (schedule) => {
    activateMutants([schedule.mutant]);
    const violation = play(schedule);
    expect(schedule.invariants, violation?.message).toContain(violation?.invariant);
  });

  it.each(DIRECTED_SCHEDULES)("without $mutant nothing is broken", (schedule) => {
    expect(play(schedule)).toBeUndefined();
  });
});
