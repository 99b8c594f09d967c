// Which topics' logs and leaderships on one broker a metadata command may change.
import { assertNever } from "../base/assert.ts";
import type { MetadataRecord } from "../metadata/records.ts";
import type { NodeId, TopicId } from "../model/ids.ts";

/** Any of them. */
export const EVERYTHING = "everything";

export function affectedBy(records: readonly MetadataRecord[], self: NodeId): ReadonlySet<TopicId> | typeof EVERYTHING {
  const topicIds = new Set<TopicId>();
  for (const record of records) {
    switch (record.type) {
      case "topic":
      case "topic-config":
      case "partition-change":
      case "delete-topic":
      case "topic-removed":
        topicIds.add(record.topicId);
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
      case "request":
      case "metadata-version":
      case "tombstone-settled":
        break;
      default:
        return assertNever(record);
    }
  }
  return topicIds;
}
