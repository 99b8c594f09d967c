// DescribePartitions: where partitions stand, as their leader sees it, or how far the replica here is.
// Versions: 0.
// Behaviour: answered at once, from memory. NOT_LEADER_OR_FOLLOWER from any broker but the leader, with what its own replica has: what an operator, and
// the controller, have to choose by where nobody leads.
import type { ErrorName } from "../../model/errors.ts";
import type { API } from "../../wire/native/apis.ts";
import type { DescribePartitionsResponse } from "../../wire/native/replication-apis.ts";
import { ownReplica } from "../own-replica.ts";
import { lookUpPartition } from "../partition-lookup.ts";
import type { Request } from "../request.ts";
import type { Services } from "../services.ts";

type Entry = DescribePartitionsResponse["entries"][number];
type Row = Request<typeof API.DESCRIBE_PARTITIONS>["body"]["entries"][number];

export function handleDescribePartitions(services: Services, request: Request<typeof API.DESCRIBE_PARTITIONS>): void {
  const nowMs = services.clock.monoMs();
  request.respond({ entries: request.body.entries.map((row) => entryOf(services, row, nowMs)) });
}

function entryOf(services: Services, row: Row, nowMs: number): Entry {
  const { topicId, partition } = row;
  const lookup = lookUpPartition(services, topicId, partition);
  if (lookup.kind === "found" && lookup.replica.core.isLeader) {
    const { startOffset, ...view } = lookup.replica.core.describe(nowMs);
    return { error: "NONE", ...view, logStartOffset: startOffset };
  }
  const error = lookup.kind === "refused" ? lookup.error : "NOT_LEADER_OR_FOLLOWER";
  const own = error === "NOT_LEADER_OR_FOLLOWER" ? ownReplica(services.replicas, topicId, partition) : undefined;
  if (own === undefined) return unknown(error);
  const { lastEpoch, startOffset, ...ends } = own;
  return { error, leaderEpoch: lastEpoch, logStartOffset: startOffset, ...ends, replicas: [] };
}

function unknown(error: ErrorName): Entry {
  return {
    error,
    leaderEpoch: -1,
    partitionEpoch: -1,
    logStartOffset: -1,
    highWatermark: -1,
    endOffset: -1,
    durableEnd: -1,
    replicas: [],
  };
}
