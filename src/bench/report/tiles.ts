// The figures that are asked for first.
import type { BenchRun } from "../result.ts";
import type { Gathered, ReportRun } from "./gather.ts";
import { element, type Markup } from "./markup.ts";
import { digits, duration, grouped, percent, rate, short } from "./units.ts";

interface Tile {
  readonly name: string;
  readonly figure: string;
  readonly note: string;
}

export function tiles(gathered: Gathered): Markup {
  const { runs } = gathered;
  const all = [longestGap(runs), fastest(runs), lowest(runs), volume(runs), failures(runs)];
  return element(
    "dl",
    { class: "tiles" },
    all.flatMap((tile) => (tile === undefined ? [] : [tileMarkup(tile)])),
  );
}

function tileMarkup({ name, figure, note }: Tile): Markup {
  const [number = "", ...unit] = figure.split(" ");
  return element(
    "div",
    { class: "tile" },
    element("dt", {}, name),
    element(
      "dd",
      { class: "figure" },
      number,
      unit.length > 0 && element("span", { class: "unit" }, ` ${unit.join(" ")}`),
    ),
    element("dd", { class: "note" }, note),
  );
}

const titled = ({ title }: ReportRun, runs: readonly ReportRun[]): string => (runs.length > 1 ? title : "");
const noted = (...parts: readonly string[]): string => parts.filter((part) => part !== "").join("; ");

function best(runs: readonly ReportRun[], of: (run: BenchRun) => number): ReportRun | undefined {
  return runs.reduce<ReportRun | undefined>(
    (found, each) => (found === undefined || of(each.run) > of(found.run) ? each : found),
    undefined,
  );
}

function longestGap(runs: readonly ReportRun[]): Tile | undefined {
  const gapOf = (run: BenchRun): number => Math.max(...run.faults.map(({ gapMs }) => gapMs ?? -1));
  const most = best(runs, gapOf);
  if (most === undefined || gapOf(most.run) < 0) return undefined;
  const count = runs.reduce((sum, { run }) => sum + run.faults.length, 0);
  return {
    name: "Longest pause of a partition",
    figure: duration(gapOf(most.run)),
    note: noted(titled(most, runs), `${grouped(count)} faults in all`),
  };
}

function fastest(runs: readonly ReportRun[]): Tile | undefined {
  const most = best(runs, ({ mbPerSecond }) => mbPerSecond);
  if (most === undefined || most.run.mbPerSecond <= 0) return undefined;
  const { mbPerSecond, recordsPerSecond, ratio } = most.run;
  const raw = ratio.toRawDisk === null ? "" : `${percent(ratio.toRawDisk)} of the raw disk`;
  return {
    name: runs.length > 1 ? "Highest throughput" : "Throughput",
    figure: `${digits(mbPerSecond)} MB/s`,
    note: noted(titled(most, runs), rate(recordsPerSecond), raw),
  };
}

function lowest(runs: readonly ReportRun[]): Tile | undefined {
  const timed = runs.filter(({ run }) => run.latencyMs !== null);
  const least = best(timed, ({ latencyMs }) => -(latencyMs?.p99 ?? Infinity));
  if (least?.run.latencyMs === undefined || least.run.latencyMs === null) return undefined;
  const { p50, p99, max } = least.run.latencyMs;
  return {
    name: timed.length > 1 ? "Lowest p99 latency" : "p99 latency",
    figure: duration(p99),
    note: noted(titled(least, runs), `p50 ${duration(p50)}, max ${duration(max)}`),
  };
}

function volume(runs: readonly ReportRun[]): Tile | undefined {
  if (runs.length === 0) return undefined;
  const records = runs.reduce((sum, { run }) => sum + run.records, 0);
  const seconds = runs.reduce((sum, { run }) => sum + run.seconds, 0);
  const bytes = runs.reduce((sum, { run }) => sum + run.bytes, 0);
  return {
    name: "Records",
    figure: short(records),
    note: `${digits(bytes / 1e9)} GB in ${duration(seconds * 1_000)}, ${runs.length === 1 ? "one run" : `${runs.length} runs`}`,
  };
}

/** Always there where something failed; where nothing did, it says so. */
function failures(runs: readonly ReportRun[]): Tile | undefined {
  if (runs.length === 0) return undefined;
  const codes = new Map<string, number>();
  for (const { run } of runs)
    for (const [code, count] of Object.entries(run.errors)) codes.set(code, (codes.get(code) ?? 0) + count);
  const total = [...codes.values()].reduce((sum, count) => sum + count, 0);
  const most = [...codes].toSorted(([, left], [, right]) => right - left)[0];
  return {
    name: "Errors told to clients",
    figure: short(total),
    note: total === 0 || most === undefined ? "every record was answered" : `most often ${most[0]}`,
  };
}
