// Which partitions' logs and roles on one broker a metadata command may change.
import { assertNever } from "../base/assert.ts";
import type { MetadataImage } from "../metadata/image.ts";
import type { MetadataRecord } from "../metadata/records.ts";
import type { NodeId, TopicId } from "../model/ids.ts";

/** Any of them. */
export const EVERYTHING = "everything";
/** All of a topic. */
export const WHOLE = "whole";

export type AffectedPartitions = ReadonlyMap<TopicId, ReadonlySet<number> | typeof WHOLE>;

/** `image`: as it is with just these records applied. */
export function affectedBy(
  records: readonly MetadataRecord[],
  image: MetadataImage,
  self: NodeId,
): AffectedPartitions | typeof EVERYTHING {
  const affected = new Map<TopicId, Set<number> | typeof WHOLE>();
  const add = (topicId: TopicId, partition: number): void => {
    const known = affected.get(topicId);
    if (known === undefined) affected.set(topicId, new Set([partition]));
    else if (known !== WHOLE) known.add(partition);
  };
  for (const record of records) {
    switch (record.type) {
      case "topic":
      case "topic-config":
      case "delete-topic":
      case "topic-removed":
        affected.set(record.topicId, WHOLE);
        break;
      case "register-broker":
      case "fence-broker":
      case "unfence-broker":
      case "unregister-broker":
        if (record.nodeId === self) return EVERYTHING;
        break;
      case "broker-config":
        if (record.nodeId === null || record.nodeId === self) return EVERYTHING;
        break;
      case "unsafe-recovery":
        return EVERYTHING;
      case "cluster":
      case "partition-change":
      case "request":
      case "metadata-version":
      case "tombstone-settled":
      case "producer-ids":
      case "named-producer":
        break;
      default:
        return assertNever(record);
    }
  }
  // Leaderships and places in ISRs that went, or came, with the records.
  for (const { topic, index } of image.touched) add(topic.topicId, index);
  return affected;
}

/** Who may be in an ISR, or this broker's own epoch, may have changed. */
export function affectsBrokers(records: readonly MetadataRecord[]): boolean {
  return records.some(
    ({ type }) =>
      type === "register-broker" ||
      type === "fence-broker" ||
      type === "unfence-broker" ||
      type === "unregister-broker" ||
      type === "unsafe-recovery",
  );
}
