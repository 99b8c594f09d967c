// A cluster of real processes, each `ottla server start` with a directory, a log file and a place of its own.
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { PartitionInfo } from "../client/admin-types.ts";
import type { Client } from "../client/types.ts";
import { openRealClient, stderrLogger } from "../cli/client.ts";
import { askReadiness } from "../cli/cluster/readiness.ts";
import { Children } from "./children.ts";
import type { ChaosCluster, ChaosNode, ClusterOptions, NodePlace, NodeSetting, Place } from "./cluster-types.ts";
import { openNamespaces } from "./faults/network-place.ts";
import { openProxies } from "./faults/proxy-place.ts";
import { mountFor } from "./mounts.ts";
import { type NodeParts, RealNode } from "./node.ts";
import { openLoopback } from "./place.ts";
import { prepareShim, type Shims } from "./shim/setup.ts";

export type { ChaosCluster, ChaosNode, ClusterOptions } from "./cluster-types.ts";

/** A look at the cluster that is not answered by then has no answer. */
const ASK_MS = 3_000;
const LOOK_AGAIN_MS = 50;
const SHUTDOWN_MS = 10_000;
const START_MS = 60_000;
const MOST_CODECS = ["gzip", "lz4", "snappy", "zstd"] as const;

/** Ready: every node serves. Rejects, with nothing left behind, when one does not start. */
export async function startCluster(options: ClusterOptions): Promise<ChaosCluster> {
  const cluster = new RealCluster(options);
  try {
    await cluster.open();
    return cluster;
  } catch (error) {
    await cluster.close();
    throw error;
  }
}

class RealCluster implements ChaosCluster {
  readonly nodes: RealNode[] = [];
  readonly place;
  readonly directory: string;
  clientPrefix: readonly string[] = [];
  readonly #options: ClusterOptions;
  readonly #children = new Children();
  /** What undoes each thing that was made, the first made first. */
  readonly #undo: { readonly what: string; readonly run: () => Promise<void> | void }[] = [];
  #client: Promise<Client> | undefined;

  constructor(options: ClusterOptions) {
    this.#options = options;
    this.directory = options.directory;
    this.place = options.place ?? "loopback";
  }

  get brokers(): readonly string[] {
    return this.nodes.map(({ address }) => address);
  }

  async open(): Promise<void> {
    const { directory, keepFiles } = this.#options;
    const isNew = !existsSync(directory);
    mkdirSync(directory, { recursive: true });
    if (keepFiles !== true && isNew)
      this.#undo.push({ what: directory, run: () => rmSync(directory, { recursive: true, force: true }) });
    const nodeIds = Array.from({ length: this.#options.nodes }, (_, index) => index + 1);
    const place = await this.#openPlace(nodeIds);
    this.#undo.push({ what: "places of the nodes", run: () => place.close() });
    this.clientPrefix = place.clientPrefix;
    const shims = this.#options.shim === true ? await prepareShim(directory) : undefined;
    const voters = [...place.nodes].map(([nodeId, { advertised }]) => `${nodeId}@${advertised}`).join(",");
    for (const [nodeId, at] of place.nodes) this.nodes.push(await this.#makeNode(nodeId, at, voters, shims));
    await this.#startAll();
  }

  async #openPlace(nodeIds: readonly number[]): Promise<Place> {
    switch (this.place) {
      case "loopback":
        return openLoopback(nodeIds);
      case "namespaces":
        return openNamespaces(nodeIds);
      case "proxied":
        return openProxies(nodeIds);
    }
  }

  async #makeNode(nodeId: number, at: NodePlace, voters: string, shims: Shims | undefined): Promise<RealNode> {
    const { directory, env = {}, preload, settings = {} } = this.#options;
    const base = join(directory, `node-${nodeId}`);
    const dataDir = join(base, "data");
    mkdirSync(dataDir, { recursive: true });
    await this.#mount(nodeId, dataDir);
    const shim = shims?.nodeFor(nodeId, dataDir);
    if (shim !== undefined) this.#undo.push({ what: `shim of node ${nodeId}`, run: () => shim.control.close() });
    const setting: NodeSetting = { ...at, dataDir, env: { ...env, ...shim?.env } };
    const given = Object.entries(settings).map(([key, value]) => `${key}=${value}`);
    const parts: NodeParts = {
      nodeId,
      setting,
      configs: [`controller.quorum.voters=${voters}`, ...given],
      logFile: join(base, "ottla.log"),
      cwd: base,
      preload,
      shutdownTimeoutMs: Number(settings["shutdown.timeout.ms"] ?? SHUTDOWN_MS),
      children: this.#children,
      onExit: this.#options.onExit ?? (() => undefined),
      ...(shim === undefined ? {} : { shim: shim.control }),
      ...(at.network === undefined ? {} : { network: at.network }),
      ...(at.proxy === undefined ? {} : { proxy: at.proxy }),
    };
    return new RealNode(parts);
  }

  async #mount(nodeId: number, dataDir: string): Promise<void> {
    const mount = this.#options.mounts?.get(nodeId);
    if (mount !== undefined) this.#undo.push({ what: dataDir, run: await mountFor(dataDir, mount) });
  }

