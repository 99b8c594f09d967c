// One cluster and the cells that strike it, one after the other; then its end and what its history says.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Rng } from "../base/rng.ts";
import type { TallyWindow } from "../checkers/tally.ts";
import { historyLine } from "../checkers/history-file.ts";
import { type CellRun, runCell, wordsOf } from "./cell.ts";
import { Children } from "./children.ts";
import { Fleet } from "./clients/fleet.ts";
import type { Counts, TopicSpec } from "./clients/order.ts";
import { startCluster } from "./cluster.ts";
import type { ChaosCluster, ClusterOptions, NodeMount } from "./cluster-types.ts";
import { EpochWatch } from "./epoch-watch.ts";
import type { ClusterNeeds, FaultKind } from "./faults/types.ts";
import { finalPhase, type FinalReport } from "./final-phase.ts";
import { historyDirectory, historyFilesOf } from "./history-files.ts";
import { HistoryWriter } from "./history-io.ts";
import { type Judgement, judge } from "./judge.ts";
import { machineMs } from "./machine-clock.ts";
import type { ChaosPlan } from "./plan.ts";
import { grownBeyond, type Usage, usageOf } from "./process-usage.ts";
import { type CellName, type CellReport, type SessionReport, untried } from "./report.ts";
import type { WorkloadKind } from "./workloads.ts";

export interface PlannedCell {
  readonly cell: CellName;
  readonly workload: WorkloadKind;
  readonly kind: FaultKind;
}

export interface SessionPlan {
  readonly name: string;
  readonly needs: ClusterNeeds;
  readonly cells: readonly PlannedCell[];
  readonly plan: ChaosPlan;
  readonly rng: Rng;
  readonly directory: string;
  /** A module that each node loads first. */
  readonly preload?: string;
  readonly env?: Readonly<Record<string, string>>;
}

export interface SessionParts {
  readonly say: (line: string) => void;
  readonly signal: AbortSignal;
}

const AWAKE_MS = 60_000;
const WARM_MS = 30_000;
const LOOK_AGAIN_MS = 100;
/** A cluster of fewer cells lives for a shorter time: its `sendsMin` is less by as much. */
const CELLS_FOR_SENDS_MIN = 10;
/** For memory and descriptors to come back to what they were. */
const SETTLE_MS = 15_000;
const MOUNT_BYTES = 256 * 1024 * 1024;

export async function runSession(session: SessionPlan, parts: SessionParts): Promise<SessionReport> {
  const { signal } = parts;
  signal.throwIfAborted();
  const run = new Session(session, parts);
  let fail: (reason: unknown) => void = () => undefined;
  const aborted = new Promise<never>((_, reject) => (fail = reject));
  aborted.catch(() => undefined);
  const onAbort = (): void => fail(signal.reason);
  signal.addEventListener("abort", onAbort);
  // A client's waits do not keep a process alive.
  const awake = setInterval(() => undefined, AWAKE_MS);
  try {
    return await Promise.race([run.run(), aborted]);
  } finally {
    signal.removeEventListener("abort", onAbort);
    await run.close();
    clearInterval(awake);
  }
}

class Session {
  readonly #plan: SessionPlan;
  readonly #say: (line: string) => void;
  readonly #children = new Children();
  readonly #historyDir: string;
  readonly #startedMs = machineMs();
  readonly #runs: CellRun[] = [];
  readonly #reasons: string[] = [];
  readonly #topics: TopicSpec[] = [];
  readonly #steady = new Map<number, Usage>();
  readonly #counts: Record<string, number> = {};
  #starting: Promise<ChaosCluster> | undefined;
  #clientsKilled = 0;
  #lives = 0;

  constructor(plan: SessionPlan, { say }: SessionParts) {
    this.#plan = plan;
    this.#say = say;
    this.#historyDir = historyDirectory(plan.directory);
  }

