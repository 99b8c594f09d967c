// The controller killed again and again while a client creates topics: how long creation stands still each time, and whether in the end
// every node has exactly what was acknowledged.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type Client, connect } from "../../src/index.ts";
import { LocalCluster } from "./local-cluster.ts";

export interface KillReport {
  readonly kills: number;
  /** From `cluster up` to three healthy nodes. */
  readonly healthyMs: number;
  readonly gapMaxMs: number;
  readonly gapP90Ms: number;
  readonly gaps: readonly { readonly node: number; readonly gapMs: number }[];
  readonly acknowledged: number;
  readonly refused: number;
  readonly unknown: number;
  readonly deleted: number;
  /** Topics that exist without an acknowledgement, of unknown outcome. */
  readonly unknownThere: number;
  /** What is wrong, in words. */
  readonly faults: readonly string[];
}

export const LIMITS = { gapMs: 3000, healthyMs: 3000 } as const;

export interface Outcome {
  readonly name: string;
  readonly outcome: "ok" | "refused" | "unknown" | "deleted" | "deletion unknown";
  readonly topicId?: string;
  readonly atMs: number;
}

/** Creations that must have succeeded between a restart and the next kill. */
const STEADY_CREATIONS = 20;
const STUCK_MS = 60_000;
/** For every node to hear of the last change. */
const AGREE_MS = 10_000;
const FAULTS_TOLD_MAX = 20;

/** `say`: a line about each kill, for people. */
export async function killControllers(kills: number, say: (line: string) => void): Promise<KillReport> {
  const cluster = new LocalCluster();
  let isSound = false;
  try {
    const report = await withCluster(cluster, kills, say);
    isSound = report.faults.length === 0;
    if (!isSound) say(cluster.words);
    return report;
  } finally {
    await cluster.down().catch((error: unknown) => say(String(error)));
    if (isSound) cluster.remove();
    else say(`the cluster's data and logs stay in ${cluster.dataDir}`);
  }
}

async function withCluster(cluster: LocalCluster, kills: number, say: (line: string) => void): Promise<KillReport> {
  await cluster.untilUp();
  const healthyMs = cluster.healthyMs ?? Infinity;
  say(`healthy after ${healthyMs} ms`);
  const brokers = [...cluster.addresses.values()];
  const client = await connect({ brokers, clientId: "controller-kills" });
  const maker = new TopicMaker(brokers);
  try {
    const gaps: { node: number; gapMs: number }[] = [];
    for (let kill = 1; kill <= kills; kill++) {
      await maker.untilMade(STEADY_CREATIONS);
      const node = await controllerOf(client);
      const killedMs = Date.now();
      await cluster.kill(node);
      await maker.untilMade(1);
      await cluster.start(node);
      await cluster.untilHealthy();
      await maker.untilMade(STEADY_CREATIONS);
      const gapMs = longestGapMs(maker.outcomes, killedMs);
      gaps.push({ node, gapMs });
      say(`kill ${kill} of ${kills}: node ${node}, creation stood still for ${gapMs} ms`);
    }
    await maker.stop();
    const { faults, unknownThere } = await audit(client, cluster, maker);
    const sorted = gaps.map(({ gapMs }) => gapMs).sort((left, right) => left - right);
    const gapMaxMs = sorted.at(-1) ?? 0;
    const gapP90Ms = sorted[Math.ceil(sorted.length * 0.9) - 1] ?? 0;
    return { kills, healthyMs, gapMaxMs, gapP90Ms, gaps, ...maker.counts, unknownThere, faults };
  } finally {
    await maker.stop();
    await client.close();
  }
}

async function controllerOf(client: Client): Promise<number> {
  const { controllerId } = await client.admin().describeMetadata({ topics: ["no-such-topic"] });
  if (controllerId < 0) throw new Error("the controller does not say that it is one");
  return controllerId;
}

/** The client process and what it told. */
class TopicMaker {
  readonly outcomes: Outcome[] = [];
  readonly #child: ChildProcess;
  #made = 0;
  #isOver = false;
  #wake: (() => void) | undefined;

