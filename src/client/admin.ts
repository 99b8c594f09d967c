// Topics and their configuration, asked and changed; the cluster and its quorum are in admin-cluster.ts.
import { OttlaError } from "../model/errors.ts";
import {
  API,
  type CreateTopicsResponse,
  EARLIEST_TIMESTAMP,
  LATEST_TIMESTAMP,
  type TopicMetadata,
} from "../wire/native/apis.ts";
import { orAborted } from "./aborted.ts";
import { alterConfigs, describeConfigs } from "./admin-configs.ts";
import * as cluster from "./admin-cluster.ts";
import { describePartitions, electLeaders } from "./admin-partitions.ts";
import { backoffMs } from "../link/backoff.ts";
import type {
  Admin,
  AlterOptions,
  BrokerName,
  CallOptions,
  ClusterInfo,
  ConfigChanges,
  ConfigInfo,
  ConfigOwner,
  CreateTopicOptions,
  DeletedRecords,
  DeleteRecordsOptions,
  DeleteTopicOptions,
  DescribePartitionsOptions,
  Elections,
  ElectOptions,
  MetadataQuery,
  MetadataView,
  OffsetsOptions,
  PartitionOffsets,
  PartitionState,
  QuorumInfo,
  ReadOptions,
  TopicInfo,
  UnregisterOptions,
  VoterOptions,
} from "./admin-types.ts";
import { CALL_TIMEOUT_MS } from "./calls.ts";
import type { ClientContext } from "./context.ts";
import { changeAtController, drawRequestId } from "./controller.ts";
import { topicInfoOf } from "./metadata-cache.ts";
import { deleteRecords } from "./delete-records.ts";
import { findOffsets, lookUpOffsets } from "./offset-lookup.ts";
import {
  aBoolean,
  aDuration,
  aListOf,
  anInteger,
  anObject,
  type Check,
  aSignal,
  aText,
  type Checks,
  checkOptions,
} from "./options.ts";
import { checkTopicName } from "./outgoing.ts";
import type { StartPosition } from "./types.ts";

/** What an int32 holds; the broker says which numbers make sense. */
const AN_INT32 = anInteger(-(2 ** 31), 2 ** 31 - 1);
/** -1 is how the protocol says "the cluster's default": here that is said by leaving it out. */
const A_COUNT: Check = (value) => (value === -1 ? "a number from 1 on" : AN_INT32(value));
export const CREATE_CHECKS: Checks<CreateTopicOptions> = {
  partitions: A_COUNT,
  replicationFactor: A_COUNT,
  configs: anObject,
  ifNotExists: aBoolean,
  validateOnly: aBoolean,
  timeoutMs: aDuration(),
};
const DELETE_CHECKS: Checks<DeleteTopicOptions> = { wait: aBoolean, signal: aSignal, timeoutMs: aDuration() };
const READ_CHECKS: Checks<ReadOptions> = { linearizable: aBoolean, timeoutMs: aDuration() };
const OFFSETS_CHECKS: Checks<OffsetsOptions> = { partial: aBoolean, timeoutMs: aDuration() };
const VIEW_CHECKS: Checks<MetadataQuery> = {
  topics: aListOf(aText, "topic names"),
  from: (value) => (value === "controller" ? undefined : anInteger(0)(value) && 'a node id or "controller"'),
  timeoutMs: aDuration(),
};
export class AdminImpl implements Admin {
  readonly #context: ClientContext;

  constructor(context: ClientContext) {
    this.#context = context;
  }

