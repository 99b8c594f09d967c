// The verdict: green only where something was tried, everything held, and the harness itself was seen to find planted bugs.
import { describe, expect, it } from "vitest";
import { pageLines, pageTables } from "../../src/chaos/page.ts";
import {
  type CellReport,
  type RunReport,
  type SelfTestRow,
  type SessionReport,
  verdictOf,
} from "../../src/chaos/report.ts";

const CELL: CellReport = {
  workload: "acks-all",
  fault: "kill",
  target: "leader",
  status: "green",
  reasons: [],
  nodes: [1],
  description: "node 1 killed",
  observed: "node 1 ended by SIGKILL",
  faultFromMs: 1_000,
  faultUntilMs: 6_000,
  recoveredMs: 700,
  acknowledgedInFault: 400,
  longestGapMs: 900,
  isProgressDemanded: true,
  clientKilled: "load-1",
};

const session = (cells: readonly CellReport[], more: Partial<SessionReport> = {}): SessionReport => ({
  name: "cluster 1 (loopback)",
  cells,
  violations: [],
  excusedLosses: 0,
  tally: null,
  final: null,
  counts: {},
  clientsKilled: 1,
  events: 1_000,
  reasons: [],
  seconds: 20,
  directory: "/nowhere",
  ...more,
});

const SEEN: SelfTestRow = { id: "M1", says: "says", status: "caught", how: "invariant 1", seconds: 9 };

const report = (sessions: readonly SessionReport[], selfTest: readonly SelfTestRow[] = [SEEN]): RunReport => ({
  version: 1,
  seed: 1,
  startedAt: "2026-01-01T00:00:00.000Z",
  seconds: 20,
  verdict: verdictOf(sessions, selfTest),
  capabilities: [],
  sessions,
  notRun: [{ ...CELL, status: "not run", fault: "cut", nodes: [], reasons: ["network namespaces: not here"] }],
  selfTest,
});

describe("verdict", () => {
  it("is green where all cells are", () => {
    expect(verdictOf([session([CELL])], [SEEN])).toBe("green");
  });

  it("is a violation before anything else", () => {
    const broken = session([{ ...CELL, status: "red" }], { violations: [{ invariant: 1, message: "gone" }] });
    expect(verdictOf([session([CELL]), broken], [SEEN])).toBe("violation");
  });

  it.each([
    ["nothing was run", []],
    ["a cell is red", [session([{ ...CELL, status: "red" }])]],
    ["something is wrong with a cluster", [session([CELL], { reasons: ["replicas differ"] })]],
    ["a cluster has no cell", [session([])]],
  ])("is not green where %s", (_, sessions) => {
    expect(verdictOf(sessions, [SEEN])).toBe("not green");
  });

  it("is not green where a planted bug was missed", () => {
    expect(verdictOf([session([CELL])], [{ ...SEEN, status: "MISSED" }])).toBe("not green");
  });
});

describe("page", () => {
  it("shows what was not run as such, with the reason, and never as green", () => {
    const [cells] = pageTables(report([session([CELL])])).filter(({ title }) => title === "Cells");
    expect(cells?.rows.map(([result, , fault]) => `${result} ${fault}`)).toEqual(["green kill", "NOT RUN cut"]);
    expect(cells?.rows[1]?.at(-1)).toContain("network namespaces");
  });

  it("ends with the verdict, and names what broke and where", () => {
    const violations = [{ invariant: 1, message: "t-0 offset 3: gone" }];
    const lines = pageLines(report([session([{ ...CELL, status: "red" }], { violations })]));
    expect(lines[0]).toBe("BROKEN invariant 1 (cluster 1 (loopback)): t-0 offset 3: gone");
    expect(lines.at(-1)).toMatch(/^VIOLATION: 0 cells green, 1 red, 1 not run/);
  });
});
