// Partitions and their replicas: how far each is, asked of the leaders, and elections of leaders.
import { OttlaError } from "../model/errors.ts";
import {
  API,
  type ApiTypes,
  type ElectLeadersRequest,
  type PartitionMetadata,
  type TopicMetadata,
} from "../wire/native/apis.ts";
import type {
  DescribePartitionsOptions,
  Election,
  Elections,
  ElectOptions,
  PartitionState,
  ReplicaProgress,
} from "./admin-types.ts";
import { CALL_TIMEOUT_MS } from "./calls.ts";
import type { ClientContext } from "./context.ts";
import { changeAtController } from "./controller.ts";
import { partitionOf } from "./metadata-cache.ts";
import {
  aBoolean,
  aDuration,
  aListOf,
  anInteger,
  aText,
  type Checks,
  checkOptions,
  invalid,
  oneOf,
} from "./options.ts";
import { type Answer, ASKED_MAX, askLeaders, askReplicas, type Described, type Survey } from "./replica-survey.ts";
import { isStale } from "./stale.ts";

const A_PARTITION = anInteger(0, 2 ** 31 - 1);
const DESCRIBE_CHECKS: Checks<DescribePartitionsOptions> = {
  timeoutMs: aDuration(),
  partitions: aListOf(A_PARTITION, "partition numbers"),
};
const ELECT_CHECKS: Checks<ElectOptions> = {
  timeoutMs: aDuration(),
  topic: aText,
  partitions: aListOf(A_PARTITION, "partition numbers"),
  nodeId: A_PARTITION,
  force: aBoolean,
};
const A_KIND = oneOf("preferred", "unclean");
/** A leader that has not answered by then is down or cut off, and what is not known is told as such. */
const DESCRIBE_TIMEOUT_MS = 3_000;
/** For asking again whoever leads now; the rest is for the first question. */
const SECOND_TRY_SHARE = 0.4;
export async function describePartitions(
  context: ClientContext,
  name: string,
  options: DescribePartitionsOptions,
): Promise<PartitionState[]> {
  checkOptions("describePartitions", options, DESCRIBE_CHECKS);
  const { alarms, metadata } = context;
  const { timeoutMs = DESCRIBE_TIMEOUT_MS, partitions } = options;
  const deadlineMs = alarms.nowMs() + timeoutMs;
  const topic = await metadata.refresh(name, timeoutMs);
  const indexes = partitions ?? topic.partitions.map(({ index }) => index);
  const answers = new Map<number, Answer>(indexes.map((index) => [index, notThere(name, index)]));
  const firstMs = Math.max(1, (deadlineMs - alarms.nowMs()) * (1 - SECOND_TRY_SHARE));
  const isLed = (index: number) => (partitionOf(topic, index)?.leader ?? -1) >= 0;
  const leaderless = indexes.filter((index) => !isLed(index));
  const [survey] = await Promise.all([
    askReplicas(context, { topic, indexes: leaderless, timeoutMs: firstMs }),
    askLeaders(context, { topic, indexes, answers, timeoutMs: firstMs }),
  ]);
  const stale = indexes.filter((index) => isLed(index) && isAskedInVain(answers.get(index)));
  const fresh = stale.length === 0 ? topic : await refreshed(context, topic, deadlineMs);
  const moved = stale.filter((index) => hasMoved(topic, fresh, index));
  const leftMs = Math.max(1, deadlineMs - alarms.nowMs());
  if (moved.length > 0) await askLeaders(context, { topic: fresh, indexes: moved, answers, timeoutMs: leftMs });
  return indexes.flatMap((index) => {
    const known = partitionOf(fresh, index);
    return known === undefined ? [] : [stateOf(known, answers.get(index) ?? notThere(name, index), survey)];
  });
}

const notThere = (name: string, index: number): OttlaError =>
  new OttlaError("UNKNOWN_TOPIC_OR_PARTITION", `${name} has no partition ${index}`);

const isAskedInVain = (answer: Answer | undefined): boolean => answer instanceof OttlaError && isStale(answer.code);

async function refreshed(context: ClientContext, topic: TopicMetadata, deadlineMs: number): Promise<TopicMetadata> {
  const { alarms, metadata } = context;
  const leftMs = Math.max(1, deadlineMs - alarms.nowMs());
  const late = () => new OttlaError("REQUEST_TIMED_OUT");
  return await alarms.within(metadata.refreshElsewhere(topic.name), leftMs, late).catch(() => topic);
}

function hasMoved(before: TopicMetadata, now: TopicMetadata, index: number): boolean {
  const [old, fresh] = [partitionOf(before, index), partitionOf(now, index)];
  return fresh !== undefined && fresh.leader >= 0 && old?.leaderEpoch !== fresh.leaderEpoch;
}

const known = (value: number): number | null => (value < 0 ? null : value);

