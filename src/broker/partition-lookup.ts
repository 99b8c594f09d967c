// From a topic id and partition index of a request to the replica, or to the error that a client is told instead (B-17 rows 3 and 4).
import type { ErrorName } from "../model/errors.ts";
import type { TopicId } from "../model/ids.ts";
import type { Replica } from "./replica.ts";
import type { Services } from "./services.ts";

export type PartitionLookup =
  | { readonly kind: "found"; readonly replica: Replica }
  | { readonly kind: "refused"; readonly error: ErrorName; readonly message: string | null };

type Parts = Pick<Services, "nodeId" | "replicas" | "quorum" | "topics">;

export function lookUpPartition(services: Parts, topicId: TopicId, partition: number): PartitionLookup {
  const replica = services.replicas.find(topicId, partition);
  if (replica === undefined) return refusalOf(services, topicId, partition);
  const { damage } = replica;
  if (damage !== undefined) return { kind: "refused", error: "STORAGE_ERROR", message: damage };
  // In stand-by what keeps it from leading says more.
  return replica.record === undefined ? refusalOf(services, topicId, partition) : { kind: "found", replica };
}

function refusalOf(services: Parts, topicId: TopicId, partition: number): PartitionLookup {
  const topic = services.quorum.image.topic(topicId);
  if (topic === undefined || topic.isDeleting) return { kind: "refused", error: "UNKNOWN_TOPIC_ID", message: null };
  const known = topic.partitions[partition];
  if (known === undefined) {
    const message = `${topic.name} has ${topic.partitions.length} partitions, not one with index ${partition}`;
    return { kind: "refused", error: "UNKNOWN_TOPIC_OR_PARTITION", message };
  }
  const failure = known.leader === services.nodeId ? services.topics.failureOf(topicId) : undefined;
  if (failure?.retriable === true) return { kind: "refused", error: failure.code, message: failure.message };
  return { kind: "refused", error: "NOT_LEADER_OR_FOLLOWER", message: null };
}
