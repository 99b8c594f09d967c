// What a produce waited for, or lacks, in words for people.
import type { NodeId } from "../model/ids.ts";
import type { ProducerFields } from "../model/record-batch.ts";
import type { ReplicaView, WaitingProduce } from "../replication/types.ts";
import type { Replica } from "./replica.ts";

export interface Where {
  readonly nodeId: NodeId;
  readonly nowMs: number;
  /** A controller is known: it takes out of the ISR whoever does not report. */
  readonly hasController: boolean;
}

const nodes = (ids: readonly number[]): string => `${ids.length === 1 ? "node" : "nodes"} ${ids.join(", ")}`;
const seconds = (ms: number): string => `${Math.max(0, ms / 1_000).toFixed(1)} s`;

/** Below min ISR. */
export function shortage({ core }: Replica): string | null {
  const { record } = core;
  if (record === undefined) return null;
  const { isr, replicas, minIsr } = record;
  const missing = replicas.filter((nodeId) => !isr.includes(nodeId));
  const who = missing.length === 0 ? "" : `; ${nodes(missing)} ${missing.length === 1 ? "is" : "are"} not`;
  return `${isr.length} in sync (${nodes(isr)}), ${minIsr} needed${who}`;
}

/** A batch was refused for its numbers. */
export function misnumbered({ core }: Replica, { producerId, producerEpoch, baseSequence }: ProducerFields): string {
  const next = core.producers.nextOf(producerId);
  if (next === undefined) return `sequence ${baseSequence} of producer ${producerId}, of which nothing is known`;
  const what = `sequence ${baseSequence} of producer ${producerId}`;
  if (next.producerEpoch === producerEpoch) return `${what}; ${next.baseSequence} is next`;
  const epochs = `${what} in epoch ${producerEpoch}, where epoch ${next.producerEpoch} is known`;
  return producerEpoch < next.producerEpoch ? epochs : `${epochs}; 0 is next`;
}

/** Of a batch that was appended and is not where it should be. null: it is, or this replica does not lead any more. */
export function waitedFor(replica: Replica, waiting: WaitingProduce<unknown>, where: Where): string | null {
  const { core } = replica;
  if (!core.isLeader) return null;
  const needed = waiting.acks === -1 ? core.durableEnd : core.writtenEnd;
  const own = needed < waiting.endOffset ? [`the disk of node ${where.nodeId}, which leads, is behind`] : [];
  const others = waiting.acks === -1 ? laggards(replica, waiting.endOffset, where) : [];
  const reasons = [...own, ...others];
  if (reasons.length === 0) return null;
  const isStuck = others.length > 0 && !where.hasController;
  const stuck = isStuck ? "; no controller is known that could take them out of the ISR" : "";
  return `it waited for the replicas in sync: ${reasons.join("; ")}${stuck}`;
}

function laggards({ core }: Replica, endOffset: number, { nodeId, nowMs }: Where): readonly string[] {
  const since = new Map(core.followers.map((follower) => [follower.nodeId as number, follower.unknownSinceMs]));
  return core
    .describe(nowMs)
    .replicas.filter((view) => view.nodeId !== nodeId && view.isInSync && view.durableEnd < endOffset)
    .map((view) => `node ${view.nodeId} ${lackOf(view, endOffset, nowMs - (since.get(view.nodeId) ?? nowMs))}`);
}

function lackOf({ durableEnd, caughtUpMsAgo }: ReplicaView, endOffset: number, unknownMs: number): string {
  const less = endOffset - durableEnd;
  if (durableEnd >= 0)
    return `lacks ${less} ${less === 1 ? "record" : "records"}, and had all ${seconds(caughtUpMsAgo)} ago`;
  const age = Number.isFinite(unknownMs) ? ` for ${seconds(unknownMs)}` : "";
  return `has not reported${age}`;
}
