// How long a partition takes nothing when its leader goes, measured by clients that know nothing of each other: one process for each of six partitions,
// under the load of another. Every way of going has its limit (D-37).
import { rmSync } from "node:fs";
import { join } from "node:path";
import type { PartitionInfo } from "../../client/admin-types.ts";
import type { Client } from "../../client/types.ts";
import { startCluster } from "../../chaos/cluster.ts";
import type { ChaosCluster } from "../../chaos/cluster-types.ts";
import { noNetworks } from "../../chaos/faults/network-place.ts";
import { machineMs } from "../../chaos/machine-clock.ts";
import { benchRunOf } from "./bench-run.ts";
import { type FailoverReport, type FailoverRun, isQuiet, type KindReport, kindReport, merged } from "./judge.ts";
import { FAILOVER_LIMITS, isCut, type Kind, KIND_WORDS, type Planned, victimOf } from "./kinds.ts";
import { FailoverTimeline } from "./timeline.ts";
import { FailoverWatch } from "./watch.ts";

export interface FailoverOptions {
  /** In this order, each so many times. */
  readonly plan: readonly Planned[];
  readonly recordsPerSecond: number;
  readonly recordBytes: number;
  /** Clusters are made below; what is left of one that failed stays there. */
  readonly directory: string;
  readonly signal: AbortSignal;
  readonly say: (line: string) => void;
}

export interface FailoverOutcome {
  readonly report: FailoverReport;
  /** What ended it early. */
  readonly failure: Error | undefined;
}

const TOPIC = "failover";
export const PARTITIONS = 6;
const NODES = 3;
/** Between two times nothing happens for so long: the end of one, and what the next one is compared with. */
const STEADY_MS = 1_000;
/** Over which the load before is counted. */
const LOAD_MS = 3_000;
const STUCK_MS = 60_000;
const LOOK_MS = 50;

/** What was measured is kept whatever ends it. Kinds that cut networks have a cluster of their own, whose nodes have networks of their own. */
export async function measureFailover(options: FailoverOptions): Promise<FailoverOutcome> {
  const here = options.plan.filter(({ kind }) => !isCut(kind));
  const cut = options.plan.filter(({ kind }) => isCut(kind));
  const reports: FailoverReport[] = [];
  let failure: Error | undefined;
  for (const plan of [here, cut]) {
    if (plan.length === 0) continue;
    const reason = plan === cut ? await noNetworks() : undefined;
    const outcome =
      reason === undefined
        ? await onOwnCluster({ ...options, plan }).catch((thrown: unknown) => ({
            report: NOTHING,
            failure: errorOf(thrown),
          }))
        : notRun(plan, reason);
    reports.push(outcome.report);
    failure = outcome.failure;
    if (failure !== undefined) break;
  }
  return { report: merged(reports), failure };
}

const NOTHING: FailoverReport = {
  kinds: [],
  notRun: {},
  load: { recordsPerSecond: 0, recordBytes: 0, wanted: 0 },
  acknowledged: 0,
  clientErrors: {},
  timelines: [],
};

const notRun = (plan: readonly Planned[], reason: string): FailoverOutcome => ({
  failure: undefined,
  report: { ...NOTHING, notRun: Object.fromEntries(plan.map(({ kind }) => [kind, reason])) },
});

const errorOf = (thrown: unknown): Error => (thrown instanceof Error ? thrown : new Error(String(thrown)));

async function onOwnCluster(options: FailoverOptions): Promise<FailoverOutcome> {
  const place = options.plan.some(({ kind }) => isCut(kind)) ? "namespaces" : "loopback";
  const directory = join(options.directory, place);
  const cluster = await startCluster({ nodes: NODES, directory, place, keepFiles: true });
  let outcome: FailoverOutcome | undefined;
  try {
    outcome = await measureOn(cluster, options);
    return outcome;
  } finally {
    for (const left of await cluster.close()) options.say(`could not be removed: ${left}`);
    const isKept = outcome?.failure !== undefined && !options.signal.aborted;
    if (isKept) options.say(`what the nodes wrote is left in ${directory}`);
    else rmSync(directory, { recursive: true, force: true });
  }
}

async function measureOn(cluster: ChaosCluster, options: FailoverOptions): Promise<FailoverOutcome> {
  const { recordsPerSecond, recordBytes, signal } = options;
  const client = await cluster.client();
  await client.admin().createTopic(TOPIC, { partitions: PARTITIONS, replicationFactor: 3 });
  const { brokers } = cluster;
  const watch = new FailoverWatch({
    topic: TOPIC,
    partitions: PARTITIONS,
    brokers,
    recordsPerSecond,
    recordBytes,
    signal,
  });
  const measured: Measured[] = [];
  let failure: Error | undefined;
  try {
    await watch.loaded();
    await watch.steady(STEADY_MS);
    for (const planned of options.plan) await measureKind({ cluster, client, watch }, planned, options, measured);
  } catch (thrown) {
    failure = errorOf(thrown);
  } finally {
    await watch.stop();
  }
  return { report: reportOf(measured, watch, options), failure };
}

interface Measured {
  readonly kind: Kind;
  readonly runs: FailoverRun[];
  readonly timeline: FailoverTimeline;
  untilMs: number;
  errors: Readonly<Record<string, number>>;
}

