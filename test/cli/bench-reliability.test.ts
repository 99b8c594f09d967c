// Flags of `ottla bench reliability`, refused before anything is started.
import { expect, it } from "vitest";
import { RELIABILITY_FAULTS } from "../../src/bench/reliability/matrix.ts";
import { reliabilityPlan, type ReliabilityFlags } from "../../src/cli/commands/bench-reliability.ts";

const FLAGS: ReliabilityFlags = {
  ...{ rounds: "3", before: "5s", fault: "6s", after: "5s", rate: "500", valueBytes: "200", seed: "1" },
};

it("strikes every fault of the matrix unless told otherwise", () => {
  const { faults, settings } = reliabilityPlan(FLAGS);
  expect(faults).toBe(RELIABILITY_FAULTS);
  expect(settings).toMatchObject({ rounds: 3, faultMs: 6000, recordsPerSecond: 500, minInSync: 2 });
  expect(reliabilityPlan({ ...FLAGS, faults: "disk-full,partition,disk-full" }).faults.map(({ id }) => id)).toEqual([
    ...["disk-full", "partition"],
  ]);
});

it.each([
  ["an unknown fault", { faults: "leader-killed,gremlins" }, 'no fault "gremlins"'],
  ["no round", { rounds: "0" }, "--rounds"],
  ["a fault too short to show anything", { fault: "10ms" }, "--fault"],
  ["a rate that no history holds", { rate: "1000000" }, "--rate"],
  ["values too large", { valueBytes: "10MB" }, "--value-bytes"],
  ["a result of another kind", { out: ["a.html"] }, "a.html"],
  ["a result where no directory is", { out: ["no/such/place/a.json"] }, "does not exist"],
  ["files of another run", { keep: "src" }, "not empty"],
])("refuses %s", (_, wrong, named) => {
  expect(() => reliabilityPlan({ ...FLAGS, ...wrong })).toThrow(named);
});
