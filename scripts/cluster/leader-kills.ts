// The node that leads most killed again and again while a client sends with acks=all to partitions of three replicas: how long a partition takes
// nothing each time, how long until all replicas are in sync and their first ones lead again, and whether in the end everything acknowledged is there.
import { type Client, connect, type PartitionInfo } from "../../src/index.ts";
import { LocalCluster } from "./local-cluster.ts";

export interface LeaderKillReport {
  readonly kills: number;
  /** The longest time between two acknowledgements of one partition, about each kill. */
  readonly gaps: readonly { readonly node: number; readonly isController: boolean; readonly gapMs: number }[];
  readonly gapMaxMs: number;
  /** From the word of the restarted node that it is ready until every replica was in sync, and until the first replica of every partition led. */
  readonly inSyncMaxMs: number;
  readonly preferredMaxMs: number;
  readonly acknowledged: number;
  readonly refused: number;
  /** What is wrong, in words. */
  readonly faults: readonly string[];
}

export const LEADER_LIMITS = { gapMs: 2_500, controllerGapMs: 3_000, preferredMs: 10_000 } as const;

export function isQuick({ gaps, preferredMaxMs }: LeaderKillReport): boolean {
  const { gapMs, controllerGapMs, preferredMs } = LEADER_LIMITS;
  return (
    preferredMaxMs <= preferredMs && gaps.every((gap) => gap.gapMs <= (gap.isController ? controllerGapMs : gapMs))
  );
}

const TOPIC = "killed";
const PARTITIONS = 6;
const EVERY_MS = 5;
const STEADY_MS = 1_500;
const STUCK_MS = 60_000;
const FAULTS_TOLD_MAX = 20;

export async function killLeaders(kills: number, say: (line: string) => void): Promise<LeaderKillReport> {
  const cluster = new LocalCluster();
  let isSound = false;
  try {
    await cluster.untilUp();
    const client = await connect({ brokers: [...cluster.addresses.values()], clientId: "leader-kills" });
    const report = await withClient(cluster, client, kills, say);
    await client.close();
    isSound = report.faults.length === 0;
    if (!isSound) say(cluster.words);
    return report;
  } finally {
    await cluster.down().catch((error: unknown) => say(String(error)));
    if (isSound) cluster.remove();
    else say(`the cluster's data and logs stay in ${cluster.dataDir}`);
  }
}

async function withClient(
  cluster: LocalCluster,
  client: Client,
  kills: number,
  say: (line: string) => void,
): Promise<LeaderKillReport> {
  const admin = client.admin();
  await admin.createTopic(TOPIC, { partitions: PARTITIONS, replicationFactor: 3 });
  const load = new Load(client);
  const gaps: { node: number; isController: boolean; gapMs: number }[] = [];
  let inSyncMaxMs = 0;
  let preferredMaxMs = 0;
  try {
    for (let kill = 1; kill <= kills; kill++) {
      await load.steady();
      const { controllerId } = await admin.describeMetadata({ topics: [TOPIC] });
      const node = (kill % cluster.addresses.size) + 1;
      const killedMs = Date.now();
      await cluster.kill(node);
      await load.steady();
      const gapMs = load.longestGapMs(killedMs);
      gaps.push({ node, isController: node === controllerId, gapMs });
      await cluster.start(node);
      const readyMs = Date.now();
      const inSyncMs = await untilPartitions(client, readyMs, ({ isr, replicas }) => isr.length === replicas.length);
      const preferredMs = await untilPartitions(client, readyMs, ({ leader, replicas }) => leader === replicas[0]);
      inSyncMaxMs = Math.max(inSyncMaxMs, inSyncMs);
      preferredMaxMs = Math.max(preferredMaxMs, preferredMs);
      const role = node === controllerId ? " (the controller)" : "";
      say(
        `kill ${kill} of ${kills}: node ${node}${role}, a partition took nothing for ${gapMs} ms; all in sync ${inSyncMs} ms after it was ready, first replicas lead after ${preferredMs} ms`,
      );
    }
  } finally {
    await load.stop();
  }
  const faults = await load.audit();
  return {
    kills,
    gaps,
    gapMaxMs: Math.max(0, ...gaps.map(({ gapMs }) => gapMs)),
    inSyncMaxMs,
    preferredMaxMs,
    acknowledged: load.acknowledgedCount,
    refused: load.refusedCount,
    faults,
  };
}