/** What was measured until a failure is in `into`, too. */
async function measureKind(place: Place, { kind, times }: Planned, options: FailoverOptions, into: Measured[]) {
  const timeline = new FailoverTimeline(machineMs());
  const measured: Measured = { kind, runs: [], timeline, untilMs: timeline.fromMs, errors: {} };
  const before = place.watch.errors;
  into.push(measured);
  place.watch.record(timeline);
  const { runs } = measured;
  const isEnough = (): boolean => (kind === "stop" ? runs.filter(isQuiet).length : runs.length) >= times;
  try {
    for (let time = 1; !isEnough() && time <= times * 2; time++) {
      const run = await once(place, { kind, time, timeline });
      runs.push(run);
      options.say(runWords(kind, run, `${time} of ${times}`));
    }
  } finally {
    place.watch.record(undefined);
    measured.untilMs = machineMs();
    measured.errors = newErrors(before, place.watch.errors);
  }
}

function newErrors(before: Readonly<Record<string, number>>, after: Readonly<Record<string, number>>) {
  const pairs = Object.entries(after).map(([what, count]) => [what, count - (before[what] ?? 0)] as const);
  return Object.fromEntries(pairs.filter(([, count]) => count > 0));
}

function runWords(kind: Kind, run: FailoverRun, which: string): string {
  const role = run.isController ? " (the controller)" : "";
  const gaps = `${run.gapMs} ms (${run.gaps.join(" ")}); coming back ${run.returnGapMs} ms, at rest ${run.restGapMs} ms`;
  return `${kind} ${which}: node ${run.node}${role}, ${gaps}; load ${run.load}/s`;
}

function reportOf(measured: readonly Measured[], watch: FailoverWatch, options: FailoverOptions): FailoverReport {
  const { recordsPerSecond, recordBytes } = options;
  const kinds: KindReport[] = measured
    .filter(({ runs }) => runs.length > 0)
    .map(({ kind, runs }) => kindReport(kind, runs));
  const loads = kinds.flatMap(({ runs }) => runs.map(({ load }) => load)).sort((left, right) => left - right);
  const median = loads[Math.floor(loads.length / 2)] ?? 0;
  return {
    kinds,
    notRun: {},
    load: { recordsPerSecond: median, recordBytes, wanted: recordsPerSecond },
    acknowledged: watch.acknowledged,
    clientErrors: watch.errors,
    timelines: measured.map((each) => {
      const seconds = (each.untilMs - each.timeline.fromMs) / 1_000;
      return benchRunOf({ ...each, seconds, recordBytes, partitions: PARTITIONS });
    }),
  };
}

interface Place {
  readonly cluster: ChaosCluster;
  readonly client: Client;
  readonly watch: FailoverWatch;
}

interface OnceOptions {
  readonly kind: Kind;
  readonly time: number;
  readonly timeline: FailoverTimeline;
}

async function once({ cluster, client, watch }: Place, { kind, time, timeline }: OnceOptions): Promise<FailoverRun> {
  watch.forget();
  const { controllerId } = await client.admin().describeMetadata({ topics: [TOPIC], from: "controller" });
  const node = victimOf(kind, { nodes: cluster.nodes.map(({ nodeId }) => nodeId), controllerId, time });
  const isController = node === controllerId;
  const startMs = machineMs();
  const load = watch.loadRate(startMs - LOAD_MS, startMs);
  const restGapMs = Math.max(...watch.gaps(startMs - STEADY_MS, startMs));
  await end(cluster, kind, node);
  await watch.steady(STEADY_MS);
  const backMs = machineMs();
  const gaps = watch.gaps(startMs, backMs);
  const gapMs = Math.max(...gaps);
  timeline.faults.push({
    atMs: startMs - timeline.fromMs,
    untilMs: backMs - timeline.fromMs,
    label: KIND_WORDS[kind].replace("leader", `node ${node}`).replace(" that is the controller", ", controller,"),
    gapMs,
    allowedGapMs: FAILOVER_LIMITS[kind].maxMs,
  });
  await bringBack(cluster, kind, node);
  await untilPartitions(client, ({ isr, replicas, leader }) => isr.length === 3 && leader === replicas[0]);
  await watch.steady(STEADY_MS);
  const returnGapMs = Math.max(...watch.gaps(backMs, machineMs()));
  return { node, isController, gapMs, returnGapMs, gaps, restGapMs, load };
}

async function end(cluster: ChaosCluster, kind: Kind, nodeId: number): Promise<void> {
  const node = cluster.node(nodeId);
  switch (kind) {
    case "kill":
    case "controller":
      return node.kill();
    case "pause":
    case "pause-controller":
      return node.signal("SIGSTOP");
    case "stop":
      await node.stop();
      return started(cluster, nodeId);
    case "cut":
    case "cut-controller":
      if (node.network === undefined) throw new Error(`${kind} needs a network for each node`);
      return node.network.isolate();
  }
}

async function bringBack(cluster: ChaosCluster, kind: Kind, nodeId: number): Promise<void> {
  const node = cluster.node(nodeId);
  if (isCut(kind)) await node.network?.heal();
  else if (kind === "pause" || kind === "pause-controller") node.signal("SIGCONT");
  else if (kind !== "stop") await started(cluster, nodeId);
}

async function started(cluster: ChaosCluster, nodeId: number): Promise<void> {
  const node = cluster.node(nodeId);
  if (!(await node.start())) throw new Error(`node ${nodeId} does not start again: ${node.exits.at(-1)?.says ?? ""}`);
}

async function untilPartitions(client: Client, holds: (partition: PartitionInfo) => boolean): Promise<void> {
  const sinceMs = machineMs();
  for (;;) {
    const query = { topics: [TOPIC], from: "controller" } as const;
    const view = await client
      .admin()
      .describeMetadata(query)
      .catch(() => undefined);
    const partitions = view?.topics[0]?.partitions ?? [];
    if (partitions.length === PARTITIONS && partitions.every(holds)) return;
    if (machineMs() - sinceMs > STUCK_MS)
      throw new Error(`partitions are not as they should be: ${JSON.stringify(partitions)}`);
    await new Promise((done) => void setTimeout(done, LOOK_MS));
  }
}
