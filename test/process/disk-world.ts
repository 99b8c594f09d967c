// What the tests of disk trouble share: a small cluster whose data directories may lie on small file systems or behind the preload shim, and a load
// on one topic of it with its ledger.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect } from "vitest";
import type { Client, Producer } from "../../src/client/types.ts";
import { type ChaosCluster, type ChaosNode, startCluster } from "../../src/chaos/cluster.ts";
import { distDirectory } from "../../src/chaos/build.ts";
import type { ClusterOptions, NodeMount } from "../../src/chaos/cluster-types.ts";
import type { ShimControl } from "../../src/chaos/shim/control.ts";
import { OttlaError } from "../../src/index.ts";
import { doctored } from "./doctor.ts";
import { Ledger, violationsOf } from "./ledger.ts";

const LANES = 16;
const STUCK_MS = 60_000;
const LOOK_AGAIN_MS = 5;
const PARTITIONS = 2;
const LOG_LINES_TOLD = 12;

export interface DiskWorldOptions {
  readonly nodes?: number;
  readonly settings?: ClusterOptions["settings"];
  /** Of each node. */
  readonly mount?: NodeMount;
  readonly shim?: boolean;
  /** Planted bugs. */
  readonly mutants?: readonly string[];
}

/** A module that each node loads first and that switches planted bugs on. */
function plantedModule(directory: string, mutants: readonly string[]): string {
  const path = join(directory, "planted.mjs");
  const module = pathToFileURL(join(distDirectory(), "base/mutant.js")).href;
  writeFileSync(path, `import { activateMutants } from "${module}";\nactivateMutants(${JSON.stringify(mutants)});\n`);
  return path;
}

