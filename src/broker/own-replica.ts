// How far a replica of this broker is, whoever leads: for operators and for a controller that has to choose where nobody does.
import type { TopicId } from "../model/ids.ts";
import type { ReplicaManager } from "./replica-manager.ts";

export interface OwnReplica {
  /** Of the last batch; -1 = there is none. */
  readonly lastEpoch: number;
  readonly partitionEpoch: number;
  readonly startOffset: number;
  readonly highWatermark: number;
  readonly endOffset: number;
  readonly durableEnd: number;
}

/** undefined: there is no replica here, or it is damaged. */
export function ownReplica(
  replicas: Pick<ReplicaManager, "find">,
  topicId: TopicId,
  partition: number,
): OwnReplica | undefined {
  const replica = replicas.find(topicId, partition);
  if (replica === undefined || replica.damage !== undefined) return undefined;
  const { startOffset, endOffset, highWatermark, durableEnd, partitionEpoch, epochs } = replica.core;
  // An epoch that was opened and brought no batch says nothing of what is here.
  const last = epochs.findLast((entry) => entry.startOffset < endOffset);
  const lastEpoch = endOffset > startOffset ? (last?.epoch ?? -1) : -1;
  return { lastEpoch, partitionEpoch, startOffset, highWatermark, endOffset, durableEnd };
}
