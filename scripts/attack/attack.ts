// One attack from start to verdict: a node, a bystander, attackers, and what must be true in the end.
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "../../src/index.ts";
import { API, type ApiKey, type ApiTypes } from "../../src/wire/native/apis.ts";
import { encodeRequest } from "../../src/wire/native/codec.ts";
import type { BystanderReport } from "./bystander.ts";
import { forkScript } from "./child.ts";
import { Control } from "./control.ts";
import { attackWithFrames } from "./frames.ts";
import { AttackedNode, type Plant, verifyLogs } from "./node.ts";
import { Counts, RawPeer } from "./raw-peer.ts";
import type { Knowledge } from "./samples.ts";
import { attackWithSequences } from "./sequences.ts";

const HANG_MS = 1_000;
const GROWTH_BYTES_MAX = 64 * 1024 * 1024;
const CONNECTIONS = 96;
const SEQUENCES_AT_ONCE = 24;
/** What attackers left behind is let go of within this: waits of requests, answers to a close. */
const QUIET_MS = 1_500;
const BYSTANDER = join(import.meta.dirname, "bystander.ts");
/** Attackers may make as much as the node lets them; this much of it is no attack on its own. */
const SETTINGS = ["max.partitions=200", "producer.names.max=200"];
const TOPICS = ["attacked-a", "attacked-b", "attacked-c"] as const;

export interface AttackPlan {
  readonly seed: number;
  readonly frames: number;
  readonly sequences: number;
  /** `frame:N` and `sequence:N`: these alone. */
  readonly only?: readonly string[];
  readonly plants?: readonly Plant[];
  readonly say?: (line: string) => void;
}

export interface AttackReport {
  readonly seed: number;
  readonly seconds: number;
  readonly frames: number;
  readonly sequences: number;
  readonly counts: Readonly<Record<string, number>>;
  readonly rssMiB: { readonly warm: number; readonly end: number };
  readonly bystander: BystanderReport;
  readonly faults: readonly string[];
}

export async function attack(plan: AttackPlan): Promise<AttackReport> {
  const node = await AttackedNode.start(SETTINGS, plan.plants);
  plan.say?.(`a node at ${node.address}, process ${node.pid}`);
  let bystander: Bystander | undefined;
  try {
    const known = await findOut(node.address);
    bystander = await Bystander.start(node);
    return await new Attack(plan, node, { known, bystander }).run();
  } finally {
    bystander?.kill();
    await node.remove();
  }
}

class Attack {
  readonly #plan: AttackPlan;
  readonly #node: AttackedNode;
  readonly #known: Knowledge;
  readonly #bystander: Bystander;
  readonly #counts = new Counts();
  readonly #underWay = new Set<string>();
  #frames = 0;
  #sequences = 0;

  constructor(plan: AttackPlan, node: AttackedNode, { known, bystander }: { known: Knowledge; bystander: Bystander }) {
    this.#plan = plan;
    this.#node = node;
    this.#known = known;
    this.#bystander = bystander;
  }