async function untilPartitions(
  client: Client,
  sinceMs: number,
  holds: (partition: PartitionInfo) => boolean,
): Promise<number> {
  for (;;) {
    const { topics } = await client.admin().describeMetadata({ topics: [TOPIC], from: "controller" });
    const partitions = topics[0]?.partitions ?? [];
    if (partitions.length === PARTITIONS && partitions.every(holds)) return Date.now() - sinceMs;
    if (Date.now() - sinceMs > STUCK_MS)
      throw new Error(`partitions are not as they should be: ${JSON.stringify(partitions)}`);
    await sleep(50);
  }
}

/** Numbers, one after another to each partition in turn; it knows what it was told of each. */
class Load {
  readonly #client: Client;
  readonly #producer: ReturnType<Client["producer"]>;
  readonly #acknowledged: Map<number, string>[] = Array.from({ length: PARTITIONS }, () => new Map<number, string>());
  readonly #ackTimesMs: number[][] = Array.from({ length: PARTITIONS }, () => []);
  readonly #open = new Set<Promise<void>>();
  readonly #work: Promise<void>;
  #isStopping = false;
  refusedCount = 0;

  constructor(client: Client) {
    this.#client = client;
    this.#producer = client.producer({ lingerMs: 1, requestTimeoutMs: 5_000, deliveryTimeoutMs: 30_000 });
    this.#work = this.#run();
  }

  get acknowledgedCount(): number {
    return this.#acknowledged.reduce((count, { size }) => count + size, 0);
  }

  /** Every partition has taken something for a while. */
  async steady(): Promise<void> {
    const sinceMs = Date.now();
    for (;;) {
      const isSteady = this.#ackTimesMs.every((times) => (times.at(-1) ?? 0) > sinceMs + STEADY_MS);
      if (isSteady) return;
      if (Date.now() - sinceMs > STUCK_MS) throw new Error(`a partition takes nothing: ${this.#lastTimes()}`);
      await sleep(20);
    }
  }

  #lastTimes(): string {
    return this.#ackTimesMs
      .map((times, partition) => `${partition}: ${Date.now() - (times.at(-1) ?? 0)} ms ago`)
      .join(", ");
  }

  /** Of any partition, over that moment. */
  longestGapMs(sinceMs: number): number {
    let longestMs = 0;
    for (const times of this.#ackTimesMs) {
      let before: number | undefined;
      for (const atMs of times) {
        if (before !== undefined && atMs > sinceMs) longestMs = Math.max(longestMs, atMs - Math.max(before, sinceMs));
        before = atMs;
      }
    }
    return longestMs;
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#work;
    await Promise.all(this.#open);
    await this.#producer.close();
  }

  async #run(): Promise<void> {
    for (let number = 0; !this.#isStopping; number++) {
      const sending = this.#send(number).finally(() => this.#open.delete(sending));
      this.#open.add(sending);
      await sleep(EVERY_MS);
    }
  }

  async #send(number: number): Promise<void> {
    const partition = number % PARTITIONS;
    const value = `value ${number}`;
    try {
      const { offset } = await this.#producer.send(TOPIC, { partition, value }, { acks: "all" });
      this.#acknowledged[partition]?.set(offset ?? -1, value);
      this.#ackTimesMs[partition]?.push(Date.now());
    } catch {
      this.refusedCount++;
    }
  }

  /** Everything acknowledged is where it was said to be. */
  async audit(): Promise<string[]> {
    const found = new Map<string, string>();
    for await (const { partition, offset, value } of this.#client.consumer({ topics: [TOPIC], untilEnd: true }))
      found.set(`${partition}@${offset}`, value === null ? "null" : Buffer.from(value).toString());
    const faults: string[] = [];
    this.#acknowledged.forEach((records, partition) => {
      for (const [offset, value] of records) {
        const there = found.get(`${partition}@${offset}`);
        if (there !== value)
          faults.push(`partition ${partition} offset ${offset}: acknowledged ${value}, reads ${there}`);
      }
    });
    return faults.slice(0, FAULTS_TOLD_MAX);
  }
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms));
