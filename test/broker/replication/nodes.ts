// Nodes that replicate: real cores, logs, streams and sessions over the simulated disk and network; the test is their metadata and their controller.
import { createSimHost } from "../../../scripts/sim-host.ts";
import { Deadlines } from "../../../src/base/deadlines.ts";
import { Accountant } from "../../../src/broker/accountant.ts";
import { ConnectionSet } from "../../../src/broker/connection-set.ts";
import type { TopicLimits } from "../../../src/broker/effective-configs.ts";
import { Dispatcher } from "../../../src/broker/dispatcher.ts";
import { BrokerMetrics } from "../../../src/broker/metrics.ts";
import { PeerLinks } from "../../../src/broker/quorum/peers.ts";
import { type ProduceAnswer, ProduceEntry, type Replica } from "../../../src/broker/replica.ts";
import { ReplicaManager } from "../../../src/broker/replica-manager.ts";
import { Replication } from "../../../src/broker/replication/replication.ts";
import type { IsrController } from "../../../src/broker/replication/types.ts";
import type { NodeServices, Services } from "../../../src/broker/services.ts";
import { TurnQueue } from "../../../src/broker/turn-queue.ts";
import { type BrokerConfig, brokerConfigSchema } from "../../../src/model/config.ts";
import type { OttlaError } from "../../../src/model/errors.ts";
import {
  type ClusterId,
  type LeaderEpoch,
  type NodeId,
  type Offset,
  type PartitionIndex,
  type TopicId,
  toNodeId,
  uuidFromBytes,
} from "../../../src/model/ids.ts";
import { recordCountAt } from "../../../src/model/record-batch.ts";
import type { PartitionImage } from "../../../src/metadata/image.ts";
import type { PartitionRecord, RequiredAcks } from "../../../src/replication/types.ts";
import type { CrashKind } from "../../../src/sim/disk.ts";
import { SimDisk } from "../../../src/sim/disk.ts";
import { SimNetwork } from "../../../src/sim/network.ts";
import { createSimLogger, SimMetrics } from "../../../src/sim/sim-ports.ts";
import {
  createSimClock,
  createSimEntropy,
  createSimTimers,
  type Incarnation,
  SimWorld,
} from "../../../src/sim/world.ts";
import { openLogStore } from "../../../src/storage/log-store.ts";
import type { LogStore } from "../../../src/storage/types.ts";
import type { AlterPartitionRequest } from "../../../src/wire/native/replication-apis.ts";
import { batchOf } from "../support.ts";

export const host = await createSimHost();
const LATENCIES = { readMs: 0.05, writeMs: 0.05, syncMs: 0.5, directoryMs: 0.02 };
const TICK_MS = 250;
const CLUSTER = uuidFromBytes(new Uint8Array(16).fill(9)) as ClusterId;
export const TOPIC = uuidFromBytes(new Uint8Array(16).fill(7)) as TopicId;

export interface NodesSettings {
  readonly count?: number;
  readonly config?: Readonly<Record<string, unknown>>;
  readonly seed?: number;
}

/** A partition's record; the rest as in the metadata of a topic with all nodes. */
export type RecordChange = Partial<Omit<PartitionRecord, "leader" | "leaderEpoch">> & {
  readonly leader: number | null;
  readonly leaderEpoch: number;
};

export class ReplicatingNodes {
  readonly world: SimWorld;
  readonly network: SimNetwork;
  readonly nodes: ReplicatingNode[];
  /** Registered brokers and their epochs; the test's metadata. */
  readonly brokerEpochs = new Map<NodeId, number>();
  /** As the controller got them, and what it says. */
  readonly proposals: AlterPartitionRequest[] = [];
  alter: IsrController["alterPartition"] = ({ entries }) =>
    Promise.resolve({ entries: entries.map(() => ({ error: "NONE" })) });

  constructor(settings: NodesSettings = {}) {
    this.world = new SimWorld({ seed: settings.seed ?? 1, host });
    this.network = new SimNetwork(this.world, {
      link: { delayMs: 0.1, bandwidth: 1_000_000, windowBytes: 256 * 1024 },
    });
    const count = settings.count ?? 3;
    this.nodes = Array.from(
      { length: count },
      (_, index) => new ReplicatingNode(this, index + 1, settings.config ?? {}),
    );
    for (const { nodeId } of this.nodes) this.brokerEpochs.set(nodeId, 10 + nodeId);
  }

