// `npm run failover -- [--kills N] [--kinds kill,controller:3,...] [--json FILE]`: a real cluster of three under load, its leaders ended in every way
// that there is, and how long a partition takes nothing each time, as clients in processes of their own see it. A table, and a report as JSON. Exits
// with 1 when a limit is missed (D-37) or could not be measured, the load was not what it was to be, or a client was told of an error.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { noNetworksHere } from "./cluster/cut-cluster.ts";
import {
  FAILOVER_LIMITS,
  type FailoverOptions,
  type FailoverReport,
  faultsOf,
  KINDS,
  measureFailover,
  unprovenOf,
} from "./cluster/failover.ts";
import { countOf, flagsOf, refuse } from "./flags.ts";
import { BUILD, runUntilFailure } from "./stages.ts";

const usage = `npm run failover -- [--kills N] [--kinds ${KINDS.join(",")}] [--json FILE] [--rate RECORDS_PER_SECOND] [--bytes RECORD_BYTES]
  --kinds takes a number for each kind, too: kill:10,stop:3`;
const values = flagsOf(usage, {
  kills: { type: "string", default: "30" },
  kinds: { type: "string", default: KINDS.join(",") },
  json: { type: "string" },
  rate: { type: "string", default: "20000" },
  bytes: { type: "string", default: "100" },
  /** In the network that this script made for itself. */
  inside: { type: "boolean", default: false },
});
const wanted = values.kinds.split(",").map((text) => {
  const [name, count = values.kills] = text.split(":");
  const kind = KINDS.find((each) => each === name);
  if (kind === undefined) return refuse(usage, `--kinds takes ${KINDS.join(", ")}; not ${name}`);
  return { kind, times: countOf(usage, count === values.kills ? "--kills" : "--kinds", count) };
});
const load = {
  recordsPerSecond: countOf(usage, "--rate", values.rate),
  recordBytes: countOf(usage, "--bytes", values.bytes),
};

type Planned = FailoverOptions["plan"][number];

const say = (line: string): void => console.error(line);

async function run(): Promise<FailoverReport> {
  const isCut = ({ kind }: Planned): boolean => kind.startsWith("cut");
  if (values.inside) return measureFailover({ ...load, plan: wanted }, say);
  const reports: FailoverReport[] = [];
  const here = wanted.filter((planned) => !isCut(planned));
  if (here.length > 0) reports.push(await measureFailover({ ...load, plan: here }, say));
  const cut = wanted.filter(isCut);
  if (cut.length > 0) reports.push(measureCut(cut));
  return merged(reports);
}

/** In a network of its own, where each broker has one, too. */
function measureCut(plan: readonly Planned[]): FailoverReport {
  const reason = noNetworksHere();
  if (reason !== undefined) return notRun(plan, reason);
  const kinds = plan.map(({ kind, times }) => `${kind}:${times}`).join(",");
  const folder = mkdtempSync(join(tmpdir(), "ottla-failover-"));
  const file = join(folder, "report.json");
  const { rate, bytes } = values;
  const flags = ["--inside", "--rate", rate, "--bytes", bytes, "--kinds", kinds];
  const script = ["--import", "tsx", import.meta.filename, ...flags, "--json", file];
  const child = spawnSync("unshare", ["-rn", process.execPath, ...script], { stdio: ["ignore", "ignore", "inherit"] });
  try {
    return JSON.parse(readFileSync(file, "utf8")) as FailoverReport;
  } catch (error) {
    throw new Error(`the measurement of ${kinds} ended with ${child.status}`, { cause: error });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const notRun = (plan: readonly Planned[], reason: string): FailoverReport => ({
  kinds: [],
  notRun: Object.fromEntries(plan.map(({ kind }) => [kind, reason])),
  load: { recordsPerSecond: Infinity, recordBytes: 0, wanted: 0 },
  acknowledged: 0,
  clientErrors: {},
});

function merged(reports: readonly FailoverReport[]): FailoverReport {
  const clientErrors: Record<string, number> = {};
  for (const report of reports)
    for (const [what, count] of Object.entries(report.clientErrors))
      clientErrors[what] = (clientErrors[what] ?? 0) + count;
  const load = [...reports].sort((left, right) => left.load.recordsPerSecond - right.load.recordsPerSecond)[0]?.load;
  return {
    kinds: reports.flatMap(({ kinds }) => kinds),
    notRun: Object.assign({}, ...reports.map((report) => report.notRun)) as Record<string, string>,
    load: load ?? { recordsPerSecond: 0, recordBytes: 0, wanted: 0 },
    acknowledged: reports.reduce((sum, { acknowledged }) => sum + acknowledged, 0),
    clientErrors,
  };
}

function table({ kinds, notRun: missing }: FailoverReport): string {
  const row = (cells: readonly string[]): string =>
    cells.map((cell, at) => cell.padStart(at === 0 ? -17 : 9)).join(" ");
  const head = row(["kind".padEnd(17), "times", "median", "p90", "max", "allowed", "back", ""]);
  const rows = kinds.map(({ kind, runs, medianMs, p90Ms, maxMs, returnMaxMs, isWithin }) =>
    row([
      kind.padEnd(17),
      String(runs.length),
      ...[medianMs, p90Ms, maxMs, FAILOVER_LIMITS[kind].maxMs, returnMaxMs].map(String),
      isWithin ? "ok" : "MISSED",
    ]),
  );
  return [head, ...rows, ...Object.entries(missing).map(([kind, reason]) => `${kind}: NOT RUN (${reason})`)].join("\n");
}

if (!values.inside && process.env["OTTLA_TEST_DIST"] === undefined) {
  const built = runUntilFailure([BUILD], say);
  if (built !== 0) process.exit(built);
}
const report = await run();
const faults = faultsOf(report);
const unproven = unprovenOf(report);
const text = JSON.stringify({ ...report, limits: FAILOVER_LIMITS, faults, unproven }, null, 2);
if (values.json !== undefined) writeFileSync(values.json, `${text}\n`);
if (!values.inside) {
  console.log(table(report));
  for (const fault of [...faults, ...unproven]) console.log(`MISSED: ${fault}`);
  if (values.json === undefined) console.log(text);
}
process.exitCode = faults.length + unproven.length === 0 ? 0 : 1;
