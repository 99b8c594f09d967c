// A plan as a file: JSON with comments. What it may hold, and where it is wrong, with the line.
import { z } from "zod";
import { configError, readDocument } from "../cli/config-file.ts";
import { type Node, getNodeValue, findNodeAtLocation } from "jsonc-parser";
import { UsageError } from "../cli/values.ts";
import { nearest } from "../base/nearest.ts";
import { FAULT_KINDS } from "./faults/all.ts";
import { type ChaosPlan, QUICK_PLAN } from "./plan.ts";
import type { CellName } from "./report.ts";
import { TARGETS, type TargetName } from "./targets.ts";
import { WORKLOADS } from "./workloads.ts";

const known = (what: string, names: readonly string[]) =>
  z.string().refine((name) => names.includes(name), {
    error: ({ input }) => `no ${what} "${String(input)}"${suggestion(String(input), names)}`,
  });

function suggestion(name: string, names: readonly string[]): string {
  const near = nearest(name, names);
  return near === undefined ? `: ottla chaos list shows them` : `: did you mean ${near}?`;
}

const workload = known(
  "workload",
  WORKLOADS.map(({ name }) => name),
);
const fault = known(
  "fault",
  FAULT_KINDS.map(({ name }) => name),
);
const target = z.enum(TARGETS);
const durationMs = z.number().int().min(0).max(3_600_000);

const planSchema = z.strictObject({
  nodes: z.number().int().min(1).max(9).optional(),
  workloads: z.array(workload).min(1).optional(),
  faults: z.array(fault).min(1).optional(),
  targets: z.array(target).min(1).optional(),
  cells: z.array(z.strictObject({ workload, fault, target })).min(1).optional(),
  warmUpMs: durationMs.optional(),
  steadyMs: durationMs.optional(),
  faultMs: durationMs.optional(),
  recoveryMs: durationMs.optional(),
  seed: z
    .number()
    .int()
    .min(0)
    .max(2 ** 32 - 1)
    .optional(),
  cellsPerCluster: z.number().int().min(1).max(100).optional(),
  sharesClusters: z.boolean().optional(),
  rounds: z.number().int().min(1).max(10_000).optional(),
  sendsMin: z.number().int().min(0).optional(),
  settings: z.record(z.string(), z.union([z.string(), z.number()])).optional(),
});

type PlanFile = z.infer<typeof planSchema>;

/** Rejects with CONFIG_UNREADABLE, which names the line. */
export function readPlan(path: string): ChaosPlan {
  const { root, lineOf } = readDocument(path);
  const result = planSchema.safeParse(withoutNotes(getNodeValue(root)));
  if (!result.success)
    throw configError(result.error.issues.map((issue) => issueText(path, root, lineOf, issue)).join("; "));
  return planOf(path, result.data);
}

/** `$comment` and `$schema` are for people and editors. */
function withoutNotes(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).filter(([key]) => !key.startsWith("$")));
}

function issueText(path: string, root: Node, lineOf: (node: Node) => number, issue: z.core.$ZodIssue): string {
  const unknown = issue.code === "unrecognized_keys" ? issue.keys[0] : undefined;
  const place = issue.path.map((part) => (typeof part === "symbol" ? String(part) : part));
  const node = findNodeAtLocation(root, unknown === undefined ? place : [...place, unknown]) ?? root;
  const where = place.length === 0 ? "" : `${place.join(".")}: `;
  return `${path}:${lineOf(node)}: ${where}${issue.message}`;
}

function planOf(path: string, { workloads, faults, targets, cells, ...rest }: PlanFile): ChaosPlan {
  const hasProduct = workloads !== undefined || faults !== undefined || targets !== undefined;
  if (cells !== undefined && hasProduct)
    throw configError(`${path}: give cells, or workloads, faults and targets whose product they are`);
  const product = (workloads ?? ["acks-all"]).flatMap((each) =>
    (faults ?? FAULT_KINDS.map(({ name }) => name)).flatMap((kind) =>
      (targets ?? ["leader"]).map((at): CellName => ({ workload: each, fault: kind, target: at })),
    ),
  );
  const given = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined));
  const own = cells ?? (hasProduct ? product : QUICK_PLAN.cells);
  return { ...QUICK_PLAN, seed: Date.now() % 2 ** 32, ...given, cells: own };
}

/** `workload,fault,target` of a flag. */
export function cellOf(text: string): CellName {
  const [one = "", kind = "", at = "leader", ...more] = text.split(",");
  const isTarget = (name: string): name is TargetName => TARGETS.some((each) => each === name);
  if (more.length > 0 || !isTarget(at))
    throw new UsageError(`--cell takes workload,fault,target, not "${text}"`, `targets: ${TARGETS.join(", ")}`);
  const wrong = [workload.safeParse(one), fault.safeParse(kind)].find(({ success }) => !success)?.error?.issues[0]
    ?.message;
  if (wrong !== undefined) throw new UsageError(wrong, "ottla chaos list shows what there is");
  return { workload: one, fault: kind, target: at };
}