  async run(): Promise<SessionReport> {
    mkdirSync(this.#historyDir, { recursive: true });
    const history = new HistoryWriter(join(this.#historyDir, "harness.jsonl"));
    this.#starting = startCluster(this.#clusterOptions(history));
    const cluster = await this.#starting;
    const epochs = new EpochWatch(cluster);
    for (const [workload, cells] of stretchesOf(this.#plan.cells)) {
      if (this.#reasons.length > 0) break;
      await this.#stretch(workload, cells, { cluster, epochs, history }).catch((error: unknown) => {
        this.#reasons.push(`${workload.name}: ${wordsOf(error)}`);
      });
    }
    await this.#settle(cluster);
    const finalFromMs = machineMs();
    const final = await this.#end(cluster, history);
    this.#checkExits(cluster);
    const judgement = await this.#judge(epochs, finalFromMs);
    return this.#report(judgement, final);
  }

  #clusterOptions(history: HistoryWriter): ClusterOptions {
    const { directory, needs, plan, preload, env } = this.#plan;
    const nodeIds = Array.from({ length: plan.nodes }, (_, index) => index + 1);
    const { place, shim, mounts, mountBytes } = needs;
    const mount = (kind: NodeMount["kind"]): NodeMount => ({ kind, sizeBytes: mountBytes ?? MOUNT_BYTES });
    return {
      nodes: plan.nodes,
      directory: join(directory, "cluster"),
      settings: { ...plan.settings, ...needs.settings },
      keepFiles: true,
      onExit: (nodeId, { signal }) => {
        if (signal === null) history.record({ type: "stopped", node: `node-${nodeId}` });
      },
      ...(place === undefined ? {} : { place }),
      ...(shim === undefined ? {} : { shim }),
      ...(mounts === undefined ? {} : { mounts: new Map(nodeIds.map((nodeId) => [nodeId, mount(mounts)])) }),
      ...(preload === undefined ? {} : { preload }),
      ...(env === undefined ? {} : { env }),
    };
  }

  // --- cells of one workload, with the same clients

  async #stretch(workload: WorkloadKind, cells: readonly PlannedCell[], at: At): Promise<void> {
    const { cluster, epochs, history } = at;
    const topics = await this.#makeTopics(cluster, workload);
    const { rng, plan } = this.#plan;
    const parts = {
      children: this.#children,
      brokers: cluster.brokers,
      prefix: cluster.clientPrefix,
      directory: this.#historyDir,
      rng: rng.fork(`clients of ${workload.name}`),
      topics,
      nextLife: () => this.#lives++,
    };
    const specs = workload.clients(cluster.nodes.map(({ nodeId }) => nodeId));
    const fleet = new Fleet(
      parts,
      specs.map((spec) => ({ ...spec, name: `${workload.name}-${spec.name}` })),
    );
    await this.#untilGoing(fleet, "its start");
    await sleep(plan.warmUpMs);
    this.#noteSteady(cluster);
    const names = topics.map(({ name }) => name);
    const place = { topic: names[0] ?? "", partition: 0 };
    for (const { cell, kind } of cells) {
      await epochs.look(names);
      const run = await runCell(cell, {
        cluster,
        fleet,
        workload,
        place,
        kind,
        plan,
        rng,
        history: (event) => void history.record(event),
      });
      this.#runs.push(run);
      this.#tell(run);
      if (run.recoveredMs === undefined && run.nodes.length > 0) {
        this.#reasons.push(`the cluster did not recover from ${kind.name}: what was planned after it was left out`);
        break;
      }
      await epochs.look(names);
      fleet.mark();
      await this.#untilGoing(fleet, kind.name);
    }
    if (workload.topics.length === 0)
      history.record({ type: "metadata healed", nodes: cluster.nodes.map(({ nodeId }) => nodeId) });
    const late = await fleet.stop();
    await epochs.look(names).catch(() => undefined);
    for (const process of late) this.#reasons.push(`${process} did not stop`);
    this.#reasons.push(...fleet.bugs);
    this.#clientsKilled += fleet.killed;
    addTo(this.#counts, fleet.counts);
  }

  /** A cluster that calls itself well, and in which somebody sends or reads nothing any more, or a partition takes nothing, is not. */
  async #untilGoing(fleet: Fleet, since: string): Promise<void> {
    await until(() => (fleet.isGoing && fleet.silent.length === 0) || fleet.bugs.length > 0, WARM_MS);
    if (fleet.bugs.length > 0) return;
    const within = `within ${WARM_MS} ms after ${since}`;
    this.#reasons.push(...fleet.idle.map((process) => `${process} does nothing ${within}`));
    this.#reasons.push(...fleet.silent.map((place) => `${place} acknowledges nothing ${within}`));
  }

  async #makeTopics(cluster: ChaosCluster, workload: WorkloadKind): Promise<readonly TopicSpec[]> {
    const admin = (await cluster.client()).admin();
    const topics: TopicSpec[] = [];
    for (const { name, partitions, configs, replicationFactor: wanted = 3 } of workload.topics) {
      const topic = { name: `${workload.name}.${name}`, partitions };
      const replicationFactor = Math.min(wanted, cluster.nodes.length);
      await admin.createTopic(topic.name, {
        partitions,
        replicationFactor,
        ...(configs === undefined ? {} : { configs }),
      });
      topics.push(topic);
    }
    this.#topics.push(...topics);
    await cluster.untilHealthy(WARM_MS);
    return topics;
  }

