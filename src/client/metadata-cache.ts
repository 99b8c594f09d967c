// What the client knows of topics: ids, limits, leaders. Filled on demand, refreshed when an answer shows that it is stale; the
// requests of one moment travel as one. Brokers learn of changes one after another, so what a broker says may be older than what is
// known here: it never replaces it, and that a topic does not exist is believed only when the controller says so.
import { asOttlaError, OttlaError } from "../model/errors.ts";
import { API, type MetadataResponse, type PartitionMetadata, type TopicMetadata } from "../wire/native/apis.ts";
import { backoffMs } from "../link/backoff.ts";
import type { BrokerConnection } from "../link/broker-connection.ts";
import type { BrokerLink } from "./broker-link.ts";
import type { BrokerPool } from "./broker-pool.ts";
import { CALL_TIMEOUT_MS, callAny, type CallContext } from "./calls.ts";
import { connectToNode, readAtController } from "./controller.ts";
import type { MetadataView, ReadOptions, TopicInfo } from "./admin-types.ts";

interface Waiter {
  readonly name: string;
  readonly deadlineMs: number;
  resolve(topic: TopicMetadata): void;
  reject(error: unknown): void;
}

interface Known {
  readonly topic: TopicMetadata;
  /** How much of the metadata log the broker knew that said so; -1 = it did not say. */
  readonly end: number;
  /** Who said so; undefined: the controller. */
  readonly from: BrokerConnection | undefined;
  /** When it was asked for last: it may be fresh enough for who is content with it. */
  lookedMs: number;
}

interface Told {
  readonly page: MetadataResponse;
  readonly from: BrokerConnection | undefined;
}

/** Names per request, so that 249-byte names fit an envelope. */
const NAMES_PER_REQUEST = 200;
/** Brokers that know less than this client are passed over this often; then the old answer has to do. */
const OLD_ANSWERS_MAX = 4;
/** Any broker answers from its memory; while one hangs, all that look for leaders wait behind its question. */
const FIRST_TRY_MS = 1_000;
/** What is known and leads on is asked for anew after this. */
const AGE_MAX_MS = 15_000;
/** The same, for who is never answered (acks 0): all that is sent to a leader of before is lost meanwhile. */
const UNTOLD_AGE_MAX_MS = 1_000;
/** For the controller to confirm that a topic does not exist. */
const CONFIRM_TIMEOUT_MS = 5_000;
/** Topics known not to exist that are remembered. */
const ABSENT_MAX = 1_000;

export class MetadataCache {
  readonly #context: CallContext;
  readonly #topics = new Map<string, Known>();
  /** Name -> metadata end at which there was no such topic. */
  readonly #absent = new Map<string, number>();
  #clusterId: string | undefined;
  #waiters: Waiter[] = [];
  #isRunning = false;

  constructor(context: CallContext) {
    this.#context = context;
  }

  /** What is known without asking. */
  peek(name: string): TopicMetadata | undefined {
    return this.#topics.get(name)?.topic;
  }

  get(name: string): Promise<TopicMetadata> {
    const known = this.#topics.get(name);
    return known === undefined ? this.refresh(name) : Promise.resolve(known.topic);
  }

