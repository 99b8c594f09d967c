// Which epoch each offset of a log is of, as the checkers work it out.
import { describe, expect, it } from "vitest";
import { firstDifference, lineageOf } from "../../../src/sim/replicas/lineage.ts";

describe("lineages", () => {
  it("leave out epochs without records", () => {
    const epochs = [0, 1, 2].map((epoch) => ({ epoch, startOffset: epoch === 0 ? 0 : 5 }));
    expect(lineageOf(epochs, 0, 8)).toEqual([
      { epoch: 0, start: 0 },
      { epoch: 2, start: 5 },
    ]);
    expect(lineageOf(epochs, 0, 5)).toEqual([{ epoch: 0, start: 0 }]);
  });

  it("differ from the first offset of another epoch on", () => {
    const left = [
      { epoch: 0, start: 0 },
      { epoch: 1, start: 5 },
    ];
    const right = [
      { epoch: 0, start: 0 },
      { epoch: 2, start: 7 },
    ];
    expect(firstDifference(left, right, 5)).toBeUndefined();
    expect(firstDifference(left, right, 6)).toBe(5);
  });
});
