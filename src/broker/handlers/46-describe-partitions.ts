// DescribePartitions: where partitions stand, as their leader sees it, or how far the replica here is.
// Versions: 0.
// Behaviour: answered at once, from memory. NOT_LEADER_OR_FOLLOWER from any broker but the leader, with what its own replica has: what an operator, and
// the controller, have to choose by where nobody leads.
import type { ErrorName } from "../../model/errors.ts";
import type { API } from "../../wire/native/apis.ts";
import type { DescribePartitionsResponse } from "../../wire/native/replication-apis.ts";
import { lookUpPartition } from "../partition-lookup.ts";
import type { Replica } from "../replica.ts";
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
  const replica = services.replicas.find(topicId, partition);
  const isItself = replica !== undefined && replica.damage === undefined && error === "NOT_LEADER_OR_FOLLOWER";
  return isItself ? ownOf(replica) : unknown(error);
}

/** Also in stand-by, where nobody leads. */
function ownOf({ core }: Replica): Entry {
  const { startOffset, endOffset, highWatermark, durableEnd, partitionEpoch, epochs } = core;
  // An epoch that was opened and brought no batch says nothing of what is here.
  const leaderEpoch = epochs.findLast((entry) => entry.startOffset < endOffset)?.epoch ?? -1;
  return {
    ...unknown("NOT_LEADER_OR_FOLLOWER"),
    leaderEpoch: endOffset > startOffset ? leaderEpoch : -1,
    partitionEpoch,
    logStartOffset: startOffset,
    highWatermark,
    endOffset,
    durableEnd,
  };
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