  static async start(settings: NodesSettings = {}): Promise<ReplicatingNodes> {
    const nodes = new ReplicatingNodes(settings);
    for (const node of nodes.nodes) await node.start();
    return nodes;
  }

  node(nodeId: number): ReplicatingNode {
    const node = this.nodes[nodeId - 1];
    if (node === undefined) throw new Error(`no node ${nodeId}`);
    return node;
  }

  record({ leader, leaderEpoch, ...rest }: RecordChange): PartitionRecord {
    const all = this.nodes.map(({ nodeId }) => nodeId);
    return {
      leader: leader === null ? null : toNodeId(leader),
      leaderEpoch: leaderEpoch as LeaderEpoch,
      partitionEpoch: leaderEpoch,
      replicas: all,
      isr: all,
      elr: [],
      minIsr: 2,
      uncleanEpoch: -1,
      ...rest,
    };
  }

  /** Every node that is up gets the record, the leader first. */
  async apply(change: RecordChange, partitions: readonly number[] = [0], at = this.nodes): Promise<void> {
    const record = this.record(change);
    for (const node of [...at].sort((a, b) => Number(b.nodeId === record.leader) - Number(a.nodeId === record.leader)))
      if (node.isUp)
        await this.world.settle(
          Promise.all(partitions.map((partition) => node.apply({ ...record, index: partition as PartitionIndex }))),
        );
  }

  /** The registrations as of now are what all know. */
  brokersChanged(): void {
    for (const node of this.nodes) if (node.isUp) node.brokersChanged();
  }

  async until(what: string, condition: () => boolean, limitMs = 10_000): Promise<void> {
    if (!(await this.world.runUntil(condition, this.world.nowMs + limitMs))) throw new Error(`never: ${what}`);
  }
}

interface Parts {
  readonly incarnation: Incarnation;
  readonly store: LogStore;
  readonly replicas: ReplicaManager;
  readonly links: PeerLinks;
  readonly replication: Replication;
  readonly connections: ConnectionSet;
  readonly accountant: Accountant;
  readonly metrics: SimMetrics;
}

export class ReplicatingNode {
  readonly nodeId: NodeId;
  readonly name: string;
  readonly address: string;
  readonly config: BrokerConfig;
  readonly disk: SimDisk;
  readonly latencies = { ...LATENCIES };
  readonly defects: unknown[] = [];
  /** Of the store; false as long as the test says so. */
  hasRoom = true;
  readonly #all: ReplicatingNodes;
  #parts: Parts | undefined;
  #boots = 0;

  constructor(all: ReplicatingNodes, nodeId: number, config: Readonly<Record<string, unknown>>) {
    this.#all = all;
    this.nodeId = toNodeId(nodeId);
    this.name = `node${nodeId}`;
    this.address = `${this.name}:7070`;
    this.disk = new SimDisk(all.world, `disk of ${this.name}`, { latencies: this.latencies, capacityBytes: 2 ** 30 });
    this.config = brokerConfigSchema.parse({
      "node.id": nodeId,
      "data.dir": "/data",
      listeners: this.address,
      "journal.bytes": "1MiB",
      "disk.low.space.bytes": "0",
      "disk.reserve.bytes": "64KiB",
      ...config,
    });
  }

  get isUp(): boolean {
    return this.#parts !== undefined;
  }

