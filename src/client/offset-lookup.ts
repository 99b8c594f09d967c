// Where offsets are: the start, the end, and the first record of a time, asked of the partitions' leaders.
import { asOttlaError, OttlaError, type ErrorName } from "../model/errors.ts";
import {
  API,
  EARLIEST_TIMESTAMP,
  LATEST_TIMESTAMP,
  type ListOffsetsRequest,
  type ListOffsetsResponse,
  type PartitionMetadata,
} from "../wire/native/apis.ts";
import type { BrokerLink } from "./broker-link.ts";
import { CALL_TIMEOUT_MS, retrying } from "./calls.ts";
import type { ClientContext } from "./context.ts";
import { partitionOf } from "./metadata-cache.ts";
import { isStale } from "./stale.ts";
import type { StartPosition } from "./types.ts";

export interface OffsetQuery {
  readonly topic: string;
  readonly partition: number;
  /** LATEST_TIMESTAMP, EARLIEST_TIMESTAMP or milliseconds. */
  readonly timestamp: number;
}

/** Entries per request, so that they fit an envelope. */
const ENTRIES_MAX = 512;

interface Group {
  readonly link: BrokerLink;
  readonly indexes: number[];
  readonly entries: ListOffsetsRequest["entries"][number][];
}

/** The offset for each query, -1 where no record is that late. Retries until it has all; rejects after a while or for good reason. */
export async function lookUpOffsets(context: ClientContext, queries: readonly OffsetQuery[]): Promise<number[]> {
  const found = new Map<number, number>();
  await retrying(context, context.alarms.nowMs() + CALL_TIMEOUT_MS, async (leftMs) => {
    const groups = await groupByLeader(context, queries, found);
    for (const group of groups) await askGroup(context, { queries, group, found, leftMs });
  });
  return queries.map((_, index) => found.get(index) ?? -1);
}

async function askGroup(
  context: ClientContext,
  asked: {
    readonly queries: readonly OffsetQuery[];
    readonly group: Group;
    readonly found: Map<number, number>;
    readonly leftMs: number;
  },
): Promise<void> {
  const { queries, group, found, leftMs } = asked;
  let response: ListOffsetsResponse;
  try {
    const connection = await group.link.get();
    response = await connection.call(API.LIST_OFFSETS, { entries: group.entries }, leftMs);
  } catch (thrown) {
    // The broker is away: its partitions may be led by another one soon.
    const topics = new Set(group.indexes.map((index) => queries[index]?.topic ?? ""));
    if (isStale(asOttlaError(thrown).code))
      await Promise.allSettled([...topics].map((name) => context.metadata.refresh(name)));
    throw thrown;
  }
  await take(context, { queries, group, response, found });
}

async function groupByLeader(
  context: ClientContext,
  queries: readonly OffsetQuery[],
  found: ReadonlyMap<number, number>,
): Promise<Group[]> {
  const groups: Group[] = [];
  for (const [index, query] of queries.entries()) {
    if (found.has(index)) continue;
    const topic = await context.metadata.get(query.topic);
    const partition = partitionOf(topic, query.partition);
    const link = partition === undefined ? undefined : context.pool.linkOfNode(partition.leader);
    if (link === undefined) throw await withoutLeader(context, query, partition);
    let group = groups.find((other) => other.link === link && other.entries.length < ENTRIES_MAX);
    if (group === undefined) groups.push((group = { link, indexes: [], entries: [] }));
    group.indexes.push(index);
    group.entries.push({ topicId: topic.topicId, partition: query.partition, timestamp: query.timestamp });
  }
  return groups;
}

async function withoutLeader(
  context: ClientContext,
  query: OffsetQuery,
  partition: PartitionMetadata | undefined,
): Promise<OttlaError> {
  const name = `${query.topic}-${query.partition}`;
  const fresh = partitionOf(await context.metadata.refresh(query.topic), query.partition);
  if (partition === undefined && fresh === undefined)
    return new OttlaError("UNKNOWN_TOPIC_OR_PARTITION", `${name} does not exist`);
  return new OttlaError("NOT_LEADER_OR_FOLLOWER", `${name} has no leader`);
}

/** Throws the first error after all answers were taken, the metadata refreshed where that may help. */
async function take(
  context: ClientContext,
  answered: {
    readonly queries: readonly OffsetQuery[];
    readonly group: Group;
    readonly response: ListOffsetsResponse;
    readonly found: Map<number, number>;
  },
): Promise<void> {
  const { queries, group, response, found } = answered;
  let failed: { readonly query: OffsetQuery; readonly error: ErrorName } | undefined;
  for (const [position, index] of group.indexes.entries()) {
    const entry = response.entries[position];
    if (entry?.error === "NONE") found.set(index, entry.offset);
    else failed ??= { query: queries[index] as OffsetQuery, error: entry?.error ?? "PROTOCOL_ERROR" };
  }
  if (failed === undefined) return;
  const { query, error } = failed;
  if (isStale(error)) await context.metadata.refresh(query.topic);
  throw new OttlaError(error, `${query.topic}-${query.partition}: ${new OttlaError(error).message}`);
}

export interface StartQuery {
  readonly topic: string;
  readonly partition: number;
  readonly from: StartPosition;
  /** Also the end offset of now. */
  readonly wantsEnd: boolean;
}

/** Where each partition starts, and where it ends if asked. */
export async function resolveStarts(
  context: ClientContext,
  starts: readonly StartQuery[],
): Promise<{ readonly offset: number; readonly endOffset: number | undefined }[]> {
  const queries: OffsetQuery[] = [];
  const ask = (start: StartQuery, timestamp: number) =>
    queries.push({ topic: start.topic, partition: start.partition, timestamp }) - 1;
  const plans = starts.map((start) => {
    const { from } = start;
    const isTimed = typeof from === "object" && "timestamp" in from;
    const needsStart = from === "start" || (typeof from === "object" && "fromEnd" in from);
    const needsEnd = start.wantsEnd || from === "end" || (typeof from === "object" && !("offset" in from));
    return {
      from,
      wantsEnd: start.wantsEnd,
      start: needsStart ? ask(start, EARLIEST_TIMESTAMP) : undefined,
      end: needsEnd ? ask(start, LATEST_TIMESTAMP) : undefined,
      timed: isTimed ? ask(start, from.timestamp) : undefined,
    };
  });
  const offsets = queries.length === 0 ? [] : await lookUpOffsets(context, queries);
  const at = (index: number | undefined) => (index === undefined ? -1 : (offsets[index] ?? -1));
  return plans.map((plan) => {
    const bounds = { start: at(plan.start), end: at(plan.end), timed: at(plan.timed) };
    return { offset: startOf(plan.from, bounds), endOffset: plan.wantsEnd ? bounds.end : undefined };
  });
}

function startOf(from: StartPosition, bounds: { start: number; end: number; timed: number }): number {
  if (from === "start") return bounds.start;
  if (from === "end") return bounds.end;
  if ("offset" in from) return from.offset;
  if ("fromEnd" in from) return Math.max(bounds.start, bounds.end - from.fromEnd);
  return bounds.timed < 0 ? bounds.end : bounds.timed;
}