  async #startAll(): Promise<void> {
    const starts = this.nodes.map(async (node) => {
      const isReady = await Promise.race([node.start(), sleep(START_MS, undefined, { ref: false })]);
      if (isReady !== true) throw new Error(`node ${node.nodeId} does not start:\n${node.logTail()}`);
    });
    await Promise.all(starts);
    await this.untilHealthy(START_MS);
  }

  node(nodeId: number): ChaosNode {
    const node = this.nodes.find((each) => each.nodeId === nodeId);
    if (node === undefined) throw new RangeError(`no node ${nodeId}`);
    return node;
  }

  client(): Promise<Client> {
    this.#client ??= openRealClient({
      brokers: this.brokers,
      clientId: "chaos-harness",
      connectTimeoutMs: START_MS,
      codecs: [...MOST_CODECS],
      logger: stderrLogger({ verbosity: -1, isJson: false }, {}, () => undefined),
    });
    return this.#client;
  }

  async partition(topic: string, partition: number): Promise<PartitionInfo | undefined> {
    const { partitions } = await (await this.client()).admin().describeTopic(topic, { timeoutMs: ASK_MS });
    return partitions.find(({ index }) => index === partition);
  }

  async leaderOf(topic: string, partition: number): Promise<number | undefined> {
    const info = await this.partition(topic, partition).catch(() => undefined);
    return info === undefined || info.leader < 0 ? undefined : info.leader;
  }

  async isr(topic: string, partition: number): Promise<readonly number[]> {
    return (await this.partition(topic, partition).catch(() => undefined))?.isr ?? [];
  }

  async controller(): Promise<number | undefined> {
    const admin = (await this.client()).admin();
    // No topic of the run: only the controller itself answers, and that it is one.
    const view = await admin.describeMetadata({ topics: ["none"], timeoutMs: ASK_MS }).catch(() => undefined);
    return view === undefined || view.controllerId < 0 ? undefined : view.controllerId;
  }

  async untilHealthy(timeoutMs: number): Promise<void> {
    const untilMs = performance.now() + timeoutMs;
    for (;;) {
      const wanting = await this.#wanting();
      if (wanting === undefined) return;
      if (performance.now() > untilMs) throw new Error(`not healthy after ${timeoutMs} ms: ${wanting}`);
      await sleep(LOOK_AGAIN_MS);
    }
  }

  /** Undefined: every node is ready, every partition led and whole. */
  async #wanting(): Promise<string | undefined> {
    for (const { nodeId, pid, address } of this.nodes) {
      if (pid === undefined) return `node ${nodeId} is down`;
      const readiness = await askReadiness(address, ASK_MS);
      if (readiness?.ready !== true)
        return `node ${nodeId} is not ready: ${JSON.stringify(readiness?.checks ?? "no answer")}`;
    }
    const admin = (await this.client()).admin();
    const view = await admin.describeMetadata({ timeoutMs: ASK_MS }).catch((error: unknown) => String(error));
    if (typeof view === "string") return view;
    const fenced = view.brokers.find(({ isFenced }) => isFenced);
    if (fenced !== undefined) return `node ${fenced.nodeId} is fenced`;
    if (view.brokers.length < this.nodes.length)
      return `${view.brokers.length} of ${this.nodes.length} nodes registered`;
    for (const { name, partitions } of view.topics)
      for (const { index, leader, isr, replicas } of partitions) {
        if (leader < 0) return `${name}-${index} has no leader`;
        if (isr.length < replicas.length) return `${name}-${index}: only ${isr.join(", ")} in sync`;
      }
    return undefined;
  }

  async close(): Promise<readonly string[]> {
    const left: string[] = [];
    const client = await this.#client?.catch(() => undefined);
    await client?.close({ timeoutMs: 1_000 }).catch(() => undefined);
    await this.#children.close();
    for (const { what, run } of this.#undo.splice(0).reverse())
      await Promise.resolve()
        .then(run)
        .catch((error: unknown) => void left.push(`${what}: ${String(error)}`));
    return left;
  }
}
