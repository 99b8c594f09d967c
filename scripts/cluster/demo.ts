// The demonstration, by the command line alone: what a million acknowledged lines survive. Three runs: nodes killed while the lines are written, a tail
// that only a dead leader has, and every node restarted in turn.
import { createHash } from "node:crypto";
import { once } from "node:events";
import { closeSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Client, connect, type PartitionInfo } from "../../src/index.ts";
import { sortedHash, writeLines } from "./demo-lines.ts";
import { type NodeRow, ottla, ottlaJson, spawnOttla } from "./shell.ts";

export interface DemoParts {
  readonly say: (line: string) => void;
  /** Ends it, with nothing left behind. */
  readonly signal?: AbortSignal;
}

const STUCK_MS = 90_000;
const LOOK_MS = 100;
const ANSWER_MS = 2_000;

export class DemoCluster {
  readonly dataDir = mkdtempSync(join(tmpdir(), "ottla-demo-"));
  nodes: readonly NodeRow[] = [];
  /** Only looks: everything else is done by commands. */
  #client: Client | undefined;

  async up(): Promise<void> {
    await ottla(["cluster", "up", "-n", "3", "--detach", "--any-port", "--data-dir", this.dataDir]);
    const { nodes } = await ottlaJson<{ nodes: readonly NodeRow[] }>(["cluster", "status", "--data-dir", this.dataDir]);
    this.nodes = nodes;
    await this.run(["cluster", "health", "--wait", "--timeout", "60s"]);
    this.#client = await connect({ brokers: this.brokers.split(","), clientId: "demo" });
  }

  get brokers(): string {
    return this.nodes.map(({ address }) => address.replace("ws://", "")).join(",");
  }

  get client(): Client {
    if (this.#client === undefined) throw new Error("the cluster is not up");
    return this.#client;
  }

  /** A command that asks the cluster. */
  run(args: readonly string[]): Promise<string> {
    return ottla([...args, "-b", this.brokers]);
  }

  /** A command on its processes. */
  act(verb: "kill" | "start" | "restart" | "pause" | "resume", ...nodes: readonly number[]): Promise<string> {
    const timeout = verb === "start" || verb === "restart" ? ["--timeout", "80s"] : [];
    return ottla(["cluster", verb, ...nodes.map(String), "--data-dir", this.dataDir, ...timeout]);
  }

  async #view(
    topic: string,
  ): Promise<{ readonly controllerId: number; readonly partitions: readonly PartitionInfo[] }> {
    const query = { topics: [topic], from: "controller", timeoutMs: ANSWER_MS } as const;
    const { controllerId, topics } = await this.client.admin().describeMetadata(query);
    return { controllerId, partitions: topics[0]?.partitions ?? [] };
  }