  /**
   * Asks anew. Rejects with the topic's error, or when no broker answers. UNKNOWN_TOPIC_OR_PARTITION: the controller says so, or, with a
   * `cause`, there was no controller that could (isConfirmedGone of stale.ts).
   */
  refresh(name: string, timeoutMs: number = CALL_TIMEOUT_MS): Promise<TopicMetadata> {
    const { alarms } = this.#context;
    const asked = new Promise<TopicMetadata>((resolve, reject) => {
      this.#waiters.push({ name, deadlineMs: alarms.nowMs() + timeoutMs, resolve, reject });
      if (!this.#isRunning) void this.#run();
    });
    const late = () => new OttlaError("REQUEST_TIMED_OUT", `no broker told of topic ${name} in ${timeoutMs} ms`);
    return alarms.within(asked, timeoutMs, late);
  }

  /** What is known has led nowhere: the broker that said it, and the one that it led to, may be cut off and are asked after the others. */
  refreshElsewhere(name: string, refusedBy?: BrokerLink): Promise<TopicMetadata> {
    const { pool } = this.#context;
    const from = this.#topics.get(name)?.from;
    if (from !== undefined) pool.shun(from);
    if (refusedBy !== undefined) pool.shunLink(refusedBy);
    return this.refresh(name);
  }

  /**
   * For who goes on working with a leader, which may not know that it is none any more; not `isAnswered`: or may know it and never say so. Asks another
   * broker once in a while.
   */
  keepFresh(name: string, leader: BrokerLink | undefined, isAnswered = true): void {
    const known = this.#topics.get(name);
    const nowMs = this.#context.alarms.nowMs();
    if (known === undefined || known.lookedMs + (isAnswered ? AGE_MAX_MS : UNTOLD_AGE_MAX_MS) > nowMs) return;
    known.lookedMs = nowMs;
    this.refreshElsewhere(name, leader).catch(() => undefined);
  }

  /** The topic as the controller knows it now. */
  async read(name: string, timeoutMs: number): Promise<TopicMetadata> {
    const errors = await this.#askController([name], timeoutMs);
    const topic = this.peek(name);
    const error = errors.get(name);
    if (topic === undefined || error !== undefined) throw error ?? unknownTopic(name);
    return topic;
  }

  /** All topics, sorted by name. */
  async list({ linearizable = false, timeoutMs = CALL_TIMEOUT_MS }: ReadOptions = {}): Promise<TopicMetadata[]> {
    const deadlineMs = this.#context.alarms.nowMs() + timeoutMs;
    if (!linearizable) return (await this.#pages(null, deadlineMs)).flatMap(({ page }) => page.topics);
    const pages = await this.#consistentPages(this.#atController(null, deadlineMs), deadlineMs);
    return pages.flatMap((page) => page.topics);
  }

  /** What one broker says, whatever else is known; "controller": what is so now. */
  async view(from: "controller" | number, topics: readonly string[] | null, timeoutMs: number): Promise<MetadataView> {
    const deadlineMs = this.#context.alarms.nowMs() + timeoutMs;
    const pageAfter =
      from === "controller" ? this.#atController(topics, deadlineMs) : await this.#atNode(from, topics, deadlineMs);
    const pages = await this.#consistentPages(pageAfter, deadlineMs);
    const [{ clusterId, metadataEnd, controllerId, brokers }] = pages as [MetadataResponse];
    const found = pages.flatMap((page) => page.topics).filter(({ error }) => error !== "UNKNOWN_TOPIC_OR_PARTITION");
    return { clusterId, metadataEnd, controllerId, brokers, topics: found.map(topicInfoOf) };
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
    try {
      const errors = new Map<string, OttlaError>();
      const missing: string[] = [];
      const deadlineMs = Math.max(...waiters.map((waiter) => waiter.deadlineMs));
      for (const { page, from } of await this.#pages(names, deadlineMs)) {
        missing.push(...this.#take(page, errors, from));
      }
      if (missing.length > 0) {
        for (const [name, error] of await this.#confirm(missing, CONFIRM_TIMEOUT_MS)) errors.set(name, error);
      }
      for (const waiter of waiters) this.#tell(waiter, errors.get(waiter.name));
    } catch (error) {
      for (const waiter of waiters) waiter.reject(error);
    }
  }

  #tell(waiter: Waiter, error: OttlaError | undefined): void {
    const topic = this.peek(waiter.name);
    if (topic !== undefined && error === undefined) waiter.resolve(topic);
    else waiter.reject(error ?? unknownTopic(waiter.name));
  }

  /** Takes what is news. Returns the names of which the broker, or whoever knows more than it does, knew no topic. */
  #take(page: MetadataResponse, errors: Map<string, OttlaError>, from?: BrokerConnection): string[] {
    this.#enter(page.clusterId);
    const missing: string[] = [];
    const end = page.metadataEnd;
    for (const topic of page.topics) {
      const { name } = topic;
      const known = this.#topics.get(name);
      const newestEnd = Math.max(known?.end ?? -1, this.#absent.get(name) ?? -1);
      if (end >= 0 && end < newestEnd) {
        // That it was gone by then is no word about now: it may have been made anew since.
        if (known === undefined) missing.push(name);
        continue;
      }
      if (topic.error === "UNKNOWN_TOPIC_OR_PARTITION") missing.push(name);
      else if (topic.error !== "NONE") errors.set(name, new OttlaError(topic.error, refusalText(topic)));
      else {
        const lookedMs = this.#context.alarms.nowMs();
        this.#topics.set(name, { topic: merged(known?.topic, topic), end, from, lookedMs });
        this.#absent.delete(name);
      }
    }
    return missing;
  }

  /** Positions in the log of one cluster say nothing about another's. */
  #enter(clusterId: string): void {
    if (clusterId === this.#clusterId) return;
    this.#clusterId = clusterId;
    this.#absent.clear();
    for (const [name, known] of this.#topics) this.#topics.set(name, { ...known, end: -1 });
  }

  /** Errors by name: of topics that do not exist, or of which nobody could say so. */
  async #confirm(names: readonly string[], timeoutMs: number): Promise<Map<string, OttlaError>> {
    try {
      return await this.#askController(names, timeoutMs);
    } catch (thrown) {
      const cause = asOttlaError(thrown);
      // A broker of the release before speaks no barrier: its word has to do.
      if (cause.code !== "UNSUPPORTED_VERSION") return new Map(names.map((name) => [name, unconfirmed(name, cause)]));
      return new Map(names.map((name) => [name, this.#gone(name, -1)]));
    }
  }

  /** Asks the controller, and takes its answer; the errors that it has. */
  async #askController(names: readonly string[], timeoutMs: number): Promise<Map<string, OttlaError>> {
    const errors = new Map<string, OttlaError>();
    const deadlineMs = this.#context.alarms.nowMs() + timeoutMs;
    for (const page of await turnPages(this.#atController(names, deadlineMs))) {
      for (const name of this.#take(page, errors)) errors.set(name, this.#gone(name, page.metadataEnd));
    }
    return errors;
  }

  #gone(name: string, end: number): OttlaError {
    this.#topics.delete(name);
    this.#forget(name, end);
    return unknownTopic(name);
  }

  #forget(name: string, end: number): void {
    this.#absent.delete(name);
    this.#absent.set(name, end);
    for (const oldest of this.#absent.keys()) {
      if (this.#absent.size <= ABSENT_MAX) return;
      this.#absent.delete(oldest);
    }
  }

  async #pages(topics: readonly string[] | null, deadlineMs: number): Promise<Told[]> {
    const { pool } = this.#context;
    const told: Told[] = [];
    let oldCount = 0;
    let from: BrokerConnection | undefined;
    const faultOf = (answer: MetadataResponse, answerer: BrokerConnection): OttlaError | undefined => {
      from = answerer;
      if (!pool.isOld(answer) || ++oldCount >= OLD_ANSWERS_MAX) return undefined;
      return new OttlaError("BROKER_NOT_AVAILABLE", "the broker knows less of the cluster than this client");
    };
    await turnPages(async (after) => {
      const request = { topics, after, barrier: false };
      const timeoutMs = this.#leftMs(deadlineMs);
      const page = await callAny(this.#context, API.METADATA, request, {
        timeoutMs,
        firstTryMs: FIRST_TRY_MS,
        faultOf,
      });
      pool.learn(page, from);
      told.push({ page, from });
      return page;
    });
    return told;
  }

  /** Pages that all show the same state: read again while changes come in between. */
  async #consistentPages(pageAfter: PageAfter, deadlineMs: number): Promise<MetadataResponse[]> {
    const { alarms, rng } = this.#context;
    for (let attempt = 1; ; attempt++) {
      const pages = await turnPages(pageAfter);
      if (pages.every((page) => page.metadataEnd === pages[0]?.metadataEnd)) return pages;
      const waitMs = backoffMs(attempt, rng);
      if (alarms.nowMs() + waitMs >= deadlineMs) {
        throw new OttlaError("REQUEST_TIMED_OUT", "the list of topics changed while it was read, again and again");
      }
      await alarms.sleep(waitMs);
    }
  }

  #atController(topics: readonly string[] | null, deadlineMs: number): PageAfter {
    return async (after) => {
      const timeoutMs = this.#leftMs(deadlineMs);
      const request = { topics, after, barrier: true };
      const page = await readAtController(this.#context, API.METADATA, request, { timeoutMs });
      this.#context.pool.learn(page);
      return page;
    };
  }

  async #atNode(nodeId: number, topics: readonly string[] | null, deadlineMs: number): Promise<PageAfter> {
    const connection = await connectToNode(this.#context, nodeId, this.#leftMs(deadlineMs));
    return (after) => {
      const request = { topics, after, barrier: false };
      return connection.call(API.METADATA, request, this.#leftMs(deadlineMs), { isPatient: true });
    };
  }

  #leftMs(deadlineMs: number): number {
    return Math.max(1, deadlineMs - this.#context.alarms.nowMs());
  }
}

type PageAfter = (after: string | null) => Promise<MetadataResponse>;

async function turnPages(pageAfter: PageAfter): Promise<MetadataResponse[]> {
  const pages: MetadataResponse[] = [];
  let after: string | null = null;
  do {
    const page: MetadataResponse = await pageAfter(after);
    pages.push(page);
    // A page that does not move on would never end.
    if (page.next !== null && after !== null && page.next <= after) {
      throw new OttlaError("PROTOCOL_ERROR", "a page of metadata that does not move on");
    }
    after = page.next;
  } while (after !== null);
  return pages;
}

const unknownTopic = (name: string): OttlaError =>
  new OttlaError("UNKNOWN_TOPIC_OR_PARTITION", `${name}: no such topic`);

function unconfirmed(name: string, cause: OttlaError): OttlaError {
  const message = `${name}: this broker knows no such topic, and no controller could confirm it (${cause.message})`;
  return new OttlaError("UNKNOWN_TOPIC_OR_PARTITION", message, { cause });
}

const refusalText = (topic: TopicMetadata): string => `${topic.name}: ${new OttlaError(topic.error).message}`;

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

/**
 * Fresh metadata name a leader that is not the one that refused: it is asked at once. Once for each leader epoch: brokers that point at each other
 * are asked no faster than the back-off allows.
 */
export function isLedElsewhere(
  pool: BrokerPool,
  waiter: { promptEpoch: number },
  partition: PartitionMetadata | undefined,
  refusedBy: BrokerLink | undefined,
): boolean {
  if (partition === undefined || partition.leaderEpoch <= waiter.promptEpoch) return false;
  const link = pool.linkOfNode(partition.leader);
  if (link === undefined || link === refusedBy) return false;
  waiter.promptEpoch = partition.leaderEpoch;
  return true;
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
