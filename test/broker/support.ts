// A broker in the simulated world for tests: virtual time, a simulated disk and network, and a client that speaks bare requests.
import { createSimHost } from "../../scripts/sim-host.ts";
import { utf8Encode } from "../../src/base/bytes.ts";
import { type Broker, type BrokerDeps, createBroker } from "../../src/broker/broker.ts";
import { type BrokerConfig, brokerConfigOf } from "../../src/model/config.ts";
import type { ErrorName, OttlaError } from "../../src/model/errors.ts";
import type { ProducerFields } from "../../src/model/batch-header.ts";
import type { TopicId } from "../../src/model/ids.ts";
import { RecordBatchBuilder } from "../../src/model/records.ts";
import type { Counter, Gauge, Histogram, Metrics } from "../../src/ports/metrics.ts";
import type { MessageConnection } from "../../src/ports/transport.ts";
import { type CrashKind, SimDisk } from "../../src/sim/disk.ts";
import { decodeCommand } from "../../src/metadata/codec.ts";
import { readSuperblockAt } from "../../src/storage/superblock.ts";
import { openRaftStore } from "../../src/storage/raft-store.ts";
import type { RaftStore } from "../../src/storage/raft-types.ts";
import type { MetadataRecord } from "../../src/metadata/records.ts";
import { SimNetwork } from "../../src/sim/network.ts";
import { createSimLogger } from "../../src/sim/sim-ports.ts";
import { createSimClock, createSimEntropy, createSimTimers, type Incarnation, SimWorld } from "../../src/sim/world.ts";
import {
  API,
  type ApiKey,
  type ApiTypes,
  type FetchRequest,
  type FetchResponse,
  type ProduceResponse,
} from "../../src/wire/native/apis.ts";
import { encodeRequest, ResponseAssembler } from "../../src/wire/native/codec.ts";
import type { DecodedResponse } from "../../src/wire/native/protocol.ts";

const host = await createSimHost();
const LATENCIES = { readMs: 0.05, writeMs: 0.05, syncMs: 0.5, directoryMs: 0.02 };
const NO_WRITE = { hardState: null, resetLogTo: null, cutSuffixTo: null, entries: [], cutPrefixTo: null };

export interface WorldSettings {
  readonly config?: Readonly<Record<string, unknown>>;
  readonly capacityBytes?: number;
  readonly seed?: number;
  /** Mean time of a sync: long ones leave a gap between written and durable. */
  readonly syncMs?: number;
  /** Beside others in one world. Default: alone, as node1. */
  readonly beside?: { readonly world: SimWorld; readonly network: SimNetwork; readonly name: string };
  readonly metadataVersions?: { readonly min: number; readonly max: number };
  readonly raftSettings?: BrokerDeps["raftSettings"];
}

export function makeWorld(seed = 1): { world: SimWorld; network: SimNetwork } {
  const world = new SimWorld({ seed, host });
  return {
    world,
    network: new SimNetwork(world, { link: { delayMs: 0.1, bandwidth: 1_000_000, windowBytes: 256 * 1024 } }),
  };
}

/** Gauges and counters by name, to be looked at; labels are not told apart. */
class KeptMetrics implements Metrics {
  readonly values = new Map<string, number>();

  counter(name: string): Counter {
    return { add: (amount) => void this.values.set(name, (this.values.get(name) ?? 0) + amount) };
  }

  gauge(name: string): Gauge {
    return { set: (value) => void this.values.set(name, value) };
  }

  histogram(): Histogram {
    return { observe: () => undefined };
  }
}

export class BrokerWorld {
  readonly world: SimWorld;
  readonly network: SimNetwork;
  readonly name: string;
  readonly address: string;
  disk: SimDisk;
  metadataVersions: WorldSettings["metadataVersions"];
  /** Watches the replicas of the next process. */
  replicaProbe: BrokerDeps["replicaProbe"];
  readonly #raftSettings: WorldSettings["raftSettings"];
  readonly #capacityBytes: number;
  #disks = 0;
  /** Of the disk; may be changed on the way. */
  readonly latencies: { readMs: number; writeMs: number; syncMs: number; directoryMs: number };
  readonly config: BrokerConfig;
  readonly fatal: OttlaError[] = [];
  metrics = new KeptMetrics();
  #process: { readonly incarnation: Incarnation; readonly broker: Broker } | undefined;
  #boots = 0;
  #bootId = 0;

