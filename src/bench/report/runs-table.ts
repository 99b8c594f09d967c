// Every run with all of its figures. Columns in which nothing is known are left out.
import type { BenchRun } from "../result.ts";
import type { Gathered, ReportRun } from "./gather.ts";
import { element, type Markup } from "./markup.ts";
import { labelCell, labelHead } from "./run-labels.ts";
import { digits, duration, percent, rate, UNKNOWN } from "./units.ts";

interface Column {
  /** What several columns have in common, above them. */
  readonly group: string;
  readonly head: string;
  readonly isText?: boolean;
  /** null: not known. */
  readonly cell: (run: BenchRun) => string | null;
  readonly isBad?: (run: BenchRun) => boolean;
}

const known = (value: number | null, format: (value: number) => string): string | null =>
  value === null || !Number.isFinite(value) ? null : format(value);

const latency = (head: string, of: (latency: NonNullable<BenchRun["latencyMs"]>) => number): Column => ({
  group: "latency",
  head,
  cell: ({ latencyMs }) => (latencyMs === null ? null : duration(of(latencyMs))),
});

const errorCount = ({ errors }: BenchRun): number => Object.values(errors).reduce((sum, count) => sum + count, 0);

const FIGURES: readonly Column[] = [
  { group: "throughput", head: "records", cell: ({ recordsPerSecond }) => rate(recordsPerSecond) },
  { group: "throughput", head: "MB/s", cell: ({ mbPerSecond }) => digits(mbPerSecond) },
  latency("p50", ({ p50 }) => p50),
  latency("p90", ({ p90 }) => p90),
  latency("p99", ({ p99 }) => p99),
  latency("p99.9", ({ p999 }) => p999),
  latency("max", ({ max }) => max),
  { group: "of raw", head: "disk", cell: ({ ratio }) => known(ratio.toRawDisk, percent) },
  { group: "of raw", head: "socket", cell: ({ ratio }) => known(ratio.toRawSocket, percent) },
  { group: "CPU s per GB", head: "clients", cell: ({ cpuSecondsPerGB }) => known(cpuSecondsPerGB.client, digits) },
  { group: "CPU s per GB", head: "brokers", cell: ({ cpuSecondsPerGB }) => known(cpuSecondsPerGB.brokers, digits) },
  { group: "written", head: "bytes per byte", cell: ({ diskBytesPerByte }) => known(diskBytesPerByte, digits) },
  {
    group: "load late",
    head: "p99",
    cell: ({ driverLateMs }) => (driverLateMs === null ? null : duration(driverLateMs.p99)),
  },
  {
    group: "",
    head: "errors",
    cell: (run) => digits(errorCount(run)),
    isBad: (run) => errorCount(run) > 0,
  },
];

const labelColumn = (name: string): Column => ({
  group: "",
  head: labelHead(name),
  isText: true,
  cell: ({ labels }) => labelCell(name, labels[name]),
});

export function runsTable({ runs, varying }: Gathered): Markup {
  const titled = runs.map(({ title }) => title);
  // The label's columns say what the title says, unless titles are names.
  const labels = titled.some((title, index) => title === runs[index]?.run.name) ? varying.map(labelColumn) : [];
  const figures = FIGURES.filter(({ cell }) => runs.some(({ run }) => cell(run) !== null));
  const columns = [...labels, ...figures];
  return element(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of runs" },
    element(
      "table",
      {},
      element("thead", {}, groupRow(columns), headRow(columns)),
      element(
        "tbody",
        {},
        runs.map((row) => runRow(row, columns)),
      ),
    ),
  );
}

function groupRow(columns: readonly Column[]): Markup {
  const cells: { group: string; span: number }[] = [];
  for (const { group } of columns) {
    const last = cells.at(-1);
    if (last !== undefined && last.group === group) last.span++;
    else cells.push({ group, span: 1 });
  }
  return element(
    "tr",
    { class: "groups" },
    element("td", {}),
    cells.map(({ group, span }) =>
      group === ""
        ? element("td", { colspan: String(span) })
        : element("th", { colspan: String(span), scope: "colgroup", class: "named" }, group),
    ),
  );
}

function headRow(columns: readonly Column[]): Markup {
  return element(
    "tr",
    {},
    element("th", { scope: "col" }, "run"),
    columns.map(({ head, isText }) => element("th", { scope: "col", class: isText === true && "text" }, head)),
  );
}

function runRow({ run, title }: ReportRun, columns: readonly Column[]): Markup {
  return element(
    "tr",
    {},
    element("th", { scope: "row" }, title),
    columns.map(({ cell, isText, isBad }) => {
      const style = [isText === true ? "text" : "", isBad?.(run) === true ? "bad" : ""].join(" ").trim();
      return element("td", { class: style === "" ? undefined : style }, cell(run) ?? UNKNOWN);
    }),
  );
}
