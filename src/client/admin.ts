// Topics, offsets and the cluster, asked and changed.
import { OttlaError } from "../model/errors.ts";
import { API, EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, type TopicMetadata } from "../wire/native/apis.ts";
import { orAborted } from "./aborted.ts";
import { backoffMs } from "../link/backoff.ts";
import { CALL_TIMEOUT_MS, callAny } from "./calls.ts";
import type { ClientContext } from "./context.ts";
import { topicInfoOf } from "./metadata-cache.ts";
import { lookUpOffsets } from "./offset-lookup.ts";
import { aBoolean, anInteger, anObject, aSignal, type Checks, checkOptions } from "./options.ts";
import { checkTopicName } from "./outgoing.ts";
import type { Admin, ClusterInfo, CreateTopicOptions, PartitionOffsets, TopicInfo } from "./types.ts";

interface DeleteTopicOptions {
  readonly wait?: boolean;
  readonly signal?: AbortSignal;
}

/** What an int32 holds; the broker says which numbers make sense. */
const AN_INT32 = anInteger(-(2 ** 31), 2 ** 31 - 1);
const CREATE_CHECKS: Checks<CreateTopicOptions> = {
  partitions: AN_INT32,
  replicationFactor: AN_INT32,
  configs: anObject,
  ifNotExists: aBoolean,
  validateOnly: aBoolean,
};
const DELETE_CHECKS: Checks<DeleteTopicOptions> = { wait: aBoolean, signal: aSignal };

export class AdminImpl implements Admin {
  readonly #context: ClientContext;

  constructor(context: ClientContext) {
    this.#context = context;
  }

  async createTopic(name: string, options: CreateTopicOptions = {}): Promise<TopicInfo> {
    checkTopicName(name);
    checkOptions("createTopic", options, CREATE_CHECKS);
    const validateOnly = options.validateOnly ?? false;
    const configs = Object.entries(options.configs ?? {}).flatMap(([key, value]) =>
      value === undefined ? [] : [{ key, value: String(value) }],
    );
    const topic = {
      name,
      partitions: options.partitions ?? -1,
      replicationFactor: options.replicationFactor ?? -1,
      configs,
    };
    const request = { validateOnly, topics: [topic], requestId: null };
    const answer = await callAny(this.#context, API.CREATE_TOPICS, request, {
      timeoutMs: CALL_TIMEOUT_MS,
      isRepeatable: validateOnly,
    });
    const created = answer.topics[0];
    if (created === undefined) throw new OttlaError("PROTOCOL_ERROR", "a create answer without the topic");
    if (created.error === "TOPIC_ALREADY_EXISTS" && options.ifNotExists === true) return this.describeTopic(name);
    if (created.error !== "NONE") throw refusal(name, created);
    if (validateOnly) return planned(name, created.partitions, configs);
    return topicInfoOf(await this.#untilVisible(name, created.topicId));
  }

  async deleteTopic(name: string, options: DeleteTopicOptions = {}): Promise<void> {
    checkTopicName(name);
    checkOptions("deleteTopic", options, DELETE_CHECKS);
    if (options.signal?.aborted === true) throw new OttlaError("ABORTED");
    const answer = await callAny(
      this.#context,
      API.DELETE_TOPICS,
      { names: [name], requestId: null },
      {
        timeoutMs: CALL_TIMEOUT_MS,
        isRepeatable: false,
      },
    );
    const deleted = answer.topics[0];
    if (deleted === undefined) throw new OttlaError("PROTOCOL_ERROR", "a delete answer without the topic");
    if (deleted.error !== "NONE") throw refusal(name, deleted);
    if (options.wait === true) await this.#untilGone(name, options.signal);
  }

  async listTopics(): Promise<TopicInfo[]> {
    return (await this.#context.metadata.list()).map(topicInfoOf);
  }

  async describeTopic(name: string): Promise<TopicInfo> {
    checkTopicName(name);
    return topicInfoOf(await this.#context.metadata.refresh(name));
  }

  async offsets(topic: string): Promise<PartitionOffsets[]> {
    checkTopicName(topic);
    const { partitions } = await this.#context.metadata.refresh(topic);
    const queries = partitions.flatMap(({ index }) => [
      { topic, partition: index, timestamp: EARLIEST_TIMESTAMP },
      { topic, partition: index, timestamp: LATEST_TIMESTAMP },
    ]);
    const found = await lookUpOffsets(this.#context, queries);
    return partitions.map(({ index }, at) => ({
      partition: index,
      startOffset: found[2 * at] ?? -1,
      endOffset: found[2 * at + 1] ?? -1,
    }));
  }

  async describeCluster(): Promise<ClusterInfo> {
    const { clusterId, controllerId, brokers } = await this.#context.metadata.cluster();
    return { clusterId, controllerId, brokers };
  }

  /** Created is when the topic can be used: listed, with a leader for each partition. */
  async #untilVisible(name: string, topicId: string | null): Promise<TopicMetadata> {
    const { alarms, metadata, rng } = this.#context;
    const deadlineMs = alarms.nowMs() + CALL_TIMEOUT_MS;
    for (let attempt = 1; ; attempt++) {
      const topic = await metadata.refresh(name).catch(unlessMissing);
      const isThere = topic !== undefined && (topicId === null || topic.topicId === topicId);
      if (isThere && topic.partitions.every(({ leader }) => leader >= 0)) return topic;
      const waitMs = backoffMs(attempt, rng);
      if (alarms.nowMs() + waitMs > deadlineMs) {
        throw new OttlaError("REQUEST_TIMED_OUT", `${name} was created, but not all its partitions have a leader yet`);
      }
      await alarms.sleep(waitMs);
    }
  }

  async #untilGone(name: string, signal: AbortSignal | undefined): Promise<void> {
    const { alarms, metadata, rng } = this.#context;
    let topicId: string | undefined;
    for (let attempt = 1; ; attempt++) {
      const topic = await metadata.refresh(name).catch(unlessMissing);
      topicId ??= topic?.topicId;
      // Another id: gone, and made anew by somebody else.
      if (topic === undefined || topic.topicId !== topicId) return;
      await orAborted(alarms.sleep(backoffMs(attempt, rng)), signal);
    }
  }
}

function unlessMissing(error: unknown): undefined {
  if (error instanceof OttlaError && error.code === "UNKNOWN_TOPIC_OR_PARTITION") return undefined;
  throw error;
}

function refusal(
  name: string,
  row: { readonly error: TopicMetadata["error"]; readonly message: string | null },
): OttlaError {
  return new OttlaError(row.error, row.message ?? `${name}: ${new OttlaError(row.error).message}`);
}

function planned(name: string, count: number, configs: readonly { key: string; value: string }[]): TopicInfo {
  const partitions = Array.from({ length: Math.max(0, count) }, (_, index) => ({
    index,
    error: "NONE" as const,
    leader: -1,
    leaderEpoch: -1,
    replicas: [],
    isr: [],
  }));
  const values = Object.fromEntries(configs.map(({ key, value }) => [key, value]));
  const maxMessageBytes = Number(values["max.message.bytes"] ?? -1);
  return { name, topicId: "", isDeleting: false, maxMessageBytes, configs: values, partitions };
}