  constructor(settings: WorldSettings = {}) {
    const { world, network, name } = settings.beside ?? { ...makeWorld(settings.seed), name: "node1" };
    this.world = world;
    this.network = network;
    this.name = name;
    this.address = `${name}:7070`;
    this.metadataVersions = settings.metadataVersions;
    this.#raftSettings = settings.raftSettings;
    this.latencies = { ...LATENCIES, syncMs: settings.syncMs ?? LATENCIES.syncMs };
    this.#capacityBytes = settings.capacityBytes ?? 2 ** 30;
    this.disk = this.#newDisk();
    this.config = brokerConfigOf({
      "node.id": 1,
      "data.dir": "/data",
      listeners: this.address,
      "journal.bytes": "1MiB",
      "disk.low.space.bytes": "1MiB",
      "disk.reserve.bytes": "64KiB",
      "default.replication.factor": 1,
      ...settings.config,
    });
  }

  #newDisk(): SimDisk {
    return new SimDisk(this.world, `disk of ${this.name} ${++this.#disks}`, {
      latencies: this.latencies,
      capacityBytes: this.#capacityBytes,
    });
  }

  /** The disk is replaced by an empty one; the broker is down. */
  replaceDisk(): SimDisk {
    const old = this.disk;
    this.disk = this.#newDisk();
    return old;
  }

  get isUp(): boolean {
    return this.#process?.incarnation.isAlive === true;
  }

  get broker(): Broker {
    if (this.#process === undefined) throw new Error("no broker runs");
    return this.#process.broker;
  }

  async start(): Promise<void> {
    await this.world.settle(this.begin());
  }

  /** Starts without letting the world run. */
  begin(): Promise<void> {
    const { world } = this;
    const incarnation = world.startIncarnation(this.name);
    this.network.booted(this.name);
    this.metrics = new KeptMetrics();
    const broker = createBroker(
      {
        clock: createSimClock(world, incarnation),
        timers: createSimTimers(world, incarnation),
        files: this.disk.files(incarnation),
        transport: this.network.messages(incarnation),
        checksum: world.checksum,
        codecs: host.codecs,
        entropy: createSimEntropy(world, incarnation),
        logger: createSimLogger(world, this.name),
        metrics: this.metrics,
        rng: world.fork(`broker ${this.name} ${++this.#boots}`),
        bootId: `boot ${this.#bootId}`,
        ...(this.replicaProbe === undefined ? {} : { replicaProbe: this.replicaProbe }),
        ...(this.metadataVersions === undefined ? {} : { metadataVersions: this.metadataVersions }),
        ...(this.#raftSettings === undefined ? {} : { raftSettings: this.#raftSettings }),
      },
      this.config,
    );
    broker.onFatal((error) => this.fatal.push(error));
    this.#process = { incarnation, broker };
    return broker.start();
  }

  async stop(): Promise<void> {
    await this.world.settle(this.broker.stop());
    this.#process?.incarnation.end();
    if (this.#process !== undefined) this.network.forget(this.#process.incarnation);
  }

  crash(kind: CrashKind): void {
    if (this.#process === undefined) return;
    this.#process.incarnation.end();
    this.network.forget(this.#process.incarnation);
    this.disk.crash(kind);
    if (kind === "power loss") this.#bootId++;
  }

  /** Of the metadata log of a stopped broker, committed or not. */
  async metadataCommands(): Promise<(readonly MetadataRecord[])[]> {
    const commands: (readonly MetadataRecord[])[] = [];
    await this.#withMetadataLog(async ({ restored }) => {
      for (const { kind, index, bytes } of restored.log.entries)
        if (kind === "command") commands.push(decodeCommand(bytes, index));
    });
    return commands;
  }

  async metadataRecords(): Promise<MetadataRecord[]> {
    return (await this.metadataCommands()).flat();
  }

  /** Puts a command into the metadata log of a stopped broker, as another build would. */
  async appendMetadata(bytes: Uint8Array): Promise<void> {
    await this.#withMetadataLog((store) => {
      const { entries } = store.restored.log;
      const last = entries.at(-1);
      if (last === undefined) throw new Error("an empty metadata log");
      const entry = { index: last.index + 1, term: last.term, kind: "command" as const, bytes };
      return store.write({ ...NO_WRITE, entries: [entry] });
    });
  }

  async #withMetadataLog(work: (store: RaftStore) => Promise<unknown>): Promise<void> {
    const { world } = this;
    const owner = world.startIncarnation("reader");
    const deps = {
      files: this.disk.files(owner),
      clock: createSimClock(world, owner),
      timers: createSimTimers(world, owner),
      checksum: world.checksum,
      codecs: host.codecs,
      entropy: createSimEntropy(world, owner),
      logger: createSimLogger(world, "reader"),
      metrics: new KeptMetrics(),
      bootId: "reader",
    };
    const { block } = await world.settle(readSuperblockAt(deps, "/data/superblock"));
    const opening = openRaftStore(deps, { directory: "/data/metadata", segmentBytes: 2 ** 23, owner: block });
    const store = await world.settle(opening);
    await world.settle(work(store));
    await world.settle(store.close());
  }

  /** A connection that has not said Hello. */
  async dial(): Promise<TestClient> {
    const incarnation = this.world.startIncarnation("client");
    const connection = await this.world.settle(this.network.messages(incarnation).connect(this.address));
    return new TestClient(this.world, connection);
  }

  async connect(): Promise<TestClient> {
    const client = await this.dial();
    await client.call(API.HELLO, { clientId: "test", software: "test/1" });
    return client;
  }
}

