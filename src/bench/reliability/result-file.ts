// Writes a file of the reliability benchmark, and reads it strictly: an unknown or missing field, a figure that is no number or another version is refused by name.
import { z } from "zod";
import { OttlaError } from "../../model/errors.ts";
import { machineFacts } from "../result-file.ts";
import { RELIABILITY_VERSION, type ReliabilityResult } from "./result.ts";

const count = z.number().int().nonnegative();
const ms = z.number().nonnegative();
const latency = z.strictObject({ p50: ms, p99: ms, max: ms }).nullable();

const figures = z.strictObject({
  observed: z.array(z.string()),
  sent: count,
  acknowledged: count,
  failed: count,
  unknown: count,
  lost: count,
  duplicated: count,
  outOfOrder: count,
  unjudged: count,
  longestGapMs: ms,
  latencyMs: z.strictObject({ before: latency, during: latency, after: latency }),
  violations: z.array(z.string()),
  doubts: z.array(z.string()),
});

const cell = z
  .strictObject({
    fault: z.string(),
    says: z.string(),
    acks: z.enum(["0", "1", "all"]),
    notRun: z.string().min(1).nullable(),
    failed: z.string().min(1).nullable(),
    figures: figures.nullable(),
  })
  .refine(({ notRun, failed, figures: of }) => [notRun, failed, of].filter((each) => each !== null).length === 1, {
    message: "either figures, or one reason why there are none",
  });

const settings = z.strictObject({
  nodes: count,
  replicas: count,
  minInSync: count,
  rounds: count,
  beforeMs: ms,
  faultMs: ms,
  afterMs: ms,
  recordsPerSecond: ms,
  valueBytesMax: count,
  seed: count,
});

const result = z.strictObject({
  version: z.literal(RELIABILITY_VERSION),
  machine: machineFacts,
  commit: z.string(),
  startedAt: z.iso.datetime(),
  command: z.string(),
  isComplete: z.boolean(),
  settings,
  cells: z.array(cell),
});

/** As a file holds it; it is read back first, so that nobody is left with one that cannot be read. */
export function reliabilityText(found: ReliabilityResult, name: string): string {
  const text = `${JSON.stringify(found, null, 1)}\n`;
  parseReliability(text, name);
  return text;
}

export function parseReliability(text: string, name: string): ReliabilityResult {
  const parsed = result.safeParse(jsonOf(text, name));
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
  throw new OttlaError("INVALID_CONFIG", `${name} is no result of ottla bench reliability: ${issues.join("; ")}`);
}

function jsonOf(text: string, name: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new OttlaError("INVALID_CONFIG", `${name} is no JSON`, { cause });
  }
}
