// Damage in a cold part of a log is found when it is read. So a replica that was damaged is read whole as the leader of its partition; then it is either whole, or
// found, told of, and mended from the others (D-17).
import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "../../client/types.ts";
import type { ChaosCluster, ChaosNode } from "../cluster-types.ts";
import type { LoggedEvent } from "./node-log.ts";

const PATROL_MS = 45_000;
const READ_MS = 10_000;
const ASK_MS = 3_000;
const LOOK_AGAIN_MS = 100;

export interface PatrolPlace {
  readonly topic: string;
  readonly partition: number;
}

/** Resolves when the damage is gone; rejects when it is neither found nor gone in time. */
export async function patrol(
  cluster: ChaosCluster,
  node: ChaosNode,
  options: { readonly place: PatrolPlace; readonly events: () => readonly LoggedEvent[] },
): Promise<"mended" | "whole"> {
  const { place, events } = options;
  const client = await cluster.client();
  const untilMs = performance.now() + PATROL_MS;
  while (performance.now() < untilMs) {
    if (isMended(events(), place)) {
      if ((await cluster.isr(place.topic, place.partition)).includes(node.nodeId)) return "mended";
    } else if (await isReadWhole(client, cluster, node, place)) {
      return "whole";
    }
    await sleep(LOOK_AGAIN_MS);
  }
  throw new Error(
    `node ${node.nodeId}: the damage of ${place.topic}-${place.partition} was not repaired in ${PATROL_MS} ms`,
  );
}

const MENDED = new Set(["replica_repaired", "replica_dropped_to_fetch_anew"]);

/** By segment, or whole. */
export function isMended(events: readonly LoggedEvent[], { topic, partition }: PatrolPlace): boolean {
  return events.some(
    ({ event, fields }) => MENDED.has(event) && fields["topic"] === topic && fields["partition"] === partition,
  );
}

/** It led all the while, and nothing of what it has was refused. */
async function isReadWhole(
  client: Client,
  cluster: ChaosCluster,
  { nodeId }: ChaosNode,
  { topic, partition }: PatrolPlace,
): Promise<boolean> {
  const ask = { topic, partitions: [partition], nodeId, timeoutMs: ASK_MS };
  const { elections } = await client
    .admin()
    .electLeaders("preferred", ask)
    .catch(() => ({ elections: [] }));
  if (elections[0]?.leader !== nodeId) return false;
  const before = await cluster.partition(topic, partition).catch(() => undefined);
  const isRead = await readAll(client, topic, partition);
  const after = await cluster.partition(topic, partition).catch(() => undefined);
  return isRead && before?.leader === nodeId && after?.leaderEpoch === before.leaderEpoch;
}

async function readAll(client: Client, topic: string, partition: number): Promise<boolean> {
  const options = {
    topics: [topic],
    partitions: [partition],
    from: "start",
    untilEnd: true,
    timeoutMs: READ_MS,
  } as const;
  const consumer = client.consumer(options);
  const limit = setTimeout(() => void consumer.close(), READ_MS);
  try {
    for await (const message of consumer) if (message.offset < 0) return false;
    return true;
  } catch {
    return false;
  } finally {
    clearTimeout(limit);
    await consumer.close();
  }
}
