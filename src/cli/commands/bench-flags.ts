// Flags of `ottla bench produce|consume|e2e|soak`, checked before anything is started.
import { statfsSync } from "node:fs";
import { availableParallelism } from "node:os";
import type { LoadAcks, LoadVerb } from "../../bench/load/types.ts";
import { STAMP_BYTES } from "../../bench/load/payload.ts";
import { RUNS_MAX, type RunSpec, specsOf, type Sweep } from "../../bench/sweep.ts";
import { isNamed } from "../client.ts";
import type { GlobalFlags } from "../output.ts";
import { directoryOf, outsOf } from "./bench-out.ts";
import { humanBytes, parseDuration, parseInteger, parseSize, UsageError } from "../values.ts";

export type BenchVerb = LoadVerb | "soak";

export interface BenchFlags {
  readonly acks?: string;
  readonly rate?: string;
  readonly recordBytes?: string;
  readonly batchBytes?: string;
  readonly partitions?: string;
  readonly connections?: string;
  readonly inFlight?: string;
  readonly linger?: string;
  readonly topic?: string;
  readonly fill?: string;
  readonly expectedInterval?: string;
  readonly duration: string;
  readonly warmUp: string;
  readonly clients?: string;
  readonly cluster?: string;
  readonly replicationFactor?: string;
  readonly dir?: string;
  readonly window?: string;
  readonly limitBytes: string;
  readonly out?: readonly string[];
}

export interface BenchPlan {
  readonly verb: BenchVerb;
  readonly specs: readonly RunSpec[];
  readonly warmUpMs: number;
  readonly durationMs: number;
  readonly windowMs: number;
  readonly clients: number;
  readonly inFlight: number;
  readonly lingerMs: number;
  readonly expectedIntervalMs: number;
  readonly topic: string | undefined;
  readonly fillBytes: number;
  readonly limitBytes: number;
  readonly directory: string;
  readonly outs: readonly string[];
  /** Undefined: the brokers that run. */
  readonly ownNodes: 1 | 3 | undefined;
  readonly replicationFactor: number | undefined;
}

const CLIENTS_MAX = 64;
const CONNECTIONS_MAX = 10_000;
const PARTITIONS_MAX = 10_000;
/** A batch of one record must fit max.message.bytes (1,048,588) with its header. */
const RECORD_BYTES_MAX = 1_000_000;
const BATCH_BYTES_MAX = 16 * 1024 * 1024;
const RATE_MAX = 10_000_000;
/** Node waits at most 2^31 ms, and does not wait at all for longer; the end of a run takes minutes. */
const RUN_MS_MAX = 24 * 86_400_000;
const WINDOW_MS = { min: 100, max: 60_000 };
/** Bound of a timeline. */
const WINDOWS_MAX = 10_000;

export function benchPlan(verb: BenchVerb, flags: BenchFlags & GlobalFlags): BenchPlan {
  const durationMs = atLeast(parseDuration(flags.duration, "--duration", "s"), 100, "--duration", "100ms");
  const warmUpMs = parseDuration(flags.warmUp, "--warm-up", "s");
  const ownNodes = ownNodesOf(flags);
  const specs = specsOf(verb, sweepOf(verb, flags));
  if (specs.length > RUNS_MAX)
    throw new UsageError(`these lists make ${specs.length} runs; at most ${RUNS_MAX} are taken`);
  const plan: BenchPlan = {
    verb,
    specs,
    warmUpMs,
    durationMs,
    windowMs: windowOf(flags, durationMs),
    clients: clientsOf(flags),
    inFlight: parseInteger(flags.inFlight ?? "5", "--in-flight", { min: 1, max: 1000 }),
    lingerMs: parseDuration(flags.linger ?? "5ms", "--linger"),
    expectedIntervalMs:
      flags.expectedInterval === undefined ? 0 : parseDuration(flags.expectedInterval, "--expected-interval"),
    topic: flags.topic,
    fillBytes: parseSize(flags.fill ?? "0", "--fill"),
    limitBytes: parseSize(flags.limitBytes, "--limit-bytes"),
    directory: directoryOf(flags.dir),
    outs: outsOf(flags.out),
    ownNodes,
    replicationFactor:
      flags.replicationFactor === undefined
        ? undefined
        : parseInteger(flags.replicationFactor, "--replication-factor", { min: 1, max: ownNodes ?? 1000 }),
  };
  refuseWhatDoesNotFit(plan);
  if (warmUpMs + durationMs > RUN_MS_MAX) throw new UsageError("--warm-up and --duration: at most 24d together");
  return plan;
}