function stateOf(partition: PartitionMetadata, answer: Answer, survey: Survey): PartitionState {
  if (answer instanceof OttlaError) {
    const said = survey.get(partition.index);
    const progress = partition.replicas.map((nodeId) => ownProgressOf(nodeId, partition, said?.get(nodeId)));
    const nothing = { startOffset: null, highWatermark: null, endOffset: null, durableEnd: null };
    return { ...partition, ...nothing, progress, unknown: answer };
  }
  // What the leader says may be newer than the metadata that led to it.
  const isNewer = answer.partitionEpoch > partition.partitionEpoch;
  const isr = answer.replicas.filter(({ isInSync }) => isInSync).map(({ nodeId }) => nodeId);
  const newest = isNewer ? { ...partition, isr, partitionEpoch: answer.partitionEpoch } : partition;
  return {
    ...newest,
    leaderEpoch: Math.max(partition.leaderEpoch, answer.leaderEpoch),
    startOffset: known(answer.logStartOffset),
    highWatermark: known(answer.highWatermark),
    endOffset: known(answer.endOffset),
    durableEnd: known(answer.durableEnd),
    progress: partition.replicas.map((nodeId) => progressOf(nodeId, newest, answer)),
  };
}

function progressOf(nodeId: number, { isr }: PartitionMetadata, answer: Described | undefined): ReplicaProgress {
  const replica = answer?.replicas.find((one) => one.nodeId === nodeId);
  const durableEnd = known(replica?.durableEnd ?? -1);
  const leaderEnd = known(answer?.endOffset ?? -1);
  return {
    nodeId,
    isInSync: isr.includes(nodeId),
    endOffset: known(replica?.endOffset ?? -1),
    durableEnd,
    lag: durableEnd === null || leaderEnd === null ? null : Math.max(0, leaderEnd - durableEnd),
    caughtUpMsAgo: known(replica?.caughtUpMsAgo ?? -1),
    lastEpoch: null,
  };
}

/** Without a leader's word. */
function ownProgressOf(nodeId: number, { isr }: PartitionMetadata, own: Described | undefined): ReplicaProgress {
  return {
    nodeId,
    isInSync: isr.includes(nodeId),
    endOffset: known(own?.endOffset ?? -1),
    durableEnd: known(own?.durableEnd ?? -1),
    lag: null,
    caughtUpMsAgo: null,
    lastEpoch: known(own?.leaderEpoch ?? -1),
  };
}

export async function electLeaders(
  context: ClientContext,
  kind: ElectLeadersRequest["kind"],
  options: ElectOptions,
): Promise<Elections> {
  const takes = A_KIND(kind);
  if (takes !== undefined) throw invalid("electLeaders", takes, kind);
  checkOptions("electLeaders", options, ELECT_CHECKS);
  const { timeoutMs = CALL_TIMEOUT_MS, topic = null, partitions, nodeId = -1, force = false } = options;
  if (topic === null && partitions !== undefined) throw invalid("electLeaders: topic", "the partitions' topic", null);
  if (kind === "unclean" && topic === null)
    throw invalid("electLeaders: topic", "a topic: an unclean election loses records", null);
  if (topic === null && nodeId !== -1)
    throw invalid("electLeaders: topic", "a topic: not every one has a replica there", null);
  const deadlineMs = context.alarms.nowMs() + timeoutMs;
  const chunks = partitions === undefined ? [null] : inChunks(partitions);
  const elections: Election[] = [];
  let omitted = 0;
  for (const chunk of chunks) {
    const request = { kind, topic, partitions: chunk, nodeId, isForced: force };
    const leftMs = Math.max(1, deadlineMs - context.alarms.nowMs());
    // Done twice is as good as done once: the second time it is not needed.
    const call = { timeoutMs: leftMs, isRepeatable: () => true };
    const answer = await changeAtController(context, API.ELECT_LEADERS, request, call);
    context.pool.expect(answer.metadataEnd);
    omitted += answer.omitted;
    elections.push(...answer.entries.map(electionOf));
  }
  return { elections, omitted };
}

function inChunks(partitions: readonly number[]): number[][] {
  const unique = [...new Set(partitions)];
  const chunks: number[][] = [];
  for (let from = 0; from < unique.length; from += ASKED_MAX) chunks.push(unique.slice(from, from + ASKED_MAX));
  return chunks;
}

function electionOf(entry: ApiTypes[typeof API.ELECT_LEADERS]["response"]["entries"][number]): Election {
  const { topic, partition, leader, error, message } = entry;
  if (error === "NONE") return { topic, partition, leader, endOffset: known(entry.endOffset), note: message };
  const text = message ?? `${topic}-${partition}: ${new OttlaError(error).message}`;
  return { topic, partition, leader, error: new OttlaError(error, text), endOffset: null, note: null };
}
