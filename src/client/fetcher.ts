// Fetches ahead of a consumer: a partition is in at most one fetch at a time and is fetched again while its records are being
// worked on, as far as the buffer allows. Partitions that are known to have more travel in two fetches, since two under way
// are faster than one. An answer is only used if nobody moved the partition meanwhile.
import { keepable } from "../base/bytes.ts";
import { Ring } from "../base/ring.ts";
import { asOttlaError, OttlaError } from "../model/errors.ts";
import { crcAt, forEachBatch, lastOffsetAt, leaderEpochAt } from "../model/record-batch.ts";
import {
  API,
  EARLIEST_TIMESTAMP,
  type FetchResponse,
  LATEST_TIMESTAMP,
  type PartitionMetadata,
} from "../wire/native/apis.ts";
import { backoffMs } from "../link/backoff.ts";
import type { BrokerLink } from "./broker-link.ts";
import type { ConsumerPartition } from "./consumer-partition.ts";
import type { ClientContext } from "./context.ts";
import {
  ANSWER_TIMEOUT_MS,
  answerTimeoutMs,
  entriesOf,
  type Fetch,
  FetchSource,
  type Ready,
  roomFor,
  someOf,
} from "./fetch-source.ts";
import { askHistory, lostHistory, mustCheckHistory } from "./history-check.ts";
import { isLedElsewhere, partitionOf } from "./metadata-cache.ts";
import { lookUpOffsets } from "./offset-lookup.ts";
import { DOUBTED_FROM, isConfirmedGone, isDamage, isStale, MISSING_MAX, togetherMs } from "./stale.ts";
import { wireMs } from "./options.ts";
import { StartLook } from "./start-look.ts";
import { noLeader } from "./unreadable.ts";
import { WaitNotes } from "./wait-notes.ts";

export interface FetchSettings {
  readonly minBytes: number;
  readonly maxWaitMs: number;
  readonly maxBytes: number;
  readonly maxPartitionBytes: number;
  readonly onOutOfRange: "start" | "end" | "error";
}

/** A run of whole batches of one partition, given from `at` on. */
export interface Chunk {
  readonly partition: ConsumerPartition;
  readonly version: number;
  readonly topicId: string;
  readonly bytes: Uint8Array;
  at: number;
}

const FETCHES_PER_BROKER_MAX = 4;
/** Answers in a row that what is stored is damaged: then asking again helps no more. */
const DAMAGE_MAX = 5;
/** Steps of the back-off that are left out then: about 3 s for all tries. */
const DAMAGE_BACKOFF_STEPS = 4;

export class Fetcher {
  readonly #context: ClientContext;
  readonly #settings: FetchSettings;
  readonly #partitions: readonly ConsumerPartition[];
  readonly #onProgress: () => void;
  readonly #chunks = new Ring<Chunk>();
  readonly #sources = new Map<BrokerLink, FetchSource>();
  readonly #notes: WaitNotes;
  readonly #starts: StartLook;
  #bufferedBytes = 0;
  #reservedBytes = 0;
  #turn = 0;
  #fetchCount = 0;
  #isPlanned = false;
  #isStopped = false;
  #failure: OttlaError | undefined;

