// The simulator from the command line.
//   npm run sim -- --seed N [--trace] [--mutant ID]        one seed, exactly as it ran before
//   npm run sim -- --seed N --shrink [--mutant ID]         a failing one: the shortest scenario that still fails so
//   npm run sim -- --seed N --reduced SCENARIO [--trace]   that one again
//   npm run sim -- --seeds A..B [--mutant ID] [--canary]   many; exits with 1 on any failure
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { activateMutants } from "../src/base/mutant.ts";
import { parseReduction, reduced } from "../src/sim/reduction.ts";
import type { SeedResult } from "../src/sim/run-seed.ts";
import { NAMED_STATES } from "../src/sim/marks.ts";
import type { TraceEvent } from "../src/sim/world.ts";
import { flagsOf } from "./flags.ts";
import { createSimHost, type SimHost } from "./sim-host.ts";
import { faultOf, runGuarded } from "./sim-run.ts";
import { shrinkSeed } from "./sim-shrink.ts";

/** One seed in this many is run twice here and once in a fresh process. */
const REPEAT_EVERY = 20;
/** In so many of the seeds of several nodes the quorum's leader must have changed at least once. */
const CONTROLLER_MOVES_IN = 0.8;
/** In so many of the seeds whose partitions may have several replicas another replica must have led at least once. */
const LEADERS_MOVE_IN = 0.8;
const values = flagsOf(
  "npm run sim -- [--seed N | --seeds A..B] [--trace] [--shrink] [--reduced SCENARIO] [--mutant ID] [--canary] [--hash-only]",
  {
    seed: { type: "string" },
    seeds: { type: "string" },
    trace: { type: "boolean", default: false },
    shrink: { type: "boolean", default: false },
    reduced: { type: "string" },
    mutant: { type: "string" },
    canary: { type: "boolean", default: false },
    "hash-only": { type: "boolean", default: false },
  },
);

function printTrace(event: TraceEvent): void {
  const size = event.sizeBytes === 0 ? "" : ` ${event.sizeBytes} bytes`;
  console.log(
    `${event.timeMs.toFixed(3).padStart(12)} ${event.node.padEnd(10)} ${event.kind.padEnd(14)} ${event.detail}${size}`,
  );
}

function run(host: SimHost, seed: number, onTrace?: (event: TraceEvent) => void): Promise<SeedResult> {
  return runGuarded(host, seed, {
    isCanary: values.canary,
    ...(onTrace === undefined ? {} : { onTrace }),
    ...(reduction === undefined ? {} : { adjust: (swarm) => reduced(swarm, reduction) }),
  });
}

function replayCommand(seed: number): string {
  return `npm run sim -- --seed ${seed}${values.mutant === undefined ? "" : ` --mutant ${values.mutant}`} --trace`;
}

/** Same seed, same hash: here, and in a process that has run nothing before. */
async function repeat(host: SimHost, result: SeedResult): Promise<string | undefined> {
  const again = await run(host, result.seed);
  const differs = again.checkpoints.findIndex((checkpoint, index) => checkpoint !== result.checkpoints[index]);
  if (again.hash !== result.hash)
    return `not the same when run again: ${result.hash}, then ${again.hash}, first differing checkpoint ${differs}`;
  const mutantFlags = values.mutant === undefined ? [] : ["--mutant", values.mutant];
  const child = spawnSync(
    process.execPath,
    [...process.execArgv, fileURLToPath(import.meta.url), "--seed", String(result.seed), "--hash-only", ...mutantFlags],
    { encoding: "utf8" },
  );
  const fresh = child.stdout.trim();
  return fresh === result.hash
    ? undefined
    : `not the same in a fresh process: ${result.hash}, there ${fresh} ${child.stderr}`;
}

async function runOne(host: SimHost, seed: number): Promise<void> {
  if (values["hash-only"]) {
    console.log((await run(host, seed)).hash);
    return;
  }
  const startMs = host.realMs();
  const result = await run(host, seed, values.trace ? printTrace : undefined);
  const seconds = (host.realMs() - startMs) / 1000;
  console.log(result.swarm);
  console.log(
    `${result.events} events, ${(result.simulatedMs / 1000).toFixed(1)} simulated seconds in ${seconds.toFixed(2)} s, hash ${result.hash}`,
  );
  console.log(
    `${result.nodes} nodes, ${result.batches} batches, ${result.commands} metadata commands, ${result.controllerMoves} moves of the controller, ${result.leadershipMoves} of partitions' leaders, ${result.reads} reads, ${result.starts} starts`,
  );
  printTable("faults", result.faults);
  printTable("reached", result.marks);
  if (result.notCounted !== undefined) console.log(`does not count: ${result.notCounted}`);
  for (const violation of result.violations)
    console.log(`BROKEN invariant ${violation.invariant}: ${violation.message}`);
  if (result.failure !== undefined) console.log(`FAILED ${result.failure}`);
  if (faultOf(result) !== undefined) process.exitCode = 1;
}

function printTable(title: string, counts: ReadonlyMap<string, number>): void {
  for (const [name, count] of [...counts].sort(([left], [right]) => (left < right ? -1 : 1)))
    console.log(`  ${title}: ${name} ${count}`);
}

