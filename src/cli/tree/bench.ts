// The verbs of `ottla bench`; each family of verbs has its own file beside this one (bench-<family>.ts).
import type { Command } from "commander";
import type { Act } from "./act.ts";

export function addBench(program: Command, _act: Act): void {
  program.command("bench").description("measure a cluster: throughput, latency, processor time and bytes written");
}