  /** `onProgress`: there is a chunk, a failure, or a partition has arrived at its start. */
  constructor(
    context: ClientContext,
    settings: FetchSettings,
    world: { readonly partitions: readonly ConsumerPartition[]; readonly onProgress: () => void },
  ) {
    this.#context = context;
    this.#settings = settings;
    this.#partitions = world.partitions;
    this.#onProgress = world.onProgress;
    this.#notes = new WaitNotes(context);
    this.#starts = new StartLook(context, {
      partitions: world.partitions,
      leaderOf: (partition) => this.#leaderOf(partition),
      heard: (partition) => this.#heard(partition),
      asked: (partition) => this.#asked(partition),
      refused: (partition, error) => this.#refused(partition, error ?? this.#leaderless(partition)),
      onProgress: () => {
        this.#onProgress();
        this.plan();
      },
      fail: (error) => this.fail(error),
    });
  }

  /** Ends the reading, once what was fetched before it has been given. */
  get failure(): OttlaError | undefined {
    return this.#failure;
  }

  /** Looks for work after everything of this turn. */
  plan(): void {
    if (this.#isPlanned || this.#isStopped) return;
    this.#isPlanned = true;
    this.#context.timers.defer(() => {
      this.#isPlanned = false;
      if (!this.#isStopped && this.#failure === undefined) this.#planNow();
    });
  }

  stop(): void {
    this.#isStopped = true;
    this.#notes.close();
    for (const { look } of this.#sources.values()) look.close();
    this.#chunks.clear();
  }

  /** The chunk to give from next; call `finish` when it has been given. */
  peek(): Chunk | undefined {
    for (;;) {
      const chunk = this.#chunks.peek();
      if (chunk === undefined || chunk.version === chunk.partition.version) return chunk;
      this.#drop();
    }
  }

  finish(chunk: Chunk): void {
    if (chunk.version === chunk.partition.version) chunk.partition.bufferedBytes -= chunk.bytes.length;
    this.#drop();
  }

  fail(error: OttlaError): void {
    this.#failure ??= error;
    this.#onProgress();
  }

  #drop(): void {
    const chunk = this.#chunks.shift();
    this.#bufferedBytes -= chunk?.bytes.length ?? 0;
    this.plan();
  }

  #planNow(): void {
    this.#starts.lookUp();
    const groups = new Map<BrokerLink, Ready[]>();
    const count = this.#partitions.length;
    this.#turn = (this.#turn + 1) % Math.max(1, count);
    for (let step = 0; step < count; step++) {
      const partition = this.#partitions[(this.#turn + step) % count] as ConsumerPartition;
      if (!this.#wantsFetch(partition)) continue;
      this.#assign(partition, groups);
    }
    for (const [link, ready] of groups) this.#fetchFrom(this.#source(link), ready);
  }

  #source(link: BrokerLink): FetchSource {
    let source = this.#sources.get(link);
    if (source === undefined) {
      const created = new FetchSource(this.#context, link, {
        topics: () =>
          new Set(this.#partitions.filter((one) => this.#leaderOf(one)?.link === link).map(({ topic }) => topic)),
        onLooked: () => this.#giveUpMoved(created),
      });
      this.#sources.set(link, created);
      source = created;
    }
    return source;
  }

  /** The broker is silent: partitions that another one leads by now are fetched there. */
  #giveUpMoved(source: FetchSource): void {
    for (const fetch of source.fetches) {
      const concerned = fetch.partitions.filter((partition) => partition.fetch === fetch);
      const moved = concerned.filter((partition) => this.#leaderOf(partition)?.link !== source.link);
      for (const partition of moved) partition.fetch = undefined;
      if (moved.length === concerned.length) this.#ended(source, fetch);
    }
    this.plan();
  }

  #wantsFetch(partition: ConsumerPartition): boolean {
    if (partition.fetchOffset < 0 || partition.needsLookUp) return false;
    if (partition.fetch !== undefined || partition.isBlocked) return false;
    const { endOffset, fetchOffset } = partition;
    if (endOffset !== undefined && fetchOffset >= endOffset && !partition.mustProbe) return false;
    return partition.bufferedBytes < 2 * this.#settings.maxPartitionBytes;
  }

  #assign(partition: ConsumerPartition, groups: Map<BrokerLink, Ready[]>): void {
    const leader = this.#leaderOf(partition);
    if (leader === undefined) return this.#refused(partition, this.#leaderless(partition));
    const { topic, metadata, link } = leader;
    if (partition.topicId !== undefined && partition.topicId !== topic.topicId) {
      partition.topicId = topic.topicId;
      return this.#lose(
        partition,
        new OttlaError("UNKNOWN_TOPIC_ID", `${partition.topic} was deleted and created again`),
        { isEndVoid: true },
      );
    }
    partition.topicId = topic.topicId;
    if (mustCheckHistory(partition, metadata)) return this.#checkHistory(partition, { link, metadata });
    const ready = { partition, leaderEpoch: metadata.leaderEpoch };
    const group = groups.get(link);
    if (group === undefined) groups.set(link, [ready]);
    else group.push(ready);
  }

  /** Whether what was read before is still there. */
  #checkHistory(
    partition: ConsumerPartition,
    { link, metadata }: { readonly link: BrokerLink; readonly metadata: PartitionMetadata },
  ): void {
    const { version } = partition;
    partition.isBlocked = true;
    this.#asked(partition);
    askHistory(partition, { link, metadata }).then(
      (history) => {
        partition.isBlocked = false;
        if (history instanceof OttlaError) return this.#refused(partition, history, link);
        if (partition.version === version && history === "lost")
          this.#lose(partition, lostHistory(partition), { isEndVoid: true });
        // What it was to read until may be gone all the same.
        else partition.endOffset = undefined;
        partition.checkedUncleanEpoch = metadata.uncleanEpoch;
        this.plan();
      },
      (error: unknown) => this.fail(asOttlaError(error)),
    );
  }

  #leaderOf({ topic: name, index }: ConsumerPartition) {
    const topic = this.#context.metadata.peek(name);
    const metadata = partitionOf(topic, index);
    const link = metadata === undefined ? undefined : this.#context.pool.linkOfNode(metadata.leader);
    return topic === undefined || metadata === undefined || link === undefined ? undefined : { topic, metadata, link };
  }

  #leaderless({ topic, index }: ConsumerPartition): OttlaError {
    return noLeader(topic, partitionOf(this.#context.metadata.peek(topic), index));
  }

  #fetchFrom(source: FetchSource, ready: readonly Ready[]): void {
    if (source.link.current === undefined) return this.#connect(source, ready);
    const underWay = source.fetches.size;
    const isBehind = ({ partition }: Ready) => partition.fetchOffset < partition.highWatermark;
    if (underWay === 0 && ready.filter(isBehind).length >= 2) {
      const half = Math.ceil(ready.length / 2);
      this.#fetch(source, ready.slice(0, half));
      this.#fetch(source, ready.slice(half));
    } else if (underWay < FETCHES_PER_BROKER_MAX) this.#fetch(source, ready);
  }

  #connect(source: FetchSource, ready: readonly Ready[]): void {
    if (source.connectingSinceMs !== undefined) return;
    const sinceMs = this.#context.alarms.nowMs();
    source.connectingSinceMs = sinceMs;
    source.look.asked();
    for (const { partition } of ready) this.#asked(partition);
    source.link.get().then(
      () => {
        source.connectingSinceMs = undefined;
        source.look.heard();
        this.plan();
      },
      (error: unknown) => {
        source.connectingSinceMs = undefined;
        source.look.unreachable(sinceMs);
        const failure = asOttlaError(error);
        const left = ready.filter(({ partition }) => this.#leaderOf(partition)?.link === source.link);
        for (const { partition } of left) this.#refused(partition, failure, source.link);
        // Those that others of this client know to be led elsewhere by now wait for nothing else.
        if (left.length < ready.length) this.plan();
      },
    );
  }

  #fetch(source: FetchSource, all: readonly Ready[]): void {
    const { link } = source;
    const { maxPartitionBytes, maxWaitMs, minBytes } = this.#settings;
    const ready = someOf(all);
    const taken = { bufferedBytes: this.#bufferedBytes, reservedBytes: this.#reservedBytes };
    const maxBytes = roomFor(ready.length, this.#settings, { ...taken, isIdle: source.fetches.size === 0 });
    if (link.current === undefined || maxBytes === 0) return;
    const partitions = ready.map(({ partition }) => partition);
    const fetch: Fetch = { partitions, maxBytes, dueMs: this.#context.alarms.nowMs() + maxWaitMs };
    this.#fetchCount++;
    for (const partition of partitions) {
      partition.fetch = fetch;
      partition.fetchNumber = this.#fetchCount;
      this.#asked(partition);
    }
    // The rest in another one.
    if (ready.length < all.length) this.plan();
    const answerMs = answerTimeoutMs(partitions);
    this.#reservedBytes += fetch.maxBytes;
    source.fetches.add(fetch);
    source.look.asked();
    link.current.request(
      API.FETCH,
      {
        request: { maxWaitMs: wireMs(maxWaitMs), minBytes, maxBytes, entries: entriesOf(ready, maxPartitionBytes) },
        bodies: [],
        timeoutMs: maxWaitMs + answerMs,
        isPatient: answerMs < ANSWER_TIMEOUT_MS,
      },
      {
        onAnswer: (response, bodies, isLast) => this.#onPart(source, fetch, { response, bodies, isLast }),
        onFailure: (error, isFromBroker) => {
          if (isFromBroker) source.look.heard();
          else source.look.lost();
          this.#onFailure(source, fetch, error);
        },
      },
    );
  }

  #onPart(
    source: FetchSource,
    fetch: Fetch,
    part: { readonly response: FetchResponse; readonly bodies: readonly Uint8Array[]; readonly isLast: boolean },
  ): void {
    source.look.heard();
    for (const entry of part.response.entries) {
      const partition = fetch.partitions[entry.index];
      // Void when the partition has moved meanwhile.
      if (this.#isStopped || partition?.fetch !== fetch) continue;
      this.#onEntry(source, partition, { entry, body: part.bodies[entry.body] });
    }
    if (part.isLast) this.#ended(source, fetch);
    this.#onProgress();
  }

  #onEntry(
    { link }: FetchSource,
    partition: ConsumerPartition,
    { entry, body }: { readonly entry: FetchResponse["entries"][number]; readonly body: Uint8Array | undefined },
  ): void {
    if (entry.error === "OFFSET_OUT_OF_RANGE") return this.#outOfRange(partition, entry);
    if (entry.error !== "NONE") return this.#refused(partition, new OttlaError(entry.error), link);
    this.#context.metadata.keepFresh(partition.topic, link);
    this.#heard(partition);
    partition.mustProbe = false;
    partition.lostCount = 0;
    // A new leader gives what it knows to be committed, and may not know yet, or say -1, how far that went under the one before.
    partition.highWatermark = Math.max(partition.highWatermark, entry.highWatermark);
    if (body === undefined || body.length === 0) return;
    try {
      let last = -1;
      forEachBatch(body, (position) => {
        last = position;
      });
      const nextOffset = lastOffsetAt(body, last) + 1;
      if (nextOffset <= partition.fetchOffset) throw new RangeError("batches that do not reach the asked offset");
      partition.lastRead = { nextOffset, leaderEpoch: leaderEpochAt(body, last), crc: crcAt(body, last) };
      this.#take(partition, body, nextOffset);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      this.#refused(partition, new OttlaError("CORRUPT_MESSAGE", error.message));
    }
  }

  #take(partition: ConsumerPartition, body: Uint8Array, nextOffset: number): void {
    const bytes = keepable(body);
    partition.fetchOffset = nextOffset;
    partition.highWatermark = Math.max(partition.highWatermark, nextOffset);
    partition.bufferedBytes += bytes.length;
    this.#bufferedBytes += bytes.length;
    const { version, topicId = "" } = partition;
    this.#chunks.push({ partition, version, topicId, bytes, at: 0 });
  }

  #ended(source: FetchSource, fetch: Fetch): void {
    if (!source.fetches.delete(fetch)) return;
    this.#reservedBytes -= fetch.maxBytes;
    for (const partition of fetch.partitions) if (partition.fetch === fetch) partition.fetch = undefined;
    this.plan();
  }

  #onFailure(source: FetchSource, fetch: Fetch, error: OttlaError): void {
    const concerned = fetch.partitions.filter((partition) => partition.fetch === fetch);
    this.#ended(source, fetch);
    for (const partition of concerned) {
      if (error.code === "REQUEST_TIMED_OUT") partition.timeoutCount++;
      this.#refused(partition, error, source.link);
    }
  }

  /** What was fetched before is given first; then the fetch that asks again decides. */
  #outOfRange(partition: ConsumerPartition, { logStartOffset }: { readonly logStartOffset: number }): void {
    if (partition.bufferedBytes > 0) return this.#block(partition, false);
    const isEndVoid = partition.fetchOffset > logStartOffset;
    if (this.#settings.onOutOfRange !== "error")
      return this.#lose(partition, new OttlaError("OFFSET_OUT_OF_RANGE"), { isEndVoid });
    const { topic, index, fetchOffset, version } = partition;
    const fail = (range: string) => {
      partition.isBlocked = false;
      this.plan();
      if (partition.version !== version) return;
      const message = `${topic}-${index}: offset ${fetchOffset} is outside of ${range}`;
      this.fail(new OttlaError("OFFSET_OUT_OF_RANGE", message));
    };
    partition.isBlocked = true;
    const ask = (timestamp: number) => ({ topic, partition: index, timestamp });
    lookUpOffsets(this.#context, [ask(EARLIEST_TIMESTAMP), ask(LATEST_TIMESTAMP)]).then(
      ([start, end]) => fail(`the valid range [${start}, ${end}]`),
      () => fail("what the log holds"),
    );
  }

  /** The position means nothing any more. `isEndVoid`: nor does the end that it was to read until: this log may never get there. */
  #lose(partition: ConsumerPartition, error: OttlaError, { isEndVoid }: { readonly isEndVoid: boolean }): void {
    const { onOutOfRange } = this.#settings;
    if (onOutOfRange === "error") return this.fail(error);
    const { topic, index, position } = partition;
    const reset = { topic, partition: index, position, to: onOutOfRange, reason: error.message };
    this.#context.logger.warn("consumer_position_reset", reset);
    if (isEndVoid) partition.endOffset = undefined;
    partition.jump(onOutOfRange);
    partition.highWatermark = -1;
    if (++partition.lostCount === 1) return this.plan();
    // A leader that refuses where it says that its log begins is asked no faster than the back-off allows.
    partition.failureCount = partition.lostCount;
    this.#block(partition, false);
  }

  #refused(partition: ConsumerPartition, error: OttlaError, by?: BrokerLink): void {
    if (this.#isStopped) return;
    // One of which nothing is left intact does not end the reading of the others (Consumer decides).
    if (!error.retriable && error.code !== "NO_INTACT_REPLICA") {
      const message = `${partition.topic}-${partition.index}: ${error.message}`;
      return this.fail(new OttlaError(error.code, message, { cause: error }));
    }
    if (isDamage(error.code) && ++partition.damageCount >= DAMAGE_MAX) {
      const where = `${partition.topic}-${partition.index} at offset ${partition.fetchOffset}`;
      return this.fail(new OttlaError(error.code, `${where}: ${error.message}`, { cause: error }));
    }
    const { topic, index } = partition;
    this.#context.logger.debug("fetch_refused", { topic, partition: index, code: error.code, reason: error.message });
    partition.lastError = error;
    this.#asked(partition);
    this.#notes.waits(topic, index, error.message);
    this.#block(partition, isStale(error.code), by);
    if (error.code === "NO_INTACT_REPLICA") this.#onProgress();
  }

  #block(partition: ConsumerPartition, isMetadataStale: boolean, refusedBy?: BrokerLink): void {
    if (partition.isBlocked) return;
    partition.isBlocked = true;
    partition.failureCount++;
    const attempt = partition.failureCount + (partition.damageCount > 0 ? DAMAGE_BACKOFF_STEPS : 0);
    const { alarms, rng } = this.#context;
    const backMs = backoffMs(attempt, rng);
    const unblock = () => {
      partition.isBlocked = false;
      this.plan();
    };
    if (!isMetadataStale && partition.failureCount < DOUBTED_FROM) return void alarms.after(backMs, unblock);
    const unblockLater = () =>
      alarms.after(isMetadataStale ? togetherMs(backMs, alarms.nowMs(), partition.failureCount) : backMs, unblock);
    this.#context.metadata.refreshElsewhere(partition.topic, refusedBy).then(
      (topic) => {
        const known = partitionOf(topic, partition.index);
        if (known === undefined) this.#missing(partition);
        if (isLedElsewhere(this.#context.pool, partition, known, refusedBy)) unblock();
        else unblockLater();
      },
      (error: unknown) => {
        if (isConfirmedGone(asOttlaError(error))) this.#missing(partition);
        unblockLater();
      },
    );
  }

  #missing(partition: ConsumerPartition): void {
    if (++partition.missingCount < MISSING_MAX || this.#isStopped) return;
    this.fail(
      new OttlaError("UNKNOWN_TOPIC_OR_PARTITION", `${partition.topic}-${partition.index} does not exist any more`),
    );
  }

  #asked(partition: ConsumerPartition): void {
    partition.waitingSinceMs ??= this.#context.alarms.nowMs();
  }

  #heard(partition: ConsumerPartition): void {
    partition.heard();
    this.#notes.goesOn(partition.topic, partition.index);
  }
}
