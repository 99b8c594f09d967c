// The end of a run: nobody sends any more. Every replica is read whole as the leader of its partition, in turn; then all nodes are stopped in order,
// every data directory is verified offline, and the replicas are compared byte for byte.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import type { Client, PartitionInfo } from "../client/types.ts";
import { openRealClient, stderrLogger } from "../cli/client.ts";
import { createChecksum } from "../platform/checksum.ts";
import { mainScript } from "./build.ts";
import { plainEnvironment } from "./children.ts";
import type { TopicSpec } from "./clients/order.ts";
import { recordReads } from "./clients/reader.ts";
import type { ChaosCluster } from "./cluster-types.ts";
import type { HistoryWriter } from "./history-io.ts";
import { difference, sumOfReplica } from "./replica-compare.ts";

export interface FinalReport {
  /** Partitions read whole, counted once for each replica that led. */
  readonly scans: number;
  /** Of partitions times replicas. */
  readonly scansWanted: number;
  readonly verified: number;
  readonly compared: number;
  /** What is wrong, in words. */
  readonly faults: readonly string[];
}

export interface FinalParts {
  readonly cluster: ChaosCluster;
  readonly topics: readonly TopicSpec[];
  readonly history: HistoryWriter;
  /** Bound of the time until all is well after the restart that begins it. */
  readonly healthyMs: number;
}

const ELECT_MS = 20_000;
const SCAN_MS = 60_000;
const LOOK_AGAIN_MS = 50;
const VERIFY_MS = 60_000;
/** Nobody gives leadership back while replicas are read as leaders in turn. */
const CALM = { OTTLA_AUTO_LEADER_REBALANCE_ENABLE: "0" };
const CODECS = ["gzip", "snappy", "lz4", "zstd"] as const;

export async function finalPhase(parts: FinalParts): Promise<FinalReport> {
  const { cluster, topics, history, healthyMs } = parts;
  const faults: string[] = [];
  const unhealthy = await restartInOrder(cluster, healthyMs);
  if (unhealthy !== undefined) faults.push(unhealthy);
  const client = await openRealClient({
    brokers: cluster.brokers,
    clientId: "chaos-final",
    connectTimeoutMs: healthyMs,
    codecs: [...CODECS],
    logger: stderrLogger({ verbosity: -1, isJson: false }, {}, () => undefined),
  });
  const places: Placed[] = [];
  let scans = 0;
  try {
    for (const { name: topic } of topics) {
      const { partitions } = await client.admin().describeTopic(topic);
      places.push(...partitions.map(({ index: partition, replicas }) => ({ topic, partition, replicas })));
      // Where not all is well nobody moves leadership; what there is is read for all that.
      const turns = unhealthy === undefined ? turnsOf(topic, partitions) : asLed(topic, partitions);
      for (const turn of turns) {
        const found = await takeTurn(client, turn, history);
        scans += found.scans;
        faults.push(...found.faults);
      }
    }
  } finally {
    await client.close();
  }
  const scansWanted = places.reduce((sum, { replicas }) => sum + replicas.length, 0);
  await Promise.all(cluster.nodes.map((node) => node.stop()));
  const offline = await lookOffline(cluster, places);
  return { scans, scansWanted, ...offline, faults: [...faults, ...offline.faults] };
}

/** In words: not all is well after it. */
async function restartInOrder(cluster: ChaosCluster, healthyMs: number): Promise<string | undefined> {
  await Promise.all(cluster.nodes.map((node) => node.stop()));
  await Promise.all(cluster.nodes.map((node) => node.start(CALM)));
  return cluster.untilHealthy(healthyMs).then(
    () => undefined,
    (error: unknown) => `after a restart of all nodes: ${error instanceof Error ? error.message : String(error)}`,
  );
}

/** A node that leads these partitions while they are read. */
interface Turn {
  readonly topic: string;
  readonly node: number;
  readonly partitions: readonly number[];
}

function turnsOf(topic: string, partitions: readonly PartitionInfo[]): readonly Turn[] {
  const nodes = [...new Set(partitions.flatMap(({ replicas }) => replicas))].sort((one, other) => one - other);
  return nodes.map((node) => ({
    topic,
    node,
    partitions: partitions.filter(({ replicas }) => replicas.includes(node)).map(({ index }) => index),
  }));
}

function asLed(topic: string, partitions: readonly PartitionInfo[]): readonly Turn[] {
  return partitions.map(({ index, leader }) => ({ topic, node: leader, partitions: [index] }));
}