  async run(): Promise<AttackReport> {
    const startMs = performance.now();
    const { frames, sequences, only, seed } = this.#plan;
    const warmFrames = Math.ceil(frames / 5);
    const warmSequences = Math.ceil(sequences / 5);
    const [frameNumbers, sequenceNumbers] =
      only === undefined
        ? [range(0, frames), range(0, sequences)]
        : [numbersOf(only, "frame"), numbersOf(only, "sequence")];
    // The first fifth is the warm-up: caches, code that is compiled, tables that have their size.
    await this.#strike(frameNumbers.slice(0, warmFrames), sequenceNumbers.slice(0, warmSequences));
    const warmBytes = await this.#settledRssBytes();
    this.#plan.say?.(`warm after ${this.#frames} frames and ${this.#sequences} sequences`);
    await this.#strike(frameNumbers.slice(warmFrames), sequenceNumbers.slice(warmSequences));
    this.#plan.say?.(`${this.#frames} frames and ${this.#sequences} sequences`);
    const culprits = [...this.#underWay];
    const endBytes = await this.#settledRssBytes();
    const { faults, report } = await this.#conclude({ warmBytes, endBytes });
    if (faults.length > 0 && culprits.length > 0)
      faults.push(`under way were ${culprits.join(",")}: again with --seed ${seed} --only ${culprits.join(",")}`);
    return {
      seed,
      seconds: (performance.now() - startMs) / 1_000,
      frames: this.#frames,
      sequences: this.#sequences,
      counts: Object.fromEntries([...this.#counts.byCode].toSorted(([left], [right]) => left.localeCompare(right))),
      rssMiB: { warm: inMiB(warmBytes), end: inMiB(endBytes) },
      bystander: report,
      faults,
    };
  }

  async #strike(frames: readonly number[], sequences: readonly number[]): Promise<void> {
    const { seed } = this.#plan;
    const shared = {
      address: this.#node.address,
      known: this.#known,
      counts: this.#counts,
      seed,
      underWay: this.#underWay,
      isOver: () => this.#node.death !== undefined,
    };
    function* counted(numbers: readonly number[], count: () => void): IterableIterator<number> {
      for (const number of numbers) {
        count();
        yield number;
      }
    }
    const frameNumbers = counted(frames, () => this.#frames++);
    const sequenceNumbers = counted(sequences, () => this.#sequences++);
    const control = new Control(this.#node.address);
    await Promise.all([
      attackWithFrames({ ...shared, control, indices: frameNumbers, atOnce: CONNECTIONS }),
      attackWithSequences({ ...shared, control, indices: sequenceNumbers, atOnce: SEQUENCES_AT_ONCE }),
    ]);
    if (control.fault !== undefined) this.#counts.faults.push(control.fault);
    control.end();
  }

  async #settledRssBytes(): Promise<number> {
    if (this.#node.death !== undefined) return Number.NaN;
    await sleep(QUIET_MS);
    return this.#node.settledRssBytes();
  }

  async #conclude({
    warmBytes,
    endBytes,
  }: {
    warmBytes: number;
    endBytes: number;
  }): Promise<{ faults: string[]; report: BystanderReport }> {
    const faults = [...new Set(this.#counts.faults)].slice(0, 20);
    if (this.#node.death !== undefined) return { faults: [`crash: ${this.#node.death}`, ...faults], report: NO_REPORT };
    const report = await this.#bystander.end();
    const { slowestProbeMs, cut, faults: lost, probes, acknowledged } = report;
    if (slowestProbeMs > HANG_MS) faults.push(`hang: a bystander waited ${slowestProbeMs.toFixed(0)} ms for an answer`);
    if (!(endBytes - warmBytes < GROWTH_BYTES_MAX))
      faults.push(`growth: ${inMiB(warmBytes)} MiB after the warm-up, ${inMiB(endBytes)} MiB at the end`);
    for (const reason of cut) faults.push(`a bystander's connection was cut: ${reason}`);
    for (const reason of lost) faults.push(`a bystander's data: ${reason}`);
    if (probes < 10 || acknowledged < 10)
      faults.push(`a bystander got ${probes} answers and ${acknowledged} acknowledgements: nothing was watched`);
    await this.#node.stop();
    if (this.#plan.plants?.includes("rot") === true) this.#node.rot("bystander-0", ".log");
    const { code, text } = await verifyLogs(this.#node.dataDir);
    if (code !== 0) faults.push(`ottla log verify ended with ${code}: ${text.slice(-1_000)}`);
    return { faults, report };
  }
}

const NO_REPORT: BystanderReport = {
  slowestProbeMs: 0,
  slowestProbeRawMs: 0,
  probes: 0,
  p99Ms: Number.NaN,
  slowestSendMs: 0,
  acknowledged: 0,
  cut: [],
  faults: [],
};

class Bystander {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  static async start({ address, pid }: AttackedNode): Promise<Bystander> {
    const bystander = new Bystander(forkScript(BYSTANDER, [address, String(pid)]));
    await bystander.#message("begun");
    return bystander;
  }

  async end(): Promise<BystanderReport> {
    this.#child.send("end");
    return (await this.#message("report")).report;
  }

  kill(): void {
    if (this.#child.exitCode === null) this.#child.kill("SIGKILL");
  }

  async #message(kind: string): Promise<{ kind: string; report: BystanderReport }> {
    const ended = once(this.#child, "exit").then(([code]) => {
      throw new Error(`the bystander ended with ${code}`);
    });
    const message = once(this.#child, "message") as Promise<[{ kind: string; report: BystanderReport }]>;
    const [first] = await Promise.race([message, ended]);
    if (first.kind !== kind) throw new Error(`the bystander said ${first.kind}, not ${kind}`);
    return first;
  }
}

/** What anybody can learn by asking. */
async function findOut(address: string): Promise<Knowledge> {
  const client = await connect({ brokers: [address] });
  const topics = [];
  for (const [at, name] of TOPICS.entries()) {
    const { topicId } = await client.admin().createTopic(name, { partitions: at + 1 });
    topics.push({ name, topicId: topicId as never, partitions: at + 1 });
  }
  await client.close();
  const peer = new RawPeer(address, new Counts());
  let id = 0;
  const ask = async <K extends ApiKey>(api: K, request: ApiTypes[K]["request"]): Promise<ApiTypes[K]["response"]> => {
    const correlationId = ++id;
    const answer = peer.answerTo(correlationId);
    peer.send(encodeRequest({ api, version: 0, correlationId, deadlineMs: 0 }, request, []));
    return (await answer)?.response as ApiTypes[K]["response"];
  };
  const { clusterId, nodeId, brokerEpoch } = await ask(API.HELLO, { clientId: "attacker", software: "attack 1" });
  const { voters, term } = await ask(API.DESCRIBE_QUORUM, {});
  const { producerId } = await ask(API.INIT_PRODUCER_ID, { name: null, producerId: -1, producerEpoch: -1 });
  peer.destroy();
  return { clusterId, nodeId, brokerEpoch, voter: voters[0]?.replicaId ?? "", term, topics, producerId };
}

const inMiB = (bytes: number): number => Math.round(bytes / 1024 / 1024);
const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, at) => from + at);

function numbersOf(only: readonly string[], kind: string): number[] {
  return only.flatMap((name) => (name.startsWith(`${kind}:`) ? [Number(name.slice(kind.length + 1))] : []));
}
