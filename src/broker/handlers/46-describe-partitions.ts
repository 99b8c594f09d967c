// DescribePartitions: where partitions stand, as their leader sees it.
// Versions: 0.
// Behaviour: answered at once, from memory. NOT_LEADER_OR_FOLLOWER from any broker but the leader.
import type { ErrorName } from "../../model/errors.ts";
import type { API } from "../../wire/native/apis.ts";
import type { DescribePartitionsResponse } from "../../wire/native/replication-apis.ts";
import { lookUpPartition } from "../partition-lookup.ts";
import type { Request } from "../request.ts";
import type { Services } from "../services.ts";

type Entry = DescribePartitionsResponse["entries"][number];
type Row = Request<typeof API.DESCRIBE_PARTITIONS>["body"]["entries"][number];

export function handleDescribePartitions(services: Services, request: Request<typeof API.DESCRIBE_PARTITIONS>): void {
  const nowMs = services.clock.monoMs();
  request.respond({ entries: request.body.entries.map((row) => entryOf(services, row, nowMs)) });
}

function entryOf(services: Services, { topicId, partition }: Row, nowMs: number): Entry {
  const lookup = lookUpPartition(services, topicId, partition);
  if (lookup.kind === "refused") return unknown(lookup.error);
  const { core } = lookup.replica;
  if (!core.isLeader) return unknown("NOT_LEADER_OR_FOLLOWER");
  const { startOffset, ...view } = core.describe(nowMs);
  return { error: "NONE", ...view, logStartOffset: startOffset };
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
