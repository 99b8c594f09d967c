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
import { recordReads, type Recorder } from "./clients/reader.ts";
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
  const { cluster, topics, healthyMs } = parts;
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
  let scansWanted = 0;
  try {
    for (const { name: topic } of topics) {
      const { partitions } = await client.admin().describeTopic(topic);
      for (const partition of partitions) {
        places.push({ topic, partition: partition.index, replicas: partition.replicas });
        scansWanted += partition.replicas.length;
        // Where not all is well nobody moves leadership; what there is is read for all that.
        const nodes = unhealthy === undefined ? partition.replicas : [partition.leader];
        for (const node of nodes) {
          const fault = await scanAsLeader(client, { topic, partition, node }, parts);
          if (fault === undefined) scans++;
          else faults.push(fault);
        }
      }
    }
  } finally {
    await client.close();
  }
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

interface Turn {
  readonly topic: string;
  readonly partition: PartitionInfo;
  readonly node: number;
}

/** In words: it could not be read as leader. Loss is for the checkers to find, in what was read. */
async function scanAsLeader(client: Client, turn: Turn, { history }: FinalParts): Promise<string | undefined> {
  const where = `${turn.topic}-${turn.partition.index} led by node ${turn.node}`;
  const before = await untilLeads(client, turn);
  if (before === undefined) return `${where}: it does not lead within ${ELECT_MS} ms`;
  const fault = await scan(client, turn, history).catch((error: unknown) => String(error));
  if (fault !== undefined) return `${where}: ${fault}`;
  const after = await placeOf(client, turn);
  return after?.leaderEpoch === before.leaderEpoch ? undefined : `${where}: leadership moved while it was read`;
}

async function placeOf(client: Client, { topic, partition }: Turn): Promise<PartitionInfo | undefined> {
  const { partitions } = await client.admin().describeTopic(topic, { linearizable: true });
  return partitions.find(({ index }) => index === partition.index);
}

async function untilLeads(client: Client, turn: Turn): Promise<PartitionInfo | undefined> {
  const { topic, partition, node } = turn;
  const untilMs = performance.now() + ELECT_MS;
  const ask = { topic, partitions: [partition.index], nodeId: node };
  while (performance.now() < untilMs) {
    const place = await placeOf(client, turn);
    if (place?.leader === node) return place;
    await client
      .admin()
      .electLeaders("preferred", ask)
      .catch(() => undefined);
    await sleep(LOOK_AGAIN_MS);
  }
  return undefined;
}

async function scan(
  client: Client,
  { topic, partition, node }: Turn,
  history: HistoryWriter,
): Promise<string | undefined> {
  const place = { topic, partition: partition.index };
  const process = `scanner-${node}`;
  const offsets = await client.admin().offsets(topic);
  const ends = offsets.find((each) => each.partition === place.partition);
  if (ends === undefined) return "nobody says where it ends";
  const { startOffset, endOffset } = ends;
  const records: { offset: number; value: string }[] = [];
  const consumer = client.consumer({
    topics: [topic],
    partitions: [place.partition],
    from: "start",
    untilEnd: true,
    onOutOfRange: "error",
    timeoutMs: SCAN_MS,
  });
  const to: Recorder = {
    checksum: createChecksum(),
    record: (event) => history.record(event),
    count: () => undefined,
    keep: (offset, value) => void records.push({ offset, value }),
  };
  await recordReads(consumer, to, process, startOffset);
  await consumer.close();
  history.record({ type: "scan", process, ...place, startOffset, endOffset, records });
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
