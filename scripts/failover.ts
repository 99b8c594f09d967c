// `npm run failover -- [flags of ottla bench failover]`: builds, and runs it. Flags that make no sense are refused before.
import { mainScript } from "../src/chaos/build.ts";
import { failoverPlan } from "../src/cli/commands/bench-failover.ts";
import { UsageError } from "../src/cli/values.ts";
import { flagsOf, refuse } from "./flags.ts";
import { BUILD, runInPlace, runUntilFailure } from "./stages.ts";

const usage = `npm run failover -- [--kills N] [--kinds KIND[:N],...] [--rate RECORDS_PER_SECOND] [--record-bytes SIZE] [--dir PATH] [--out FILE.json|FILE.html] [--json]
  as ottla bench failover, whose --help says what they mean`;
const { json: _, ...flags } = flagsOf(usage, {
  kills: { type: "string", default: "30" },
  kinds: { type: "string", default: "all" },
  rate: { type: "string", default: "20000" },
  "record-bytes": { type: "string", default: "100" },
  dir: { type: "string" },
  out: { type: "string", multiple: true },
  json: { type: "boolean" },
});
try {
  failoverPlan({ ...flags, recordBytes: flags["record-bytes"] });
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  refuse(usage, error.message);
}
if (process.env["OTTLA_TEST_DIST"] === undefined) {
  const built = runUntilFailure([BUILD]);
  if (built !== 0) process.exit(built);
}
await runInPlace([mainScript(), "bench", "failover", ...process.argv.slice(2)]);
