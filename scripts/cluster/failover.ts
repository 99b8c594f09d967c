// How long a partition takes nothing when its leader goes, measured by clients that know nothing of each other: one process for each of six partitions,
// under the load of another. Every way of going has its limit (D-37).
import { connect, type Client, type PartitionInfo } from "../../src/index.ts";
import { CutCluster } from "./cut-cluster.ts";
import { FailoverWatch } from "./failover-watch.ts";
import { machineMs } from "./line-child.ts";
import { LocalCluster } from "./local-cluster.ts";

export const KINDS = ["kill", "controller", "pause", "pause-controller", "cut", "cut-controller", "stop"] as const;
export type Kind = (typeof KINDS)[number];

/** The longest gap that is allowed, and what nine of ten stay within. */
export const FAILOVER_LIMITS: Readonly<Record<Kind, { readonly maxMs: number; readonly p90Ms?: number }>> = {
  kill: { maxMs: 2_500, p90Ms: 1_200 },
  controller: { maxMs: 3_000 },
  pause: { maxMs: 4_000 },
  "pause-controller": { maxMs: 6_000 },
  cut: { maxMs: 4_000 },
  "cut-controller": { maxMs: 6_000 },
  stop: { maxMs: 250 },
};
/**
 * While the node comes back and is given its partitions again, which happens in order. One that was stopped in order must not be noticed at all; the
 * others have to be recovered first, by a process that starts on the same machine.
 */
const RETURN_LIMITS = { stop: 250, others: 500 } as const;
const returnLimitMs = (kind: Kind): number => (kind === "stop" ? RETURN_LIMITS.stop : RETURN_LIMITS.others);

export interface FailoverRun {
  readonly node: number;
  readonly isController: boolean;
  /** Of the partition that waited longest, while its leader was away. */
  readonly gapMs: number;
  /** The same while the node came back, until it led again. */
  readonly returnGapMs: number;
  /** By partition. */
  readonly gaps: readonly number[];
  /** The longest gap just before, when nothing happened: what the load and the machine do by themselves. */
  readonly restGapMs: number;
  /** Records a second of the load, before. */
  readonly load: number;
}

export interface KindReport {
  readonly kind: Kind;
  readonly runs: readonly FailoverRun[];
  /** Of the runs: how many began on a machine that did not stand still by itself. */
  readonly quietRuns: number;
  readonly maxMs: number;
  readonly p90Ms: number;
  readonly medianMs: number;
  /** Of the quiet runs. */
  readonly returnMaxMs: number;
  readonly isWithin: boolean;
}

/**
 * Where clients wait longer than this when nothing happens, the machine has other work: what takes a quarter of a second is not measured there. A stop in
 * order is then tried again, up to as often as it was to be done.
 */
export const REST_MAX_MS = 120;
const isQuiet = ({ restGapMs }: FailoverRun): boolean => restGapMs <= REST_MAX_MS;

export interface FailoverReport {
  readonly kinds: readonly KindReport[];
  /** Kinds that could not be measured here, and why. */
  readonly notRun: Readonly<Record<string, string>>;
  readonly load: { readonly recordsPerSecond: number; readonly recordBytes: number; readonly wanted: number };
  readonly acknowledged: number;
  /** What clients were told besides acknowledgements. */
  readonly clientErrors: Readonly<Record<string, number>>;
}

export interface FailoverOptions {
  /** In this order, each so many times. */
  readonly plan: readonly { readonly kind: Kind; readonly times: number }[];
  readonly recordsPerSecond: number;
  readonly recordBytes: number;
}

const TOPIC = "failover";
const PARTITIONS = 6;
const STEADY_MS = 1_500;
/** Over which the load before is counted. */
const LOAD_MS = 3_000;
const STUCK_MS = 60_000;
/** The load had this share of what it was to have. */
const LOAD_SHARE = 0.9;

type Cluster = LocalCluster | CutCluster;
type Say = (line: string) => void;

