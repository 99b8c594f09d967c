// The simulator of partition cores alone, from the command line.
//   npx tsx scripts/replication-sim.ts --seed N [--trace] [--mutant ID]
//   npx tsx scripts/replication-sim.ts --seeds A..B [--mutant ID]     exits with 1 on any failure
import { cpuUsage } from "node:process";
import { activateMutants } from "../src/base/mutant.ts";
import {
  NAMED_REPLICATION_STATES,
  type ReplicationSeedResult,
  runReplicationSeed,
} from "../src/sim/replication/run-replication-seed.ts";
import { flagsOf } from "./flags.ts";

/** One seed in this many runs twice and must give the same hash. */
const REPEAT_EVERY = 20;
const values = flagsOf("npm run replication-sim -- [--seed N | --seeds A..B] [--trace] [--mutant ID]", {
  seed: { type: "string" },
  seeds: { type: "string" },
  trace: { type: "boolean", default: false },
  mutant: { type: "string" },
});

const replayCommand = (seed: number): string =>
  `npx tsx scripts/replication-sim.ts --seed ${seed} --trace${values.mutant === undefined ? "" : ` --mutant ${values.mutant}`}`;

function printCounts(title: string, counts: ReadonlyMap<string, number>): void {
  for (const [name, count] of [...counts].toSorted(([left], [right]) => (left < right ? -1 : 1)))
    console.log(`  ${title}: ${name} ${count}`);
}

function faultOf(result: ReplicationSeedResult): string | undefined {
  const { violation } = result;
  if (violation !== undefined) return `invariant ${violation.invariant}: ${violation.message}`;
  if (result.seed % REPEAT_EVERY !== 0) return undefined;
  const { hash } = runReplicationSeed(result.seed);
  return hash === result.hash ? undefined : `not the same when run again: ${result.hash}, then ${hash}`;
}

function runOne(seed: number): void {
  const result = runReplicationSeed(seed, values.trace ? { onTrace: (line) => console.log(line) } : {});
  console.log(JSON.stringify(result.swarm));
  printCounts("fault", result.faults);
  printCounts("reached", result.marks);
  console.log(
    `${result.events} events, ${result.committed} committed, ${result.elections} elections, ${(result.simulatedMs / 1000).toFixed(1)} simulated s, hash ${result.hash}`,
  );
  if (result.notCounted !== undefined) console.log(`does not count: ${result.notCounted}`);
  const fault = faultOf(result);
  if (fault !== undefined) {
    console.log(`BROKEN ${fault}`);
    process.exitCode = 1;
  }
}

function runMany(range: string): void {
  const match = /^(\d+)\.\.(\d+)$/.exec(range);
  if (match === null) throw new RangeError("--seeds takes A..B");
  const [from, to] = [Number(match[1]), Number(match[2])];
  const reached = new Map<string, number>();
  let failing = 0;
  let counted = 0;
  let simulatedMs = 0;
  let events = 0;
  let committed = 0;
  const start = cpuUsage();
  for (let seed = from; seed <= to; seed++) {
    const result = runReplicationSeed(seed);
    const fault = faultOf(result);
    if (fault !== undefined) {
      failing++;
      console.log(`FAILING seed ${seed}: ${fault}\n  ${replayCommand(seed)}`);
    }
    if (result.notCounted === undefined) counted++;
    simulatedMs += result.simulatedMs;
    events += result.events;
    committed += result.committed;
    for (const name of [...result.marks.keys(), ...result.faults.keys()])
      reached.set(name, (reached.get(name) ?? 0) + 1);
  }
  const { user, system } = cpuUsage(start);
  const seconds = (user + system) / 1_000_000;
  printCounts("seeds that reached", reached);
  console.log(
    `${to - from + 1} seeds (${counted} counted), ${committed} committed, ${events} events, ${(simulatedMs / 1000).toFixed(0)} simulated s in ${seconds.toFixed(1)} s of the processor: ` +
      `${(simulatedMs / 1000 / seconds).toFixed(0)} simulated s per s, ${failing} failing`,
  );
  const seeds = to - from + 1;
  const missed = seeds < 100 ? [] : NAMED_REPLICATION_STATES.filter((name) => (reached.get(name) ?? 0) * 100 < seeds);
  for (const name of missed) console.log(`MISSED in more than 99 of 100 seeds: ${name}`);
  if (failing > 0 || counted === 0 || missed.length > 0) process.exitCode = 1;
}

if (values.mutant !== undefined) activateMutants(values.mutant.split(","));
if (values.seeds !== undefined) runMany(values.seeds);
else if (values.seed !== undefined) runOne(Number(values.seed));
else {
  console.error("usage: npx tsx scripts/replication-sim.ts --seed N [--trace] | --seeds A..B [--mutant ID]");
  process.exitCode = 2;
}