/** A running broker and a client. */
export async function startWorld(settings: WorldSettings = {}): Promise<{ broker: BrokerWorld; client: TestClient }> {
  const broker = new BrokerWorld(settings);
  await broker.start();
  return { broker, client: await broker.connect() };
}

export interface Answer<K extends ApiKey> {
  readonly error: ErrorName;
  readonly message: string | null;
  /** Of the last part. */
  readonly response: ApiTypes[K]["response"];
  readonly bodies: readonly Uint8Array[];
  readonly parts: readonly DecodedResponse[];
}

interface Pending {
  readonly parts: DecodedResponse[];
  readonly resolve: (parts: readonly DecodedResponse[]) => void;
}

export interface CallOptions {
  readonly bodies?: readonly Uint8Array[];
  readonly deadlineMs?: number;
  readonly version?: number;
}

export class TestClient {
  readonly connection: MessageConnection;
  readonly #world: SimWorld;
  readonly #assembler = new ResponseAssembler({ bodyBytesMax: 2 ** 26 });
  readonly #pending = new Map<number, Pending>();
  /** Answers in the order they came, by correlation id. */
  readonly answered: number[] = [];
  /** Errors that answer no request sent with `send`. */
  readonly strays: ErrorName[] = [];
  closedWith: string | undefined;
  #nextId = 1;

  constructor(world: SimWorld, connection: MessageConnection) {
    this.#world = world;
    this.connection = connection;
    connection.start({
      onReceive: (message) => this.#receive(message),
      onClose: (reason) => {
        this.closedWith = reason;
      },
      onDrain: () => undefined,
    });
  }

  /** Sends without waiting. */
  send<K extends ApiKey>(api: K, request: ApiTypes[K]["request"], options: CallOptions = {}): Promise<Answer<K>> {
    const correlationId = this.#nextId++;
    const header = { api, version: options.version ?? 0, correlationId, deadlineMs: options.deadlineMs ?? 0 };
    this.connection.send(encodeRequest(header, request, options.bodies ?? []));
    return new Promise((resolve) => {
      this.#pending.set(correlationId, { parts: [], resolve: (parts) => resolve(answerOf<K>(parts)) });
    });
  }

  call<K extends ApiKey>(api: K, request: ApiTypes[K]["request"], options: CallOptions = {}): Promise<Answer<K>> {
    return this.#world.settle(this.send(api, request, options));
  }

  async createTopic(
    name: string,
    options: { partitions?: number; configs?: Record<string, string>; replicationFactor?: number } = {},
  ): Promise<TopicId> {
    const configs = Object.entries(options.configs ?? {}).map(([key, value]) => ({ key, value }));
    const topics = [
      { name, partitions: options.partitions ?? 1, replicationFactor: options.replicationFactor ?? -1, configs },
    ];
    const { response } = await this.call(API.CREATE_TOPICS, { validateOnly: false, topics, requestId: null });
    const [created] = response.topics;
    if (created?.error !== "NONE" || created.topicId === null)
      throw new Error(`${created?.error}: ${created?.message}`);
    return created.topicId;
  }

  sendProduce(topicId: TopicId, batch: Uint8Array, options: ProduceOptions = {}): Promise<Answer<typeof API.PRODUCE>> {
    const entry = {
      topicId,
      partition: options.partition ?? 0,
      leaderEpoch: options.leaderEpoch ?? -1,
      isResent: options.isResent ?? false,
    };
    const request = { acks: options.acks ?? -1, timeoutMs: options.timeoutMs ?? 5_000, entries: [entry] };
    return this.send(API.PRODUCE, request, { bodies: [batch] });
  }

