// Where offsets are: the start, the end, and the first record of a time, asked of the partitions' leaders. Each partition for itself: one
// without a leader, or whose leader hangs, holds up no other.
import { asOttlaError, OttlaError } from "../model/errors.ts";
import type { TopicId } from "../model/ids.ts";
import { backoffMs } from "../link/backoff.ts";
import { API, EARLIEST_TIMESTAMP, LATEST_TIMESTAMP } from "../wire/native/apis.ts";
import type { BrokerLink } from "./broker-link.ts";
import { CALL_TIMEOUT_MS } from "./calls.ts";
import type { ClientContext } from "./context.ts";
import { startOfLast } from "./last-records.ts";
import { partitionOf } from "./metadata-cache.ts";
import { DOUBTED_FROM, isConfirmedGone, isStale } from "./stale.ts";
import type { StartPosition } from "./types.ts";
import { failureOfPartitions, noLeader } from "./unreadable.ts";

export interface OffsetQuery {
  readonly topic: string;
  readonly partition: number;
  /** LATEST_TIMESTAMP, EARLIEST_TIMESTAMP or milliseconds. */
  readonly timestamp: number;
}

/** The offset, -1 where no record is that late; or why it is not known, in words that name no partition. */
type Found = number | OttlaError;

interface PlacedQuery extends OffsetQuery {
  readonly topicId: TopicId;
}

/** Entries per request, so that they fit an envelope. */
const ENTRIES_MAX = 512;
/** Partitions whose starts one request may ask for: each takes up to three entries. */
export const STARTS_MAX = Math.floor(ENTRIES_MAX / 3);
/** Partitions whose last records are counted at a time. */
const COUNTING_MAX = 8;
/** What a leader gets to answer before the question is asked again, perhaps of another one; doubled with each try. */
const TRY_TIMEOUT_MS = 3_000;
/** A connection on which nothing at all came for so long is made anew. */
const SILENT_MS = 11_000;

/** The offset for each query. Retries until it has all; rejects after a while or for good reason, naming the partitions that are missing. */
export async function lookUpOffsets(
  context: ClientContext,
  queries: readonly OffsetQuery[],
  timeoutMs: number = CALL_TIMEOUT_MS,
): Promise<number[]> {
  const found = await findOffsets(context, queries, { timeoutMs, isPartial: false });
  const named = new Set<string>();
  const failures = queries.flatMap(({ topic, partition }, index) => {
    const error = found[index];
    // Start and end of one partition fail together.
    const name = `${topic}-${partition}`;
    if (!(error instanceof OttlaError) || named.has(name)) return [];
    named.add(name);
    return [{ topic, partition, error }];
  });
  if (found.some((offset) => typeof offset !== "number")) throw failureOfPartitions(failures);
  return found as number[];
}

/** `isPartial`: partitions without a leader are not waited for. Rejects only when the client is closed. */
export async function findOffsets(
  context: ClientContext,
  queries: readonly OffsetQuery[],
  { timeoutMs, isPartial }: { readonly timeoutMs: number; readonly isPartial: boolean },
): Promise<Found[]> {
  const { alarms, rng } = context;
  const deadlineMs = alarms.nowMs() + timeoutMs;
  const found: Found[] = queries.map(() => noLeader());
  let isGone = false;
  for (let count = 1; ; count++) {
    const leftMs = deadlineMs - alarms.nowMs();
    const leaderless = await askLeaders(context, { queries, found, timeoutMs: tryMsOf(count, leftMs) });
    const missing = [...found.entries()].filter(([, result]) => typeof result !== "number");
    const waited = missing.filter(([index, error]) => isPassing(error) && !(isPartial && leaderless.has(index)));
    const isHopeless = !isPartial && missing.some(([, error]) => !isPassing(error));
    const pauseMs = backoffMs(count, rng);
    if (waited.length === 0 || isHopeless || isGone || alarms.nowMs() + pauseMs >= deadlineMs) return found;
    const isDoubted = count >= DOUBTED_FROM;
    const doubted = waited.filter(([, error]) => isDoubted || mayBeStale(error));
    const stale = new Set(doubted.map(([index]) => queries[index]?.topic ?? ""));
    const refreshing = [...stale].map((name) => context.metadata.refreshElsewhere(name));
    const refreshed = await alarms
      .within(Promise.allSettled(refreshing), deadlineMs - alarms.nowMs(), noLeader)
      .catch(() => []);
    isGone = refreshed.some((result) => result.status === "rejected" && isConfirmedGone(asOttlaError(result.reason)));
    await alarms.sleep(pauseMs);
  }
}

