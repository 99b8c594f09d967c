// Nodes that replicate: real cores, logs, streams and sessions over the simulated disk and network; the test is their metadata and their controller.
import { UNCONFIGURED_LOG } from "../../../src/storage/log-settings.ts";
import type { TopicLimits } from "../../../src/broker/effective-configs.ts";
import { type ProduceAnswer, ProduceEntry, type Replica } from "../../../src/broker/replica.ts";
import type { Replication } from "../../../src/broker/replication/replication.ts";
import type { IsrController } from "../../../src/broker/replication/types.ts";
import type { PartitionImage } from "../../../src/metadata/image.ts";
import { type BrokerConfig, brokerConfigOf } from "../../../src/model/config.ts";
import {
  type LeaderEpoch,
  type NodeId,
  type Offset,
  type PartitionIndex,
  type TopicId,
  toNodeId,
  uuidFromBytes,
} from "../../../src/model/ids.ts";
import { recordCountAt } from "../../../src/model/record-batch.ts";
import type { PartitionRecord, RequiredAcks } from "../../../src/replication/types.ts";
import { type CrashKind, SimDisk } from "../../../src/sim/disk.ts";
import { SimNetwork } from "../../../src/sim/network.ts";
import { SimWorld } from "../../../src/sim/world.ts";
import type { AlterPartitionRequest } from "../../../src/wire/native/replication-apis.ts";
import { batchOf } from "../support.ts";
import { host, type NodeParts, startNode } from "./node-parts.ts";

export { host } from "./node-parts.ts";

const LATENCIES = { readMs: 0.05, writeMs: 0.05, syncMs: 0.5, directoryMs: 0.02 };
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

export class ReplicatingNode {
  readonly nodeId: NodeId;
  readonly name: string;
  readonly address: string;
  readonly config: BrokerConfig;
  readonly disk: SimDisk;
  readonly latencies = { ...LATENCIES };
  /** Of the store; false as long as the test says so. */
  hasRoom = true;
  readonly #all: ReplicatingNodes;
  #parts: NodeParts | undefined;

  constructor(all: ReplicatingNodes, nodeId: number, config: Readonly<Record<string, unknown>>) {
    this.#all = all;
    this.nodeId = toNodeId(nodeId);
    this.name = `node${nodeId}`;
    this.address = `${this.name}:7070`;
    this.disk = new SimDisk(all.world, `disk of ${this.name}`, { latencies: this.latencies, capacityBytes: 2 ** 30 });
    this.config = brokerConfigOf({
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

  get parts(): NodeParts {
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
    const all = this.#all;
    all.network.booted(this.name);
    this.#parts = await startNode(
      { world: all.world, network: all.network, disk: this.disk, config: this.config, name: this.name },
      {
        addressOf: (nodeId) => all.node(nodeId).address,
        brokerEpochs: all.brokerEpochs,
        hasRoom: () => this.hasRoom,
        alterPartition: (request) => {
          all.proposals.push(request);
          return all.alter(request);
        },
      },
    );
  }

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
      ...UNCONFIGURED_LOG,
      retentionMs: -1,
      retentionBytes: -1,
      isLogAppendTime: false,
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
        producerId: -1,
        producerEpoch: -1,
        baseSequence: -1,
        crc: 0,
        isResent: false,
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