/** Loss is for the checkers to find, in what was read; faults are what could not be read as it should. */
async function takeTurn(
  client: Client,
  turn: Turn,
  history: HistoryWriter,
): Promise<{ readonly scans: number; readonly faults: readonly string[] }> {
  const { topic, node } = turn;
  const before = await untilLeads(client, turn);
  const led = turn.partitions.filter((partition) => before.get(partition)?.leader === node);
  const faults = turn.partitions
    .filter((partition) => !led.includes(partition))
    .map((partition) => `${topic}-${partition}: node ${node} does not lead it within ${ELECT_MS} ms`);
  if (led.length === 0) return { scans: 0, faults };
  const fault = await scan(client, { ...turn, partitions: led }, history).catch((error: unknown) => String(error));
  if (fault !== undefined) return { scans: 0, faults: [...faults, `${topic} led by node ${node}: ${fault}`] };
  const after = await standing(client, topic);
  const moved = led.filter((partition) => after.get(partition)?.leaderEpoch !== before.get(partition)?.leaderEpoch);
  faults.push(...moved.map((partition) => `${topic}-${partition}: leadership moved while node ${node} was read`));
  return { scans: led.length - moved.length, faults };
}

async function standing(client: Client, topic: string): Promise<ReadonlyMap<number, PartitionInfo>> {
  const { partitions } = await client.admin().describeTopic(topic, { linearizable: true });
  return new Map(partitions.map((partition) => [partition.index, partition]));
}

/** As it stands when the node leads all of them, or when the time is over. */
async function untilLeads(
  client: Client,
  { topic, node, partitions }: Turn,
): Promise<ReadonlyMap<number, PartitionInfo>> {
  const untilMs = performance.now() + ELECT_MS;
  for (;;) {
    const now = await standing(client, topic);
    const wanting = partitions.filter((partition) => now.get(partition)?.leader !== node);
    if (wanting.length === 0 || performance.now() > untilMs) return now;
    const ask = { topic, partitions: wanting, nodeId: node };
    await client
      .admin()
      .electLeaders("preferred", ask)
      .catch(() => undefined);
    await sleep(LOOK_AGAIN_MS);
  }
}

async function scan(
  client: Client,
  { topic, partitions, node }: Turn,
  history: HistoryWriter,
): Promise<string | undefined> {
  const process = `scanner-${node}`;
  const ends = await client.admin().offsets(topic);
  const found = new Map(partitions.map((partition): [number, { offset: number; value: string }[]] => [partition, []]));
  const consumer = client.consumer({
    topics: [topic],
    partitions,
    from: "start",
    untilEnd: true,
    onOutOfRange: "error",
    timeoutMs: SCAN_MS,
  });
  await recordReads(
    consumer,
    {
      checksum: createChecksum(),
      record: (event) => history.record(event),
      count: () => undefined,
      keep: (partition, offset, value) => void found.get(partition)?.push({ offset, value }),
    },
    process,
  );
  await consumer.close();
  for (const [partition, records] of found) {
    const end = ends.find((each) => each.partition === partition);
    if (end === undefined) return `nobody says where ${topic}-${partition} ends`;
    const { startOffset, endOffset } = end;
    history.record({ type: "scan", process, topic, partition, startOffset, endOffset, records });
  }
  return undefined;
}

interface Placed {
  readonly topic: string;
  readonly partition: number;
  readonly replicas: readonly number[];
}

async function lookOffline(
  cluster: ChaosCluster,
  places: readonly Placed[],
): Promise<Pick<FinalReport, "verified" | "compared" | "faults">> {
  const faults: string[] = [];
  let verified = 0;
  for (const { nodeId, dataDir } of cluster.nodes) {
    const fault = await verify(dataDir);
    if (fault === undefined) verified++;
    else faults.push(`log verify of node ${nodeId}: ${fault}`);
  }
  let compared = 0;
  for (const { replicas, ...place } of places) {
    const sums = new Map(replicas.map((nodeId) => [nodeId, sumOfReplica(cluster.node(nodeId).dataDir, place)]));
    const fault = difference(sums);
    if (fault === undefined) compared++;
    else faults.push(`${place.topic}-${place.partition}: replicas differ: ${fault}`);
  }
  return { verified, compared, faults };
}

/** `ottla log verify`; in words: it found something. */
async function verify(dataDir: string): Promise<string | undefined> {
  const child = spawn(process.execPath, [mainScript(), "log", "verify", dataDir], {
    stdio: ["ignore", "ignore", "pipe"],
    env: plainEnvironment(),
  });
  let said = "";
  child.stderr.on("data", (chunk: Buffer) => (said += chunk.toString()));
  const limit = setTimeout(() => child.kill("SIGKILL"), VERIFY_MS);
  await once(child, "close");
  clearTimeout(limit);
  return child.exitCode === 0 ? undefined : said.trim().split("\n").slice(0, 3).join("; ");
}
