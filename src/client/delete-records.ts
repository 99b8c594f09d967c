// Records deleted on demand: of each partition everything below a position, asked of its leader, tried again until the time is up. What is asked for
// stays the same from try to try: positions are looked up once.
import { asOttlaError, OttlaError } from "../model/errors.ts";
import type { TopicId } from "../model/ids.ts";
import { backoffMs } from "../link/backoff.ts";
import { API, EARLIEST_TIMESTAMP, LATEST_TIMESTAMP } from "../wire/native/apis.ts";
import type { DeletedRecords, DeleteRecordsOptions } from "./admin-types.ts";
import { askMany } from "./ask-many.ts";
import type { BrokerLink } from "./broker-link.ts";
import { CALL_TIMEOUT_MS, retrying } from "./calls.ts";
import type { ClientContext } from "./context.ts";
import { type LastRecords, startOfLast } from "./last-records.ts";
import { partitionOf } from "./metadata-cache.ts";
import { findOffsets } from "./offset-lookup.ts";
import { aDuration, aListOf, anInteger, type Checks, checkOptions, invalid, wireMs } from "./options.ts";
import { isStale } from "./stale.ts";
import { startPositionFault } from "./start-position.ts";
import type { StartPosition } from "./types.ts";
import { noLeader } from "./unreadable.ts";

const CHECKS: Checks<DeleteRecordsOptions> = {
  timeoutMs: aDuration(),
  partitions: aListOf(anInteger(0, 2 ** 31 - 1), "partition numbers"),
};
/** Entries per request. */
const ASKED_MAX = 1_000;
/** Partitions whose last records are counted at a time. */
const COUNTING_MAX = 8;
const UNCOUNTED = {
  hint: "give it more time (CLI: --timeout), or take an offset or a time: they need no counting",
};
/** Of the time left, for the leader to wait for the others: its answer has to come, too. */
const WAIT_SHARE = 0.8;

interface Wish {
  readonly partition: number;
  /** Everything below goes. */
  readonly offset: number;
}

type Outcome = number | OttlaError;

export async function deleteRecords(
  context: ClientContext,
  topic: string,
  asked: { readonly before: StartPosition; readonly options: DeleteRecordsOptions },
): Promise<DeletedRecords[]> {
  const { before, options } = asked;
  const fault = startPositionFault(before);
  if (fault !== undefined) throw invalid("deleteRecords: before", fault, before);
  checkOptions("deleteRecords", options, CHECKS);
  const { alarms, metadata } = context;
  const deadlineMs = alarms.nowMs() + (options.timeoutMs ?? CALL_TIMEOUT_MS);
  const leftMs = (): number => Math.max(1, deadlineMs - alarms.nowMs());
  const { partitions } = await metadata.refresh(topic, leftMs());
  const indexes = [...new Set(options.partitions ?? partitions.map(({ index }) => index))];
  const offsets = await lookUp(context, { topic, indexes, before, timeoutMs: leftMs() });
  const outcomes = new Map<number, Outcome>(indexes.map((index, at) => [index, offsets[at] ?? noLeader()]));
  const wishes = indexes.flatMap((partition): Wish[] => {
    const offset = outcomes.get(partition);
    return typeof offset === "number" ? [{ partition, offset }] : [];
  });
  const doubtful = new Set<number>();
  await untilDone(context, { topic, wishes, outcomes, doubtful, deadlineMs });
  return indexes.map((partition) => {
    const outcome = outcomes.get(partition) ?? noLeader();
    if (typeof outcome === "number") return { partition, startOffset: outcome };
    return { partition, startOffset: null, error: doubtful.has(partition) ? inDoubt(outcome) : outcome };
  });
}

/** A leader may have begun with it in one of the tries. */
function inDoubt(error: OttlaError): OttlaError {
  return new OttlaError(error.code, `${error.message}; the records may still be deleted`, {
    hint: "running it again is harmless: what is deleted already is not deleted twice",
    outcome: "unknown",
    cause: error,
  });
}

/** Where each partition is to start. */
async function lookUp(
  context: ClientContext,
  asked: {
    readonly topic: string;
    readonly indexes: readonly number[];
    readonly before: StartPosition;
    readonly timeoutMs: number;
  },
): Promise<Outcome[]> {
  const { topic, indexes, before, timeoutMs } = asked;
  if (typeof before === "object" && "offset" in before) return indexes.map(() => before.offset);
  const deadlineMs = context.alarms.nowMs() + timeoutMs;
  const third = typeof before === "object" && "timestamp" in before ? before.timestamp : LATEST_TIMESTAMP;
  const queries = indexes.flatMap((partition) =>
    [EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, third].map((timestamp) => ({ topic, partition, timestamp })),
  );
  const found = await findOffsets(context, queries, { timeoutMs, isPartial: false });
  const bounds = indexes.map((_, at) => {
    const offsets = found.slice(3 * at, 3 * at + 3);
    const failed = offsets.find((offset) => typeof offset !== "number");
    if (failed !== undefined) return failed;
    const [start = 0, end = 0, timed = -1] = offsets as number[];
    if (before === "start") return start;
    // Where the last of them begin is counted next.
    if (typeof before === "object" && "fromEnd" in before) return { start, end, count: before.fromEnd };
    // No record that late: all are older.
    return timed < 0 ? end : timed;
  });
  const outcomes: Outcome[] = [];
  for (let from = 0; from < bounds.length; from += COUNTING_MAX) {
    const counting = bounds.slice(from, from + COUNTING_MAX).map(async (one, at): Promise<Outcome> => {
      if (typeof one === "number" || one instanceof OttlaError) return one;
      return await countBack(context, { topic, partition: indexes[from + at] ?? -1, ...one, deadlineMs });
    });
    outcomes.push(...(await Promise.all(counting)));
  }
  return outcomes;
}