  #tell({ cell, nodes, observed, recoveredMs, reasons }: CellRun): void {
    const where = nodes.length === 0 ? "" : ` (node ${nodes.join(", ")})`;
    const how = reasons.length > 0 ? reasons.join("; ") : (observed ?? "");
    const recovered =
      recoveredMs === undefined ? "" : `, all well ${(recoveredMs / 1_000).toFixed(1)} s after the heal`;
    this.#say(`${cell.workload} x ${cell.fault} of ${cell.target}${where}: ${how}${recovered}`);
  }

  // --- memory, descriptors, exits

  #noteSteady(cluster: ChaosCluster): void {
    for (const { nodeId, pid } of cluster.nodes) {
      const usage = pid === undefined ? undefined : usageOf(pid);
      const before = this.#steady.get(nodeId);
      if (usage !== undefined && (before === undefined || usage.rssBytes > before.rssBytes))
        this.#steady.set(nodeId, usage);
    }
  }

  async #settle(cluster: ChaosCluster): Promise<void> {
    const grown = (): string[] =>
      cluster.nodes.flatMap(({ nodeId, pid }) => {
        const steady = this.#steady.get(nodeId);
        const now = pid === undefined ? undefined : usageOf(pid);
        const words = steady === undefined || now === undefined ? undefined : grownBeyond(steady, now);
        return words === undefined ? [] : [`node ${nodeId}: ${words}`];
      });
    await until(() => grown().length === 0, SETTLE_MS);
    this.#reasons.push(...grown());
  }

  #checkExits(cluster: ChaosCluster): void {
    for (const { nodeId, exits } of cluster.nodes)
      for (const { code, signal, isExpected, says } of exits)
        if (!isExpected) this.#reasons.push(`node ${nodeId} ended with ${signal ?? code ?? "?"}: ${says.slice(-600)}`);
  }

  // --- the end

  async #end(cluster: ChaosCluster, history: HistoryWriter): Promise<FinalReport | null> {
    this.#say("reading every replica as leader in turn");
    try {
      const final = await finalPhase({
        cluster,
        topics: this.#topics,
        history,
        healthyMs: this.#plan.plan.recoveryMs,
      });
      this.#reasons.push(...final.faults);
      if (final.scans === 0 && this.#topics.length > 0) this.#reasons.push("nothing was read in the end");
      return final;
    } catch (error) {
      this.#reasons.push(`the final phase: ${wordsOf(error)}`);
      return null;
    }
  }

  #judge(epochs: EpochWatch, finalFromMs: number): Promise<Judgement> {
    const own = epochs.events();
    writeFileSync(join(this.#historyDir, "leadership.jsonl"), own.map(historyLine).join(""));
    const windows = this.#runs.map(
      ({ fromMs, untilMs }, index): TallyWindow => ({ name: String(index), fromMs, untilMs }),
    );
    return judge({ files: historyFilesOf(this.#plan.directory), windows, finalFromMs });
  }

  #report(judgement: Judgement, final: FinalReport | null): SessionReport {
    const { tally, violations, excused, events, acknowledged, windows } = judgement;
    const { name, plan, directory } = this.#plan;
    if (acknowledged < plan.sendsMin * Math.min(1, this.#plan.cells.length / CELLS_FOR_SENDS_MIN))
      this.#reasons.push(`only ${acknowledged} requests were acknowledged: too few to show anything`);
    if (final !== null && tally.total.unjudged > 0)
      this.#reasons.push(`${tally.total.unjudged} acknowledged records were in no final scan`);
    const ofAll = [...violations.map(({ invariant }) => `invariant ${invariant} broken`), ...this.#reasons.slice(0, 1)];
    const struck = this.#runs.map((run, index) =>
      this.#cellReport(run, { progress: windows.get(String(index)), ofAll }),
    );
    const leftOut = this.#plan.cells.filter(({ cell }) => !this.#runs.some((run) => run.cell === cell));
    const why = [`left out: ${this.#reasons[0] ?? "the run ended before it"}`];
    const cells = [...struck, ...leftOut.map(({ cell }): CellReport => ({ ...untried(cell, why), status: "red" }))];
    return {
      ...{ name, cells, violations, excusedLosses: excused, tally, final, counts: this.#counts, events, directory },
      clientsKilled: this.#clientsKilled,
      reasons: this.#reasons,
      seconds: Math.round((machineMs() - this.#startedMs) / 100) / 10,
    };
  }

  #cellReport(run: CellRun, { progress, ofAll }: Judged): CellReport {
    const { cell, fromMs, untilMs, ...rest } = run;
    const workload = this.#plan.cells.find((each) => each.cell === cell)?.workload;
    const acknowledgedInFault = progress?.acknowledged ?? 0;
    const least = ((workload?.progressPer10s ?? 0) * (untilMs - fromMs)) / 10_000;
    const stalled = run.isProgressDemanded && acknowledgedInFault < least;
    const own = stalled ? [`${acknowledgedInFault} acknowledged during the fault, ${Math.ceil(least)} wanted`] : [];
    const reasons = [...rest.reasons, ...own, ...new Set(ofAll)];
    return {
      ...cell,
      ...rest,
      reasons,
      status: reasons.length === 0 ? "green" : "red",
      faultFromMs: Math.round(fromMs - this.#startedMs),
      faultUntilMs: Math.round(untilMs - this.#startedMs),
      acknowledgedInFault,
      longestGapMs: Math.round(progress?.longestGapMs ?? 0),
    };
  }

  async close(): Promise<void> {
    await this.#children.close();
    // One that is just being started is closed when it stands: what it made is known only then.
    const cluster = await this.#starting?.catch(() => undefined);
    for (const left of (await cluster?.close()) ?? []) this.#say(`left behind: ${left}`);
  }
}

interface At {
  readonly cluster: ChaosCluster;
  readonly epochs: EpochWatch;
  readonly history: HistoryWriter;
}

interface Judged {
  readonly progress: { readonly acknowledged: number; readonly longestGapMs: number } | undefined;
  readonly ofAll: readonly string[];
}

/** Cells by workload, each workload where its first cell stands. */
function stretchesOf(cells: readonly PlannedCell[]): ReadonlyMap<WorkloadKind, readonly PlannedCell[]> {
  const stretches = new Map<WorkloadKind, PlannedCell[]>();
  for (const cell of cells) {
    const stretch = stretches.get(cell.workload) ?? [];
    stretch.push(cell);
    stretches.set(cell.workload, stretch);
  }
  return stretches;
}

function addTo(sums: Record<string, number>, counts: Counts): void {
  for (const [what, count] of Object.entries(counts)) sums[what] = (sums[what] ?? 0) + count;
}

/** Resolves when it holds, or when the time is over. */
async function until(holds: () => boolean, timeoutMs: number): Promise<void> {
  const untilMs = performance.now() + timeoutMs;
  while (!holds() && performance.now() < untilMs) await sleep(LOOK_AGAIN_MS);
}
