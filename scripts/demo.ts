// `npm run demo -- [--lines N] [--rate R] [--runs million,tail,rolling]`: what is promised, shown with real processes and the command line. Exits with 1
// when something acknowledged is not there exactly once, replicas differ, or a restart in order is noticed by a client.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { faultsOf, unprovenOf } from "../src/bench/failover/judge.ts";
import { measureFailover } from "../src/bench/failover/measure.ts";
import { endBySignal, exitCodeOfSignal, onStopSignals, type StopSignal } from "../src/cli/signals.ts";
import { cutDivergentTail, writeThroughKills } from "./cluster/demo.ts";
import { countOf, flagsOf, refuse } from "./flags.ts";
import { BUILD, runUntilFailure } from "./stages.ts";

const RUNS = ["million", "tail", "rolling"];
const usage = `npm run demo -- [--lines N] [--rate LINES_PER_SECOND] [--runs ${RUNS.join(",")}]`;
const values = flagsOf(usage, {
  lines: { type: "string", default: "1000000" },
  rate: { type: "string", default: "20000" },
  runs: { type: "string", default: RUNS.join(",") },
});
const lines = countOf(usage, "--lines", values.lines);
const rate = countOf(usage, "--rate", values.rate);
const say = (line: string): void => console.error(line);
const runs = values.runs.split(",");
const unknown = runs.find((run) => !RUNS.includes(run));
if (unknown !== undefined) refuse(usage, `--runs takes ${RUNS.join(", ")}; not ${unknown}`);
if (process.env["OTTLA_TEST_DIST"] === undefined) {
  const built = runUntilFailure([BUILD], say);
  if (built !== 0) process.exit(built);
}

const stop = new AbortController();
let by: StopSignal | undefined;
onStopSignals({
  onFirst: (signal) => {
    by = signal;
    say("ending all nodes");
    stop.abort(new Error(`ended by ${signal}`));
  },
  onAgain: endBySignal,
});
const parts = { say, signal: stop.signal };
await show().catch((error: unknown) => {
  if (by === undefined) throw error;
});
if (by !== undefined) process.exit(exitCodeOfSignal(by));

function fail(what: string): void {
  console.log(`FAILED: ${what}`);
  process.exitCode = 1;
}

async function show(): Promise<void> {
  if (runs.includes("million")) {
    const report = await writeThroughKills({ lines, rate }, parts);
    console.log(JSON.stringify(report, null, 2));
    if (report.inputHash === report.outputHash) console.log("sort of input and output: identical");
    else fail("sort of input and output differ");
  }
  if (runs.includes("tail")) {
    const report = await cutDivergentTail(parts);
    console.log(JSON.stringify(report, null, 2));
    if (new Set(report.hashes).size === 1) console.log("the replicas are identical byte for byte");
    else fail("the replicas differ");
  }
  if (runs.includes("rolling")) await roll();
}

async function roll(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "ottla-rolling-"));
  const load = { recordsPerSecond: 5_000, recordBytes: 100, ...parts };
  const { report, failure } = await measureFailover({ plan: [{ kind: "stop", times: 3 }], ...load, directory });
  if (failure === undefined || stop.signal.aborted) rmSync(directory, { recursive: true, force: true });
  stop.signal.throwIfAborted();
  const { timelines: _, ...figures } = report;
  console.log(JSON.stringify(figures, null, 2));
  if (failure !== undefined) fail(failure.message);
  for (const fault of [...faultsOf(report), ...unprovenOf(report)]) fail(fault);
}