  async createTopic(name: string, options: CreateTopicOptions = {}): Promise<TopicInfo> {
    checkTopicName(name);
    checkOptions("createTopic", options, CREATE_CHECKS);
    const { validateOnly = false, timeoutMs = CALL_TIMEOUT_MS } = options;
    const deadlineMs = this.#context.alarms.nowMs() + timeoutMs;
    const configs = Object.entries(options.configs ?? {}).flatMap(([key, value]) =>
      value === undefined ? [] : [{ key, value: String(value) }],
    );
    const { partitions = -1, replicationFactor = -1 } = options;
    const topic = { name, partitions, replicationFactor, configs };
    const created = await this.#create({ validateOnly, topic, timeoutMs }).catch((thrown: unknown) => {
      if (thrown instanceof OttlaError && thrown.code === "TOPIC_ALREADY_EXISTS" && options.ifNotExists === true)
        return undefined;
      throw thrown;
    });
    if (created === undefined) {
      return this.describeTopic(name, { timeoutMs: Math.max(1, deadlineMs - this.#context.alarms.nowMs()) });
    }
    if (validateOnly) return withoutState(name, created.partitions, { configs });
    return await this.#untilVisible(name, { topicId: created.topicId, configs, deadlineMs });
  }

  async #create(wish: {
    readonly validateOnly: boolean;
    readonly topic: {
      name: string;
      partitions: number;
      replicationFactor: number;
      configs: { key: string; value: string }[];
    };
    readonly timeoutMs: number;
  }): Promise<CreateTopicsResponse["topics"][number]> {
    const { validateOnly, topic, timeoutMs } = wish;
    const requestId = validateOnly ? null : drawRequestId(this.#context.rng);
    const request = { validateOnly, topics: [topic], requestId };
    const answer = await changeAtController(this.#context, API.CREATE_TOPICS, request, {
      timeoutMs,
      refusalOf: ({ topics }) => named(topic.name, topics[0]),
      // Version 0 has no request id.
      isRepeatable: (version) => validateOnly || version > 0,
    });
    return answer.topics[0] as CreateTopicsResponse["topics"][number];
  }

  async deleteTopic(name: string, options: DeleteTopicOptions = {}): Promise<void> {
    checkTopicName(name);
    checkOptions("deleteTopic", options, DELETE_CHECKS);
    if (options.signal?.aborted === true) throw new OttlaError("ABORTED");
    const request = { names: [name], requestId: drawRequestId(this.#context.rng) };
    await changeAtController(this.#context, API.DELETE_TOPICS, request, {
      timeoutMs: options.timeoutMs ?? CALL_TIMEOUT_MS,
      refusalOf: ({ topics }) => named(name, topics[0]),
      isRepeatable: (version) => version > 0,
    });
    if (options.wait === true) await this.#untilGone(name, options);
  }

  async listTopics(options: ReadOptions = {}): Promise<TopicInfo[]> {
    checkOptions("listTopics", options, READ_CHECKS);
    return (await this.#context.metadata.list(options)).map(topicInfoOf);
  }

  async describeTopic(name: string, options: ReadOptions = {}): Promise<TopicInfo> {
    checkTopicName(name);
    checkOptions("describeTopic", options, READ_CHECKS);
    const { metadata } = this.#context;
    const { linearizable = false, timeoutMs = CALL_TIMEOUT_MS } = options;
    return topicInfoOf(await (linearizable ? metadata.read(name, timeoutMs) : metadata.refresh(name, timeoutMs)));
  }

  async describeMetadata(query: MetadataQuery = {}): Promise<MetadataView> {
    checkOptions("describeMetadata", query, VIEW_CHECKS);
    const { topics = null, from = "controller", timeoutMs = CALL_TIMEOUT_MS } = query;
    return await this.#context.metadata.view(from, topics, timeoutMs);
  }

  async offsets(topic: string, options: OffsetsOptions = {}): Promise<PartitionOffsets[]> {
    checkTopicName(topic);
    checkOptions("offsets", options, OFFSETS_CHECKS);
    const { alarms, metadata } = this.#context;
    const { partial = false, timeoutMs = CALL_TIMEOUT_MS } = options;
    const deadlineMs = alarms.nowMs() + timeoutMs;
    const { partitions } = await metadata.refresh(topic, timeoutMs);
    const queries = partitions.flatMap(({ index }) => [
      { topic, partition: index, timestamp: EARLIEST_TIMESTAMP },
      { topic, partition: index, timestamp: LATEST_TIMESTAMP },
    ]);
    const leftMs = Math.max(1, deadlineMs - alarms.nowMs());
    const found = partial
      ? await findOffsets(this.#context, queries, { timeoutMs: leftMs, isPartial: true })
      : await lookUpOffsets(this.#context, queries, leftMs);
    return partitions.map(({ index }, at) => offsetsOf(index, found.slice(2 * at, 2 * at + 2)));
  }

  async describePartitions(topic: string, options: DescribePartitionsOptions = {}): Promise<PartitionState[]> {
    checkTopicName(topic);
    return await describePartitions(this.#context, topic, options);
  }

  async deleteRecords(
    topic: string,
    before: StartPosition,
    options: DeleteRecordsOptions = {},
  ): Promise<DeletedRecords[]> {
    checkTopicName(topic);
    return await deleteRecords(this.#context, topic, { before, options });
  }

  async electLeaders(kind: "preferred" | "unclean", options: ElectOptions = {}): Promise<Elections> {
    return await electLeaders(this.#context, kind, options);
  }

  async alterTopicConfigs(topic: string, changes: ConfigChanges, options: AlterOptions = {}): Promise<void> {
    checkTopicName(topic);
    await alterConfigs(this.#context, { owner: { topic }, changes, options });
  }

  async alterBrokerConfigs(broker: BrokerName, changes: ConfigChanges, options: AlterOptions = {}): Promise<void> {
    await alterConfigs(this.#context, { owner: { broker }, changes, options });
  }

  async describeConfigs(owner: ConfigOwner, options: ReadOptions = {}): Promise<ConfigInfo[]> {
    checkOptions("describeConfigs", options, READ_CHECKS);
    return await describeConfigs(this.#context, owner, options);
  }

  async describeCluster(options: CallOptions = {}): Promise<ClusterInfo> {
    return await cluster.describeCluster(this.#context, options);
  }

  async describeQuorum(options: CallOptions = {}): Promise<QuorumInfo> {
    return await cluster.describeQuorum(this.#context, options);
  }

  async addVoter(nodeId: number, options: VoterOptions = {}): Promise<void> {
    await cluster.changeQuorum(this.#context, "add", nodeId, options);
  }

  async removeVoter(nodeId: number, options: VoterOptions = {}): Promise<void> {
    await cluster.changeQuorum(this.#context, "remove", nodeId, options);
  }

  async replaceVoter(nodeId: number, options: VoterOptions = {}): Promise<void> {
    await cluster.changeQuorum(this.#context, "replace", nodeId, options);
  }

  async transferLeadership(nodeId: number, options: CallOptions = {}): Promise<void> {
    await cluster.changeQuorum(this.#context, "transfer", nodeId, options);
  }

  async unregisterBroker(nodeId: number, options: UnregisterOptions = {}): Promise<void> {
    await cluster.unregisterBroker(this.#context, nodeId, options);
  }

  async raiseMetadataVersion(version: number, options: CallOptions = {}): Promise<void> {
    await cluster.raiseMetadataVersion(this.#context, version, options);
  }

  /** Created is when the topic can be used: listed, with a leader for each partition. */
  async #untilVisible(
    name: string,
    made: {
      /** null: an earlier try made it, and somebody has deleted it since. */
      readonly topicId: string | null;
      readonly configs: readonly { key: string; value: string }[];
      readonly deadlineMs: number;
    },
  ): Promise<TopicInfo> {
    const { alarms, metadata, rng } = this.#context;
    const { topicId, configs, deadlineMs } = made;
    if (topicId === null) return withoutState(name, 0, { configs });
    let isOtherSeen = false;
    for (let attempt = 1; ; attempt++) {
      const leftMs = Math.max(1, deadlineMs - alarms.nowMs());
      const reading = isOtherSeen ? metadata.read(name, leftMs) : metadata.refresh(name, leftMs);
      const topic = await reading.catch(unlessPassing);
      // Gone again, or made anew by somebody else. (A broker that lags may still show an older one.)
      if (topic === undefined) return withoutState(name, 0, { topicId, configs });
      if (topic !== null && topic.topicId !== topicId) {
        if (isOtherSeen) return withoutState(name, 0, { topicId, configs });
        isOtherSeen = true;
      } else if (topic?.partitions.every(({ leader }) => leader >= 0) === true) return topicInfoOf(topic);
      const waitMs = backoffMs(attempt, rng);
      if (alarms.nowMs() + waitMs > deadlineMs) {
        const message = `${name} was created, but not all its partitions have a leader yet`;
        throw new OttlaError("REQUEST_TIMED_OUT", message, { outcome: "appended" });
      }
      await alarms.sleep(waitMs);
    }
  }

  async #untilGone(name: string, { signal, timeoutMs = Infinity }: DeleteTopicOptions): Promise<void> {
    const { alarms, metadata, rng } = this.#context;
    const deadlineMs = alarms.nowMs() + timeoutMs;
    let topicId: string | undefined;
    for (let attempt = 1; ; attempt++) {
      const leftMs = Math.max(1, Math.min(CALL_TIMEOUT_MS, deadlineMs - alarms.nowMs()));
      const topic = await orAborted(metadata.refresh(name, leftMs), signal).catch(unlessPassing);
      topicId ??= topic?.topicId;
      // Another id: gone, and made anew by somebody else.
      if (topic === undefined || (topic !== null && topic.topicId !== topicId)) return;
      const waitMs = backoffMs(attempt, rng);
      if (alarms.nowMs() + waitMs > deadlineMs) {
        const message = `${name} is marked for deletion, but still there`;
        throw new OttlaError("REQUEST_TIMED_OUT", message, { outcome: "appended" });
      }
      await orAborted(alarms.sleep(waitMs), signal);
    }
  }
}

function offsetsOf(partition: number, found: readonly (number | OttlaError)[]): PartitionOffsets {
  const [startOffset = -1, endOffset = -1] = found;
  if (typeof startOffset !== "number") return { partition, startOffset: -1, endOffset: -1, error: startOffset };
  if (typeof endOffset !== "number") return { partition, startOffset: -1, endOffset: -1, error: endOffset };
  return { partition, startOffset, endOffset };
}

/** After a change: undefined = there is no such topic, for sure. null = nobody could say. */
function unlessPassing(error: unknown): undefined | null {
  if (!(error instanceof OttlaError)) throw error;
  if (error.code === "UNKNOWN_TOPIC_OR_PARTITION") return error.cause === undefined ? undefined : null;
  if (error.retriable) return null;
  throw new OttlaError(error.code, error.message, { outcome: "appended", hint: error.hint, cause: error });
}

function named(
  name: string,
  row: { readonly error: TopicMetadata["error"]; readonly message: string | null } | undefined,
): { readonly error: TopicMetadata["error"]; readonly message: string | null } {
  if (row === undefined) return { error: "PROTOCOL_ERROR", message: "an answer without the topic" };
  return { error: row.error, message: row.message ?? `${name}: ${new OttlaError(row.error).message}` };
}

/** A topic that there is not yet, or no longer. */
function withoutState(
  name: string,
  count: number,
  { topicId = "", configs }: { readonly topicId?: string; readonly configs: readonly { key: string; value: string }[] },
): TopicInfo {
  const partitions = Array.from({ length: Math.max(0, count) }, (_, index) => ({
    index,
    error: "NONE" as const,
    leader: -1,
    leaderEpoch: -1,
    replicas: [],
    isr: [],
    elr: [],
    partitionEpoch: -1,
    minIsr: -1,
    uncleanEpoch: -1,
  }));
  const values = Object.fromEntries(configs.map(({ key, value }) => [key, value]));
  const maxMessageBytes = Number(values["max.message.bytes"] ?? -1);
  return { name, topicId, isDeleting: false, maxMessageBytes, configs: values, partitions };
}
