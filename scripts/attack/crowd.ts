// A crowd beside one client: how slow that one gets, by the ratio to the same client without the crowd, rounds of both by turns since a machine is
// seldom quiet; and that the node's memory stays within what its settings allow. The crowd stands for other machines: it gives way to the node and to
// the client, and what one of them waited for a processor does not count. `compared`: beside it, by turns, what a crowd that writes as much costs a
// client of a server with nothing in it. That is what the machine itself asks, and no target; the node is judged without it.
import { join } from "node:path";
import { NODE_HEAP } from "../../src/cli/node-child.ts";
import { type Client, connect } from "../../src/index.ts";
import { BareSide } from "./bare-server.ts";
import type { CrowdPlan } from "./crowd-child.ts";
import { type CrowdedFigures, crowdedPhase, type Figures, phase, type PhaseLength, type Side } from "./crowd-phases.ts";
import { CrowdProcess } from "./crowd-process.ts";
import { AttackedNode, type Plant } from "./node.ts";

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
export const RATIO_MAX = 2;
const STORED_BATCHES = 32;
const BATCH_BYTES = 1_000_000;
/** MB, 10^6. */
const BATCH_MB = BATCH_BYTES / 1e6;

export interface CrowdOptions {
  readonly slow: number;
  readonly idle: number;
  readonly rounds: number;
  /** Of each phase of a round, at least. */
  readonly roundMs: number;
  /** Likewise. Default: as many as it gets. */
  readonly samples?: number;
  /** By turns with a bare server; and a round before that does not count, since what is not compiled yet makes the client alone slow. */
  readonly compared?: boolean;
  /** Of another client's p99 over that alone. Default: the target. */
  readonly ratioMax?: number;
  readonly plant?: Plant;
  readonly say?: (line: string) => void;
}

export interface CrowdRound extends CrowdedFigures {
  readonly alone: Figures;
}

export interface CrowdReport {
  readonly baseMiB: number;
  readonly budgetMiB: number;
  readonly peakMiB: number;
  /** Of the JavaScript heap. */
  readonly heapMiB: number;
  readonly rounds: readonly CrowdRound[];
  /** Of the p99, the median of all rounds. */
  readonly ratio: number;
  /** Round by round, the same of servers with nothing in them, by name. */
  readonly bare: Readonly<Record<string, readonly CrowdRound[]>>;
  readonly produced: number;
  readonly cut: number;
  readonly faults: readonly string[];
}

