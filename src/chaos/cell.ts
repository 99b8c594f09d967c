// One cell: a fault struck while a workload runs, watched, healed, and the time until all is well again.
import { setTimeout as sleep } from "node:timers/promises";
import type { Rng } from "../base/rng.ts";
import type { HistoryEvent } from "../checkers/history.ts";
import type { Fleet } from "./clients/fleet.ts";
import type { ChaosCluster } from "./cluster-types.ts";
import { startAll } from "./faults/parts.ts";
import type { ActiveFault, FaultKind } from "./faults/types.ts";
import { machineMs } from "./machine-clock.ts";
import type { ChaosPlan } from "./plan.ts";
import type { CellName } from "./report.ts";
import { minorityOf, resolveTarget, type TargetPlace } from "./targets.ts";
import type { WorkloadKind } from "./workloads.ts";

export interface CellParts {
  readonly cluster: ChaosCluster;
  readonly fleet: Fleet;
  readonly workload: WorkloadKind;
  readonly place: TargetPlace;
  readonly kind: FaultKind;
  readonly plan: ChaosPlan;
  readonly rng: Rng;
  readonly history: (event: HistoryEvent) => void;
}

/** What happened; how it is judged needs the whole history. */
export interface CellRun {
  readonly cell: CellName;
  readonly nodes: readonly number[];
  readonly description: string;
  readonly observed: string | undefined;
  readonly fromMs: number;
  readonly untilMs: number;
  readonly recoveredMs: number | undefined;
  readonly isProgressDemanded: boolean;
  readonly clientKilled: string | undefined;
  readonly reasons: readonly string[];
}

/** A fault that cannot be injected or healed by then hangs. */
const ACT_MS = 120_000;
/** A client is killed when the fault has struck for this part of its time. */
const KILL_AT = 0.4;

export async function runCell(cell: CellName, parts: CellParts): Promise<CellRun> {
  const { cluster, kind, plan, place, rng, history } = parts;
  await sleep(plan.steadyMs);
  const nodes = await resolveTarget(cluster, cell.target, { place, rng });
  const fromMs = machineMs();
  if (nodes.length === 0) return unstruck(cell, fromMs, `there is no ${cell.target} to strike`);
  const reasons: string[] = [];
  const injected = (async () => kind.inject(cluster, nodes, rng, history))();
  let fault: ActiveFault;
  try {
    fault = await inTime(injected, "the fault was not injected");
  } catch (error) {
    // One that is only late is ended when it has come.
    injected.then((late) => late.heal()).catch(() => undefined);
    const half = unstruck(cell, fromMs, wordsOf(error));
    await inTime(takeBack(cluster), "what was injected was not taken back").catch(
      (why: unknown) => void reasons.push(wordsOf(why)),
    );
    const recoveredMs = await recovery(cluster, plan.recoveryMs, reasons);
    return { ...half, nodes, recoveredMs, reasons: [...half.reasons, ...reasons] };
  }
  await sleep(plan.faultMs * KILL_AT);
  const clientKilled = parts.workload.killsClients ? await parts.fleet.killOne(rng) : undefined;
  await sleep(plan.faultMs * (1 - KILL_AT));
  let observed = await seen(fault, reasons);
  const untilMs = machineMs();
  await inTime(fault.heal(), "the fault was not healed").catch((error: unknown) => void reasons.push(wordsOf(error)));
  const recoveredMs = await recovery(cluster, plan.recoveryMs, reasons);
  observed ??= await seen(fault, reasons);
  if (observed === undefined) reasons.push("nothing shows that the fault struck");
  const away = Math.min(kind.atOnce ?? nodes.length, nodes.length);
  const isProgressDemanded = kind.tolerates === "writes" && away <= minorityOf(plan.nodes);
  return {
    cell,
    nodes,
    description: fault.description,
    ...{ observed, fromMs, untilMs, recoveredMs, isProgressDemanded, clientKilled, reasons },
  };
}

/** Whatever an injection did before it failed: it has told nobody how to end that. */
async function takeBack({ nodes }: ChaosCluster): Promise<void> {
  for (const node of nodes) {
    node.signal("SIGCONT");
    node.shim?.clear();
    await node.network?.heal();
    await node.proxy?.set(undefined);
  }
  await startAll(nodes.filter(({ pid }) => pid === undefined));
}

function unstruck(cell: CellName, fromMs: number, reason: string): CellRun {
  return {
    cell,
    nodes: [],
    description: "",
    observed: undefined,
    fromMs,
    untilMs: fromMs,
    recoveredMs: undefined,
    isProgressDemanded: false,
    clientKilled: undefined,
    reasons: [reason],
  };
}

async function seen(fault: ActiveFault, reasons: string[]): Promise<string | undefined> {
  return fault.observed().catch((error: unknown) => {
    reasons.push(`looking for the fault: ${wordsOf(error)}`);
    return undefined;
  });
}

async function recovery(cluster: ChaosCluster, recoveryMs: number, reasons: string[]): Promise<number | undefined> {
  const healedMs = machineMs();
  try {
    await cluster.untilHealthy(recoveryMs);
    return machineMs() - healedMs;
  } catch (error) {
    reasons.push(wordsOf(error));
    return undefined;
  }
}

async function inTime<T>(act: Promise<T>, failure: string): Promise<T> {
  const limit = new AbortController();
  const late = sleep(ACT_MS, undefined, { signal: limit.signal }).then(() => {
    throw new Error(`${failure} within ${ACT_MS} ms`);
  });
  late.catch(() => undefined);
  try {
    return await Promise.race([act, late]);
  } finally {
    limit.abort();
  }
}

export function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