/** Kinds of one cluster: of processes on this machine's loopback, or of brokers in networks of their own (inside `unshare -rn`). */
export async function measureFailover(options: FailoverOptions, say: Say): Promise<FailoverReport> {
  const isCut = options.plan.some(({ kind }) => kind.startsWith("cut"));
  const cluster = isCut ? new CutCluster() : new LocalCluster();
  let isDone = false;
  try {
    await cluster.untilUp();
    const report = await measure(cluster, options, say);
    isDone = true;
    return report;
  } finally {
    if (!isDone) say(cluster.words);
    await cluster.down().catch((error: unknown) => say(String(error)));
    if (isDone) cluster.remove();
  }
}

async function measure(cluster: Cluster, options: FailoverOptions, say: Say): Promise<FailoverReport> {
  const brokers = [...cluster.addresses.values()];
  const client = await connect({ brokers, clientId: "failover" });
  await client.admin().createTopic(TOPIC, { partitions: PARTITIONS, replicationFactor: 3 });
  const { recordsPerSecond, recordBytes } = options;
  const watch = new FailoverWatch({ topic: TOPIC, partitions: PARTITIONS, brokers, recordsPerSecond, recordBytes });
  const kinds: KindReport[] = [];
  try {
    await watch.loaded();
    for (const { kind, times } of options.plan) {
      const runs: FailoverRun[] = [];
      const isEnough = (): boolean => (kind === "stop" ? runs.filter(isQuiet).length : runs.length) >= times;
      for (let time = 1; !isEnough() && time <= times * 2; time++) {
        const run = await once({ cluster, client, watch }, kind, time);
        runs.push(run);
        const role = run.isController ? " (the controller)" : "";
        say(
          `${kind} ${time} of ${times}: node ${run.node}${role}, ${run.gapMs} ms (${run.gaps.join(" ")}); coming back ${run.returnGapMs} ms, at rest ${run.restGapMs} ms; load ${run.load}/s`,
        );
      }
      kinds.push(kindReport(kind, runs));
    }
  } finally {
    await watch.stop();
    await client.close();
  }
  const loads = kinds.flatMap(({ runs }) => runs.map(({ load }) => load)).sort((left, right) => left - right);
  const median = loads[Math.floor(loads.length / 2)] ?? 0;
  return {
    kinds,
    notRun: {},
    load: { recordsPerSecond: median, recordBytes, wanted: recordsPerSecond },
    acknowledged: watch.acknowledged,
    clientErrors: watch.errors,
  };
}

export function kindReport(kind: Kind, runs: readonly FailoverRun[]): KindReport {
  const quiet = runs.filter(isQuiet);
  const counted = kind === "stop" && quiet.length > 0 ? quiet : runs;
  const sorted = counted.map(({ gapMs }) => gapMs).sort((left, right) => left - right);
  const maxMs = sorted.at(-1) ?? Infinity;
  const p90Ms = sorted[Math.ceil(sorted.length * 0.9) - 1] ?? Infinity;
  const medianMs = sorted[Math.ceil(sorted.length / 2) - 1] ?? Infinity;
  const returnMaxMs = Math.max(0, ...quiet.map(({ returnGapMs }) => returnGapMs));
  const limit = FAILOVER_LIMITS[kind];
  const isProven = kind !== "stop" || quiet.length > 0;
  const isWithin =
    !isProven || (maxMs <= limit.maxMs && p90Ms <= (limit.p90Ms ?? Infinity) && returnMaxMs <= returnLimitMs(kind));
  return { kind, runs, quietRuns: quiet.length, maxMs, p90Ms, medianMs, returnMaxMs, isWithin };
}

