// A plan says what is run; one that cannot be meant is refused with the line, before anything is started.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { cellOf, readPlan } from "../../src/chaos/plan-file.ts";
import { faultKind } from "../../src/chaos/faults/all.ts";
import { HOUR_PLAN, QUICK_PLAN } from "../../src/chaos/plan.ts";
import { workloadKind } from "../../src/chaos/workloads.ts";

const directory = mkdtempSync(join(tmpdir(), "ottla-plan-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

function planOf(text: string) {
  const path = join(directory, "plan.json");
  writeFileSync(path, text);
  return readPlan(path);
}

describe("plan file", () => {
  it("takes cells as they stand, and the rest from the short set", () => {
    const plan = planOf(`{
      // one cell
      "cells": [{ "workload": "acks-all", "fault": "kill", "target": "leader" }],
      "faultMs": 9000, "seed": 7
    }`);
    expect(plan.cells).toEqual([{ workload: "acks-all", fault: "kill", target: "leader" }]);
    expect(plan).toMatchObject({ faultMs: 9_000, seed: 7, nodes: QUICK_PLAN.nodes, recoveryMs: QUICK_PLAN.recoveryMs });
  });

  it("makes the product of workloads, faults and targets", () => {
    const plan = planOf('{ "workloads": ["acks-all", "acks-mix"], "faults": ["kill"], "targets": ["leader", "all"] }');
    expect(plan.cells.map(({ workload, fault, target }) => `${workload} ${fault} ${target}`)).toEqual([
      "acks-all kill leader",
      "acks-all kill all",
      "acks-mix kill leader",
      "acks-mix kill all",
    ]);
  });

  it("leaves notes alone", () => {
    expect(planOf('{ "$comment": "x", "seed": 1 }').cells).toEqual(QUICK_PLAN.cells);
  });

  it.each([
    ['{\n  "fault": 1\n}', /plan\.json:2: .*fault/],
    [
      '{\n  "cells": [\n    { "workload": "acks-all", "fault": "kil", "target": "leader" }\n  ]\n}',
      /plan\.json:3: .*no fault "kil": did you mean kill\?/,
    ],
    ['{\n  "faultMs": "long"\n}', /plan\.json:2: faultMs/],
    ['{ "cells": [], "seed": 1 }', /cells/],
    ['{ "cells": [{ "workload": "acks-all", "fault": "kill", "target": "leader" }], "faults": ["kill"] }', /product/],
    ["[]", /one JSON object/],
  ])("refuses %s", (text, message) => {
    expect(() => planOf(text)).toThrow(message);
  });

  it("reads a cell of a flag, the leader being meant where no target is given", () => {
    expect(cellOf("acks-mix,pause")).toEqual({ workload: "acks-mix", fault: "pause", target: "leader" });
    expect(() => cellOf("acks-mix,pause,somebody")).toThrow(/workload,fault,target/);
    expect(() => cellOf("acks-nix,pause")).toThrow(/did you mean acks-mix/);
  });
});

describe("the sets that come with it", () => {
  it.each([
    ["short", QUICK_PLAN.cells],
    ["hour", HOUR_PLAN.cells],
  ])("name only workloads and faults that there are: %s", (_, cells) => {
    for (const { workload, fault } of cells) {
      expect(workloadKind(workload), workload).toBeDefined();
      expect(faultKind(fault), fault).toBeDefined();
    }
  });
});