const isPassing = (result: Found): boolean => result instanceof OttlaError && result.retriable;
const mayBeStale = (result: Found): boolean => result instanceof OttlaError && isStale(result.code);
const tryMsOf = (count: number, leftMs: number): number =>
  Math.max(1, Math.min(leftMs, TRY_TIMEOUT_MS * 2 ** Math.min(count - 1, 10)));

/** Asks all leaders at once, enters what they say. Returns the queries of partitions that have none. */
async function askLeaders(
  context: ClientContext,
  asked: { readonly queries: readonly OffsetQuery[]; readonly found: Found[]; readonly timeoutMs: number },
): Promise<Set<number>> {
  const { queries, found, timeoutMs } = asked;
  const groups: { link: BrokerLink; indexes: number[]; placed: PlacedQuery[] }[] = [];
  const leaderless = new Set<number>();
  for (const [index, query] of queries.entries()) {
    if (typeof found[index] === "number") continue;
    const topic = context.metadata.peek(query.topic);
    const partition = partitionOf(topic, query.partition);
    const link = partition === undefined ? undefined : context.pool.linkOfNode(partition.leader);
    if (link === undefined || topic === undefined) {
      found[index] = topic !== undefined && partition === undefined ? doesNotExist() : noLeader(query.topic, partition);
      leaderless.add(index);
      continue;
    }
    let group = groups.find((other) => other.link === link && other.placed.length < ENTRIES_MAX);
    if (group === undefined) groups.push((group = { link, indexes: [], placed: [] }));
    group.indexes.push(index);
    group.placed.push({ ...query, topicId: topic.topicId });
  }
  const asking = groups.map(async ({ link, indexes, placed }) => {
    const answers = await askOffsets(context, { link, queries: placed, timeoutMs });
    for (const [position, index] of indexes.entries()) found[index] = answers[position] ?? noAnswer();
  });
  await Promise.all(asking);
  return leaderless;
}

const doesNotExist = (): OttlaError => new OttlaError("UNKNOWN_TOPIC_OR_PARTITION", "it does not exist");
const noAnswer = (): OttlaError => new OttlaError("PROTOCOL_ERROR", "an answer without it");

/** One question to one broker, at most ENTRIES_MAX queries. What the whole fails with, each of them does. */
async function askOffsets(
  { alarms }: ClientContext,
  asked: { readonly link: BrokerLink; readonly queries: readonly PlacedQuery[]; readonly timeoutMs: number },
): Promise<Found[]> {
  const { link, queries, timeoutMs } = asked;
  const deadlineMs = alarms.nowMs() + timeoutMs;
  const entries = queries.map(({ topicId, partition, timestamp }) => ({ topicId, partition, timestamp }));
  try {
    const connection = await link.getWithin(timeoutMs, "REQUEST_TIMED_OUT");
    const leftMs = Math.max(1, deadlineMs - alarms.nowMs());
    const response = await connection.call(API.LIST_OFFSETS, { entries }, leftMs, { isPatient: leftMs < SILENT_MS });
    return queries.map((_, position) => {
      const entry = response.entries[position];
      if (entry === undefined) return noAnswer();
      return entry.error === "NONE" ? entry.offset : new OttlaError(entry.error);
    });
  } catch (thrown) {
    const error = asOttlaError(thrown);
    return queries.map(() => error);
  }
}

