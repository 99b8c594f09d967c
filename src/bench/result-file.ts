// Reads a result file strictly: an unknown or missing field, a figure that is no number or another version is refused by name.
import { readFileSync } from "node:fs";
import { z } from "zod";
import { OttlaError } from "../model/errors.ts";
import { type BenchResult, RESULT_VERSION } from "./result.ts";

const count = z.number().nonnegative();
const known = count.nullable();

const runLabels = z
  .object({
    verb: z.string(),
    mode: z.enum(["open", "closed"]),
    acks: z.string().nullable(),
    recordBytes: known,
    batchBytes: known,
    partitions: known,
    connections: known,
  })
  .catchall(z.union([z.string(), z.number(), z.null()]));

const latency = z.strictObject({ p50: count, p90: count, p99: count, p999: count, max: count, histogram: z.base64() });

const timelineEntry = z.strictObject({ atMs: z.number(), records: count, p50Ms: known, p99Ms: known, maxMs: known });
const faultSpan = z.strictObject({
  atMs: z.number(),
  untilMs: z.number(),
  label: z.string(),
  gapMs: known,
  allowedGapMs: known,
});
const processSample = z.strictObject({ atMs: z.number(), process: z.string(), rssBytes: count, openFiles: count });

const benchRun = z.strictObject({
  name: z.string(),
  labels: runLabels,
  records: count,
  bytes: count,
  seconds: count,
  recordsPerSecond: count,
  mbPerSecond: count,
  latencyOf: z.string(),
  latencyMs: latency.nullable(),
  percentiles: z.array(z.tuple([z.number().min(0).max(1), count])),
  timeline: z.array(timelineEntry),
  faults: z.array(faultSpan),
  errors: z.record(z.string(), count),
  cpuSecondsPerGB: z.strictObject({ client: known, brokers: known }),
  diskBytesPerByte: known,
  ratio: z.strictObject({ toRawDisk: known, toRawSocket: known }),
  driverLateMs: z.strictObject({ p50: count, p99: count, max: count }).nullable(),
  processes: z.array(processSample),
  remarks: z.array(z.string()),
});

/** Of every file that says on what it was measured. */
export const machineFacts = z.strictObject({
  cpu: z.string(),
  cores: count,
  memoryBytes: count,
  kernel: z.string(),
  node: z.string(),
  ottla: z.string(),
});

const benchResult = z.strictObject({
  version: z.literal(RESULT_VERSION),
  machine: machineFacts,
  commit: z.string(),
  startedAt: z.string(),
  command: z.string(),
  isComplete: z.boolean(),
  cluster: z.strictObject({ brokers: count, isOwn: z.boolean() }),
  limits: z.strictObject({ rawDiskMBs: known, rawSocketMBs: known }),
  runs: z.array(benchRun).refine((runs) => new Set(runs.map(({ name }) => name)).size === runs.length, {
    error: "two runs have one name",
  }),
});

const FAULTS_TOLD_MAX = 3;

/** Throws INVALID_CONFIG naming the fields that do not fit; `source` is what the text came from. */
export function parseResult(text: string, source: string): BenchResult {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch (thrown) {
    throw unfit(source, `it is no JSON: ${(thrown as Error).message}`);
  }
  const parsed = benchResult.safeParse(document);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map(({ path, message }) => `${path.join(".") || "the document"}: ${message}`);
  const more = faults.length > FAULTS_TOLD_MAX ? `; and ${faults.length - FAULTS_TOLD_MAX} more` : "";
  throw unfit(source, `${faults.slice(0, FAULTS_TOLD_MAX).join("; ")}${more}`);
}

const unfit = (source: string, reason: string) =>
  new OttlaError("INVALID_CONFIG", `${source} is no result of ottla bench: ${reason}`);

export function readResult(file: string): BenchResult {
  return parseResult(readFileSync(file, "utf8"), file);
}

export function resultText(result: BenchResult): string {
  return `${JSON.stringify(result, null, 1)}\n`;
}
