// `npm run attack -- [--frames N] [--sequences N] [--seed N] [--only frame:N,sequence:N]`: a real node under damaged requests and senseless sequences of
// them, through its port. Prints counts of all answers by their code. Exits with 1 when anything happened that must not: see attack.ts.
// `npm run attack -- --crowd [--rounds N]`: the same node in a crowd, see crowd.ts. Prints a table of it beside what a
// server with nothing in it has; only the node is judged.
import { type BoundedSummary, printTable, summarise } from "../../bench/harness.ts";
import { countOf, flagsOf, refuse } from "../flags.ts";
import { BUILD, runUntilFailure } from "../stages.ts";
import { attack } from "./attack.ts";
import { crowded, type CrowdRound, medianOf, RATIO_MAX, ratioOf, writtenOf } from "./crowd.ts";

const usage =
  "npm run attack -- [--frames N] [--sequences N] [--seed N] [--only frame:N,sequence:N,...] | --crowd [--rounds N]";
const values = flagsOf(usage, {
  frames: { type: "string", default: "50000" },
  sequences: { type: "string", default: "500" },
  seed: { type: "string" },
  only: { type: "string" },
  crowd: { type: "boolean", default: false },
  rounds: { type: "string", default: "5" },
});
const frames = countOf(usage, "--frames", values.frames);
const sequences = countOf(usage, "--sequences", values.sequences);
const rounds = countOf(usage, "--rounds", values.rounds);
const seed = values.seed === undefined ? 1 + (Date.now() % 2 ** 32) : countOf(usage, "--seed", values.seed);
const only = values.only?.split(",");
// A case that is none would be an attack that finds nothing.
const unknown = only?.find((name) => !/^(frame|sequence):\d+$/.test(name));
if (unknown !== undefined) refuse(usage, `--only takes frame:N and sequence:N, not ${unknown}`);
const say = (line: string): void => console.error(line);
const built = process.env["OTTLA_TEST_DIST"] === undefined ? runUntilFailure([BUILD], say) : 0;
if (built !== 0) process.exit(built);

const faults = values.crowd ? await inACrowd() : await underAttack();
for (const fault of faults) say(`attack: ${fault}`);
if (faults.length === 0) say("attack: no finding");
process.exitCode = faults.length === 0 ? 0 : 1;

async function underAttack(): Promise<readonly string[]> {
  say(`attack: seed ${seed}`);
  const report = await attack({ say, seed, frames, sequences, ...(only !== undefined && { only }) });
  for (const [code, count] of Object.entries(report.counts)) console.log(`${code}\t${count}`);
  say(JSON.stringify({ ...report, counts: undefined, faults: undefined }, null, 2));
  return report.faults;
}

async function inACrowd(): Promise<readonly string[]> {
  // As many samples as let a p99 be read.
  const phases = { rounds, roundMs: 5_000, samples: 1_000, compared: true };
  const { faults: ours, ...report } = await crowded({ slow: 1_000, idle: 1_000, ...phases, say });
  say(JSON.stringify(report, null, 2));
  printTable([
    ...crowdRows("the node", report.rounds, { most: RATIO_MAX }),
    ...Object.entries(report.bare).flatMap(([name, found]) => crowdRows(name, found)),
  ]);
  return ours;
}

function crowdRows(name: string, all: readonly CrowdRound[], bound: { most?: number } = {}): BoundedSummary[] {
  const row = (what: string, unit: string, of: (round: CrowdRound) => number): BoundedSummary => {
    const samples = all.map(of);
    return { ...summarise(what, unit, samples), median: medianOf(samples) };
  };
  return [
    row(`${name}: p99 alone`, "ms", ({ alone }) => alone.p99),
    row(`${name}: p99 in the crowd`, "ms", ({ crowded: { p99 } }) => p99),
    row(`${name}: what the crowd wrote`, "MB/s", writtenOf),
    { ...row(name, "ratio", ratioOf), ...bound },
  ];
}
