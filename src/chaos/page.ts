// The verdict of a run as tables and lines: one page.
import type { TallyRow } from "../checkers/tally.ts";
import type { Capability } from "./capabilities.ts";
import { type CellReport, cellsOf, type RunReport, type SelfTestRow, type SessionReport } from "./report.ts";

export interface PageTable {
  readonly title: string;
  readonly headers: readonly string[];
  readonly rows: readonly (readonly string[])[];
  readonly right: readonly number[];
}

const seconds = (ms: number | undefined): string => (ms === undefined ? "-" : `${(ms / 1_000).toFixed(1)} s`);
const RESULT = { green: "green", red: "RED", "not run": "NOT RUN" } as const;

export function capabilityTable(capabilities: readonly Capability[]): PageTable {
  const rows = capabilities.map(({ name, says, missing }) => [name, says, missing === null ? "yes" : `NO: ${missing}`]);
  return { title: "What can be injected here", headers: ["CAPABILITY", "FOR", "HERE"], rows, right: [] };
}

export function selfTestTable(rows: readonly SelfTestRow[]): PageTable {
  return {
    title: "Nodes with planted bugs",
    headers: ["RESULT", "BUG", "WHAT", "HOW", "TOOK"],
    rows: rows.map(({ id, says, status, how, seconds: took }) => [status, id, says, how, `${took.toFixed(1)} s`]),
    right: [4],
  };
}

export function pageTables(report: RunReport): readonly PageTable[] {
  const cells = cellsOf(report);
  return [
    ...(report.selfTest.length === 0 ? [] : [selfTestTable(report.selfTest)]),
    {
      title: "Cells",
      headers: [
        "RESULT",
        "WORKLOAD",
        "FAULT",
        "TARGET",
        "NODES",
        "ACKED",
        "GAP",
        "WELL AFTER",
        "SEEN BY, OR WHY NOT GREEN",
      ],
      rows: cells.map(cellRow),
      right: [5, 6, 7],
    },
    {
      title: "Faults by kind",
      headers: ["FAULT", "STRUCK", "SEEN", "NOT RUN"],
      rows: faultRows(cells),
      right: [1, 2, 3],
    },
    {
      title: "Records by level of acknowledgement",
      headers: [
        "ACKS",
        "SENT",
        "ACKNOWLEDGED",
        "LOST",
        "DUPLICATED",
        "OUT OF ORDER",
        "FAILED",
        "UNKNOWN",
        "LONGEST GAP",
      ],
      rows: recordRows(report.sessions),
      right: [1, 2, 3, 4, 5, 6, 7, 8],
    },
    {
      title: "The end of each cluster",
      headers: ["CLUSTER", "REPLICAS READ AS LEADER", "VERIFIED", "COMPARED", "CLIENTS KILLED", "EVENTS", "TOOK"],
      rows: report.sessions.map(endRow),
      right: [1, 2, 3, 4, 5, 6],
    },
  ];
}

function cellRow(cell: CellReport): readonly string[] {
  const { status, workload, fault, target, nodes, reasons, observed = "" } = cell;
  const isStruck = nodes.length > 0;
  return [
    RESULT[status],
    ...[workload, fault, target, nodes.join(",")],
    isStruck ? String(cell.acknowledgedInFault) : "-",
    isStruck ? seconds(cell.longestGapMs) : "-",
    seconds(cell.recoveredMs),
    reasons.length > 0 ? (reasons[0] ?? "") : observed,
  ];
}

function faultRows(cells: readonly CellReport[]): readonly (readonly string[])[] {
  const kinds = [...new Set(cells.map(({ fault }) => fault))].sort();
  return kinds.map((kind) => {
    const of = cells.filter(({ fault }) => fault === kind);
    const struck = of.filter(({ nodes }) => nodes.length > 0);
    const seen = struck.filter(({ observed }) => observed !== undefined);
    const notRun = of.filter(({ status }) => status === "not run");
    return [kind, struck.length, seen.length, notRun.length].map(String);
  });
}

const ADDED = ["sent", "acknowledged", "lost", "duplicated", "outOfOrder", "failed", "unknown"] as const;

function recordRows(sessions: readonly SessionReport[]): readonly (readonly string[])[] {
  const rows = sessions.flatMap(({ tally }) => tally?.rows ?? []);
  return ([0, 1, "all"] as const).flatMap((acks) => {
    const of = rows.filter((row) => row.acks === acks);
    if (of.length === 0) return [];
    const sum = (what: (typeof ADDED)[number]): number => of.reduce((total, row: TallyRow) => total + row[what], 0);
    const gapMs = Math.max(...of.map(({ longestPartitionGapMs }) => longestPartitionGapMs));
    return [[String(acks), ...ADDED.map((what) => String(sum(what))), acks === 0 ? "-" : seconds(gapMs)]];
  });
}

function endRow({ name, final, clientsKilled, events, seconds: took }: SessionReport): readonly string[] {
  const read = final === null ? "not reached" : `${final.scans} of ${final.scansWanted}`;
  const offline = [final?.verified, final?.compared].map((count) => (count === undefined ? "-" : String(count)));
  return [name, read, ...offline, String(clientsKilled), String(events), `${took} s`];
}

/** What is wrong, one line each; the last one is the verdict. */
export function pageLines(report: RunReport): readonly string[] {
  const lines: string[] = [];
  for (const { name, violations, reasons, tally, excusedLosses } of report.sessions) {
    for (const { invariant, message } of violations) lines.push(`BROKEN invariant ${invariant} (${name}): ${message}`);
    for (const example of tally?.examples ?? []) if (violations.length > 0) lines.push(`  ${example}`);
    for (const reason of reasons) lines.push(`NOT GREEN (${name}): ${reason}`);
    if (excusedLosses > 0)
      lines.push(`${name}: ${excusedLosses} records of acks=1 lost where the leader changed, as promised`);
  }
  for (const { id, status, how } of report.selfTest)
    if (status === "MISSED") lines.push(`NOT GREEN: the planted bug ${id} was not seen: ${how}`);
  return [...lines, verdictLine(report)];
}

function verdictLine(report: RunReport): string {
  const cells = cellsOf(report);
  const count = (status: CellReport["status"]): number => cells.filter((cell) => cell.status === status).length;
  const figures = `${count("green")} cells green, ${count("red")} red, ${count("not run")} not run, in ${report.seconds} s, seed ${report.seed}`;
  switch (report.verdict) {
    case "green":
      return `GREEN: ${figures}`;
    case "violation":
      return `VIOLATION: ${figures}`;
    case "not green":
      return `NOT GREEN: ${figures}`;
  }
}