  constructor(brokers: readonly string[]) {
    const script = join(import.meta.dirname, "topic-maker.ts");
    this.#child = spawn(process.execPath, ["--import", "tsx", script, ...brokers], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    if (this.#child.stdout !== null)
      createInterface({ input: this.#child.stdout }).on("line", (line) => {
        const outcome = JSON.parse(line) as Outcome;
        this.outcomes.push(outcome);
        if (outcome.outcome === "ok") this.#made++;
        this.#wake?.();
      });
    this.#child.once("close", () => {
      this.#isOver = true;
      this.#wake?.();
    });
  }

  get counts(): Pick<KillReport, "acknowledged" | "refused" | "unknown" | "deleted"> {
    const count = (kind: Outcome["outcome"]): number => this.outcomes.filter(({ outcome }) => outcome === kind).length;
    return {
      acknowledged: count("ok"),
      refused: count("refused"),
      unknown: count("unknown"),
      deleted: count("deleted"),
    };
  }

  /** So many more creations have succeeded. */
  async untilMade(count: number): Promise<void> {
    const goal = this.#made + count;
    let isLate = false;
    const limit = setTimeout(() => {
      isLate = true;
      this.#wake?.();
    }, STUCK_MS);
    while (this.#made < goal && !isLate && !this.#isOver)
      await new Promise<void>((done) => {
        this.#wake = done;
      });
    clearTimeout(limit);
    if (this.#made < goal) throw new Error(this.#isOver ? "the client ended" : `no topic was made in ${STUCK_MS} ms`);
  }

  /** Resolves when all that was under way has ended. */
  async stop(): Promise<void> {
    this.#child.stdin?.end();
    if (!this.#isOver) await once(this.#child, "close");
  }
}

/** Every node by itself: all that was acknowledged is there with its id, nothing that was refused. */
async function audit(client: Client, cluster: LocalCluster, maker: TopicMaker): Promise<Look> {
  const faults: string[] = [];
  let unknownThere = 0;
  for (const node of cluster.addresses.keys()) {
    const untilMs = Date.now() + AGREE_MS;
    let found = await look(client, node, maker.outcomes);
    while (found.faults.length > 0 && Date.now() < untilMs) found = await look(client, node, maker.outcomes);
    faults.push(...found.faults);
    unknownThere = Math.max(unknownThere, found.unknownThere);
  }
  return { faults: faults.slice(0, FAULTS_TOLD_MAX), unknownThere };
}

async function look(client: Client, node: number, outcomes: readonly Outcome[]): Promise<Look> {
  const { topics } = await client.admin().describeMetadata({ from: node });
  return compare(node, topics, outcomes);
}

interface Look {
  readonly faults: string[];
  readonly unknownThere: number;
}

/** What a node shows against what clients were told, once nothing is under way any more. */
export function compare(
  node: number,
  topics: readonly { readonly name: string; readonly topicId: string }[],
  outcomes: readonly Outcome[],
): Look {
  const ids = new Map(topics.map(({ name, topicId }) => [name, topicId]));
  const faults: string[] = [];
  let unknownThere = 0;
  for (const [name, { outcome, topicId }] of lastOf(outcomes)) {
    const id = ids.get(name);
    ids.delete(name);
    if (outcome === "ok" && id !== topicId)
      faults.push(`node ${node}: ${name} was made with the id ${topicId}, now ${id ?? "it is not there"}`);
    if (outcome === "refused" && id !== undefined) faults.push(`node ${node}: ${name} was refused, and is there`);
    if (outcome === "deleted" && id !== undefined) faults.push(`node ${node}: ${name} was deleted, and is there`);
    if (outcome === "unknown" && id !== undefined) unknownThere++;
  }
  for (const name of ids.keys()) faults.push(`node ${node}: ${name} is there, and nobody asked for it`);
  return { faults, unknownThere };
}

/** What was told last of each name; each is created once and deleted once at most. */
function lastOf(outcomes: readonly Outcome[]): ReadonlyMap<string, Outcome> {
  return new Map(outcomes.map((outcome) => [outcome.name, outcome]));
}

/** The longest time without a success of those that ended after this moment. */
export function longestGapMs(outcomes: readonly Outcome[], sinceMs: number): number {
  const times = outcomes.filter(({ outcome }) => outcome === "ok").map(({ atMs }) => atMs);
  const gaps = times.map((atMs, index) => (atMs < sinceMs ? 0 : atMs - (times[index - 1] ?? atMs)));
  return Math.max(0, ...gaps);
}
