// The results that are kept in bench/results/ as tables of docs/benchmarks.md: what was run, on what, and every figure.
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { readResult } from "../src/bench/result-file.ts";
import type { BenchResult, BenchRun } from "../src/bench/result.ts";
import { figure } from "../src/cli/commands/bench-table.ts";

export const RESULTS_FOLDER = "bench/results";

const HEAD = [
  "run",
  "records/s",
  "MB/s",
  "p50 ms",
  "p99 ms",
  "p99.9 ms",
  "failed",
  "client CPU s/GB",
  "broker CPU s/GB",
  "written",
  "x raw disk",
  "x raw socket",
];

/** In the order of their names. */
export function benchmarkTables(folder: string = RESULTS_FOLDER): string {
  const names = existsSync(folder) ? readdirSync(folder) : [];
  const files = names.filter((name) => name.endsWith(".json")).sort();
  if (files.length === 0) return "None were taken yet.";
  return files.map((name) => tableOf(readResult(join(folder, name)))).join("\n\n");
}

export function tableOf(result: BenchResult): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  const rows = result.runs.map((run) => line(cellsOf(run)));
  return [headingOf(result), "", line(HEAD), `|${"---|".repeat(HEAD.length)}`, ...rows].join("\n");
}

function headingOf({ command, machine, commit, startedAt, cluster, limits, isComplete }: BenchResult): string {
  const { rawDiskMBs, rawSocketMBs } = limits;
  const ottla = command.replace(/^.*?(?=bench )/, "ottla ");
  const facts = [
    `${cluster.brokers} broker${cluster.brokers === 1 ? "" : "s"}`,
    `${machine.cores} cores of ${machine.cpu}`,
    `Node ${machine.node}`,
    `commit ${commit}`,
    startedAt.slice(0, 10),
    `raw disk ${figure(rawDiskMBs)} MB/s, raw socket ${figure(rawSocketMBs)} MB/s`,
    ...(isComplete ? [] : ["ended early"]),
  ];
  return `\`${ottla}\`: ${facts.join("; ")}.`;
}

function cellsOf(run: BenchRun): string[] {
  const { latencyMs, cpuSecondsPerGB, ratio, errors } = run;
  const failed = Object.values(errors).reduce((sum, count) => sum + count, 0);
  return [
    run.name,
    Math.round(run.recordsPerSecond).toLocaleString("en-US"),
    figure(run.mbPerSecond),
    figure(latencyMs?.p50),
    figure(latencyMs?.p99),
    figure(latencyMs?.p999),
    String(failed),
    figure(cpuSecondsPerGB.client),
    figure(cpuSecondsPerGB.brokers),
    figure(run.diskBytesPerByte),
    figure(ratio.toRawDisk),
    figure(ratio.toRawSocket),
  ];
}
