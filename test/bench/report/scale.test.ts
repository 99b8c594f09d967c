// Axes: where values lie on them, and which are named.
import { describe, expect, it } from "vitest";
import { spread } from "../../../src/bench/report/frame.ts";
import { extentOf, linearScale, logScale, percentileScale, type Scale } from "../../../src/bench/report/scale.ts";

const named = ({ ticks }: Scale): number[] => ticks.filter(({ isMinor }) => !isMinor).map(({ value }) => value);
const place = { fromAt: 0, toAt: 100 };

describe("a linear axis", () => {
  it.each([
    [{ min: 0, max: 31 }, 4, [0, 10, 20, 30, 40]],
    [{ min: 0, max: 1 }, 4, [0, 0.5, 1]],
    [{ min: 0, max: 0.07 }, 4, [0, 0.02, 0.04, 0.06, 0.08]],
    [{ min: 5, max: 5 }, 2, [5, 5.5, 6]],
  ])("%j has ticks at %j", (extent, stepsMax, ticks) => {
    expect(named(linearScale(extent, { ...place, stepsMax }))).toEqual(ticks);
  });

  it("places values in proportion, and none outside of itself", () => {
    const scale = linearScale({ min: 0, max: 40 }, { ...place, stepsMax: 4 });
    expect([0, 10, 40, 50, -1, Number.NaN].map((value) => scale.at(value))).toEqual([0, 25, 100, 100, 0, 0]);
  });
});

describe("a logarithmic axis", () => {
  it("names 1, 2 and 5 of each decade where there are few, and only powers of ten where there are many", () => {
    expect(named(logScale({ min: 1.2, max: 40 }, place))).toEqual([1, 2, 5, 10, 20, 50]);
    expect(named(logScale({ min: 0.001, max: 900 }, place))).toEqual([0.001, 0.01, 0.1, 1, 10, 100, 1_000]);
  });

  it("gives each decade the same room, and is never shorter than one", () => {
    const scale = logScale({ min: 1, max: 1_000 }, place);
    expect([1, 10, 100, 1_000].map((value) => Math.round(scale.at(value)))).toEqual([0, 33, 67, 100]);
    expect(named(logScale({ min: 3, max: 3 }, place))).toEqual([2, 5, 10, 20]);
    expect(scale.at(0)).toBe(0);
  });
});

it("a percentile axis gives each nine the same room", () => {
  const scale = percentileScale(0.9999, place);
  expect([0, 0.9, 0.99, 0.999, 0.9999, 1].map((value) => Math.round(scale.at(value)))).toEqual([
    0, 25, 50, 75, 100, 100,
  ]);
  expect(named(scale)).toEqual([0, 0.5, 0.9, 0.99, 0.999, 0.9999]);
});

it("an extent is of what is finite", () => {
  expect(extentOf([3, Number.NaN, -1, Infinity])).toEqual({ min: -1, max: 3 });
  expect(extentOf([Number.NaN])).toBeUndefined();
});

it("labels keep their order and their distance, and stay inside", () => {
  const box = { top: 0, bottom: 100 };
  expect(spread([50, 51, 10], 14, box)).toEqual([50, 64, 10]);
  expect(spread([99, 98, 97], 10, box)).toEqual([100, 90, 80]);
  expect(spread([], 10, box)).toEqual([]);
});
