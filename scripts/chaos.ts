// `npm run chaos -- [plan.json] [flags of ottla chaos run]`: builds, and runs it. Flags that it does not have are refused before.
import { mainScript } from "../src/chaos/build.ts";
import { flagsOf } from "./flags.ts";
import { BUILD, runInPlace, runUntilFailure } from "./stages.ts";

const usage = `npm run chaos -- [plan.json] [--hour] [--self-test | --no-self-test] [--cell WORKLOAD,FAULT,TARGET] [--seed N] [--out DIR] [--json]
  as ottla chaos run, whose --help says what they mean`;
flagsOf(
  usage,
  {
    hour: { type: "boolean" },
    "self-test": { type: "boolean" },
    "no-self-test": { type: "boolean" },
    cell: { type: "string", multiple: true },
    seed: { type: "string" },
    out: { type: "string" },
    json: { type: "boolean" },
    quiet: { type: "boolean", short: "q" },
  },
  { allowPositionals: true },
);
if (process.env["OTTLA_TEST_DIST"] === undefined) {
  const built = runUntilFailure([BUILD]);
  if (built !== 0) process.exit(built);
}
await runInPlace([mainScript(), "chaos", "run", ...process.argv.slice(2)]);
