// A whole chaos run: what can be tried here, cells put together to clusters, each cluster run and judged, the verdict.
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createRng } from "../base/rng.ts";
import { type Capabilities, missingOf } from "./capabilities.ts";
import { wordsOf } from "./cell.ts";
import { faultKind } from "./faults/all.ts";
import { grouped, nameOf } from "./grouping.ts";
import type { ChaosPlan } from "./plan.ts";
import { type CellReport, type RunReport, type SelfTestRow, type SessionReport, untried, verdictOf } from "./report.ts";
import { type PlannedCell, runSession, type SessionPlan } from "./session.ts";
import { workloadKind } from "./workloads.ts";

const RECURSIVE = { recursive: true, force: true } as const;

export interface RunParts {
  readonly plan: ChaosPlan;
  readonly capabilities: Capabilities;
  /** Of this run; it gets histories, logs, data and the verdict. */
  readonly directory: string;
  readonly say: (line: string) => void;
  readonly signal: AbortSignal;
  /** What came before, for the verdict. */
  readonly selfTest?: readonly SelfTestRow[];
  /** Planted bugs: a module that each node loads first, and what it reads. */
  readonly preload?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Resolves with the verdict; rejects only when it is aborted. Nothing runs any more then. */
export async function runChaos(parts: RunParts): Promise<RunReport> {
  const { plan, capabilities, directory, say, signal, selfTest = [] } = parts;
  const startedMs = performance.now();
  const startedAt = new Date().toISOString();
  mkdirSync(directory, { recursive: true });
  const { planned, notRun } = sift(plan, capabilities);
  const sessions: SessionReport[] = [];
  for (const session of sessionsOf(planned, parts)) {
    say(`${session.name}: ${session.cells.map(({ cell }) => cell.fault).join(", ")}`);
    const found = await runSession(session, { say, signal }).catch((error: unknown) => broken(session, signal, error));
    sessions.push(found);
    // Of an hour of runs only what is wrong stays on the disk.
    if (found.reasons.length + found.violations.length === 0) rmSync(join(session.directory, "cluster"), RECURSIVE);
  }
  const report: RunReport = {
    version: 1,
    seed: plan.seed,
    startedAt,
    seconds: Math.round((performance.now() - startedMs) / 100) / 10,
    verdict: verdictOf(sessions, selfTest),
    capabilities: [...capabilities.values()],
    sessions,
    notRun,
    selfTest,
  };
  writeFileSync(join(directory, "verdict.json"), `${JSON.stringify(report, null, 2)}\n`);
  return report;
}

/** Names that a plan may use stand for themselves here; unknown ones were refused when it was read. */
function sift(
  plan: ChaosPlan,
  capabilities: Capabilities,
): { readonly planned: readonly PlannedCell[]; readonly notRun: readonly CellReport[] } {
  const planned: PlannedCell[] = [];
  const notRun: CellReport[] = [];
  for (const cell of plan.cells) {
    const kind = faultKind(cell.fault);
    const workload = workloadKind(cell.workload);
    const missing = kind === undefined ? ["no such fault in this build"] : missingOf(kind.needs, capabilities);
    if (kind !== undefined && workload !== undefined && missing.length === 0) planned.push({ cell, kind, workload });
    else notRun.push(untried(cell, workload === undefined ? ["no such workload in this build"] : missing));
  }
  return { planned, notRun };
}

function sessionsOf(cells: readonly PlannedCell[], parts: RunParts): readonly SessionPlan[] {
  const { plan, directory, preload, env } = parts;
  const groups = grouped(cells, {
    needsOf: ({ kind }) => kind.cluster ?? {},
    sharesClusters: plan.sharesClusters,
    cellsMax: plan.cellsPerCluster,
  });
  const sessions: SessionPlan[] = [];
  const rng = createRng(plan.seed);
  for (let round = 1; round <= plan.rounds; round++)
    for (const group of groups) {
      const name = `cluster ${sessions.length + 1} (${nameOf(group.needs)})`;
      sessions.push({
        ...group,
        name,
        plan,
        rng: rng.fork(name),
        directory: join(directory, `cluster-${sessions.length + 1}`),
        ...(preload === undefined ? {} : { preload }),
        ...(env === undefined ? {} : { env }),
      });
    }
  return sessions;
}

/** A cluster that could not be run to its end: not green, and not what an interrupted run rejects with. */
function broken(session: SessionPlan, signal: AbortSignal, error: unknown): SessionReport {
  signal.throwIfAborted();
  const reason = wordsOf(error);
  return {
    name: session.name,
    cells: session.cells.map(({ cell }) => ({ ...untried(cell, [reason]), status: "red" })),
    violations: [],
    excusedLosses: 0,
    tally: null,
    final: null,
    counts: {},
    clientsKilled: 0,
    events: 0,
    reasons: [reason],
    seconds: 0,
    directory: session.directory,
  };
}
