// What the metadata log says now: brokers, topics, partitions. `apply` is the only way to change it, and is deterministic: no clock, no
// randomness, no configuration (Q-19, D-23), so that every node at one offset holds the same image.
import { assertNever } from "../base/assert.ts";
import { OttlaError } from "../model/errors.ts";
import { toBrokerEpoch, type BrokerEpoch, type ClusterId, type DirectoryId, type IncarnationId } from "../model/ids.ts";
import type { LeaderEpoch, NodeId, TopicId } from "../model/ids.ts";
import { FIRST_LEADER_EPOCH } from "./records.ts";
import type {
  ClusterRecord,
  MetadataRecord,
  PartitionChangeRecord,
  RegisterBrokerRecord,
  TopicRecord,
} from "./records.ts";

export interface BrokerImage {
  readonly nodeId: NodeId;
  readonly directoryId: DirectoryId;
  readonly incarnationId: IncarnationId;
  readonly brokerEpoch: BrokerEpoch;
  readonly address: string;
  /** A fenced broker leads nothing. */
  readonly isFenced: boolean;
}

/** Leader, ISR and min ISR of one moment belong together: replaced as a whole, never changed (D-5). */
export interface PartitionImage {
  readonly index: number;
  readonly replicas: readonly NodeId[];
  readonly isr: readonly NodeId[];
  readonly minIsr: number;
  readonly leader: NodeId | null;
  readonly leaderEpoch: LeaderEpoch;
  /** Raised by every change of this object. */
  readonly partitionEpoch: number;
}

export interface TopicImage {
  readonly topicId: TopicId;
  readonly name: string;
  readonly configs: Readonly<Record<string, number>>;
  readonly replicationFactor: number;
  readonly createdMs: number;
  readonly isDeleting: boolean;
  readonly partitions: readonly PartitionImage[];
}

interface MutableTopic extends TopicImage {
  isDeleting: boolean;
  readonly partitions: PartitionImage[];
}

export interface ClusterImage {
  readonly clusterId: ClusterId;
  readonly voters: ClusterRecord["voters"];
  readonly metadataVersion: number;
}

/** What tells two topic names apart in metric names: '.' and '_' are one there. */
export function metricNameOf(topic: string): string {
  return topic.replaceAll(".", "_");
}

/**
 * Guarantees: 1. the first record applied is the cluster record, and no other is one. 2. A partition's leader epoch only grows.
 * 3. A leader is an unfenced broker and in the ISR. 4. Names are unique, deleting topics included.
 */
export class MetadataImage {
  /** Offset of the next record to apply. */
  #endOffset = 0;
  #cluster: ClusterImage | undefined;
  readonly #brokers = new Map<NodeId, BrokerImage>();
  readonly #topics = new Map<TopicId, MutableTopic>();
  readonly #byName = new Map<string, MutableTopic>();
  readonly #byMetricName = new Map<string, MutableTopic>();
  #sortedNames: readonly string[] | undefined;
  #partitionCount = 0;