function ownNodesOf(flags: BenchFlags & GlobalFlags): 1 | 3 | undefined {
  if (flags.cluster === undefined) return isNamed(flags) ? undefined : 3;
  if (flags.bootstrap !== undefined || flags.bootstrapServer !== undefined)
    throw new UsageError("--cluster starts brokers and --bootstrap names some that run: give one of them");
  if (flags.cluster !== "1" && flags.cluster !== "3")
    throw new UsageError(`--cluster takes 1 or 3, not "${flags.cluster}"`);
  return flags.cluster === "1" ? 1 : 3;
}

function sweepOf(verb: BenchVerb, flags: BenchFlags): Sweep {
  const recordBytesMin = verb === "e2e" || verb === "soak" ? STAMP_BYTES : 1;
  return {
    acks: list(flags.acks ?? "all", "--acks", acksOf),
    rates: list(flags.rate ?? "max", "--rate", (text) => rateOf(text, verb)),
    recordBytes: list(flags.recordBytes ?? "", "--record-bytes", sizeIn(recordBytesMin, RECORD_BYTES_MAX)),
    batchBytes: list(flags.batchBytes ?? "", "--batch-bytes", sizeIn(1, BATCH_BYTES_MAX)),
    partitions: list(flags.partitions ?? "", "--partitions", integerIn(PARTITIONS_MAX)),
    connections: list(flags.connections ?? "", "--connections", integerIn(CONNECTIONS_MAX)),
  };
}

/** Each value once, in the order given. */
function list<T>(text: string, what: string, parse: (part: string, what: string) => T): T[] {
  const parts = text.split(",").map((part) => part.trim());
  if (parts.includes("")) throw new UsageError(`${what} takes values with commas between them, not "${text}"`);
  const values = [...new Set(parts.map((part) => parse(part, what)))];
  return values;
}

function acksOf(text: string): LoadAcks {
  if (text === "all" || text === "-1") return "all";
  if (text === "0" || text === "1") return text === "0" ? 0 : 1;
  throw new UsageError(`--acks takes 0, 1 or all, not "${text}"`);
}

function rateOf(text: string, verb: BenchVerb): number | "max" {
  if (text === "max" && verb !== "soak") return "max";
  return parseInteger(text, "--rate", { min: 1, max: RATE_MAX });
}

const sizeIn = (min: number, max: number) => (text: string, what: string) => {
  const size = parseSize(text, what);
  if (size >= min && size <= max) return size;
  throw new UsageError(`${what} takes ${min} to ${max} bytes, not "${text}"`);
};

const integerIn = (max: number) => (text: string, what: string) => parseInteger(text, what, { min: 1, max });

function atLeast(value: number, min: number, what: string, minText: string): number {
  if (value >= min) return value;
  throw new UsageError(`${what} takes ${minText} or more`);
}

const WINDOWS = 60;

function windowOf({ window }: BenchFlags, durationMs: number): number {
  const { min, max } = WINDOW_MS;
  if (window === undefined) return Math.min(max, Math.max(min, Math.round(durationMs / WINDOWS / 100) * 100));
  const windowMs = atLeast(parseDuration(window, "--window"), 10, "--window", "10ms");
  if (durationMs / windowMs <= WINDOWS_MAX) return windowMs;
  throw new UsageError(`--window ${window} makes more than ${WINDOWS_MAX} entries of the duration: take a longer one`);
}

function clientsOf({ clients }: BenchFlags): number {
  if (clients !== undefined) return parseInteger(clients, "--clients", { min: 1, max: CLIENTS_MAX });
  return Math.max(2, Math.min(CLIENTS_MAX, availableParallelism() >> 1));
}

/** A schedule says what it writes; brokers of its own write it here. */
function refuseWhatDoesNotFit({
  specs,
  warmUpMs,
  durationMs,
  directory,
  ownNodes,
  replicationFactor,
}: BenchPlan): void {
  if (ownNodes === undefined) return;
  const seconds = (warmUpMs + durationMs) / 1000;
  const most = Math.max(...specs.map(({ ratePerSecond, recordBytes }) => ratePerSecond * recordBytes)) * seconds;
  const neededBytes = most * (replicationFactor ?? ownNodes);
  const { bavail, bsize } = statfsSync(directory);
  if (neededBytes <= bavail * bsize) return;
  throw new UsageError(
    `a run writes ${humanBytes(neededBytes)}, and ${directory} has ${humanBytes(bavail * bsize)}`,
    "take a lower --rate, smaller records, a shorter --duration or another --dir",
  );
}