/** Where the last `count` records begin, as its leader counts them: whoever leads it by then. */
async function countBack(
  context: ClientContext,
  asked: Omit<LastRecords, "topicId"> & { readonly deadlineMs: number },
): Promise<Outcome> {
  const { alarms, metadata, pool } = context;
  const { deadlineMs, ...wanted } = asked;
  const late = () => new OttlaError("REQUEST_TIMED_OUT", "its last records were not counted in time", UNCOUNTED);
  const attempt = async (timeoutMs: number): Promise<number> => {
    const topic = metadata.peek(wanted.topic);
    const known = partitionOf(topic, wanted.partition);
    const link = known === undefined ? undefined : pool.linkOfNode(known.leader);
    try {
      if (topic === undefined || link === undefined) throw noLeader(wanted.topic, known);
      const counting = startOfLast(context, { link, wanted: { ...wanted, topicId: topic.topicId }, timeoutMs });
      return await alarms.within(counting, timeoutMs, late);
    } catch (thrown) {
      const error = asOttlaError(thrown);
      const isOld = isStale(error.code) && alarms.nowMs() < deadlineMs;
      if (isOld) await alarms.within(metadata.refreshElsewhere(wanted.topic), timeoutMs, late).catch(() => undefined);
      throw error;
    }
  };
  return await retrying(context, deadlineMs, attempt).catch((error: unknown) => asOttlaError(error));
}

async function untilDone(
  context: ClientContext,
  asked: {
    readonly topic: string;
    readonly wishes: readonly Wish[];
    readonly outcomes: Map<number, Outcome>;
    /** Those of which a leader may have heard without having said the end of it. */
    readonly doubtful: Set<number>;
    readonly deadlineMs: number;
  },
): Promise<void> {
  const { topic, outcomes, doubtful, deadlineMs } = asked;
  const { alarms, rng, metadata } = context;
  let { wishes } = asked;
  for (let count = 1; wishes.length > 0; count++) {
    await askLeaders(context, { topic, wishes, outcomes, timeoutMs: Math.max(1, deadlineMs - alarms.nowMs()) });
    for (const { partition } of wishes) if (isUnanswered(outcomes.get(partition))) doubtful.add(partition);
    wishes = wishes.filter(({ partition }) => isPassing(outcomes.get(partition)));
    const pauseMs = backoffMs(count, rng);
    if (wishes.length === 0 || alarms.nowMs() + pauseMs >= deadlineMs) return;
    const isOld = wishes.some(({ partition }) => mayBeStale(outcomes.get(partition)));
    if (isOld) await alarms.within(metadata.refreshElsewhere(topic), pauseMs * 10, noLeader).catch(() => undefined);
    await alarms.sleep(pauseMs);
  }
}

const isPassing = (outcome: Outcome | undefined): boolean => outcome instanceof OttlaError && outcome.retriable;
const isUnanswered = (outcome: Outcome | undefined): boolean =>
  outcome instanceof OttlaError && (outcome.code === "REQUEST_TIMED_OUT" || outcome.code === "CONNECTION_LOST");
const mayBeStale = (outcome: Outcome | undefined): boolean => outcome instanceof OttlaError && isStale(outcome.code);

/** All at once, each answer entered by itself. */
async function askLeaders(
  context: ClientContext,
  asked: {
    readonly topic: string;
    readonly wishes: readonly Wish[];
    readonly outcomes: Map<number, Outcome>;
    readonly timeoutMs: number;
  },
): Promise<void> {
  const { topic: name, wishes, outcomes, timeoutMs } = asked;
  const topic = context.metadata.peek(name);
  const groups = new Map<BrokerLink, Wish[]>();
  for (const wish of wishes) {
    const partition = partitionOf(topic, wish.partition);
    const link = partition === undefined ? undefined : context.pool.linkOfNode(partition.leader);
    if (link !== undefined) groups.set(link, [...(groups.get(link) ?? []), wish]);
    else if (topic !== undefined && partition === undefined)
      outcomes.set(wish.partition, new OttlaError("UNKNOWN_TOPIC_OR_PARTITION", `${name} has no such partition`));
    else outcomes.set(wish.partition, noLeader(name, partition));
  }
  if (topic === undefined) return;
  const asking = [...groups].map(async ([link, all]) => {
    for (let from = 0; from < all.length; from += ASKED_MAX) {
      const chunk = all.slice(from, from + ASKED_MAX);
      const answers = await askOne(context, { link, topicId: topic.topicId, wishes: chunk, timeoutMs });
      for (const [at, { partition }] of chunk.entries())
        outcomes.set(partition, answers[at] ?? new OttlaError("PROTOCOL_ERROR"));
    }
  });
  await Promise.all(asking);
}

async function askOne(
  context: ClientContext,
  asked: {
    readonly link: BrokerLink;
    readonly topicId: TopicId;
    readonly wishes: readonly Wish[];
    readonly timeoutMs: number;
  },
): Promise<Outcome[]> {
  const { topicId, wishes } = asked;
  const answers = await askMany(context, asked, async (connection, leftMs) => {
    const entries = wishes.map(({ partition, offset }) => ({ topicId, partition, offset }));
    const request = { timeoutMs: wireMs(leftMs * WAIT_SHARE), entries };
    return (await connection.call(API.DELETE_RECORDS, request, leftMs)).entries;
  });
  return answers.map((answer) => {
    if (answer instanceof OttlaError) return answer;
    return answer.error === "NONE" ? answer.lowWatermark : new OttlaError(answer.error, answer.message ?? undefined);
  });
}