  async produce(
    topicId: TopicId,
    batch: Uint8Array,
    options: ProduceOptions = {},
  ): Promise<ProduceResponse["entries"][number]> {
    const { error, message, response } = await this.#world.settle(this.sendProduce(topicId, batch, options));
    const entry = response?.entries[0];
    if (error !== "NONE" || entry === undefined) throw new Error(`${error}: ${message}`);
    return entry;
  }

  sendFetch(topicId: TopicId, offset: number, options: FetchOptions = {}): Promise<Answer<typeof API.FETCH>> {
    const { partition = 0, leaderEpoch = -1, minBytes = 1, maxWaitMs = 0, maxBytes = 2 ** 20 } = options;
    const entry = { topicId, partition, leaderEpoch, offset, maxBytes: options.partitionMaxBytes ?? 2 ** 20 };
    return this.send(API.FETCH, { maxWaitMs, minBytes, maxBytes, entries: [entry] } satisfies FetchRequest);
  }

  async fetch(topicId: TopicId, offset: number, options: FetchOptions = {}): Promise<FetchedEntry> {
    const answer = await this.#world.settle(this.sendFetch(topicId, offset, options));
    const entry = answer.response?.entries[0];
    if (entry === undefined) throw new Error(`${answer.error}: ${answer.message}`);
    return { ...entry, bytes: answer.bodies[entry.body] ?? new Uint8Array(0) };
  }

  async metadata(
    topics: readonly string[] | null = null,
    after: string | null = null,
  ): Promise<ApiTypes[typeof API.METADATA]["response"]> {
    return (await this.call(API.METADATA, { topics, after, barrier: false })).response;
  }

  #receive(message: Uint8Array): void {
    const assembled = this.#assembler.push(message);
    if (assembled.kind === "broken") throw new Error(`${assembled.error}: ${assembled.reason}`);
    if (assembled.kind === "incomplete") return;
    const { correlationId, more } = assembled.message.header;
    const pending = this.#pending.get(correlationId);
    if (pending === undefined) {
      this.strays.push(assembled.message.header.error);
      return;
    }
    pending.parts.push(assembled.message);
    if (more) return;
    this.answered.push(correlationId);
    this.#pending.delete(correlationId);
    pending.resolve(pending.parts);
  }
}

export interface ProduceOptions {
  readonly acks?: number;
  readonly partition?: number;
  readonly leaderEpoch?: number;
  readonly isResent?: boolean;
  readonly timeoutMs?: number;
}

export interface FetchOptions {
  readonly partition?: number;
  readonly leaderEpoch?: number;
  readonly minBytes?: number;
  readonly maxBytes?: number;
  readonly partitionMaxBytes?: number;
  readonly maxWaitMs?: number;
}

export type FetchedEntry = FetchResponse["entries"][number] & { readonly bytes: Uint8Array };

function answerOf<K extends ApiKey>(parts: readonly DecodedResponse[]): Answer<K> {
  const last = parts.at(-1);
  if (last === undefined) throw new Error("an answer has a part");
  const { error, message } = last.header;
  return { error, message, response: last.response as ApiTypes[K]["response"], bodies: last.bodies, parts };
}

/** A batch of records with these values. */
export function batchOf(
  values: readonly string[],
  options: { readonly padBytes?: number; readonly timestamp?: number; readonly producer?: ProducerFields } = {},
): Uint8Array {
  const builder = new RecordBatchBuilder({ limitBytes: 2 ** 26 });
  const pad = "x".repeat(options.padBytes ?? 0);
  values.forEach((value, index) => {
    const timestamp = (options.timestamp ?? 1_000) + index;
    if (!builder.tryAppend({ key: null, value: utf8Encode(value + pad), headers: [], timestamp }))
      throw new Error("does not fit");
  });
  const { producer } = options;
  const numbered = producer === undefined ? {} : { producer };
  return builder.build({ compression: "none", codecs: host.codecs, checksum: host.checksum, ...numbered });
}

/** An object whose properties are asked for anew each time. */
export function live<T extends object>(getters: { readonly [K in keyof T]: () => T[K] }): T {
  const descriptors = Object.entries(getters).map(([name, get]) => [name, { get: get as () => unknown }] as const);
  return Object.defineProperties({}, Object.fromEntries(descriptors)) as T;
}