export interface StartQuery {
  readonly topic: string;
  readonly topicId: TopicId;
  readonly partition: number;
  /** undefined: where it starts is known. */
  readonly from: StartPosition | undefined;
  /** Also the end offset of now. */
  readonly wantsEnd: boolean;
}

export interface Start {
  readonly offset: number | undefined;
  readonly endOffset: number | undefined;
}

/** Where each partition starts, and where it ends if asked; all led by one broker, at most STARTS_MAX. */
export async function askStarts(
  context: ClientContext,
  asked: {
    readonly link: BrokerLink;
    readonly starts: readonly StartQuery[];
    readonly timeoutMs: number;
    /** The last records of one of them are counted, and the leader goes on to give them. */
    readonly onCounting: (index: number) => void;
  },
): Promise<(Start | OttlaError)[]> {
  const { link, starts, timeoutMs, onCounting } = asked;
  const queries: PlacedQuery[] = [];
  const ask = ({ topic, topicId, partition }: StartQuery, timestamp: number) =>
    queries.push({ topic, topicId, partition, timestamp }) - 1;
  const plans = starts.map((start) => {
    const { from, wantsEnd } = start;
    const isTimed = typeof from === "object" && "timestamp" in from;
    const needsStart = from === "start" || (typeof from === "object" && "fromEnd" in from);
    const needsEnd = wantsEnd || from === "end" || (typeof from === "object" && !("offset" in from));
    return {
      from,
      wantsEnd,
      start: needsStart ? ask(start, EARLIEST_TIMESTAMP) : undefined,
      end: needsEnd ? ask(start, LATEST_TIMESTAMP) : undefined,
      timed: isTimed ? ask(start, from.timestamp) : undefined,
    };
  });
  const offsets = queries.length === 0 ? [] : await askOffsets(context, { link, queries, timeoutMs });
  const answers = plans.map((plan, at): Bounds | OttlaError => {
    const results = [plan.start, plan.end, plan.timed].map((index) =>
      index === undefined ? -1 : (offsets[index] ?? -1),
    );
    const failed = results.find((result) => typeof result !== "number");
    if (failed !== undefined) return failed as OttlaError;
    const [start = -1, end = -1, timed = -1] = results as number[];
    return { query: starts[at] as StartQuery, start, end, timed };
  });
  const found: (Start | OttlaError)[] = [];
  for (let from = 0; from < answers.length; from += COUNTING_MAX) {
    const some = answers.slice(from, from + COUNTING_MAX);
    const finding = some.map((bounds, at) =>
      startOf(context, { link, bounds, timeoutMs, onHeard: () => onCounting(from + at) }),
    );
    found.push(...(await Promise.all(finding)));
  }
  return found;
}

interface Bounds {
  readonly query: StartQuery;
  readonly start: number;
  readonly end: number;
  readonly timed: number;
}

async function startOf(
  context: ClientContext,
  asked: {
    readonly link: BrokerLink;
    readonly bounds: Bounds | OttlaError;
    readonly timeoutMs: number;
    readonly onHeard: () => void;
  },
): Promise<Start | OttlaError> {
  const { link, bounds, timeoutMs, onHeard } = asked;
  if (bounds instanceof OttlaError) return bounds;
  const { query, start, end } = bounds;
  const { from } = query;
  const endOffset = query.wantsEnd ? end : undefined;
  if (from === undefined) return { offset: undefined, endOffset };
  if (typeof from === "string" || !("fromEnd" in from)) return { offset: offsetOf(from, bounds), endOffset };
  const { topic, topicId, partition } = query;
  const wanted = { topic, topicId, partition, start, end, count: from.fromEnd };
  return await startOfLast(context, { link, wanted, timeoutMs, onHeard }).then(
    (offset) => ({ offset, endOffset }),
    (error: unknown) => asOttlaError(error),
  );
}

function offsetOf(from: Exclude<StartPosition, { readonly fromEnd: number }>, bounds: Bounds): number {
  if (from === "start") return bounds.start;
  if (from === "end") return bounds.end;
  if ("offset" in from) return from.offset;
  return bounds.timed < 0 ? bounds.end : bounds.timed;
}
