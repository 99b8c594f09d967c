// What a chaos run found, as it is written to verdict.json and shown on one page.
import type { Violation } from "../checkers/checker.ts";
import type { Tally } from "../checkers/tally.ts";
import type { Capability } from "./capabilities.ts";
import type { Counts } from "./clients/order.ts";
import type { FinalReport } from "./final-phase.ts";
import type { TargetName } from "./targets.ts";

export interface CellName {
  readonly workload: string;
  readonly fault: string;
  readonly target: TargetName;
}

export type CellStatus = "green" | "red" | "not run";

export interface CellReport extends CellName {
  readonly status: CellStatus;
  /** Why it is not green. */
  readonly reasons: readonly string[];
  readonly nodes: readonly number[];
  readonly description: string;
  /** The evidence that the fault struck. */
  readonly observed: string | undefined;
  /** From the start of its cluster. */
  readonly faultFromMs: number;
  readonly faultUntilMs: number;
  /** From the heal until every node was ready and every replica in sync; undefined: not in time. */
  readonly recoveredMs: number | undefined;
  readonly acknowledgedInFault: number;
  /** Of one partition, about the fault. */
  readonly longestGapMs: number;
  readonly isProgressDemanded: boolean;
  readonly clientKilled: string | undefined;
}

/** One cluster, its cells and its end. */
export interface SessionReport {
  readonly name: string;
  readonly cells: readonly CellReport[];
  readonly violations: readonly Violation[];
  readonly excusedLosses: number;
  /** Null: it did not come to that. */
  readonly tally: Tally | null;
  readonly final: FinalReport | null;
  readonly counts: Counts;
  readonly clientsKilled: number;
  readonly events: number;
  /** What is wrong with the whole of it, apart from violations. */
  readonly reasons: readonly string[];
  readonly seconds: number;
  readonly directory: string;
}

export type Verdict = "green" | "violation" | "not green";

export interface RunReport {
  readonly version: 1;
  readonly seed: number;
  readonly startedAt: string;
  readonly seconds: number;
  readonly verdict: Verdict;
  readonly capabilities: readonly Capability[];
  readonly sessions: readonly SessionReport[];
  /** Cells that could not be tried here. */
  readonly notRun: readonly CellReport[];
  /** Nodes with planted bugs, before anything else; empty: it was not asked for. */
  readonly selfTest: readonly SelfTestRow[];
}

export interface SelfTestRow {
  /** Of the planted bug. */
  readonly id: string;
  readonly says: string;
  readonly status: "caught" | "MISSED" | "not run";
  /** What was found, or why it was not tried. */
  readonly how: string;
  readonly seconds: number;
}

/** One at which nothing was struck. */
export function untried(cell: CellName, reasons: readonly string[]): CellReport {
  return {
    ...cell,
    status: "not run",
    reasons,
    nodes: [],
    description: "",
    observed: undefined,
    faultFromMs: 0,
    faultUntilMs: 0,
    recoveredMs: undefined,
    acknowledgedInFault: 0,
    longestGapMs: 0,
    isProgressDemanded: false,
    clientKilled: undefined,
  };
}

export function cellsOf({ sessions, notRun }: RunReport): readonly CellReport[] {
  return [...sessions.flatMap(({ cells }) => cells), ...notRun];
}

export function verdictOf(sessions: readonly SessionReport[], selfTest: readonly SelfTestRow[]): Verdict {
  if (sessions.some(({ violations }) => violations.length > 0)) return "violation";
  const cells = sessions.flatMap((session) => session.cells);
  // A harness that does not see a planted bug has shown nothing.
  if (selfTest.some(({ status }) => status === "MISSED")) return "not green";
  const isGreen = cells.length > 0 && cells.every(({ status }) => status === "green");
  return isGreen && sessions.every(({ reasons }) => reasons.length === 0) ? "green" : "not green";
}
