// `npm run demo -- [--lines N] [--rate R] [--runs million,tail,rolling]`: what is promised, shown with real processes and the command line. Exits with 1
// when something acknowledged is not there exactly once, replicas differ, or a restart in order is noticed by a client.
import { cutDivergentTail, writeThroughKills } from "./cluster/demo.ts";
import { faultsOf, measureFailover, unprovenOf } from "./cluster/failover.ts";
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

function fail(what: string): void {
  console.log(`FAILED: ${what}`);
  process.exitCode = 1;
}

if (runs.includes("million")) {
  const report = await writeThroughKills({ lines, rate }, say);
  console.log(JSON.stringify(report, null, 2));
  if (report.inputHash === report.outputHash) console.log("sort of input and output: identical");
  else fail("sort of input and output differ");
}
if (runs.includes("tail")) {
  const report = await cutDivergentTail(say);
  console.log(JSON.stringify(report, null, 2));
  if (new Set(report.hashes).size === 1) console.log("the replicas are identical byte for byte");
  else fail("the replicas differ");
}
if (runs.includes("rolling")) {
  const report = await measureFailover(
    { plan: [{ kind: "stop", times: 3 }], recordsPerSecond: 5_000, recordBytes: 100 },
    say,
  );
  console.log(JSON.stringify(report, null, 2));
  for (const fault of [...faultsOf(report), ...unprovenOf(report)]) fail(fault);
}
