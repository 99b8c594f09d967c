// Lists make the product of their values, each run with a name of its own.
import { describe, expect, it } from "vitest";
import { specsOf, type Sweep } from "../../src/bench/sweep.ts";

const ONE: Sweep = {
  acks: ["all"],
  rates: ["max"],
  recordBytes: [1024],
  batchBytes: [65_536],
  partitions: [6],
  connections: [4],
};

describe("a sweep", () => {
  it("has a run of each combination, acks in turn, and no name twice", () => {
    const sweep = { ...ONE, acks: [0, 1, "all"] as const, recordBytes: [100, 1024], partitions: [1, 6, 100, 1000] };
    const specs = specsOf("produce", { ...sweep, rates: ["max", 500] });
    expect(specs).toHaveLength(48);
    expect(new Set(specs.map(({ name }) => name)).size).toBe(48);
    expect(specs.slice(0, 3).map(({ acks }) => acks)).toEqual([0, 1, "all"]);
    expect(new Set(specs.map((spec) => JSON.stringify({ ...spec, name: "" }))).size).toBe(48);
  });

  it("is an open loop where there is a rate", () => {
    expect(specsOf("e2e", { ...ONE, rates: [500] })[0]).toMatchObject({ mode: "open", ratePerSecond: 500 });
    expect(specsOf("e2e", ONE)[0]).toMatchObject({ mode: "closed", ratePerSecond: 0 });
  });

  it("names what varies only", () => {
    expect(specsOf("produce", ONE)[0]?.name).toBe("produce acks=all");
    expect(specsOf("consume", { ...ONE, connections: [1, 10] }).map(({ name }) => name)).toEqual([
      "consume connections=1",
      "consume connections=10",
    ]);
    expect(specsOf("soak", ONE)[0]).toMatchObject({ verb: "e2e", benchmark: "soak", name: "soak acks=all" });
  });
});
