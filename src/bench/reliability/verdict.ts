// Does the matrix keep what is promised: acks=all loses nothing, has nothing twice, and is in order; and was there anything to judge by?
import { EXIT } from "../../model/exit-codes.ts";
import type { CellFigures, ReliabilityCell, ReliabilityResult } from "./result.ts";

/** A cell with fewer acknowledgements proves nothing. */
export const ACKNOWLEDGED_MIN = 100;

export interface Verdict {
  readonly exitCode: number;
  /** Broken promises. */
  readonly broken: readonly string[];
  /** Why cells that were run prove nothing. */
  readonly worthless: readonly string[];
}

export function verdictOf({ cells, settings, isComplete }: ReliabilityResult): Verdict {
  const broken = cells.flatMap(brokenIn);
  const worthless = cells.flatMap((cell) => worthlessIn(cell, settings.rounds));
  if (!isComplete) worthless.push("it was ended before it was done");
  if (cells.every(({ figures, failed }) => figures === null && failed === null)) worthless.push("nothing was run");
  const exitCode = broken.length > 0 ? EXIT.INVARIANT_BROKEN : worthless.length > 0 ? EXIT.FAILED : EXIT.OK;
  return { exitCode, broken, worthless };
}

function brokenIn(cell: ReliabilityCell): string[] {
  if (cell.figures === null) return [];
  const { lost, duplicated, outOfOrder, violations } = cell.figures;
  const counts = { lost, duplicated, "out of order": outOfOrder };
  const ofAll = Object.entries(counts).filter(([, count]) => cell.acks === "all" && count > 0);
  return [
    ...ofAll.map(([what, count]) => `${nameOf(cell)}: ${count} ${what}`),
    ...violations.map((text) => `${nameOf(cell)}: ${text}`),
  ];
}

function worthlessIn(cell: ReliabilityCell, rounds: number): string[] {
  const found = cell.figures === null ? [] : [...doubts(cell.figures, rounds)];
  return [...found, ...(cell.failed === null ? [] : [cell.failed])].map((doubt) => `${nameOf(cell)}: ${doubt}`);
}

function* doubts({ observed, acknowledged, unjudged, doubts: others }: CellFigures, rounds: number): Generator<string> {
  yield* others;
  if (observed.length < rounds) yield `the fault was seen to strike ${observed.length} times of ${rounds}`;
  if (acknowledged < ACKNOWLEDGED_MIN) yield `only ${acknowledged} records were acknowledged`;
  if (unjudged > 0) yield `${unjudged} acknowledged records were not looked for in the end`;
}

const nameOf = ({ fault, acks }: ReliabilityCell): string => `${fault}, acks=${acks}`;
