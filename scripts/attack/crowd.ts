// A crowd beside one client: how slow that one gets, by the ratio to the same client without the crowd, rounds of both by turns since a machine is
// seldom quiet; and that the node's memory stays within what its settings allow. The crowd stands for other machines: it gives way to the node and to
// the client, and what one of them waited for a processor does not count.
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { setPriority } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { NODE_HEAP } from "../../src/cli/node-child.ts";
import { type Client, connect } from "../../src/index.ts";
import { AttackedNode, type Plant, waitedForCpuMs } from "./node.ts";
import { forkScript } from "./child.ts";
import type { CrowdPlan } from "./crowd-child.ts";

const CHILD = join(import.meta.dirname, "crowd-child.ts");
const MiB = 1024 * 1024;
/** Bounds of the node under test, in MiB: small ones, so that they are reached. */
const BUDGET_MIB = {
  "unsent.bytes": 64,
  "produce.inflight.bytes": 64,
  "tail.cache.bytes": 32,
  "journal.pinned.bytes": 32,
} as const;
/** A peer may hold a small answer whatever the accounts say (docs/protocol.md, "Flow control"). */
const SHARE_MIB = 64 / 1024;
/** What the collector has not tidied up, and what the sockets of so many cost. */
const SLACK_MIB = 96;
/** Of the JavaScript heap, which holds no batches. As the node tells it, its garbage included: a limit of V8's would change when it collects. */
const HEAP_MIB = 160;
const RATIO_MAX = 2;
const STORED_BATCHES = 32;
const BATCH_BYTES = 1_000_000;
const PAUSE_MS = 5;
const CROWD_NICE = 10;

export interface CrowdOptions {
  readonly slow: number;
  readonly idle: number;
  readonly rounds: number;
  readonly roundMs: number;
  /** Of another client's p99 over that alone. Default: the target. */
  readonly ratioMax?: number;
  readonly plant?: Plant;
  readonly say?: (line: string) => void;
}

interface Figures {
  /** ms. */
  readonly p50: number;
  readonly p99: number;
}

export interface CrowdReport {
  readonly baseMiB: number;
  readonly budgetMiB: number;
  readonly peakMiB: number;
  /** Of the JavaScript heap. */
  readonly heapMiB: number;
  readonly rounds: readonly { readonly alone: Figures; readonly crowded: Figures }[];
  /** Of the p99, the median of all rounds. */
  readonly ratio: number;
  readonly produced: number;
  readonly cut: number;
  readonly faults: readonly string[];
}

export async function crowded(options: CrowdOptions): Promise<CrowdReport> {
  const settings = Object.entries(BUDGET_MIB).map(([key, value]) => `${key}=${value}MiB`);
  const node = await AttackedNode.start(settings, options.plant && [options.plant], NODE_HEAP);
  let crowd: CrowdProcess | undefined;
  try {
    const client = await connect({ brokers: [node.address], connectTimeoutMs: 30_000 });
    const topicId = await fill(client);
    const { slow, idle } = options;
    crowd = new CrowdProcess({ address: node.address, topicId: topicId as never, slow, idle, batchBytes: BATCH_BYTES });
    return await measured(options, { node, client, crowd });
  } finally {
    crowd?.kill();
    await node.remove();
  }
}

async function fill(client: Client): Promise<string> {
  const { topicId } = await client.admin().createTopic("crowded", { partitions: 1 });
  await client.admin().createTopic("beside", { partitions: 1 });
  const producer = client.producer({ batchBytes: BATCH_BYTES });
  const value = new Uint8Array(900_000);
  for (let left = STORED_BATCHES; left > 0; left--) await producer.send("crowded", { value });
  return topicId;
}

interface Parts {
  readonly node: AttackedNode;
  readonly client: Client;
  readonly crowd: CrowdProcess;
}

