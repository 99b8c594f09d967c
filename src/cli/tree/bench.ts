// The verbs of `ottla bench`; each family of verbs has its own file beside this one (bench-<family>.ts).
import type { Command } from "commander";
import type { Act } from "./act.ts";
import { addBenchReport } from "./bench-report.ts";

export function addBench(program: Command, act: Act): void {
  const bench = program
    .command("bench")
    .description("measure a cluster: throughput, latency, processor time and bytes written");
  addBenchReport(bench, act);
}
