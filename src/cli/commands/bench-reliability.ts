// ottla bench reliability: strikes each fault at clusters of its own, prints the matrix. Ctrl-C ends it, with what was measured so far.
import { existsSync, readdirSync } from "node:fs";
import { resolve } from "node:path";
import { faultById, RELIABILITY_FAULTS, type ReliabilityFault } from "../../bench/reliability/matrix.ts";
import type { ReliabilityResult, ReliabilitySettings } from "../../bench/reliability/result.ts";
import { reliabilityText } from "../../bench/reliability/result-file.ts";
import { runReliability } from "../../bench/reliability/run.ts";
import { HEADERS, tableRows } from "../../bench/reliability/table.ts";
import { verdictOf } from "../../bench/reliability/verdict.ts";
import { probeCapabilities } from "../../chaos/capabilities.ts";
import { EXIT } from "../../model/exit-codes.ts";
import { CommandFailure } from "../failure.ts";
import { Interruption } from "../interruption.ts";
import type { Invocation } from "../invocation.ts";
import type { Output } from "../output.ts";
import { replaceText } from "../replace-file.ts";
import { exitCodeOfSignal } from "../signals.ts";
import { parseDuration, parseInteger, parseSize, UsageError } from "../values.ts";
import { MEASURED_SO_FAR, outsOf } from "./bench-out.ts";

export interface ReliabilityFlags {
  readonly faults?: string;
  readonly rounds: string;
  readonly before: string;
  readonly fault: string;
  readonly after: string;
  readonly rate: string;
  readonly valueBytes: string;
  readonly seed: string;
  readonly keep?: string;
  readonly out?: readonly string[];
}

/** A producer holds what it could not send yet, and the history every record. */
const RATE_MAX = 5_000;
const ROUNDS_MAX = 1_000;
const PART_MS = { min: 1_000, max: 600_000 };
const VALUE_BYTES_MAX = 100_000;
/** Of a fault beside its rounds: a cluster that starts, and is read in the end; and of a round beside its parts. */
const CLUSTER_MS = 25_000;
const ROUND_MS = 6_000;

interface ReliabilityPlan {
  readonly faults: readonly ReliabilityFault[];
  readonly settings: ReliabilitySettings;
  readonly outs: readonly string[];
  readonly keepIn: string | undefined;
}

export async function benchReliability({ flags, output }: Invocation<ReliabilityFlags>): Promise<number> {
  const plan = reliabilityPlan(flags);
  const stop = new Interruption(output, MEASURED_SO_FAR);
  try {
    output.note(forecast(plan));
    const result = await runReliability({
      ...{ faults: plan.faults, settings: plan.settings, signal: stop.signal },
      capabilities: await probeCapabilities(),
      // Where it was started from says nothing to others.
      command: ["ottla", ...process.argv.slice(2)].join(" "),
      say: (line) => output.note(line),
      ...(plan.keepIn === undefined ? {} : { keepIn: plan.keepIn }),
    });
    tell(result, plan, output);
    return stop.by === undefined ? judged(result, output) : exitCodeOfSignal(stop.by);
  } finally {
    stop.close();
  }
}

export function reliabilityPlan(flags: ReliabilityFlags): ReliabilityPlan {
  const part = (text: string, what: string): number => {
    const ms = parseDuration(text, what, "s");
    if (ms < PART_MS.min || ms > PART_MS.max) throw new UsageError(`${what} takes 1s to 10m, not "${text}"`);
    return ms;
  };
  const valueBytesMax = parseSize(flags.valueBytes, "--value-bytes");
  if (valueBytesMax < 1 || valueBytesMax > VALUE_BYTES_MAX)
    throw new UsageError(`--value-bytes takes 1 to ${VALUE_BYTES_MAX}, not "${flags.valueBytes}"`);
  return {
    faults: faultsOf(flags.faults),
    settings: {
      ...{ nodes: 3, replicas: 3, minInSync: 2 },
      rounds: parseInteger(flags.rounds, "--rounds", { min: 1, max: ROUNDS_MAX }),
      beforeMs: part(flags.before, "--before"),
      faultMs: part(flags.fault, "--fault"),
      afterMs: part(flags.after, "--after"),
      recordsPerSecond: parseInteger(flags.rate, "--rate", { min: 20, max: RATE_MAX }),
      valueBytesMax,
      seed: parseInteger(flags.seed, "--seed", { min: 0, max: 0xffff_ffff }),
    },
    outs: outsOf(flags.out, [".json"]),
    keepIn: keepOf(flags.keep),
  };
}

/** Data of another run would be started from. */
function keepOf(directory: string | undefined): string | undefined {
  if (directory === undefined) return undefined;
  if (existsSync(directory) && readdirSync(directory).length > 0)
    throw new UsageError(`--keep: ${directory} is not empty`);
  return resolve(directory);
}

function faultsOf(list: string | undefined): readonly ReliabilityFault[] {
  if (list === undefined) return RELIABILITY_FAULTS;
  return [...new Set(list.split(","))].map((id) => {
    const fault = faultById(id);
    if (fault !== undefined) return fault;
    const known = RELIABILITY_FAULTS.map((each) => each.id).join(", ");
    throw new UsageError(`--faults: there is no fault "${id}"; there are ${known}`);
  });
}

function forecast({ faults, settings }: ReliabilityPlan): string {
  const { rounds, beforeMs, faultMs, afterMs } = settings;
  const totalMs = faults.length * (CLUSTER_MS + rounds * (beforeMs + faultMs + afterMs + ROUND_MS));
  return `${faults.length} faults, ${rounds} rounds each: about ${Math.ceil(totalMs / 60_000)} min`;
}

function tell(result: ReliabilityResult, { outs, keepIn }: ReliabilityPlan, output: Output): void {
  if (output.isJson) output.json("bench.reliability", { ...result });
  else
    output.table({
      headers: HEADERS.map((header) => header.toUpperCase()),
      rows: tableRows(result.cells),
      right: [2, 3, 4, 5, 6, 7, 8, 9],
    });
  for (const file of outs) {
    replaceText(file, reliabilityText(result, file));
    output.note(`written: ${file}`);
  }
  if (keepIn !== undefined) output.note(`histories, data and logs: ${keepIn}`);
}

function judged(result: ReliabilityResult, output: Output): number {
  const { exitCode, broken, worthless } = verdictOf(result);
  for (const line of [...broken, ...worthless]) output.note(line);
  if (exitCode === EXIT.OK) return exitCode;
  throw new CommandFailure({
    code: broken.length > 0 ? "PROMISE_BROKEN" : "NOTHING_PROVEN",
    message: broken[0] ?? worthless[0] ?? "",
    hint: "--keep DIR leaves histories, data and logs there",
    exitCode,
  });
}