async function measured(
  { rounds, roundMs, slow, idle, ratioMax = RATIO_MAX, say }: CrowdOptions,
  { node, client, crowd }: Parts,
): Promise<CrowdReport> {
  await round(client, node, roundMs);
  const baseMiB = (await node.settledRssBytes()) / MiB;
  const found: { alone: Figures; crowded: Figures }[] = [];
  let peakMiB = baseMiB;
  let heapMiB = 0;
  let told = { cut: 0, produced: 0 };
  for (let at = 0; at < rounds; at++) {
    const alone = await round(client, node, roundMs);
    await crowd.ask("gather");
    const watch = setInterval(() => {
      peakMiB = Math.max(peakMiB, node.rssBytes / MiB);
    }, 50);
    // Once all have what they can get, as it then is for good.
    await sleep(1_000);
    const crowdedFigures = await round(client, node, roundMs).finally(() => clearInterval(watch));
    heapMiB = Math.max(heapMiB, (await node.heapBytes()) / MiB);
    told = await crowd.ask("disperse");
    found.push({ alone, crowded: crowdedFigures });
    say?.(
      `round ${at + 1}: p99 alone ${alone.p99.toFixed(1)} ms, in the crowd ${crowdedFigures.p99.toFixed(1)} ms; memory at most ${peakMiB.toFixed(0)} MiB`,
    );
    await sleep(1_000);
  }
  await client.close();
  const sumMiB = Object.values(BUDGET_MIB).reduce((sum, each) => sum + each, 0);
  const budgetMiB = baseMiB + sumMiB + (slow + idle) * SHARE_MIB + SLACK_MIB;
  const ratio = medianOf(found.map(({ alone, crowded: { p99 } }) => p99 / alone.p99));
  const faults = faultsOf({ node, budgetMiB, peakMiB, heapMiB, ratio, ratioMax, produced: told.produced });
  return {
    baseMiB: Math.round(baseMiB),
    budgetMiB: Math.round(budgetMiB),
    peakMiB: Math.round(peakMiB),
    heapMiB: Math.round(heapMiB),
    rounds: found,
    ratio,
    ...told,
    faults,
  };
}

function faultsOf({
  node,
  budgetMiB,
  peakMiB,
  heapMiB,
  ratio,
  ratioMax,
  produced,
}: {
  node: AttackedNode;
  budgetMiB: number;
  peakMiB: number;
  heapMiB: number;
  ratio: number;
  ratioMax: number;
  produced: number;
}): string[] {
  const faults: string[] = [];
  if (node.death !== undefined) faults.push(`crash: ${node.death}`);
  if (!(peakMiB <= budgetMiB))
    faults.push(`memory: ${peakMiB.toFixed(0)} MiB, its settings allow ${budgetMiB.toFixed(0)}`);
  if (!(heapMiB <= HEAP_MIB)) faults.push(`heap: ${heapMiB.toFixed(0)} MiB, ${HEAP_MIB} are allowed`);
  if (!(ratio > 0)) faults.push("nothing is left of the times once what waited for a processor is taken off");
  if (!(ratio <= ratioMax))
    faults.push(`latency: the p99 of another client is ${ratio.toFixed(1)} times what it is alone`);
  if (produced < 10) faults.push(`the crowd wrote ${produced} batches: nothing was measured`);
  return faults;
}

/** One client by itself: a record with acks=all, again and again. */
async function round(client: Client, { pid }: AttackedNode, forMs: number): Promise<Figures> {
  const producer = client.producer({ lingerMs: 0 });
  const latencies: number[] = [];
  const untilMs = performance.now() + forMs;
  while (performance.now() < untilMs) {
    const [nodeMs, ownMs] = [waitedForCpuMs(pid), waitedForCpuMs("self")];
    const startMs = performance.now();
    await producer.send("beside", { value: "beside the crowd" });
    const tookMs = performance.now() - startMs;
    // Not the sum: both may have waited at the same time.
    const waitedMs = Math.max(waitedForCpuMs(pid) - nodeMs, waitedForCpuMs("self") - ownMs);
    latencies.push(Math.max(0, tookMs - waitedMs));
    await sleep(PAUSE_MS);
  }
  await producer.close();
  latencies.sort((left, right) => left - right);
  const at = (part: number): number => latencies[Math.floor(latencies.length * part)] ?? Number.NaN;
  return { p50: at(0.5), p99: at(0.99) };
}

function medianOf(values: readonly number[]): number {
  return values.toSorted((left, right) => left - right)[values.length >> 1] ?? Number.NaN;
}

class CrowdProcess {
  readonly #child: ChildProcess;

  constructor(plan: CrowdPlan) {
    this.#child = forkScript(CHILD, [JSON.stringify(plan)]);
    if (this.#child.pid !== undefined) setPriority(this.#child.pid, CROWD_NICE);
  }

  async ask(what: "gather" | "disperse"): Promise<{ cut: number; produced: number }> {
    this.#child.send(what);
    const ended = once(this.#child, "exit").then(([code]) => {
      throw new Error(`the crowd ended with ${code}`);
    });
    const told = once(this.#child, "message") as Promise<[{ cut: number; produced: number }]>;
    const [{ cut, produced }] = await Promise.race([told, ended]);
    return { cut, produced };
  }

  kill(): void {
    if (this.#child.exitCode === null) this.#child.kill("SIGKILL");
  }
}
