// npm run bench -- [codec] [client] [produce] [replication] [start] [memory] [storage] [partitions] [broker] [--rounds N] [--scale 0..1] [--check] [--json FILE]: measures, prints
// medians with their range and the ratios that count; --check exits 1 when a bound is missed. Needs a built dist (npm run build).
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { benchMemory } from "./big-file.ts";
import { benchClient } from "./client.ts";
import { benchCodec } from "./codec.ts";
import { commit, machine } from "../src/bench/machine.ts";
import { type BoundedSummary, missesItsBound, printTable, type Summary } from "./harness.ts";
import { benchBroker } from "./broker-figures.ts";
import { benchPartitions } from "./partitions.ts";
import { benchProduce } from "./produce.ts";
import { benchReplication } from "./replication.ts";
import { benchStartUp } from "./start-up.ts";
import { benchStorage } from "./storage-figures.ts";

if (process.argv.includes("--help")) {
  console.log("usage: npm run bench -- [SUITE ...] [--rounds N] [--scale 0..1] [--check] [--json FILE]");
  process.exit(0);
}
const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: "string", default: "5" },
    scale: { type: "string", default: "1" },
    check: { type: "boolean", default: false },
    json: { type: "string" },
  },
});
const rounds = Number(flags.rounds);
const scale = Number(flags.scale);

const suites: Readonly<Record<string, () => Promise<(Summary | BoundedSummary)[]>>> = {
  codec: () => benchCodec(rounds),
  client: () => benchClient(rounds),
  start: () => benchStartUp(rounds),
  produce: () => benchProduce(rounds, scale),
  replication: () => benchReplication(rounds, scale),
  memory: () => benchMemory(scale),
  storage: () => benchStorage(rounds),
  broker: () => benchBroker(rounds, scale),
  partitions: () => benchPartitions(rounds, scale),
};

const names = positionals.length === 0 ? Object.keys(suites) : positionals;
const rows: (Summary | BoundedSummary)[] = [];
for (const name of names) {
  const suite = suites[name];
  if (suite === undefined) throw new Error(`no benchmark ${name}; there are ${Object.keys(suites).join(", ")}`);
  rows.push(...(await suite()));
}
printTable(rows);
if (flags.json !== undefined)
  writeFileSync(
    flags.json,
    `${JSON.stringify({ machine: { ...machine(), commit: commit() }, rounds, scale, rows }, null, 2)}\n`,
  );
const missed = rows.filter(missesItsBound);
if (flags.check && missed.length > 0) {
  process.stderr.write(`out of bounds: ${missed.map((row) => row.name.trim()).join(", ")}\n`);
  process.exitCode = 1;
}
