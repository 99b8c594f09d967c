// One fault, struck some times at a cluster of its own while three producers send, one for each level of acknowledgement; then every replica is read.
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Rng } from "../../base/rng.ts";
import { Children } from "../../chaos/children.ts";
import { Fleet } from "../../chaos/clients/fleet.ts";
import type { LoadRole } from "../../chaos/clients/order.ts";
import { startCluster } from "../../chaos/cluster.ts";
import type { ChaosCluster, ClusterOptions } from "../../chaos/cluster-types.ts";
import { EpochWatch } from "../../chaos/epoch-watch.ts";
import type { FaultKind } from "../../chaos/faults/types.ts";
import { finalPhase } from "../../chaos/final-phase.ts";
import { historyFile, HistoryWriter } from "../../chaos/history-io.ts";
import { machineMs } from "../../chaos/machine-clock.ts";
import { historyLine, mergeHistories } from "../../checkers/history-file.ts";
import type { TallyWindow } from "../../checkers/tally.ts";
import type { Acks } from "../../client/types.ts";
import { type Measured, measuredOf, type WindowName } from "./figures.ts";
import { ACKS_LEVELS, type ReliabilityFault, type Victim } from "./matrix.ts";
import type { CellFigures, ReliabilitySettings } from "./result.ts";

export interface FaultRunParts {
  readonly fault: ReliabilityFault;
  readonly kind: FaultKind;
  readonly settings: ReliabilitySettings;
  readonly rng: Rng;
  /** Everything of the run is below. */
  readonly directory: string;
  readonly say: (line: string) => void;
  readonly signal: AbortSignal;
  /** What nodes load first, and with which environment: planted bugs. */
  readonly planted?: Pick<ClusterOptions, "preload" | "env">;
}

const HEALTHY_MS = 60_000;
const GOING_MS = 30_000;
const PLACED_MS = 20_000;
const LOOK_AGAIN_MS = 50;
/** Of producers, before anything is measured. */
const WARM_UP_MS = 1_500;
const MOUNT_BYTES = 256 * 1024 * 1024;
/** Of a producer: as much as it may send while a fault of the default length lasts. */
const OUTSTANDING_MAX = 20_000;

const topicOf = (acks: Acks): string => `acks-${acks}`;
const TOPICS = ACKS_LEVELS.map((acks) => ({ name: topicOf(acks), partitions: 1 }));
const TOPIC_NAMES = TOPICS.map(({ name }) => name);

/** Figures by level; rejects when the cluster does not recover, or the fault cannot be struck. */
export async function runFault(parts: FaultRunParts): Promise<ReadonlyMap<Acks, CellFigures>> {
  parts.signal.throwIfAborted();
  const run = new FaultRun(parts);
  const aborted = new Promise<never>((_, fail) => {
    parts.signal.addEventListener("abort", () => fail(parts.signal.reason as Error), { once: true });
  });
  aborted.catch(() => undefined);
  try {
    return await Promise.race([run.run(), aborted]);
  } finally {
    await run.close();
  }
}

interface RoundParts {
  readonly cluster: ChaosCluster;
  readonly epochs: EpochWatch;
  readonly history: HistoryWriter;
}

class FaultRun {
  readonly #parts: FaultRunParts;
  readonly #children = new Children();
  readonly #historyDir: string;
  readonly #windows: (TallyWindow & { readonly name: WindowName })[] = [];
  readonly #observed: string[] = [];
  #starting: Promise<ChaosCluster> | undefined;
  #lives = 0;

  constructor(parts: FaultRunParts) {
    this.#parts = parts;
    this.#historyDir = join(parts.directory, "history");
  }

