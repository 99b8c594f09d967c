// The matrix as a table, what it proves, and the reader of its file.
import { describe, expect, it } from "vitest";
import { parseReliability } from "../../../src/bench/reliability/result-file.ts";
import type { CellFigures, ReliabilityCell, ReliabilityResult } from "../../../src/bench/reliability/result.ts";
import { durationText, readmeTable, tableRows } from "../../../src/bench/reliability/table.ts";
import { verdictOf } from "../../../src/bench/reliability/verdict.ts";

const FIGURES: CellFigures = {
  ...{ observed: ["gone", "gone"], sent: 9010, acknowledged: 9000, failed: 0, unknown: 10 },
  ...{ lost: 0, duplicated: 0, outOfOrder: 0, unjudged: 0, longestGapMs: 1234.5, violations: [], doubts: [] },
  latencyMs: { before: { p50: 3.14, p99: 12.3, max: 20 }, during: { p50: 40, p99: 1400, max: 1500 }, after: null },
};

function cell(acks: ReliabilityCell["acks"], other: Partial<CellFigures> = {}): ReliabilityCell {
  return {
    fault: "leader-killed",
    says: "leader killed",
    acks,
    notRun: null,
    failed: null,
    figures: { ...FIGURES, ...other },
  };
}
const NOT_RUN: ReliabilityCell = {
  ...{ fault: "partition", says: "cut off", acks: "all", notRun: "no network namespaces", failed: null, figures: null },
};

function result(...cells: readonly ReliabilityCell[]): ReliabilityResult {
  return {
    version: 1,
    machine: { cpu: "a | b", cores: 2, memoryBytes: 1e9, kernel: "6.18", node: "v20.20.0", ottla: "0.1.0" },
    ...{ commit: "abc", startedAt: "2026-11-30T04:00:00.000Z", command: "ottla bench reliability", isComplete: true },
    settings: {
      ...{ nodes: 3, replicas: 3, minInSync: 2, rounds: 2, beforeMs: 1, faultMs: 6000, afterMs: 1 },
      ...{ recordsPerSecond: 500, valueBytesMax: 100, seed: 1 },
    },
    cells,
  };
}

describe("table", () => {
  it("names the fault once, and shows of acks=0 only what it can know", () => {
    expect(tableRows([cell("0", { lost: 7 }), cell("all"), NOT_RUN])).toEqual([
      ["leader killed", "0", "9010", "–", "7", "0", "–", "–", "–", "–"],
      ["", "all", "9010", "9000", "0", "0", "1.2 s", "3.1 ms / 12 ms", "40 ms / 1.4 s", "none"],
      ["cut off", "all", "NOT RUN: no network namespaces", "", "", "", "", "", "", ""],
    ]);
  });

  it("has as many cells in each line of Markdown, and says what it was measured on", () => {
    const lines = readmeTable(result(cell("1"), cell("all"), NOT_RUN)).split("\n");
    const table = lines.filter((line) => line.startsWith("|"));
    expect(new Set(table.map((line) => line.split("|").length))).toEqual(new Set([12]));
    expect(lines.at(-1)).toContain("500 records/s of each level; each fault for 6.0 s, 2 times; 2026-11-30");
  });

  it("says times in two digits that count", () => {
    const texts = [0.04, 3.14, 9.96, 99.6, 994.9, 995.1, 9949, 9951, 61_000].map(durationText);
    expect(texts).toEqual(["0.0 ms", "3.1 ms", "10 ms", "100 ms", "995 ms", "1.0 s", "9.9 s", "10 s", "61 s"]);
  });
});

describe("verdict", () => {
  it("is fine where acks=all keeps all, whatever the others lose", () => {
    expect(verdictOf(result(cell("0", { lost: 9 }), cell("1", { lost: 9 }), cell("all"), NOT_RUN))).toEqual({
      ...{ exitCode: 0, broken: [], worthless: [] },
    });
  });

  it.each(["lost", "duplicated", "outOfOrder"] as const)("is 20 where acks=all has one %s", (what) => {
    const { exitCode, broken } = verdictOf(result(cell("1"), cell("all", { [what]: 1 })));
    expect(exitCode).toBe(20);
    expect(broken).toHaveLength(1);
  });

  it("is 20 where a checker found something, at any level", () => {
    expect(verdictOf(result(cell("0", { violations: ["invariant 18: x"] }))).exitCode).toBe(20);
  });

  it("is 1 where a cell proves nothing: not seen to strike, hardly acknowledged, not read in the end, not finished, failed, nothing run", () => {
    const worthless: readonly ReliabilityResult[] = [
      result(cell("all", { observed: ["gone"] })),
      result(cell("all", { acknowledged: 99 })),
      result(cell("all", { unjudged: 1 })),
      { ...result(cell("all")), isComplete: false },
      result(cell("all", { doubts: ["replicas differ"] })),
      result(cell("1"), { ...NOT_RUN, notRun: null, failed: "it does not recover" }),
      result(NOT_RUN),
    ];
    expect(worthless.map((each) => verdictOf(each).exitCode)).toEqual([1, 1, 1, 1, 1, 1, 1]);
    expect(worthless.map((each) => verdictOf(each).worthless.length)).toEqual([1, 1, 1, 1, 1, 1, 1]);
  });
});

describe("file", () => {
  const text = JSON.stringify(result(cell("all"), NOT_RUN));

  it("is read as it was written", () => {
    expect(parseReliability(text, "f")).toEqual(result(cell("all"), NOT_RUN));
  });

  it.each([
    ["a field too many", text.replace('"lost":', '"gone":1,"lost":'), "gone"],
    ["a field too few", text.replace('"lost":0,', ""), "cells.0.figures.lost"],
    ["a figure below zero", text.replace('"lost":0', '"lost":-1'), "cells.0.figures.lost"],
    ["another version", text.replace('"version":1', '"version":2'), "version"],
    ["neither figures nor a reason", text.replace('"no network namespaces"', "null"), "cells.1"],
    ["no JSON", "{", "no JSON"],
  ])("is refused with %s", (_, changed, named) => {
    expect(changed).not.toBe(text);
    expect(() => parseReliability(changed, "f")).toThrow(named);
  });
});