export async function crowded(options: CrowdOptions): Promise<CrowdReport> {
  const settings = Object.entries(BUDGET_MIB).map(([key, value]) => `${key}=${value}MiB`);
  const node = await AttackedNode.start(settings, options.plant && [options.plant], NODE_HEAP);
  let side: NodeSide | undefined;
  const bare: Record<string, BareSide> = {};
  try {
    const client = await connect({ brokers: [node.address], connectTimeoutMs: 30_000 });
    const topicId = await fill(client);
    const { slow, idle, compared = false } = options;
    const plan = { address: node.address, topicId: topicId as never, slow, idle, batchBytes: BATCH_BYTES };
    side = new NodeSide(node, client, plan);
    if (compared) {
      const { directory } = node;
      const like = { idle, batchBytes: BATCH_BYTES };
      bare["a server with nothing in it"] = await BareSide.start({ path: join(directory, "bare"), ...like });
      bare["one that writes twice"] = await BareSide.start({
        path: join(directory, "bare-journal"),
        behind: directory,
        ...like,
      });
    }
    return await measured(options, side, bare);
  } finally {
    side?.crowd.kill();
    for (const each of Object.values(bare)) each.kill();
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

/** A client of the node: a record with acks=all, again and again. */
class NodeSide implements Side {
  readonly node: AttackedNode;
  readonly client: Client;
  readonly crowd: CrowdProcess;
  peakMiB = 0;
  heapMiB = 0;

  constructor(node: AttackedNode, client: Client, plan: CrowdPlan) {
    this.node = node;
    this.client = client;
    this.crowd = new CrowdProcess(CHILD, plan);
  }

  get pid(): number {
    return this.node.pid;
  }

  sender(): { send(): Promise<unknown>; close(): Promise<void> } {
    const producer = this.client.producer({ lingerMs: 0 });
    return { send: () => producer.send("beside", { value: "beside the crowd" }), close: () => producer.close() };
  }

  look(): void {
    this.peakMiB = Math.max(this.peakMiB, this.node.rssBytes / MiB);
  }

  async lookClosely(): Promise<void> {
    this.heapMiB = Math.max(this.heapMiB, (await this.node.heapBytes()) / MiB);
  }
}

async function measured(
  options: CrowdOptions,
  side: NodeSide,
  bare: Readonly<Record<string, BareSide>>,
): Promise<CrowdReport> {
  const { rounds, roundMs, samples = 1, slow, idle, ratioMax = RATIO_MAX, say } = options;
  const { node, client, crowd } = side;
  const warmUp: PhaseLength = { ms: roundMs, samples: 1 };
  const length: PhaseLength = { ms: roundMs, samples };
  await phase(side, warmUp);
  const baseMiB = (await node.settledRssBytes()) / MiB;
  side.peakMiB = baseMiB;
  if (options.compared === true) {
    const { perSecond } = await crowdedPhase(side, warmUp);
    for (const each of Object.values(bare)) await crowdedPhase(each, warmUp, perSecond);
  }
  const before = await crowd.ask({ kind: "tell" });
  const found: CrowdRound[] = [];
  const bareRounds: Record<string, CrowdRound[]> = Object.fromEntries(Object.keys(bare).map((name) => [name, []]));
  for (let at = 0; at < rounds; at++) {
    const alone = await phase(side, length);
    const inCrowd = await crowdedPhase(side, length);
    found.push({ alone, ...inCrowd });
    say?.(`round ${at + 1}: ${spelled({ alone, ...inCrowd })}; memory at most ${side.peakMiB.toFixed(0)} MiB`);
    for (const [name, each] of Object.entries(bare)) {
      const bareAlone = await phase(each, length);
      const bareRound = { alone: bareAlone, ...(await crowdedPhase(each, length, inCrowd.perSecond)) };
      bareRounds[name]?.push(bareRound);
      say?.(`round ${at + 1}, ${name}: ${spelled(bareRound)}`);
    }
  }
  const told = await crowd.ask({ kind: "tell" });
  await client.close();
  const sumMiB = Object.values(BUDGET_MIB).reduce((sum, each) => sum + each, 0);
  const budgetMiB = baseMiB + sumMiB + (slow + idle) * SHARE_MIB + SLACK_MIB;
  const { peakMiB, heapMiB } = side;
  const ratio = medianOf(found.map(ratioOf));
  const produced = told.produced - before.produced;
  const faults = faultsOf({ node, budgetMiB, peakMiB, heapMiB, ratio, ratioMax, produced });
  const fewest = Math.min(...found.flatMap(({ alone, crowded: inCrowd }) => [alone.samples, inCrowd.samples]));
  if (fewest < samples) faults.push(`a phase has ${fewest} samples, ${samples} are needed`);
  return {
    baseMiB: Math.round(baseMiB),
    budgetMiB: Math.round(budgetMiB),
    peakMiB: Math.round(peakMiB),
    heapMiB: Math.round(heapMiB),
    rounds: found,
    ratio,
    bare: bareRounds,
    produced,
    cut: told.cut,
    faults,
  };
}

/** Of the p99. */
export function ratioOf({ alone, crowded: { p99 } }: CrowdRound): number {
  return p99 / alone.p99;
}

/** What the crowd wrote, MB (10^6) a second. */
export function writtenOf({ perSecond }: CrowdRound): number {
  return perSecond * BATCH_MB;
}

function spelled(round: CrowdRound): string {
  const { alone, crowded: inCrowd } = round;
  return `p99 alone ${alone.p99.toFixed(1)} ms, in the crowd ${inCrowd.p99.toFixed(1)} ms (${ratioOf(round).toFixed(2)} times), which wrote ${writtenOf(round).toFixed(0)} MB/s`;
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

export function medianOf(values: readonly number[]): number {
  return values.toSorted((left, right) => left - right)[values.length >> 1] ?? Number.NaN;
}