  async run(): Promise<ReadonlyMap<Acks, CellFigures>> {
    mkdirSync(this.#historyDir, { recursive: true });
    const history = new HistoryWriter(join(this.#historyDir, "harness.jsonl"));
    this.#starting = startCluster(clusterOptions(this.#parts));
    const cluster = await this.#starting;
    await this.#makeTopics(cluster);
    const epochs = new EpochWatch(cluster);
    for (let round = 0; round < this.#parts.settings.rounds; round++)
      await this.#round(round, { cluster, epochs, history });
    const finalFromMs = machineMs();
    const final = await finalPhase({ cluster, topics: TOPICS, history, healthyMs: HEALTHY_MS });
    history.close();
    return this.#figures(epochs, finalFromMs, final.faults);
  }

  async #makeTopics(cluster: ChaosCluster): Promise<void> {
    const { replicas, minInSync } = this.#parts.settings;
    const admin = (await cluster.client()).admin();
    for (const { name, partitions } of TOPICS)
      await admin.createTopic(name, {
        partitions,
        replicationFactor: replicas,
        configs: { "min.insync.replicas": minInSync },
      });
    await cluster.untilHealthy(HEALTHY_MS);
  }

  #fleetOf(acks: Acks, round: number, cluster: ChaosCluster): Fleet {
    const { rng, settings } = this.#parts;
    const topics = TOPICS.filter(({ name }) => name === topicOf(acks));
    const role: LoadRole = {
      kind: "load",
      acks: [acks],
      recordsPerSecond: settings.recordsPerSecond,
      valueBytesMax: settings.valueBytesMax,
      lingerMs: 0,
      batchBytes: 65_536,
      compression: "none",
      deliveryTimeoutMs: 60_000,
      requestTimeoutMs: 30_000,
      isNamed: false,
      outstandingMax: OUTSTANDING_MAX,
      partitionOutstandingMax: OUTSTANDING_MAX,
    };
    const parts = {
      children: this.#children,
      brokers: cluster.brokers,
      prefix: cluster.clientPrefix,
      directory: this.#historyDir,
      rng: rng.fork(`${topicOf(acks)} ${round}`),
      topics,
      nextLife: () => this.#lives++,
    };
    return new Fleet(parts, [{ name: `producer-${acks}-${round + 1}`, role }]);
  }

  /** Leaders move while nobody sends, so that what is lost is lost to the fault. */
  async #round(round: number, { cluster, epochs, history }: RoundParts): Promise<void> {
    const leader = cluster.nodes[round % cluster.nodes.length]?.nodeId ?? 1;
    await letLead(cluster, leader);
    await cluster.untilHealthy(HEALTHY_MS);
    await epochs.look(TOPIC_NAMES);
    const fleets = ACKS_LEVELS.map((acks) => this.#fleetOf(acks, round, cluster));
    await until(() => fleets.every(({ isGoing }) => isGoing), GOING_MS, "the producers do not send");
    await sleep(WARM_UP_MS);
    const observed = await this.#strike(cluster, leader, history);
    if (observed !== undefined) this.#observed.push(observed);
    const { fault, settings, say } = this.#parts;
    say(`${fault.says}, round ${round + 1} of ${settings.rounds}: ${observed ?? "not seen to strike"}`);
    const late = (await Promise.all(fleets.map((fleet) => fleet.stop()))).flat();
    const wrong = [...late.map((name) => `${name} does not stop`), ...fleets.flatMap(({ bugs }) => bugs)];
    if (wrong.length > 0) throw new Error(wrong.join("; "));
    await epochs.look(TOPIC_NAMES);
  }

  /** The evidence. */
  async #strike(cluster: ChaosCluster, leader: number, history: HistoryWriter): Promise<string | undefined> {
    const { fault, kind, rng, settings } = this.#parts;
    const beforeMs = machineMs();
    await sleep(settings.beforeMs);
    const target = victims(fault.victim, leader, cluster);
    const struckMs = machineMs();
    const active = await kind.inject(cluster, target, rng, (event) => void history.record(event));
    await sleep(settings.faultMs);
    const observed = await active.observed();
    const healedMs = machineMs();
    await active.heal();
    await cluster.untilHealthy(HEALTHY_MS);
    await sleep(settings.afterMs);
    this.#windows.push(
      { name: "before", fromMs: beforeMs, untilMs: struckMs },
      { name: "during", fromMs: struckMs, untilMs: healedMs },
      { name: "after", fromMs: healedMs, untilMs: machineMs() },
    );
    return observed ?? active.observed();
  }

  #figures(epochs: EpochWatch, finalFromMs: number, doubts: readonly string[]): ReadonlyMap<Acks, CellFigures> {
    writeFileSync(join(this.#historyDir, "leadership.jsonl"), epochs.events().map(historyLine).join(""));
    const files = readdirSync(this.#historyDir)
      .filter((name) => name.endsWith(".jsonl"))
      .sort()
      .map((name) => historyFile(join(this.#historyDir, name)));
    const measured = measuredOf({ events: mergeHistories(files), windows: this.#windows, finalFromMs });
    return new Map(
      ACKS_LEVELS.flatMap((acks): [Acks, CellFigures][] => {
        const found: Measured | undefined = measured.get(topicOf(acks));
        return found === undefined ? [] : [[acks, { observed: this.#observed, ...found, doubts }]];
      }),
    );
  }

  async close(): Promise<void> {
    await this.#children.close();
    // One that is just being started is closed when it stands: what it made is known only then.
    const cluster = await this.#starting?.catch(() => undefined);
    for (const left of (await cluster?.close()) ?? []) this.#parts.say(`left behind: ${left}`);
  }
}

function clusterOptions({ kind, settings, directory, planted }: FaultRunParts): ClusterOptions {
  const { place, shim, mounts, mountBytes, settings: needed } = kind.cluster ?? {};
  const nodeIds = Array.from({ length: settings.nodes }, (_, index) => index + 1);
  return {
    ...planted,
    nodes: settings.nodes,
    directory: join(directory, "cluster"),
    // They go with the run's own directory, or are kept with it.
    keepFiles: true,
    // Leaders stay where a round puts them.
    settings: { "auto.leader.rebalance.enable": "false", ...needed },
    ...(place === undefined ? {} : { place }),
    ...(shim === undefined ? {} : { shim }),
    ...(mounts === undefined
      ? {}
      : { mounts: new Map(nodeIds.map((nodeId) => [nodeId, { kind: mounts, sizeBytes: mountBytes ?? MOUNT_BYTES }])) }),
  };
}

function victims(victim: Victim, leader: number, cluster: ChaosCluster): readonly number[] {
  const all = cluster.nodes.map(({ nodeId }) => nodeId);
  switch (victim) {
    case "leader":
      return [leader];
    case "follower":
      return all.filter((nodeId) => nodeId !== leader).slice(0, 1);
    case "all":
      return all;
  }
}

/** All three topics are led by the node. */
async function letLead(cluster: ChaosCluster, nodeId: number): Promise<void> {
  const admin = (await cluster.client()).admin();
  const untilMs = performance.now() + PLACED_MS;
  for (const topic of TOPIC_NAMES)
    while ((await cluster.leaderOf(topic, 0)) !== nodeId) {
      if (performance.now() > untilMs) throw new Error(`node ${nodeId} does not lead ${topic} within ${PLACED_MS} ms`);
      await admin.electLeaders("preferred", { topic, partitions: [0], nodeId }).catch(() => undefined);
      await sleep(LOOK_AGAIN_MS);
    }
}

async function until(holds: () => boolean, timeoutMs: number, failure: string): Promise<void> {
  const untilMs = performance.now() + timeoutMs;
  while (!holds()) {
    if (performance.now() > untilMs) throw new Error(`${failure} within ${timeoutMs} ms`);
    await sleep(LOOK_AGAIN_MS);
  }
}
