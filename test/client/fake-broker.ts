// size: one script of a broker, every answer of it in one place.
// A scripted broker: keeps partitions in memory, answers through the real codec, and misbehaves when a test says so.
import { concatBytes } from "../../src/base/bytes.ts";
import type { ErrorName, Outcome } from "../../src/model/errors.ts";
import type { NodeId, TopicId, Uuid } from "../../src/model/ids.ts";
import {
  contentAt,
  PRODUCERS_MAX,
  ProducerTable,
  type SequenceError,
  sequencedAt,
} from "../../src/model/producer-table.ts";
import {
  assignOffsets,
  baseOffsetAt,
  baseSequenceAt,
  batchSizeAt,
  lastOffsetAt,
  producerEpochAt,
  producerIdAt,
  recordCountAt,
} from "../../src/model/record-batch.ts";
import { buildControlBatch, decodeRecords, RecordBatchBuilder } from "../../src/model/records.ts";
import {
  API,
  type ApiKey,
  type ApiTypes,
  EARLIEST_TIMESTAMP,
  type FetchResponse,
  type InitProducerIdRequest,
  type InitProducerIdResponse,
  LATEST_TIMESTAMP,
  type ProduceRequest,
} from "../../src/wire/native/apis.ts";
import { encodeResponse, RequestAssembler, SUPPORTED_VERSIONS } from "../../src/wire/native/codec.ts";
import type { DecodedRequest, RequestHeader } from "../../src/wire/native/protocol.ts";
import type { MessageConnection } from "../../src/ports/transport.ts";
import { ADDRESS, toyCodecs, type World } from "./world.ts";

export interface FakePartition {
  batches: Uint8Array[];
  startOffset: number;
  leaderEpoch: number;
  error?: ErrorName;
  /** Default 1; -1 = none. */
  leader?: number;
  /** Default [1], also of the ISR. */
  replicas?: number[];
  isr?: number[];
  elr?: number[];
  /** What its leader says of each replica; default: all have everything. */
  durableEnds?: Record<number, number>;
  partitionEpoch?: number;
  uncleanEpoch?: number;
  /** What it tells of its end instead. */
  highWatermark?: number;
}

export interface FakeTopic {
  topicId: TopicId;
  isDeleting: boolean;
  maxMessageBytes: number;
  configs?: Record<string, string>;
  partitions: FakePartition[];
}

export type Verdict =
  | { readonly error: ErrorName; readonly outcome: Outcome }
  /** Appends, but the answer never comes. */
  | "swallow"
  /** Appends, then cuts the connection. */
  | "cut"
  | undefined;

type DescribePartitionsResponse = ApiTypes[typeof API.DESCRIBE_PARTITIONS]["response"];
type OneOf<Key extends ApiKey> = Extract<DecodedRequest, { readonly header: { readonly api: Key } }>;

const EMPTY_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA" as Uuid;

export class FakeBroker {
  readonly nodeId: NodeId;
  readonly address: string;
  /** Shared by the brokers of one cluster. */
  readonly topics: Map<string, FakeTopic>;
  readonly fleet: FakeBroker[];
  readonly requests: DecodedRequest[] = [];
  readonly connections: MessageConnection[] = [];
  readonly world: World;
  /** Called for each produced batch, before it is appended. */
  onProduce: (batch: { topic: string; partition: number; count: number; requestIndex: number }) => Verdict = () =>
    undefined;
  /** It has just begun to lead: it tells no end. */
  isEndUnknown = false;
  /** An error for a partition whose records are to be deleted. */
  onTrim: (entry: { partition: number; offset: number }) => ErrorName | undefined = () => undefined;
  /** An error for a fetched partition. */
  onFetch: (entry: { topic: string; partition: number; offset: number }) => ErrorName | "cut" | undefined = () =>
    undefined;
  /** Answers nothing but Hello and metadata while true. */
  isSilent = false;
  /** Each partition remembers so many. */
  producersMax = PRODUCERS_MAX;
  /** Bodies per part of a fetch answer. */
  entriesPerPart = 1_000;
  /** Handed out so far; of the first broker. */
  producerIds = 0;
  readonly named = new Map<string, InitProducerIdResponse>();
  initDelayMs = 0;
  initProducerError: () => ErrorName | undefined = () => undefined;
  createTopicsError: ErrorName | undefined;
  helloError: ErrorName | undefined;
  metadataDelayMs = 0;
  /** As a leader it knows a newer record of its partitions than the metadata: so much newer, with these out of sync. */
  newerEpochs = 0;
  readonly outOfSync = new Set<number>();
  fetchDelayMs = 0;
  #topicCount = 0;
  #listener: { close(): Promise<void> } | undefined;
  #produceRequestCount = 0;