  get parts(): Parts {
    if (this.#parts === undefined) throw new Error(`${this.name} is down`);
    return this.#parts;
  }

  get replication(): Replication {
    return this.parts.replication;
  }

  replica(partition = 0): Replica {
    const replica = this.parts.replicas.find(TOPIC, partition);
    if (replica === undefined) throw new Error(`${this.name} has no partition ${partition}`);
    return replica;
  }

  hosts(partition = 0): boolean {
    return this.#parts?.replicas.find(TOPIC, partition) !== undefined;
  }

  async start(): Promise<void> {
    const { world, network } = this.#all;
    const incarnation = world.startIncarnation(this.name);
    network.booted(this.name);
    const clock = createSimClock(world, incarnation);
    const timers = createSimTimers(world, incarnation);
    const logger = createSimLogger(world, this.name);
    const metrics = new SimMetrics();
    const { config } = this;
    const guard = (work: () => void): void => {
      try {
        work();
      } catch (thrown) {
        this.defects.push(thrown);
        world.fail(thrown instanceof Error ? thrown : new Error(String(thrown)));
      }
    };
    const defer = (work: () => void): void => timers.defer(() => guard(work));
    const store = await world.settle(
      openLogStore(
        {
          files: this.disk.files(incarnation),
          clock,
          timers,
          checksum: world.checksum,
          codecs: host.codecs,
          entropy: createSimEntropy(world, incarnation),
          logger,
          metrics,
          bootId: "boot 1",
        },
        {
          directory: "/data",
          nodeId: this.nodeId,
          clusterId: undefined,
          segmentBytes: config["segment.bytes"],
          indexIntervalBytes: config["index.interval.bytes"],
          journalBytes: config["journal.bytes"],
          checkpointIntervalMs: config["checkpoint.interval.ms"],
          journalPinnedBytes: config["journal.pinned.bytes"],
          tailCacheBytes: config["tail.cache.bytes"],
          diskLowSpaceBytes: 0,
          diskReserveBytes: config["disk.reserve.bytes"],
          openFilesMax: config["open.files.max"],
        },
      ),
    );
    if (store.identity.clusterId === null) await world.settle(store.adoptCluster(CLUSTER));
    const transport = network.messages(incarnation);
    const deadlines = new Deadlines({ clock, timers });
    const rng = world.fork(`node ${this.name} ${++this.#boots}`);
    const links = new PeerLinks({
      transport,
      clock,
      timers,
      rng,
      logger,
      software: "test",
      self: this.nodeId,
      addressesOf: (nodeId) => [this.#all.node(nodeId).address],
      clusterId: () => CLUSTER,
    });
    const fail = (error: OttlaError): void => world.fail(error);
    const replicas = new ReplicaManager(
      {
        clock,
        timers,
        store,
        events: {
          onRoomChanged: () => undefined,
          onDiskFailed: fail,
          onUnusable: (replica, error) => this.unusable.push({ replica, error }),
          onIsrChanged: () => undefined,
          guard,
        },
      },
      { self: this.nodeId, lagMaxMs: config["replica.lag.time.max.ms"], backoffMs: config["replica.fetch.backoff.ms"] },
    );
    replicas.eligible = this.#eligible();
    const replication = new Replication(
      {
        clock,
        deadlines,
        logger,
        checksum: world.checksum,
        counters: { bytesOut: metrics.counter("out"), bytesIn: metrics.counter("in") },
        links,
        replicas,
        controller: {
          alterPartition: (request) => {
            this.#all.proposals.push(request);
            return this.#all.alter(request);
          },
        },
        defer,
        guard,
        brokerEpoch: () => this.#all.brokerEpochs.get(this.nodeId) ?? null,
        brokerEpochOf: (nodeId) => this.#all.brokerEpochs.get(nodeId),
        eligible: () => replicas.eligible,
        hasRoom: () => this.hasRoom && store.hasRoom,
      },
      {
        nodeId: this.nodeId,
        waitMaxMs: config["replica.fetch.wait.max.ms"],
        partitionBytesMax: config["replica.fetch.max.bytes"],
        responseBytesMax: config["replica.fetch.response.max.bytes"],
      },
    );
    replicas.streams = replication;
    store.listen(replicas);
    const accountant = new Accountant(
      {
        produceBytes: config["produce.inflight.bytes"],
        unsentBytes: config["unsent.bytes"],
        delayedRequests: config["delayed.requests.max"],
      },
      defer,
    );
    const turns = new TurnQueue(defer, () => clock.monoMs());
    const broker = new BrokerMetrics(metrics);
    // Of the services only what the handlers of replication use.
    const node = {
      config,
      nodeId: this.nodeId,
      clock,
      logger,
      metrics: broker,
      accountant,
      messageBytesMax: 64 * 1024 * 1024,
      quorum: undefined,
      controller: undefined,
      named: () => true,
      waitingFor: () => null,
    } as unknown as NodeServices;
    const dispatcher = new Dispatcher(node, (defect) =>
      guard(() => {
        throw defect;
      }),
    );
    dispatcher.services = { ...node, replicas, replication, deadlines } as unknown as Services;
    const connections = new ConnectionSet(
      {
        timers,
        logger,
        host: {
          accountant,
          inFlightBytesMax: config["connection.inflight.bytes"],
          unsentBytesMax: config["connection.unsent.bytes"],
          bodyBytesMax: 64 * 1024 * 1024,
          nowMs: () => clock.monoMs(),
          turns,
          onRequest: (...request) => dispatcher.dispatch(...request),
          guard,
        },
        isPeer: () => true,
        onSweep: () => undefined,
      },
      config["connections.max"],
    );
    connections.startSweeping();
    await world.settle(transport.listen(this.address, (connection) => connections.accept(connection)));
    this.#parts = { incarnation, store, replicas, links, replication, connections, accountant, metrics };
    const tick = (): void => {
      guard(() => {
        for (const replica of replicas.all)
          replicas.step(replica, { kind: "tick", eligible: replicas.eligible, nowMs: clock.monoMs() });
      });
      timers.after(TICK_MS, tick);
    };
    timers.after(TICK_MS, tick);
  }

  /** Replicas whose core gave up. */
  readonly unusable: { readonly replica: Replica; readonly error: OttlaError | undefined }[] = [];

  crash(kind: CrashKind = "process death"): void {
    const { incarnation } = this.parts;
    incarnation.end();
    this.#all.network.forget(incarnation);
    this.disk.crash(kind);
    this.#parts = undefined;
  }

  #eligible(): ReadonlyMap<NodeId, number> {
    return new Map(this.#all.brokerEpochs);
  }

  brokersChanged(): void {
    const { replicas, replication } = this.parts;
    replicas.eligible = this.#eligible();
    replication.onBrokersChanged();
  }

  /** As a broker does with a record of its metadata: the log, its epoch, the role. */
  async apply(record: PartitionImage): Promise<void> {
    const { replicas, store } = this.parts;
    const index = record.index as PartitionIndex;
    const limits: TopicLimits = {
      maxMessageBytes: this.config["max.message.bytes"],
      segmentBytes: this.config["segment.bytes"],
      indexIntervalBytes: this.config["index.interval.bytes"],
      allowsBelowMinIsr: false,
    };
    const log = store.find(TOPIC, index) ?? (await store.createLog({ topicId: TOPIC, topic: "t", partition: index }));
    const replica = replicas.find(TOPIC, index) ?? replicas.open(log, limits);
    if (replica.record?.leaderEpoch === record.leaderEpoch) return replicas.record(replica, record);
    if (record.leader === null) return replicas.standBy(replica, "NOT_LEADER_OR_FOLLOWER");
    if (record.leader !== this.nodeId) return replicas.follow(replica, record);
    replicas.standBy(replica, "NOT_LEADER_OR_FOLLOWER");
    await replica.busy;
    await replica.log.startEpoch(record.leaderEpoch);
    replicas.epochOpened(replica, record.leaderEpoch);
    replicas.lead(replica, record);
  }

  /** Appends on the leader; resolves with the answer once the world has run long enough. */
  produce(
    text: string,
    options: { readonly partition?: number; readonly acks?: RequiredAcks; readonly sizeBytes?: number } = {},
  ): Promise<ProduceAnswer> {
    const { partition = 0, acks = -1, sizeBytes = 0 } = options;
    const batch = batchOf([text.padEnd(sizeBytes, ".")]);
    const replica = this.replica(partition);
    return new Promise((resolve) => {
      const entry = new ProduceEntry(0, batch, (_, answer) => resolve(answer));
      entry.replica = replica;
      this.parts.replicas.step(replica, {
        kind: "produce",
        token: entry,
        recordCount: recordCountAt(batch, 0),
        acks,
        leaderEpoch: -1,
      });
    });
  }

  async settled(text: string, options: Parameters<ReplicatingNode["produce"]>[1] = {}): Promise<ProduceAnswer> {
    return this.#all.world.settle(this.produce(text, options), 20_000);
  }

  /** Everything in the log, as stored. */
  async bytes(partition = 0): Promise<Uint8Array> {
    const { log } = this.replica(partition);
    const chunks: Uint8Array[] = [];
    for (let at = log.startOffset as number; at < log.endOffset; ) {
      const options = { limitOffset: log.endOffset, maxBytes: 2 ** 20, atLeastOne: true };
      const read = await this.#all.world.settle(Promise.resolve(log.read(at as Offset, options)));
      if (read.sizeBytes === 0) break;
      chunks.push(...read.chunks);
      at = read.nextOffset;
    }
    return Buffer.concat(chunks);
  }
}
