// The results of a benchmark as a table, and one run as a line.
import type { BenchResult, BenchRun } from "../../bench/result.ts";
import type { Table } from "../output.ts";

const HEADERS = [
  "RUN",
  "RECORDS/S",
  "MB/S",
  "P50 MS",
  "P99 MS",
  "P99.9 MS",
  "MAX MS",
  "FAILED",
  "CLIENT CPU",
  "BROKER CPU",
  "WRITTEN",
  "DISK",
  "SOCKET",
];
const RIGHT = HEADERS.map((_, column) => column).slice(1);
const SPARE = ["SOCKET", "CLIENT CPU", "P99.9 MS", "DISK", "WRITTEN"];

export function benchTable({ runs }: BenchResult): Table {
  return { headers: HEADERS, rows: runs.map(rowOf), right: RIGHT, spare: SPARE };
}

function rowOf(run: BenchRun): string[] {
  const { latencyMs, cpuSecondsPerGB, ratio } = run;
  const latencies = [latencyMs?.p50, latencyMs?.p99, latencyMs?.p999, latencyMs?.max];
  return [
    run.name,
    Math.round(run.recordsPerSecond).toString(),
    figure(run.mbPerSecond),
    ...latencies.map(figure),
    String(Object.values(run.errors).reduce((sum, count) => sum + count, 0)),
    figure(cpuSecondsPerGB.client),
    figure(cpuSecondsPerGB.brokers),
    figure(run.diskBytesPerByte),
    figure(ratio.toRawDisk),
    figure(ratio.toRawSocket),
  ];
}

/** Three digits that count. */
export function figure(value: number | null | undefined): string {
  if (value === null || value === undefined) return "-";
  if (value === 0) return "0";
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 3;
  return value.toFixed(digits);
}

export function runLine({ recordsPerSecond, mbPerSecond, latencyMs, errors }: BenchRun): string {
  const latency = latencyMs === null ? "" : `, p50 ${figure(latencyMs.p50)} ms, p99 ${figure(latencyMs.p99)} ms`;
  const failed = errorsText(errors);
  const rest = failed === "" ? "" : `, failed: ${failed}`;
  return `  ${Math.round(recordsPerSecond)} records/s, ${figure(mbPerSecond)} MB/s${latency}${rest}`;
}

export function errorsText(errors: Readonly<Record<string, number>>): string {
  return Object.entries(errors)
    .map(([code, count]) => `${count} ${code}`)
    .join(", ");
}
