// What the client knows of topics: ids, limits, leaders. Filled on demand, refreshed when an answer shows that it is stale; the
// requests of one moment travel as one.
import { OttlaError } from "../model/errors.ts";
import { API, type MetadataResponse, type PartitionMetadata, type TopicMetadata } from "../wire/native/apis.ts";
import { CALL_TIMEOUT_MS, callAny, type CallContext } from "./calls.ts";
import type { TopicInfo } from "./types.ts";

interface Waiter {
  readonly name: string;
  resolve(topic: TopicMetadata): void;
  reject(error: unknown): void;
}

/** Names per request, so that 249-byte names fit an envelope. */
const NAMES_PER_REQUEST = 200;

export class MetadataCache {
  readonly #context: CallContext;
  readonly #topics = new Map<string, TopicMetadata>();
  #waiters: Waiter[] = [];
  #isRunning = false;

  constructor(context: CallContext) {
    this.#context = context;
  }

  /** What is known without asking. */
  peek(name: string): TopicMetadata | undefined {
    return this.#topics.get(name);
  }

  get(name: string): Promise<TopicMetadata> {
    const known = this.#topics.get(name);
    return known === undefined ? this.refresh(name) : Promise.resolve(known);
  }

  /** Asks anew. Rejects with the topic's error, UNKNOWN_TOPIC_OR_PARTITION above all, or when no broker answers. */
  refresh(name: string): Promise<TopicMetadata> {
    return new Promise((resolve, reject) => {
      this.#waiters.push({ name, resolve, reject });
      if (!this.#isRunning) void this.#run();
    });
  }

  /** All topics, page by page, sorted by name. */
  async list(): Promise<TopicMetadata[]> {
    const found: TopicMetadata[] = [];
    await this.#pages(null, (page) => found.push(...page.topics));
    return found;
  }

  /** Asks for the brokers alone. */
  async cluster(): Promise<MetadataResponse> {
    const request = { topics: [], after: null, barrier: false };
    const response = await callAny(this.#context, API.METADATA, request, {
      timeoutMs: CALL_TIMEOUT_MS,
      isRepeatable: true,
    });
    this.#context.pool.learn(response.brokers);
    return response;
  }

  /** Never rejects: each waiter is told. */
  async #run(): Promise<void> {
    this.#isRunning = true;
    await undefined;
    while (this.#waiters.length > 0) {
      const waiters = this.#waiters;
      this.#waiters = [];
      const names = [...new Set(waiters.map((waiter) => waiter.name))];
      for (let from = 0; from < names.length; from += NAMES_PER_REQUEST) {
        const asked = new Set(names.slice(from, from + NAMES_PER_REQUEST));
        const concerned = waiters.filter((waiter) => asked.has(waiter.name));
        await this.#ask([...asked], concerned);
      }
    }
    this.#isRunning = false;
  }

  async #ask(names: readonly string[], waiters: readonly Waiter[]): Promise<void> {
    const errors = new Map<string, OttlaError>();
    try {
      await this.#pages(names, (page) => {
        for (const topic of page.topics) {
          if (topic.error === "NONE") this.#topics.set(topic.name, merged(this.#topics.get(topic.name), topic));
          else
            errors.set(
              topic.name,
              new OttlaError(topic.error, `${topic.name}: ${new OttlaError(topic.error).message}`),
            );
        }
        for (const [name, error] of errors) if (error.code === "UNKNOWN_TOPIC_OR_PARTITION") this.#topics.delete(name);
      });
      for (const waiter of waiters) this.#tell(waiter, errors.get(waiter.name));
    } catch (error) {
      for (const waiter of waiters) waiter.reject(error);
    }
  }

  #tell(waiter: Waiter, error: OttlaError | undefined): void {
    const topic = this.#topics.get(waiter.name);
    if (topic !== undefined && error === undefined) waiter.resolve(topic);
    else waiter.reject(error ?? new OttlaError("UNKNOWN_TOPIC_OR_PARTITION", `${waiter.name}: no such topic`));
  }

  async #pages(topics: readonly string[] | null, visit: (page: MetadataResponse) => void): Promise<void> {
    let after: string | null = null;
    do {
      const page: MetadataResponse = await callAny(
        this.#context,
        API.METADATA,
        { topics, after, barrier: false },
        { timeoutMs: CALL_TIMEOUT_MS, isRepeatable: true },
      );
      this.#context.pool.learn(page.brokers);
      visit(page);
      // A page that does not move on would never end.
      if (page.next !== null && after !== null && page.next <= after) {
        throw new OttlaError("PROTOCOL_ERROR", "a page of metadata that does not move on");
      }
      after = page.next;
    } while (after !== null);
  }
}

/** The fresh topic, except for partitions of which a newer leader epoch is known: brokers learn of changes one after another. */
function merged(known: TopicMetadata | undefined, fresh: TopicMetadata): TopicMetadata {
  if (known === undefined || known.topicId !== fresh.topicId) return fresh;
  const newer = new Map<number, PartitionMetadata>(known.partitions.map((partition) => [partition.index, partition]));
  const partitions = fresh.partitions.map((partition) => {
    const old = newer.get(partition.index);
    return old !== undefined && old.leaderEpoch > partition.leaderEpoch ? old : partition;
  });
  return { ...fresh, partitions };
}

export function partitionOf(topic: TopicMetadata | undefined, index: number): PartitionMetadata | undefined {
  const guess = topic?.partitions[index];
  return guess?.index === index ? guess : topic?.partitions.find((partition) => partition.index === index);
}

/** As callers see it. */
export function topicInfoOf(topic: TopicMetadata): TopicInfo {
  return {
    name: topic.name,
    topicId: topic.topicId,
    isDeleting: topic.isDeleting,
    maxMessageBytes: topic.maxMessageBytes,
    configs: Object.fromEntries(topic.configs.map((config) => [config.key, config.value])),
    partitions: topic.partitions,
  };
}
