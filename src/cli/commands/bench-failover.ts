// ottla bench failover: leaders go in every way that there is, under load; a table of how long partitions took nothing, and the limits of each way.
import { mkdtempSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { type FailoverReport, faultsOf, unprovenOf } from "../../bench/failover/judge.ts";
import { FAILOVER_LIMITS, KINDS, type Planned, returnLimitMs } from "../../bench/failover/kinds.ts";
import { type FailoverOutcome, measureFailover } from "../../bench/failover/measure.ts";
import { commit, machine } from "../../bench/machine.ts";
import { type BenchResult, RESULT_VERSION } from "../../bench/result.ts";
import { EXIT } from "../../model/exit-codes.ts";
import { Interruption } from "../interruption.ts";
import type { Invocation } from "../invocation.ts";
import type { Output } from "../output.ts";
import { exitCodeOfSignal } from "../signals.ts";
import { parseInteger, parseSize, UsageError } from "../values.ts";
import { commandLine, directoryOf, MEASURED_SO_FAR, outsOf, writeOuts } from "./bench-out.ts";

export interface FailoverFlags {
  readonly kills: string;
  readonly kinds: string;
  readonly rate: string;
  readonly recordBytes: string;
  readonly dir?: string;
  readonly out?: readonly string[];
}

const TIMES = { min: 1, max: 1_000 };
const RATE = { min: 1, max: 10_000_000 };
const RECORD_BYTES_MAX = 1_000_000;

interface FailoverPlan {
  readonly plan: readonly Planned[];
  readonly recordsPerSecond: number;
  readonly recordBytes: number;
  readonly directory: string;
  readonly outs: readonly string[];
}

export function failoverPlan({ kills, kinds, rate, recordBytes, dir, out }: FailoverFlags): FailoverPlan {
  const times = parseInteger(kills, "--kills", TIMES);
  const plan = (kinds === "all" ? KINDS.join(",") : kinds).split(",").map((text): Planned => {
    const [name = "", count, ...more] = text.trim().split(":");
    const kind = KINDS.find((each) => each === name);
    if (kind === undefined || more.length > 0)
      throw new UsageError(`--kinds takes ${KINDS.join(", ")}, each with :n if you like; not "${text}"`);
    return { kind, times: count === undefined ? times : parseInteger(count, `--kinds ${kind}`, TIMES) };
  });
  const twice = plan.find(({ kind }, index) => plan.findIndex((each) => each.kind === kind) < index);
  if (twice !== undefined) throw new UsageError(`--kinds names ${twice.kind} twice`);
  const bytes = parseSize(recordBytes, "--record-bytes");
  if (bytes < 1 || bytes > RECORD_BYTES_MAX)
    throw new UsageError(`--record-bytes takes 1 to ${RECORD_BYTES_MAX} bytes, not "${recordBytes}"`);
  return {
    plan,
    recordsPerSecond: parseInteger(rate, "--rate", RATE),
    recordBytes: bytes,
    directory: directoryOf(dir),
    outs: outsOf(out),
  };
}

export async function benchFailover({ flags, output }: Invocation<FailoverFlags>): Promise<number> {
  const plan = failoverPlan(flags);
  const stop = new Interruption(output, MEASURED_SO_FAR);
  try {
    const startedAt = new Date().toISOString();
    const directory = mkdtempSync(join(plan.directory, "ottla-failover-"));
    const say = (text: string) => output.note(text);
    const outcome = await measureFailover({ ...plan, directory, signal: stop.signal, say }).finally(() =>
      removeIfEmpty(directory),
    );
    const result = resultOf(outcome, startedAt);
    tell(outcome.report, result, output);
    writeOuts(plan.outs, result, output);
    if (stop.by !== undefined) return exitCodeOfSignal(stop.by);
    if (outcome.failure !== undefined) throw outcome.failure;
    return missed(outcome.report).length === 0 ? EXIT.OK : EXIT.FAILED;
  } finally {
    stop.close();
  }
}

/** What nodes that failed wrote is left. */
function removeIfEmpty(directory: string): void {
  try {
    rmdirSync(directory);
  } catch {
    // What is left there was told.
  }
}

const missed = (report: FailoverReport): string[] => [...faultsOf(report), ...unprovenOf(report)];

function resultOf({ report, failure }: FailoverOutcome, startedAt: string): BenchResult {
  return {
    version: RESULT_VERSION,
    machine: machine(),
    commit: commit(),
    startedAt,
    command: commandLine(),
    isComplete: failure === undefined,
    cluster: { brokers: 3, isOwn: true },
    limits: { rawDiskMBs: null, rawSocketMBs: null },
    runs: report.timelines,
  };
}

function tell(report: FailoverReport, result: BenchResult, output: Output): void {
  const { timelines: _, ...rest } = report;
  const [faults, unproven] = [faultsOf(report), unprovenOf(report)];
  if (output.isJson)
    output.json("bench.failover", {
      ...rest,
      limits: FAILOVER_LIMITS,
      faults,
      unproven,
      isComplete: result.isComplete,
    });
  else {
    output.table(tableOf(report));
    for (const [kind, reason] of Object.entries(report.notRun)) output.note(`${kind}: NOT RUN (${reason})`);
  }
  for (const fault of [...faults, ...unproven]) output.note(`missed: ${fault}`);
}

const HEADERS = ["KIND", "TIMES", "MEDIAN", "P90", "MAX", "ALLOWED", "BACK", "ALLOWED", "VERDICT"];

/** Milliseconds. */
function tableOf({ kinds, notRun }: FailoverReport) {
  const rows = kinds.map(({ kind, runs, medianMs, p90Ms, maxMs, returnMaxMs, isWithin }) => [
    kind,
    ...[runs.length, medianMs, p90Ms, maxMs, FAILOVER_LIMITS[kind].maxMs, returnMaxMs ?? "-", returnLimitMs(kind)].map(
      String,
    ),
    isWithin ? "ok" : "missed",
  ]);
  const missing = Object.keys(notRun).map((kind) => [kind, ...HEADERS.slice(2).map(() => "-"), "not run"]);
  return { headers: HEADERS, rows: [...rows, ...missing], right: [1, 2, 3, 4, 5, 6, 7] };
}