  /** As the controller knows them. */
  partitions(topic: string): Promise<readonly PartitionInfo[]> {
    return this.until("a controller", async () => (await this.#view(topic)).partitions);
  }

  controller(): Promise<number> {
    return this.until("a controller", async () => (await this.#view("none")).controllerId);
  }

  /** Records that are committed. */
  async committed(topic: string): Promise<number> {
    const offsets = await this.client.admin().offsets(topic, { timeoutMs: ANSWER_MS });
    return offsets.reduce((sum, { endOffset }) => sum + endOffset, 0);
  }

  async until<Value>(what: string, look: () => Promise<Value | undefined>): Promise<Value> {
    const untilMs = Date.now() + STUCK_MS;
    let last = "";
    while (Date.now() < untilMs) {
      try {
        const value = await look();
        if (value !== undefined) return value;
      } catch (thrown) {
        last = String(thrown);
      }
      await new Promise((done) => void setTimeout(done, LOOK_MS));
    }
    throw new Error(`not within ${STUCK_MS} ms: ${what} ${last}`);
  }

  /** Every replica is in sync and the first one of each partition leads. */
  untilWhole(topic: string): Promise<true> {
    return this.until("all in sync, and first replicas lead", async () => {
      const partitions = await this.partitions(topic);
      const isWhole = partitions.every(({ isr, replicas, leader }) => isr.length === 3 && leader === replicas[0]);
      return isWhole || undefined;
    });
  }

  async down(): Promise<void> {
    await this.#client?.close();
    this.#client = undefined;
    await ottla(["cluster", "down", "--data-dir", this.dataDir]);
  }

  remove(): void {
    rmSync(this.dataDir, { recursive: true, force: true });
  }

  /** The lines of this event that nodes have logged. */
  events(event: string): Record<string, unknown>[] {
    return this.nodes.flatMap(({ nodeId, logFile }) =>
      readFileSync(logFile, "utf8")
        .split("\n")
        .filter((line) => line.includes(`"${event}"`))
        .map((line) => ({ ...(JSON.parse(line) as Record<string, unknown>), node: nodeId })),
    );
  }
}

/** Runs with a cluster of its own, which is kept when something goes wrong. Its nodes are detached: nobody else ends them. */
export async function withDemoCluster<Result>(
  { say, signal }: DemoParts,
  work: (cluster: DemoCluster) => Promise<Result>,
): Promise<Result> {
  const cluster = new DemoCluster();
  const aborted = new Promise<never>((_, fail) => {
    signal?.addEventListener("abort", () => fail(signal.reason as Error));
  });
  aborted.catch(() => undefined);
  const up = cluster.up();
  let isDone = false;
  try {
    const result = await Promise.race([up.then(async () => work(cluster)), aborted]);
    isDone = true;
    return result;
  } finally {
    await up.catch(() => undefined);
    await cluster.down().catch((error: unknown) => say(String(error)));
    if (isDone || signal?.aborted === true) cluster.remove();
    else say(`the cluster's data and logs stay in ${cluster.dataDir}`);
  }
}

export interface MillionReport {
  readonly lines: number;
  readonly seconds: number;
  readonly kills: readonly {
    readonly what: string;
    readonly node: number;
    /** Acknowledged, as a share of all, when it was dead. */
    readonly acknowledgedShare: number;
    readonly backSeconds: number;
  }[];
  readonly truncations: number;
  readonly inputHash: string;
  readonly outputHash: string;
}

const MILLION_TOPIC = "million";
/** So many of the acknowledgements must come after the first kill. */
export const AFTER_SHARE = 0.2;

export interface MillionOptions {
  readonly lines: number;
  /** So that it lasts long enough to kill three nodes and to have each of them back. */
  readonly rate: number;
}

/**
 * Two partitions, so that one of three nodes leads none: the leader is killed, then the controller that leads nothing, then a node that is both.
 * Rejects when a kill came too late to prove anything.
 */
export function writeThroughKills({ lines, rate }: MillionOptions, parts: DemoParts): Promise<MillionReport> {
  const { say } = parts;
  return withDemoCluster(parts, async (cluster) => {
    const input = join(cluster.dataDir, "input.txt");
    const output = join(cluster.dataDir, "output.txt");
    await writeLines(input, lines);
    await cluster.run(["topic", "create", MILLION_TOPIC, "-P", "2", "-R", "3"]);
    const leaders = (await cluster.partitions(MILLION_TOPIC)).map(({ leader }) => leader);
    const idle = cluster.nodes.map(({ nodeId }) => nodeId).find((nodeId) => !leaders.includes(nodeId)) ?? 0;
    await cluster.run(["quorum", "transfer", String(idle)]).catch(async (error: unknown) => {
      if ((await cluster.controller()) !== idle) throw error;
    });
    const startedMs = Date.now();
    const producing = new Producing(input, ["-b", cluster.brokers, "--rate", String(rate)]);
    const acknowledged = (): Promise<number> => cluster.committed(MILLION_TOPIC);
    const kills: MillionReport["kills"][number][] = [];
    const kill = async (what: string, share: number, choose: () => Promise<number>, latest: number): Promise<void> => {
      await cluster.until(`${share * 100} % are acknowledged`, async () => {
        producing.assertSound();
        return (await acknowledged()) >= share * lines || undefined;
      });
      const node = await choose();
      await cluster.act("kill", node);
      const acknowledgedShare = (await cluster.until("a leader is there", acknowledged)) / lines;
      if (acknowledgedShare > latest)
        throw new Error(
          `${what}: ${acknowledgedShare * 100} % were acknowledged, at most ${latest * 100} % prove anything`,
        );
      const fromMs = Date.now();
      await cluster.act("start", node);
      await cluster.untilWhole(MILLION_TOPIC);
      const backSeconds = (Date.now() - fromMs) / 1_000;
      kills.push({ what, node, acknowledgedShare, backSeconds });
      say(
        `${what}: node ${node} killed, ${(acknowledgedShare * 100).toFixed(1)} % acknowledged; all in sync and led as before ${backSeconds.toFixed(1)} s after its start began`,
      );
    };
    const aLeader = async (): Promise<number> => {
      const controllerId = await cluster.controller();
      const partition = (await cluster.partitions(MILLION_TOPIC)).find(({ leader }) => leader !== controllerId);
      if (partition === undefined) throw new Error(`node ${controllerId} is the controller and leads everything`);
      return partition.leader;
    };
    const both = async (): Promise<number> => {
      // It leads nothing, and one that does takes over.
      const { leader } = (await cluster.partitions(MILLION_TOPIC))[0] ?? { leader: 0 };
      if ((await cluster.controller()) !== leader) await cluster.run(["quorum", "transfer", String(leader)]);
      return cluster.until("the controller leads", async () =>
        (await cluster.controller()) === leader ? leader : undefined,
      );
    };
    await kill("the leader", 0.3, aLeader, 1 - AFTER_SHARE);
    await kill("the controller", 0.45, () => cluster.controller(), 0.95);
    await kill("a node that is both", 0.6, both, 0.95);
    await producing.end(lines);
    const seconds = (Date.now() - startedMs) / 1_000;
    const truncations = cluster.events("replica_truncated").length;
    await consumeTo(output, cluster);
    const [inputHash, outputHash] = [await sortedHash(input), await sortedHash(output)];
    return { lines, seconds, kills, truncations, inputHash, outputHash };
  });
}

/** `ottla produce` of a file. */
class Producing {
  readonly #child: ReturnType<typeof spawnOttla>;
  readonly #closed: Promise<unknown>;
  #out = "";
  #said = "";

  constructor(file: string, flags: readonly string[]) {
    const fd = openSync(file, "r");
    this.#child = spawnOttla(["produce", MILLION_TOPIC, "--acks", "all", "--json", ...flags], [fd, "pipe", "pipe"]);
    closeSync(fd);
    this.#child.stdout?.on("data", (chunk: Buffer) => (this.#out += chunk.toString()));
    this.#child.stderr?.on("data", (chunk: Buffer) => (this.#said += chunk.toString()));
    this.#closed = once(this.#child, "close");
  }

  assertSound(): void {
    if (this.#child.exitCode !== null && this.#child.exitCode !== 0)
      throw new Error(`produce ended with ${this.#child.exitCode}: ${this.#out}${this.#said}`);
  }

  async end(lines: number): Promise<void> {
    await this.#closed;
    this.assertSound();
    const { recordsAcknowledged } = JSON.parse(this.#out) as { recordsAcknowledged: number };
    if (recordsAcknowledged !== lines)
      throw new Error(`${recordsAcknowledged} acknowledged: ${this.#out}${this.#said}`);
  }
}

async function consumeTo(file: string, cluster: DemoCluster): Promise<void> {
  const fd = openSync(file, "w");
  const child = spawnOttla(["consume", MILLION_TOPIC, "-e", "-b", cluster.brokers], ["ignore", fd, "pipe"]);
  closeSync(fd);
  let said = "";
  child.stderr?.on("data", (chunk: Buffer) => (said += chunk.toString()));
  await once(child, "close");
  if (child.exitCode !== 0) throw new Error(`consume ended with ${child.exitCode}: ${said}`);
}

export interface TailReport {
  /** What the log line of the old leader names. */
  readonly cutAt: number;
  readonly cutFrom: number;
  readonly endOffset: number;
  /** Of the partition's segment files, by node. */
  readonly hashes: readonly string[];
  readonly segmentBytes: number;
}

const TAIL_TOPIC = "tail";

/** The followers sleep while acks=1 is answered, and the leader dies: what only it has is cut off when it is back. */
export function cutDivergentTail(parts: DemoParts): Promise<TailReport> {
  const { say } = parts;
  return withDemoCluster(parts, async (cluster) => {
    await cluster.run(["topic", "create", TAIL_TOPIC, "-P", "1", "-R", "3"]);
    await send(cluster, "all", 0, 1_000);
    const [partition] = await cluster.partitions(TAIL_TOPIC);
    const leader = partition?.leader ?? 0;
    const followers = cluster.nodes.map(({ nodeId }) => nodeId).filter((nodeId) => nodeId !== leader);
    await cluster.act("pause", ...followers);
    // One after another: the first answers of all are under way to the followers already.
    for (let batch = 0; batch < 5; batch++) await send(cluster, "1", 10_000 + batch * 100, 100, leader);
    await cluster.act("kill", leader);
    await cluster.act("resume", ...followers);
    const next = await cluster.until("another one leads", async () => {
      const [now] = await cluster.partitions(TAIL_TOPIC);
      return now !== undefined && now.leader >= 0 && now.leader !== leader ? now : undefined;
    });
    say(`node ${leader} died with a tail of its own; node ${next.leader} leads now`);
    await send(cluster, "all", 20_000, 1_000);
    await cluster.act("start", leader);
    await cluster.untilWhole(TAIL_TOPIC);
    await send(cluster, "all", 30_000, 1_000);
    const cut = cluster.events("replica_truncated").find(({ topic, node }) => topic === TAIL_TOPIC && node === leader);
    if (cut === undefined) throw new Error("the old leader has cut nothing");
    const endOffset = await cluster.committed(TAIL_TOPIC);
    await cluster.down();
    const folders = cluster.nodes.map(({ dataDir }) => join(dataDir, `${TAIL_TOPIC}-0`));
    const contents = folders.map((folder) => segmentsOf(folder));
    const hashes = contents.map((bytes) => createHash("sha256").update(bytes).digest("hex"));
    say(`node ${leader} cut its log at offset ${String(cut["offset"])} of ${String(cut["end"])}`);
    const segmentBytes = contents[0]?.length ?? 0;
    return { cutAt: Number(cut["offset"]), cutFrom: Number(cut["end"]), endOffset, hashes, segmentBytes };
  });
}

function segmentsOf(folder: string): Buffer {
  const files = readdirSync(folder).filter((name) => name.endsWith(".log"));
  return Buffer.concat(files.sort().map((name) => readFileSync(join(folder, name))));
}

async function send(cluster: DemoCluster, acks: string, from: number, count: number, leader?: number): Promise<void> {
  const node = cluster.nodes.find(({ nodeId }) => nodeId === leader);
  const brokers = node?.address.replace("ws://", "") ?? cluster.brokers;
  const child = spawnOttla(["produce", TAIL_TOPIC, "--acks", acks, "-b", brokers], ["pipe", "pipe", "pipe"]);
  let said = "";
  child.stderr?.on("data", (chunk: Buffer) => (said += chunk.toString()));
  child.stdin?.end(Array.from({ length: count }, (_, at) => `record ${from + at}\n`).join(""));
  await once(child, "close");
  if (child.exitCode !== 0) throw new Error(`produce with acks ${acks} ended with ${child.exitCode}: ${said}`);
}