  get endOffset(): number {
    return this.#endOffset;
  }
  get cluster(): ClusterImage | undefined {
    return this.#cluster;
  }
  get brokers(): Iterable<BrokerImage> {
    return this.#brokers.values();
  }
  get topics(): Iterable<TopicImage> {
    return this.#topics.values();
  }
  get topicCount(): number {
    return this.#topics.size;
  }
  get partitionCount(): number {
    return this.#partitionCount;
  }
  /** Partitions of topics that are not being deleted. */
  get livePartitionCount(): number {
    let count = 0;
    for (const topic of this.#topics.values()) if (!topic.isDeleting) count += topic.partitions.length;
    return count;
  }
  /** All topic names in code-unit order, deleting ones included. */
  get topicNames(): readonly string[] {
    this.#sortedNames ??= [...this.#byName.keys()].sort();
    return this.#sortedNames;
  }

  broker(nodeId: NodeId): BrokerImage | undefined {
    return this.#brokers.get(nodeId);
  }
  topic(topicId: TopicId): TopicImage | undefined {
    return this.#topics.get(topicId);
  }
  topicByName(name: string): TopicImage | undefined {
    return this.#byName.get(name);
  }
  /** A topic whose name is the same in metrics. */
  topicColliding(name: string): TopicImage | undefined {
    return this.#byMetricName.get(metricNameOf(name));
  }

  /** Throws DATA_DAMAGED for a record that does not fit what came before: an apply error is fatal. */
  apply(offset: number, record: MetadataRecord): void {
    if (offset !== this.#endOffset) throw misfit(offset, `expected offset ${this.#endOffset}`);
    if ((offset === 0) !== (record.type === "cluster")) throw misfit(offset, `${record.type} cannot stand here`);
    switch (record.type) {
      case "cluster":
        this.#cluster = { clusterId: record.clusterId, voters: record.voters, metadataVersion: record.metadataVersion };
        break;
      case "register-broker":
        this.#registerBroker(offset, record);
        break;
      case "unfence-broker":
        this.#unfenceBroker(offset, record.nodeId, record.brokerEpoch);
        break;
      case "partition-change":
        this.#changePartitions(offset, record);
        break;
      case "topic":
        this.#addTopic(offset, record);
        break;
      case "delete-topic":
        this.#known(offset, record.topicId).isDeleting = true;
        break;
      case "topic-removed":
        this.#removeTopic(offset, record.topicId);
        break;
      default:
        assertNever(record);
    }
    this.#endOffset = offset + 1;
  }

  /** The whole image as text: equal at equal offsets on every node (invariant 39). */
  dump(): string {
    const brokers = [...this.#brokers.values()].sort((left, right) => left.nodeId - right.nodeId);
    const topics = this.topicNames.map((name) => this.#byName.get(name));
    return JSON.stringify({ endOffset: this.#endOffset, cluster: this.#cluster, brokers, topics }, sortedKeys);
  }

  /** D-1: before partition {leader 1, epoch 4}, after node 1 registers again {leader null, epoch 5}; its election then gives epoch 6. */
  #registerBroker(offset: number, record: RegisterBrokerRecord): void {
    const { nodeId, directoryId, incarnationId, address } = record;
    this.#brokers.set(nodeId, {
      nodeId,
      directoryId,
      incarnationId,
      brokerEpoch: toBrokerEpoch(offset),
      address,
      isFenced: true,
    });
    for (const topic of this.#topics.values()) {
      for (const partition of topic.partitions) {
        if (partition.leader === nodeId) replacePartition(topic, partition, { leader: null, isr: partition.isr });
      }
    }
  }

  #unfenceBroker(offset: number, nodeId: NodeId, brokerEpoch: BrokerEpoch): void {
    const broker = this.#brokers.get(nodeId);
    if (broker?.brokerEpoch !== brokerEpoch)
      throw misfit(offset, `broker ${nodeId} is not in broker epoch ${brokerEpoch}`);
    this.#brokers.set(nodeId, { ...broker, isFenced: false });
  }

  #changePartitions(offset: number, record: PartitionChangeRecord): void {
    const topic = this.#known(offset, record.topicId);
    for (const change of record.changes) {
      const partition = topic.partitions[change.partition];
      if (partition === undefined) throw misfit(offset, `no partition ${change.partition} in ${topic.name}`);
      if (partition.partitionEpoch !== change.partitionEpoch)
        throw misfit(offset, `partition epoch ${change.partitionEpoch} has passed`);
      if (change.leader !== null && !this.#mayLead(change.leader, change.isr))
        throw misfit(offset, `${change.leader} may not lead`);
      replacePartition(topic, partition, change);
    }
  }

  #mayLead(leader: NodeId, isr: readonly NodeId[]): boolean {
    return isr.includes(leader) && this.#brokers.get(leader)?.isFenced === false;
  }

  #addTopic(offset: number, record: TopicRecord): void {
    const { topicId, name, configs, replicationFactor, minIsr } = record;
    if (this.#topics.has(topicId) || this.#byName.has(name)) throw misfit(offset, `topic ${name} exists`);
    const partitions = record.replicas.map((replicas, index): PartitionImage => {
      const leader = replicas[0];
      if (leader === undefined) throw misfit(offset, `partition ${index} of ${name} has no replica`);
      return { index, replicas, isr: replicas, minIsr, leader, leaderEpoch: FIRST_LEADER_EPOCH, partitionEpoch: 0 };
    });
    const topic = {
      topicId,
      name,
      configs,
      replicationFactor,
      createdMs: record.timestampMs,
      isDeleting: false,
      partitions,
    };
    this.#topics.set(topicId, topic);
    this.#byName.set(name, topic);
    this.#byMetricName.set(metricNameOf(name), topic);
    this.#sortedNames = undefined;
    this.#partitionCount += partitions.length;
  }

  #removeTopic(offset: number, topicId: TopicId): void {
    const topic = this.#known(offset, topicId);
    if (!topic.isDeleting) throw misfit(offset, `topic ${topic.name} was not marked for deletion`);
    this.#topics.delete(topicId);
    this.#byName.delete(topic.name);
    this.#byMetricName.delete(metricNameOf(topic.name));
    this.#sortedNames = undefined;
    this.#partitionCount -= topic.partitions.length;
  }

  #known(offset: number, topicId: TopicId): MutableTopic {
    const topic = this.#topics.get(topicId);
    if (topic === undefined) throw misfit(offset, `no topic ${topicId}`);
    return topic;
  }
}

/** Every loss or gain of leadership opens a new leader epoch. */
function replacePartition(
  topic: MutableTopic,
  partition: PartitionImage,
  change: { readonly leader: NodeId | null; readonly isr: readonly NodeId[] },
): void {
  topic.partitions[partition.index] = {
    ...partition,
    leader: change.leader,
    isr: change.isr,
    leaderEpoch: (partition.leaderEpoch + 1) as LeaderEpoch,
    partitionEpoch: partition.partitionEpoch + 1,
  };
}

function misfit(offset: number, reason: string): OttlaError {
  return new OttlaError("DATA_DAMAGED", `metadata record ${offset} does not fit: ${reason}`);
}

/** JSON.stringify with keys in order, whatever order they were set in. */
function sortedKeys(_key: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1)));
}
