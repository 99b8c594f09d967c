// npm run figures -- [name ...]: takes the figures of docs/benchmarks.md anew, on a machine that does nothing else, into bench/results/, and writes the tables.
// All of them: about 10 minutes. Needs a built dist (npm run build).
import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { RESULTS_FOLDER } from "./benchmark-table.ts";
import { writeTables } from "./docs-tables.ts";
import { flagsOf, refuse } from "./flags.ts";

/** By the name of the result, which is also their order. */
const FIGURES: Readonly<Record<string, readonly string[]>> = {
  "1-throughput": ["produce", "--acks", "0,1,all", "--record-bytes", "100,1024", "--in-flight", "10"],
  "2-one-broker": ["produce", "--cluster", "1", "--acks", "1,all", "--record-bytes", "100,1024", "--in-flight", "10"],
  "3-latency": ["produce", "--rate", "1000,10000", "--acks", "0,1,all", "--connections", "10", "--duration", "20s"],
  "4-partitions": ["produce", "--partitions", "1,6,100,1000", "--clients", "2"],
  "5-connections": ["produce", "--connections", "1,10,100,1000", "--partitions", "6", "--clients", "2"],
  "6-batches": ["produce", "--batch-bytes", "16KiB,64KiB,256KiB", "--acks", "all"],
  "7-consume": ["consume", "--record-bytes", "100,1024", "--connections", "1,4"],
  "8-end-to-end": ["e2e", "--rate", "1000,5000", "--acks", "1,all", "--connections", "10"],
};

const USAGE = `npm run figures -- [${Object.keys(FIGURES).join("|")} ...]`;
flagsOf(USAGE, {}, { allowPositionals: true });
const asked = process.argv.slice(2);
const unknown = asked.filter((name) => !Object.hasOwn(FIGURES, name));
if (unknown.length > 0) refuse(USAGE, `there are no figures ${unknown.join(", ")}`);
const names = asked.length === 0 ? Object.keys(FIGURES) : asked;
mkdirSync(RESULTS_FOLDER, { recursive: true });
for (const name of names) {
  const out = ["--out", join(RESULTS_FOLDER, `${name}.json`)];
  const args = ["dist/cli/main.js", "bench", ...(FIGURES[name] ?? []), ...out];
  const { status } = spawnSync(process.execPath, args, { stdio: "inherit" });
  if (status !== 0) {
    process.stderr.write(`${name} ended with ${status}\n`);
    process.exit(1);
  }
}
writeTables("docs/benchmarks.md", ["benchmarks"]);