  #ownTopics: Map<string, FakeTopic> | undefined;
  #isPaused = false;
  readonly #held: (() => void)[] = [];

  constructor(world: World, first?: FakeBroker) {
    this.world = world;
    this.topics = first?.topics ?? new Map();
    this.fleet = first?.fleet ?? [];
    this.nodeId = this.fleet.push(this) as number as NodeId;
    this.address = first === undefined ? ADDRESS : `broker-${this.nodeId}:7070`;
  }

  /** Another broker of the same cluster. */
  async join(): Promise<FakeBroker> {
    const broker = new FakeBroker(this.world, this);
    await broker.listen();
    return broker;
  }

  /** As a stopped process: connections are taken, and nothing is looked at until it goes on. */
  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    for (const handle of this.#held.splice(0)) handle();
  }

  /** As a broker that nothing reaches but clients: it goes on with the topics of this moment, and its own logs. */
  cutOff(): void {
    this.#ownTopics = structuredClone(this.topics);
  }

  get #seenTopics(): Map<string, FakeTopic> {
    return this.#ownTopics ?? this.topics;
  }

  static async start(world: World): Promise<FakeBroker> {
    const broker = new FakeBroker(world);
    await broker.listen();
    return broker;
  }

  async listen(): Promise<void> {
    this.#listener = await this.world.network.listen(this.address, (connection) => this.#serve(connection));
  }

  async stopListening(): Promise<void> {
    await this.#listener?.close();
  }

  cutAll(): void {
    for (const connection of this.connections.splice(0)) connection.close("cut by the test");
  }

  createTopic(name: string, partitionCount = 1, maxMessageBytes = 1_048_588): FakeTopic {
    const number = String(++this.#topicCount).padStart(4, "0");
    const topic: FakeTopic = {
      topicId: `${number}${EMPTY_TOPIC_ID.slice(4)}` as TopicId,
      isDeleting: false,
      maxMessageBytes,
      partitions: Array.from({ length: partitionCount }, () => ({ batches: [], startOffset: 0, leaderEpoch: 1 })),
    };
    this.topics.set(name, topic);
    return topic;
  }

  partition(topic: string, index = 0): FakePartition {
    return this.#seenTopics.get(topic)?.partitions[index] as FakePartition;
  }

  endOffset(partition: FakePartition): number {
    const last = partition.batches.at(-1);
    return last === undefined ? partition.startOffset : lastOffsetAt(last, 0) + 1;
  }

  /** Appends one batch with these values; with a producer id, the first one of that producer. */
  append(topic: string, values: readonly string[], index = 0, producerId = -1): void {
    const builder = new RecordBatchBuilder({ limitBytes: 10_000_000 });
    for (const value of values) {
      builder.tryAppend({ key: null, value: new TextEncoder().encode(value), headers: [], timestamp: 1_000 });
    }
    const { checksum } = this.world.deps;
    const producer = producerId < 0 ? {} : { producer: { producerId, producerEpoch: 0, baseSequence: 0 } };
    this.appendBatch(topic, builder.build({ compression: "none", codecs: toyCodecs, checksum, ...producer }), index);
  }

  appendControl(topic: string, index = 0): void {
    const { checksum } = this.world.deps;
    const batch = buildControlBatch({ type: "COMMIT", value: null, timestamp: 1_000, checksum });
    this.appendBatch(topic, batch, index);
  }

  appendBatch(topic: string, batch: Uint8Array, index = 0): number {
    const partition = this.partition(topic, index);
    const baseOffset = this.endOffset(partition);
    assignOffsets(batch, baseOffset, partition.leaderEpoch);
    partition.batches.push(batch);
    return baseOffset;
  }

  /** Values of all records of a partition, in order. */
  values(topic: string, index = 0): string[] {
    const { checksum } = this.world.deps;
    const options = { checksum, codecs: toyCodecs, decompressedBytesMax: 100_000_000 };
    return this.partition(topic, index).batches.flatMap((batch) =>
      [...decodeRecords(batch, options)].map((record) => new TextDecoder().decode(record.value ?? new Uint8Array())),
    );
  }

  of<K extends ApiKey>(api: K): OneOf<K>[] {
    return this.requests.filter((request): request is OneOf<K> => request.header.api === api);
  }

  #serve(connection: MessageConnection): void {
    this.connections.push(connection);
    const assembler = new RequestAssembler({ bodyBytesMax: 100_000_000 });
    connection.start({
      onReceive: (message) => {
        const assembled = assembler.push(message);
        if (assembled.kind === "broken") throw new Error(`broken: ${assembled.reason}`);
        if (assembled.kind !== "message") return;
        const handle = () => this.#handle(connection, assembled.message);
        if (this.#isPaused) this.#held.push(handle);
        else handle();
      },
      onClose: () => {},
      onDrain: () => {},
    });
  }

  #handle(connection: MessageConnection, request: DecodedRequest): void {
    this.requests.push(request);
    const { header } = request;
    if (header.api === API.HELLO && this.helloError !== undefined) {
      const { api, version, correlationId } = header;
      const refused = { api, version, correlationId, more: false, error: this.helloError, message: null };
      return connection.send(encodeResponse(refused, null, []));
    }
    if (header.api === API.HELLO) return this.#answer(connection, header, this.#hello());
    if (header.api === API.METADATA) {
      const answer = this.#metadata((request as OneOf<typeof API.METADATA>).request);
      if (this.metadataDelayMs === 0) return this.#answer(connection, header, answer);
      this.world.time.timers.after(this.metadataDelayMs, () => this.#answer(connection, header, answer));
      return;
    }
    if (header.api === API.PRODUCE) return this.#produce(connection, request as OneOf<typeof API.PRODUCE>);
    if (header.api === API.INIT_PRODUCER_ID)
      return this.#initProducer(connection, request as OneOf<typeof API.INIT_PRODUCER_ID>);
    if (this.isSilent) return;
    if (header.api === API.FETCH) return this.#fetch(connection, request as OneOf<typeof API.FETCH>);
    if (header.api === API.LIST_OFFSETS)
      return this.#listOffsets(connection, request as OneOf<typeof API.LIST_OFFSETS>);
    if (header.api === API.DESCRIBE_PARTITIONS)
      return this.#answer(connection, header, this.#partitions(request as OneOf<typeof API.DESCRIBE_PARTITIONS>));
    if (header.api === API.DELETE_RECORDS)
      return this.#answer(connection, header, this.#trim(request as OneOf<typeof API.DELETE_RECORDS>));
    if (header.api === API.CREATE_TOPICS) return this.#create(connection, request as OneOf<typeof API.CREATE_TOPICS>);
    if (header.api === API.DELETE_TOPICS) return this.#delete(connection, request as OneOf<typeof API.DELETE_TOPICS>);
    const { api, version, correlationId } = header;
    const refused = { api, version, correlationId, more: false, error: "UNSUPPORTED_VERSION", message: null } as const;
    connection.send(encodeResponse(refused, null, []));
  }

  #answer<K extends ApiKey>(
    connection: MessageConnection,
    header: RequestHeader & { readonly api: K },
    response: ApiTypes[K]["response"],
    how: { readonly bodies?: readonly Uint8Array[]; readonly more?: boolean } = {},
  ): void {
    const { api, version, correlationId } = header;
    const answer = { api, version, correlationId, more: how.more ?? false, error: "NONE" as const, message: null };
    connection.send(encodeResponse(answer, response, how.bodies ?? []));
  }

  #hello(): ApiTypes[typeof API.HELLO]["response"] {
    return {
      clusterId: EMPTY_TOPIC_ID,
      nodeId: this.nodeId,
      brokerEpoch: 1,
      software: "fake",
      apis: SUPPORTED_VERSIONS.map((row) => ({ ...row })),
      messageBytesMax: 100_000_000,
      inFlightBytesMax: 64 * 1024 * 1024,
    };
  }

  #metadata(request: ApiTypes[typeof API.METADATA]["request"]): ApiTypes[typeof API.METADATA]["response"] {
    const names = (request.topics ?? [...this.topics.keys()]).toSorted();
    const rest = names.filter((name) => request.after === null || name > request.after);
    const page = request.topics === null ? rest.slice(0, 3) : rest;
    return {
      clusterId: EMPTY_TOPIC_ID,
      controllerId: 1,
      brokers: this.fleet.map(({ nodeId, address }) => ({ nodeId, address, isFenced: false })),
      topics: page.map((name) => this.#describe(name)),
      next: page.length < rest.length ? (page.at(-1) ?? null) : null,
      metadataEnd: -1,
    };
  }

  #describe(name: string): ApiTypes[typeof API.METADATA]["response"]["topics"][number] {
    const topic = this.#seenTopics.get(name);
    return {
      name,
      error: topic === undefined ? "UNKNOWN_TOPIC_OR_PARTITION" : "NONE",
      topicId: topic?.topicId ?? EMPTY_TOPIC_ID,
      isDeleting: topic?.isDeleting ?? false,
      maxMessageBytes: topic?.maxMessageBytes ?? 0,
      configs: Object.entries(topic?.configs ?? {}).map(([key, value]) => ({ key, value })),
      partitions: (topic?.partitions ?? []).map((partition, index) => ({
        index,
        error: partition.error ?? ("NONE" as const),
        leader: partition.leader ?? 1,
        leaderEpoch: partition.leaderEpoch,
        replicas: partition.replicas ?? [1],
        isr: partition.isr ?? [1],
        elr: partition.elr ?? [],
        partitionEpoch: partition.partitionEpoch ?? 0,
        minIsr: 1,
        uncleanEpoch: partition.uncleanEpoch ?? -1,
      })),
    };
  }

  #partitions({ request }: OneOf<typeof API.DESCRIBE_PARTITIONS>): DescribePartitionsResponse {
    return { entries: request.entries.map(({ topicId, partition }) => this.#progress(topicId, partition)) };
  }

  #trim({ request }: OneOf<typeof API.DELETE_RECORDS>): ApiTypes[typeof API.DELETE_RECORDS]["response"] {
    const entries = request.entries.map(({ topicId, partition: index, offset }) => {
      const partition = this.#find(topicId, index)?.partition;
      const error = this.onTrim({ partition: index, offset });
      if (partition === undefined || !this.#leads(partition) || error !== undefined)
        return { error: error ?? "NOT_LEADER_OR_FOLLOWER", message: null, lowWatermark: -1 };
      partition.startOffset = Math.max(partition.startOffset, offset);
      return { error: "NONE" as const, message: null, lowWatermark: partition.startOffset };
    });
    return { entries };
  }

  #progress(topicId: string, index: number): DescribePartitionsResponse["entries"][number] {
    const partition = this.#find(topicId, index)?.partition;
    const nothing = { logStartOffset: -1, highWatermark: -1, endOffset: -1, durableEnd: -1, replicas: [] };
    if (partition?.leader === -1 && partition.durableEnds?.[this.nodeId] !== undefined) {
      const own = partition.durableEnds[this.nodeId] as number;
      const ends = { logStartOffset: 0, highWatermark: 0, endOffset: own, durableEnd: own, replicas: [] };
      const { leaderEpoch } = partition;
      return { error: "NOT_LEADER_OR_FOLLOWER", leaderEpoch: leaderEpoch - 1, partitionEpoch: 0, ...ends };
    }
    if (partition === undefined || (partition.leader ?? 1) !== this.nodeId)
      return { error: "NOT_LEADER_OR_FOLLOWER", leaderEpoch: -1, partitionEpoch: -1, ...nothing };
    const endOffset = this.endOffset(partition);
    const { replicas = [1], isr = replicas, durableEnds = {}, leaderEpoch, partitionEpoch = 0 } = partition;
    const endOf = (nodeId: number) => durableEnds[nodeId] ?? endOffset;
    return {
      error: "NONE",
      leaderEpoch,
      partitionEpoch: partitionEpoch + this.newerEpochs,
      logStartOffset: partition.startOffset,
      highWatermark: Math.min(...isr.map(endOf)),
      endOffset,
      durableEnd: endOf(this.nodeId),
      replicas: replicas.map((nodeId) => ({
        nodeId,
        endOffset: endOf(nodeId),
        durableEnd: endOf(nodeId),
        caughtUpMsAgo: endOf(nodeId) < 0 ? -1 : 0,
        isInSync: isr.includes(nodeId) && !this.outOfSync.has(nodeId),
      })),
    };
  }

  #find(topicId: string, index: number): { name: string; partition: FakePartition } | undefined {
    for (const [name, topic] of this.#seenTopics) {
      const partition = topic.partitions[index];
      if (topic.topicId === topicId && partition !== undefined) return { name, partition };
    }
    return undefined;
  }

  #produce(connection: MessageConnection, { header, request, bodies }: OneOf<typeof API.PRODUCE>): void {
    const requestIndex = this.#produceRequestCount++;
    let isAnswered = request.acks !== 0;
    const entries = request.entries.map((entry, index) => {
      const found = this.#find(entry.topicId, entry.partition);
      const body = bodies[index] as Uint8Array;
      if (found === undefined) return refusal("UNKNOWN_TOPIC_ID", "not appended");
      if (!this.#leads(found.partition)) return refusal("NOT_LEADER_OR_FOLLOWER", "not appended");
      const { name: topic } = found;
      const verdict = this.onProduce({
        topic,
        partition: entry.partition,
        count: recordCountAt(body, 0),
        requestIndex,
      });
      if (typeof verdict === "object") return refusal(verdict.error, verdict.outcome);
      if (verdict !== undefined || this.isSilent) isAnswered = false;
      const baseOffset = this.#appendOnce(topic, body, entry);
      if (verdict === "cut") connection.close("cut by the test");
      if (typeof baseOffset === "string") return refusal(baseOffset, "not appended");
      return { error: "NONE" as const, outcome: "appended" as const, baseOffset, logStartOffset: 0, message: null };
    });
    if (isAnswered) this.#answer(connection, header, { entries });
  }

  /** The offset of the batch, as new or as it was (P-2). */
  #appendOnce(
    topic: string,
    body: Uint8Array,
    { partition: index, isResent }: ProduceRequest["entries"][number],
  ): number | SequenceError {
    const producerId = producerIdAt(body, 0);
    const producerEpoch = producerEpochAt(body, 0);
    const baseSequence = baseSequenceAt(body, 0);
    const batch = { producerId, producerEpoch, baseSequence };
    if (this.#isFenced(producerId, producerEpoch)) return "INVALID_PRODUCER_EPOCH";
    if (producerId >= 0) {
      const table = producersOf(this.partition(topic, index), this.producersMax);
      const verdict = table.check({ ...batch, recordCount: recordCountAt(body, 0), crc: contentAt(body, 0), isResent });
      if (verdict.kind === "refused") return verdict.error;
      if (verdict.kind === "duplicate") return verdict.baseOffset;
    }
    return this.appendBatch(topic, new Uint8Array(body), index);
  }

  #initProducer(connection: MessageConnection, { header, request }: OneOf<typeof API.INIT_PRODUCER_ID>): void {
    const { api, version, correlationId } = header;
    const error = this.initProducerError();
    if (error !== undefined)
      return connection.send(
        encodeResponse({ api, version, correlationId, more: false, error, message: null }, null, []),
      );
    const granted = this.#grant(request);
    if (this.initDelayMs === 0) return this.#answer(connection, header, granted);
    this.world.time.timers.after(this.initDelayMs, () => this.#answer(connection, header, granted));
  }

  #grant({ name }: InitProducerIdRequest): InitProducerIdResponse {
    const [first] = this.fleet as [FakeBroker];
    const held = name === null ? undefined : first.named.get(name);
    const granted =
      held === undefined
        ? { producerId: ++first.producerIds, producerEpoch: 0 }
        : { ...held, producerEpoch: held.producerEpoch + 1 };
    if (name !== null) first.named.set(name, granted);
    return granted;
  }

  /** Another producer of that name has begun. */
  #isFenced(producerId: number, producerEpoch: number): boolean {
    const [first] = this.fleet as [FakeBroker];
    return [...first.named.values()].some(
      (held) => held.producerId === producerId && held.producerEpoch > producerEpoch,
    );
  }

  #fetch(connection: MessageConnection, { header, request }: OneOf<typeof API.FETCH>): void {
    const bodies: Uint8Array[] = [];
    const entries: FetchResponse["entries"][number][] = [];
    for (const [index, entry] of request.entries.entries()) {
      const found = this.#find(entry.topicId, entry.partition);
      const forced = found && this.onFetch({ topic: found.name, partition: entry.partition, offset: entry.offset });
      if (forced === "cut") return connection.close("cut by the test");
      const error =
        found === undefined ? "UNKNOWN_TOPIC_ID" : (forced ?? this.#fetchError(found.partition, entry.offset));
      const end = found === undefined ? 0 : this.endOffset(found.partition);
      const body = error === undefined && found !== undefined ? this.#read(found.partition, entry) : undefined;
      if (body !== undefined) bodies.push(body);
      entries.push({
        index,
        error: error ?? "NONE",
        leaderEpoch: 1,
        logStartOffset: found?.partition.startOffset ?? 0,
        highWatermark: this.isEndUnknown ? -1 : (found?.partition.highWatermark ?? end),
        lastStableOffset: this.isEndUnknown ? -1 : end,
        body: body === undefined ? -1 : bodies.length - 1,
      });
    }
    const hasNews = bodies.length > 0 || entries.some((entry) => entry.error !== "NONE");
    const send = () => this.#sendParts(connection, header, entries, bodies);
    if (hasNews && this.fetchDelayMs === 0) return send();
    if (hasNews) {
      this.world.time.timers.after(this.fetchDelayMs, send);
      return;
    }
    this.world.time.timers.after(request.maxWaitMs, () => this.#fetchAgain(connection, { header, request }, send));
  }

  /** The end of a long poll: what is there then. */
  #fetchAgain(
    connection: MessageConnection,
    { header, request }: Pick<OneOf<typeof API.FETCH>, "header" | "request">,
    send: () => void,
  ): void {
    const hasGrown = request.entries.some((entry) => {
      const found = this.#find(entry.topicId, entry.partition);
      return found !== undefined && this.endOffset(found.partition) > entry.offset;
    });
    if (hasGrown) this.#fetch(connection, { header, request, bodies: [] } as OneOf<typeof API.FETCH>);
    else send();
  }

  #sendParts(
    connection: MessageConnection,
    header: RequestHeader & { readonly api: typeof API.FETCH },
    entries: readonly FetchResponse["entries"][number][],
    bodies: readonly Uint8Array[],
  ): void {
    for (let from = 0; from < Math.max(1, entries.length); from += this.entriesPerPart) {
      const part = entries.slice(from, from + this.entriesPerPart);
      const partBodies: Uint8Array[] = [];
      const renumbered = part.map((entry) => {
        if (entry.body < 0) return entry;
        partBodies.push(bodies[entry.body] as Uint8Array);
        return { ...entry, body: partBodies.length - 1 };
      });
      const more = from + this.entriesPerPart < entries.length;
      this.#answer(connection, header, { entries: renumbered }, { bodies: partBodies, more });
    }
  }

  #leads(partition: FakePartition): boolean {
    return (partition.leader ?? 1) === this.nodeId;
  }

  #fetchError(partition: FakePartition, offset: number): ErrorName | undefined {
    if (!this.#leads(partition)) return "NOT_LEADER_OR_FOLLOWER";
    return offset < partition.startOffset || offset > this.endOffset(partition) ? "OFFSET_OUT_OF_RANGE" : undefined;
  }

  #read(partition: FakePartition, entry: { offset: number; maxBytes: number }): Uint8Array | undefined {
    const batches: Uint8Array[] = [];
    let bytes = 0;
    for (const batch of partition.batches) {
      if (lastOffsetAt(batch, 0) < entry.offset) continue;
      if (batches.length > 0 && bytes + batchSizeAt(batch, 0) > entry.maxBytes) break;
      batches.push(batch);
      bytes += batch.length;
    }
    return batches.length === 0 ? undefined : concatBytes(batches);
  }

  #listOffsets(connection: MessageConnection, { header, request }: OneOf<typeof API.LIST_OFFSETS>): void {
    const entries = request.entries.map((entry) => {
      const found = this.#find(entry.topicId, entry.partition);
      if (found === undefined)
        return { error: "UNKNOWN_TOPIC_ID" as const, offset: -1, timestamp: -1, leaderEpoch: -1 };
      const { partition } = found;
      if (!this.#leads(partition))
        return { error: "NOT_LEADER_OR_FOLLOWER" as const, offset: -1, timestamp: -1, leaderEpoch: -1 };
      let offset = -1;
      if (entry.timestamp === EARLIEST_TIMESTAMP) offset = partition.startOffset;
      else if (entry.timestamp === LATEST_TIMESTAMP) offset = this.endOffset(partition);
      else if (entry.timestamp <= 1_000 && partition.batches[0]) offset = baseOffsetAt(partition.batches[0], 0);
      return { error: "NONE" as const, offset, timestamp: -1, leaderEpoch: 1 };
    });
    this.#answer(connection, header, { entries });
  }

  #create(connection: MessageConnection, { header, request }: OneOf<typeof API.CREATE_TOPICS>): void {
    const topics = request.topics.map(({ name, partitions }) => {
      const error = this.createTopicsError ?? (this.topics.has(name) ? "TOPIC_ALREADY_EXISTS" : "NONE");
      const count = partitions < 0 ? 1 : partitions;
      if (error !== "NONE") return { name, error, message: null, topicId: null, partitions: 0 };
      const topicId = request.validateOnly ? null : this.createTopic(name, count).topicId;
      return { name, error, message: null, topicId, partitions: count };
    });
    this.#answer(connection, header, { topics });
  }

  #delete(connection: MessageConnection, { header, request }: OneOf<typeof API.DELETE_TOPICS>): void {
    const topics = request.names.map((name) => {
      const topic = this.topics.get(name);
      if (topic === undefined) return { name, error: "UNKNOWN_TOPIC_OR_PARTITION" as const, message: null };
      topic.isDeleting = true;
      this.world.time.timers.after(700, () => this.topics.delete(name));
      return { name, error: "NONE" as const, message: null };
    });
    this.#answer(connection, header, { topics });
  }
}

function refusal(error: ErrorName, outcome: Outcome) {
  return { error, outcome, baseOffset: -1, logStartOffset: -1, message: null };
}

/** Of what is there now: tests change logs as they like. */
function producersOf({ batches, startOffset }: FakePartition, most: number): ProducerTable {
  const table = new ProducerTable(startOffset, most);
  for (const batch of batches) table.observe(sequencedAt(batch, 0));
  return table;
}