/** Whether file systems of this kind can be mounted here. */
export function canMount(kind: NodeMount["kind"]): boolean {
  const directory = mkdtempSync(join(tmpdir(), "ottla-can-mount-"));
  try {
    if (kind === "loop" && spawnSync("mkfs.ext4", ["-V"]).status !== 0) return false;
    if (spawnSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", directory]).status !== 0) return false;
    spawnSync("umount", ["-l", directory]);
    return true;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

export class DiskWorld {
  readonly cluster: ChaosCluster;
  readonly client: Client;
  readonly #directory: string;
  readonly #loads: DiskLoad[] = [];

  private constructor(cluster: ChaosCluster, client: Client, directory: string) {
    this.cluster = cluster;
    this.client = client;
    this.#directory = directory;
  }

  static async open({ nodes = 1, settings = {}, mount, shim, mutants }: DiskWorldOptions): Promise<DiskWorld> {
    const directory = mkdtempSync(join(tmpdir(), "ottla-disk-"));
    const nodeIds = Array.from({ length: nodes }, (_, index) => index + 1);
    try {
      const cluster = await startCluster({
        nodes,
        directory: join(directory, "run"),
        settings,
        ...(mount === undefined ? {} : { mounts: new Map(nodeIds.map((nodeId) => [nodeId, mount])) }),
        ...(shim === undefined ? {} : { shim }),
        ...(mutants === undefined ? {} : { preload: plantedModule(directory, mutants) }),
      });
      return new DiskWorld(cluster, await cluster.client(), directory);
    } catch (thrown) {
      rmSync(directory, { recursive: true, force: true });
      throw thrown;
    }
  }

  get node(): ChaosNode {
    return this.cluster.node(1);
  }

  get shim(): ShimControl {
    const { shim } = this.node;
    if (shim === undefined) throw new Error("the node runs without the shim");
    return shim;
  }

  async close(): Promise<void> {
    // Of a test that failed: against a closed client it would fail its sends, and note them, without end.
    for (const load of this.#loads) load.abandon();
    const left = await this.cluster.close();
    rmSync(this.#directory, { recursive: true, force: true });
    expect(left).toEqual([]);
  }

  /** A new topic with a load on it. */
  async load(topic: string): Promise<DiskLoad> {
    const replicationFactor = this.cluster.nodes.length;
    await this.client.admin().createTopic(topic, { partitions: PARTITIONS, replicationFactor });
    const load = new DiskLoad(this.client, topic, this.cluster.nodes);
    this.#loads.push(load);
    return load;
  }
}

export const tailOf = ({ logFile }: ChaosNode, lines = LOG_LINES_TOLD): string =>
  readFileSync(logFile, "utf8").trimEnd().split("\n").slice(-lines).join("\n");

export async function until(
  isTrue: () => boolean | Promise<boolean>,
  what: string,
  timeoutMs = STUCK_MS,
): Promise<void> {
  const untilMs = performance.now() + timeoutMs;
  while (!(await isTrue())) {
    if (performance.now() > untilMs) throw new Error(`not in ${timeoutMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
  }
}

/** Lanes that send one record after the other, acks=all, until they are told to stop; every outcome is in the ledger. */
export class DiskLoad {
  readonly ledger: Ledger;
  readonly topic: string;
  readonly #client: Client;
  readonly #nodes: readonly ChaosNode[];
  readonly #producer: Producer;
  readonly #done: Promise<unknown>;
  #sent = 0;
  #isStopped = false;

  constructor(client: Client, topic: string, nodes: readonly ChaosNode[]) {
    this.topic = topic;
    this.ledger = new Ledger(topic);
    this.#client = client;
    this.#nodes = nodes;
    this.#producer = client.producer({ acks: "all", lingerMs: 1, deliveryTimeoutMs: STUCK_MS });
    this.#done = Promise.all(Array.from({ length: LANES }, () => this.#lane()));
    this.#done.catch(() => undefined);
  }

  async #lane(): Promise<void> {
    while (!this.#isStopped) await this.#send(this.#producer);
  }

  #send(producer: Producer): Promise<void> {
    const number = this.#sent++;
    const value = Buffer.from(`${number} ${"x".repeat((number * 37) % 700)}`);
    return this.ledger.send(producer, { key: null, value, partition: number % PARTITIONS, acks: "all" });
  }

  /** So many more are acknowledged from now on. */
  async goesOn(count: number): Promise<void> {
    const goal = this.ledger.acknowledged + count;
    await until(
      () => this.ledger.acknowledged >= goal,
      `${count} acknowledgements\n${this.#nodes.map((node) => tailOf(node)).join("\n")}`,
    );
  }

  /** What becomes of one record now; it is in the ledger, too. */
  async probe(timeoutMs: number): Promise<"taken" | "not answered" | { readonly refused: string }> {
    const producer = this.#client.producer({ acks: "all", lingerMs: 0, deliveryTimeoutMs: timeoutMs });
    const { failed, unknown } = this.ledger;
    await this.#send(producer);
    await producer.close();
    if (this.ledger.failed > failed) return { refused: this.ledger.refusals.at(-1) ?? "" };
    return this.ledger.unknown > unknown ? "not answered" : "taken";
  }

  /** Sends nothing more. */
  abandon(): void {
    this.#isStopped = true;
  }

  /** Resolves when every outcome is known. */
  async stop(): Promise<void> {
    this.abandon();
    await this.#done;
    await this.#producer.close();
  }

  /** Reads all of it and judges; returns how many records there are. `provesAlarms`: the same history with one thing wrong must be judged wrong. */
  async audit(provesAlarms = false): Promise<number> {
    const found = await this.ledger.scan(this.#client);
    expect(violationsOf(this.ledger.events)).toEqual([]);
    expect(found).toBeGreaterThanOrEqual(this.ledger.acknowledged);
    expect(found).toBeLessThanOrEqual(this.ledger.acknowledged + this.ledger.unknown);
    if (!provesAlarms) return found;
    for (const { wrong, invariant, events } of doctored(this.ledger.events))
      expect(
        violationsOf(events).map((violation) => violation.invariant),
        wrong,
      ).toContain(invariant);
    return found;
  }

  /** The first records of it, as a reader gets them now. */
  async readSome(count: number): Promise<number> {
    let read = 0;
    const consumer = this.#client.consumer({ topics: [this.topic], from: "start" });
    const limit = setTimeout(() => void consumer.close(), STUCK_MS);
    try {
      for await (const message of consumer) {
        if (message.offset < 0) throw new OttlaError("STORAGE_ERROR", "an offset below 0");
        if (++read >= count) break;
      }
    } finally {
      clearTimeout(limit);
      await consumer.close();
    }
    return read;
  }
}
