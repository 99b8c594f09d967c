// ottla chaos run|list: reads the plan, looks at what can be injected here, runs, prints one page. Ctrl-C leaves nothing behind.
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { type Capabilities, probeCapabilities } from "../../chaos/capabilities.ts";
import { FAULT_KINDS } from "../../chaos/faults/all.ts";
import { capabilityTable, pageLines, type PageTable, pageTables, selfTestTable } from "../../chaos/page.ts";
import { type ChaosPlan, HOUR_PLAN, QUICK_PLAN } from "../../chaos/plan.ts";
import { cellOf, readPlan } from "../../chaos/plan-file.ts";
import type { RunReport, SelfTestRow } from "../../chaos/report.ts";
import { runChaos, type RunParts } from "../../chaos/run.ts";
import { runSelfTest } from "../../chaos/self-test.ts";
import { TARGETS } from "../../chaos/targets.ts";
import { WORKLOADS } from "../../chaos/workloads.ts";
import { EXIT } from "../../model/exit-codes.ts";
import { Interruption } from "../interruption.ts";
import type { Invocation } from "../invocation.ts";
import type { Output } from "../output.ts";
import { exitCodeOfSignal } from "../signals.ts";
import { parseInteger, UsageError } from "../values.ts";

export interface ChaosFlags {
  readonly hour?: boolean;
  readonly selfTest?: boolean;
  readonly cell?: readonly string[];
  readonly seed?: string;
  readonly out?: string;
}

const SEED_MAX = 2 ** 32 - 1;

export async function chaosRun({ args, flags, output }: Invocation<ChaosFlags>): Promise<number> {
  const plan = planOf(args[0], flags);
  refuseUsed(flags.out);
  const stop = new Interruption(output, "ending all processes of the run");
  try {
    // Not before it listens: a probe that is cut short leaves what it has mounted.
    const capabilities = await probeCapabilities();
    if (stop.by !== undefined) return exitCodeOfSignal(stop.by);
    if (!output.isJson && !output.isQuiet) printTables([capabilityTable([...capabilities.values()])], output);
    return await runPlan(plan, { capabilities, flags, output, stop });
  } finally {
    stop.close();
  }
}

/** What another run has left there would be judged with this one's, or be started from. */
function refuseUsed(out: string | undefined): void {
  if (out !== undefined && existsSync(out) && readdirSync(out).length > 0)
    throw new UsageError(`--out: ${out} is not empty`);
}

function planOf(file: string | undefined, flags: ChaosFlags): ChaosPlan {
  if (file !== undefined && flags.hour === true)
    throw new UsageError("a plan and --hour are two ways to say what is run", "give one of them");
  const seed = flags.seed === undefined ? undefined : parseInteger(flags.seed, "--seed", { min: 0, max: SEED_MAX });
  const drawn = seed ?? Date.now() % SEED_MAX;
  const base: ChaosPlan =
    file === undefined ? { ...(flags.hour === true ? HOUR_PLAN : QUICK_PLAN), seed: drawn } : readPlan(resolve(file));
  const cells = flags.cell?.map(cellOf);
  return { ...base, ...(seed === undefined ? {} : { seed }), ...(cells === undefined ? {} : { cells }) };
}

interface At {
  readonly capabilities: Capabilities;
  readonly flags: ChaosFlags;
  readonly output: Output;
  readonly stop: Interruption;
}

async function runPlan(plan: ChaosPlan, { capabilities, flags, output, stop }: At): Promise<number> {
  const isKept = flags.out !== undefined;
  const directory = flags.out === undefined ? mkdtempSync(join(tmpdir(), "ottla-chaos-")) : resolve(flags.out);
  const drop = () => rmSync(directory, { recursive: true, force: true });
  const parts: RunParts = { plan, capabilities, directory, say: (line) => output.note(line), signal: stop.signal };
  try {
    const exitCode = await tested(parts, flags, output);
    if (exitCode === EXIT.OK && !isKept) drop();
    else output.note(`histories, logs and data: ${directory}`);
    return exitCode;
  } catch (error) {
    if (stop.by === undefined) throw error;
    if (!isKept) drop();
    return exitCodeOfSignal(stop.by);
  }
}

/** The self-test comes first, unless single cells are asked for or it is not wanted. */
async function tested(parts: RunParts, flags: ChaosFlags, output: Output): Promise<number> {
  const isTested = flags.selfTest ?? flags.cell === undefined;
  const selfTest = isTested ? await runSelfTest(parts) : [];
  if (flags.selfTest === true) return tellSelfTest(selfTest, output);
  const report = await runChaos({ ...parts, selfTest });
  print(report, output);
  return exitOf(report);
}

function tellSelfTest(rows: readonly SelfTestRow[], output: Output): number {
  if (output.isJson) output.json("chaos.self-test", { selfTest: rows });
  else printTables([selfTestTable(rows)], output);
  // One that was not tried shows nothing either.
  return rows.length > 0 && rows.every(({ status }) => status === "caught") ? EXIT.OK : EXIT.FAILED;
}

function exitOf({ verdict }: RunReport): number {
  switch (verdict) {
    case "green":
      return EXIT.OK;
    case "violation":
      return EXIT.INVARIANT_BROKEN;
    case "not green":
      return EXIT.FAILED;
  }
}

function print(report: RunReport, output: Output): void {
  if (output.isJson) {
    output.json("chaos.run", { report });
    return;
  }
  printTables(pageTables(report), output);
  for (const line of pageLines(report)) output.line(line);
}

function printTables(tables: readonly PageTable[], output: Output): void {
  for (const { title, ...table } of tables) {
    output.line(`${title}:`);
    output.table(table);
    output.line("");
  }
}

export async function chaosList({ output }: Invocation): Promise<number> {
  const stop = new Interruption(output, "ending when the probes have ended");
  const capabilities = [...(await probeCapabilities().finally(() => stop.close())).values()];
  if (stop.by !== undefined) return exitCodeOfSignal(stop.by);
  if (output.isJson) {
    const workloads = WORKLOADS.map(({ name, says }) => ({ name, says }));
    const faults = FAULT_KINDS.map(({ name, says, needs, tolerates }) => ({ name, says, needs, tolerates }));
    output.json("chaos.list", { workloads, faults, targets: TARGETS, capabilities });
    return EXIT.OK;
  }
  printTables(
    [
      {
        title: "Workloads",
        headers: ["WORKLOAD", "WHAT"],
        rows: WORKLOADS.map(({ name, says }) => [name, says]),
        right: [],
      },
      {
        title: "Faults",
        headers: ["FAULT", "GOES ON", "NEEDS", "WHAT"],
        rows: FAULT_KINDS.map(({ name, tolerates, needs, says }) => [name, tolerates, needs.join(", "), says]),
        right: [],
      },
      { title: "Targets", headers: ["TARGET"], rows: TARGETS.map((target) => [target]), right: [] },
      capabilityTable(capabilities),
    ],
    output,
  );
  return EXIT.OK;
}