/** What is wrong with a report, in words. */
export function faultsOf({ kinds, load, clientErrors }: FailoverReport): string[] {
  const late = kinds
    .filter(({ isWithin, runs }) => !isWithin || runs.length === 0)
    .map(({ kind, maxMs, p90Ms, returnMaxMs }) => {
      const limit = FAILOVER_LIMITS[kind];
      const p90 = limit.p90Ms === undefined ? "" : `, p90 ${limit.p90Ms}`;
      return `${kind}: max ${maxMs} ms, p90 ${p90Ms} ms, coming back ${returnMaxMs} ms; allowed: ${limit.maxMs}${p90}, ${returnLimitMs(kind)}`;
    });
  const isLow = load.recordsPerSecond < load.wanted * LOAD_SHARE;
  const low = isLow ? [`the load was ${load.recordsPerSecond} records/s in place of ${load.wanted}`] : [];
  const told = Object.entries(clientErrors).map(([what, count]) => `clients were told ${what}, ${count} times`);
  return [...late, ...low, ...told];
}

/** What a busy machine has kept from being measured, in words. */
export function unprovenOf({ kinds }: FailoverReport): string[] {
  return kinds
    .filter(({ kind, quietRuns, runs }) => kind === "stop" && quietRuns === 0 && runs.length > 0)
    .map(({ kind, runs }) => {
      const restMs = Math.min(...runs.map(({ restGapMs }) => restGapMs));
      return `${kind}: not measured: clients waited ${restMs} ms and more when nothing happened, at most ${REST_MAX_MS} ms prove anything`;
    });
}

interface Place {
  readonly cluster: Cluster;
  readonly client: Client;
  readonly watch: FailoverWatch;
}

async function once(place: Place, kind: Kind, time: number): Promise<FailoverRun> {
  const { cluster, client, watch } = place;
  watch.forget();
  await watch.steady(STEADY_MS);
  const { controllerId } = await client.admin().describeMetadata({ topics: [TOPIC], from: "controller" });
  const node = victimOf(kind, { nodes: [...cluster.addresses.keys()], controllerId, time });
  const startMs = machineMs();
  const load = watch.loadRate(startMs - LOAD_MS, startMs);
  const restGapMs = Math.max(...watch.gaps(startMs - STEADY_MS, startMs));
  await end(cluster, kind, node);
  await watch.steady(STEADY_MS);
  const backMs = machineMs();
  const gaps = watch.gaps(startMs, backMs);
  await bringBack(cluster, kind, node);
  await untilPartitions(client, ({ isr, replicas, leader }) => isr.length === 3 && leader === replicas[0]);
  await watch.steady(STEADY_MS);
  const returnGapMs = Math.max(...watch.gaps(backMs, machineMs()));
  return { node, isController: node === controllerId, gapMs: Math.max(...gaps), returnGapMs, gaps, restGapMs, load };
}

/** Every node leads two of six; the next one in turn of those that are right. */
export function victimOf(
  kind: Kind,
  {
    nodes,
    controllerId,
    time,
  }: { readonly nodes: readonly number[]; readonly controllerId: number; readonly time: number },
): number {
  const isOfController = kind === "controller" || kind.endsWith("-controller");
  const fit = kind === "stop" ? nodes : nodes.filter((node) => (node === controllerId) === isOfController);
  const node = fit[time % fit.length];
  if (node === undefined) throw new Error(`no node to ${kind}: the controller is ${controllerId}`);
  return node;
}

async function end(cluster: Cluster, kind: Kind, node: number): Promise<void> {
  if (cluster instanceof CutCluster) return cluster.cut(node);
  switch (kind) {
    case "kill":
    case "controller":
      return cluster.kill(node);
    case "pause":
    case "pause-controller":
      return cluster.pause(node);
    case "stop":
      return cluster.restart(node);
    case "cut":
    case "cut-controller":
      throw new Error(`${kind} needs a network for each node`);
  }
}

async function bringBack(cluster: Cluster, kind: Kind, node: number): Promise<void> {
  if (cluster instanceof CutCluster) await cluster.heal(node);
  else if (kind === "pause" || kind === "pause-controller") await cluster.resume(node);
  else if (kind !== "stop") await cluster.start(node);
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
    await new Promise((done) => void setTimeout(done, 50));
  }
}