class Totals {
  readonly failing: { readonly seed: number; readonly fault: string }[] = [];
  readonly faults = new Map<string, number>();
  /** Seeds that reached a state. */
  readonly reached = new Map<string, number>();
  readonly firstSeeds = new Map<string, number>();
  seeds = 0;
  counted = 0;
  repeated = 0;
  simulatedMs = 0;
  batches = 0;
  commands = 0;
  /** Seeds of several nodes, and those of them in which the controller moved. */
  several = 0;
  moved = 0;
  /** Seeds with partitions of several replicas, those of them in which a leader moved, and how often leaders did. */
  replicated = 0;
  ledAnew = 0;
  leadershipMoves = 0;

  add(result: SeedResult): void {
    this.seeds++;
    if (result.notCounted === undefined) this.counted++;
    this.simulatedMs += result.simulatedMs;
    this.batches += result.batches;
    this.commands += result.commands;
    if (result.nodes > 1) this.several++;
    if (result.controllerMoves > 0) this.moved++;
    if (result.hasReplicas) this.replicated++;
    if (result.hasReplicas && result.leadershipMoves > 0) this.ledAnew++;
    this.leadershipMoves += result.leadershipMoves;
    for (const [name, count] of result.faults) this.faults.set(name, (this.faults.get(name) ?? 0) + count);
    for (const name of result.marks.keys()) {
      this.reached.set(name, (this.reached.get(name) ?? 0) + 1);
      if (!this.firstSeeds.has(name)) this.firstSeeds.set(name, result.seed);
    }
  }

  get missed(): string[] {
    if (this.seeds < 100) return [];
    const missed = NAMED_STATES.filter((name) => (this.reached.get(name) ?? 0) * 100 < this.seeds).map(
      (name) => `MISSED in more than 99 of 100 seeds: ${name}`,
    );
    if (this.moved < this.several * CONTROLLER_MOVES_IN)
      missed.push(`MISSED: the controller moved in only ${this.moved} of ${this.several} seeds of several nodes`);
    if (this.ledAnew < this.replicated * LEADERS_MOVE_IN)
      missed.push(
        `MISSED: leaders of partitions moved in only ${this.ledAnew} of ${this.replicated} seeds with replicas`,
      );
    return missed;
  }
}

async function runMany(host: SimHost, range: string): Promise<void> {
  const match = /^(\d+)\.\.(\d+)$/.exec(range);
  if (match === null) throw new RangeError("--seeds takes A..B");
  const totals = new Totals();
  const startMs = host.realMs();
  for (let seed = Number(match[1]); seed <= Number(match[2]); seed++) {
    const result = await run(host, seed);
    totals.add(result);
    let fault = faultOf(result);
    if (fault === undefined && seed % REPEAT_EVERY === 0) {
      fault = await repeat(host, result);
      totals.repeated++;
    }
    if (fault !== undefined) {
      totals.failing.push({ seed, fault });
      console.log(`\nseed ${seed}: ${fault}\n  ${replayCommand(seed)}`);
    }
    const seconds = (host.realMs() - startMs) / 1000;
    process.stderr.write(
      `\r${totals.seeds} seeds, ${totals.failing.length} failing, ${(totals.simulatedMs / 1000 / seconds).toFixed(0)} simulated s per s `,
    );
  }
  process.stderr.write("\n");
  report(totals, (host.realMs() - startMs) / 1000);
}

function report(totals: Totals, seconds: number): void {
  printTable("fault", totals.faults);
  printTable(
    "seeds that reached",
    new Map(
      [...totals.reached].map(([name, count]) => [`${name} (first in seed ${totals.firstSeeds.get(name)})`, count]),
    ),
  );
  for (const { seed, fault } of totals.failing)
    console.log(`FAILING seed ${seed}: ${fault.split("\n")[0]}\n  ${replayCommand(seed)}`);
  for (const missed of totals.missed) console.log(missed);
  console.log(
    `${totals.seeds} seeds (${totals.counted} counted, ${totals.repeated} repeated with equal hashes or listed), ${totals.batches} batches, ${totals.commands} metadata commands, ${totals.leadershipMoves} moves of partitions' leaders, ` +
      `${(totals.simulatedMs / 1000).toFixed(0)} simulated s in ${seconds.toFixed(1)} s, ${totals.failing.length} failing`,
  );
  if (totals.failing.length > 0 || totals.missed.length > 0 || totals.counted === 0) process.exitCode = 1;
}

const host = await createSimHost();
const reduction = values.reduced === undefined ? undefined : parseReduction(values.reduced);
if (values.mutant !== undefined) activateMutants(values.mutant.split(","));
if (values.seeds !== undefined) await runMany(host, values.seeds);
else if (values.seed !== undefined && values.shrink) await shrinkSeed(host, Number(values.seed), values.mutant);
else if (values.seed !== undefined) await runOne(host, Number(values.seed));
else {
  console.error(
    "usage: npm run sim -- --seed N [--trace] [--shrink] [--reduced SCENARIO] | --seeds A..B [--mutant ID] [--canary]",
  );
  process.exitCode = 2;
}
