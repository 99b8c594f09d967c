// The tables of the metadata image and everything that reads them. What changes them is in image.ts.
import { assert } from "../base/assert.ts";
import type { BrokerEpoch, NodeId, TopicId, Uuid } from "../model/ids.ts";
import { REQUESTS_MAX, type SnapshotParts, encodeSnapshot, snapshotText } from "./image-snapshot.ts";
import { sortedConfigs, topicText } from "./image-snapshot.ts";
import type { BrokerImage, ClusterImage, PartitionImage, PartitionPlace, RequestImage } from "./image-types.ts";
import type { TombstoneImage, TopicImage } from "./image-types.ts";
import { NO_PRODUCER_IDS, ProducerIds } from "./producer-ids.ts";
import { PartitionIndex, type Slot, partitionOf } from "./partition-index.ts";
import type { Configs } from "./records.ts";
import { StateHash } from "./state-hash.ts";

interface MutableTopic extends TopicImage {
  configs: Configs;
  isDeleting: boolean;
  readonly partitions: PartitionImage[];
}

export interface TopicEntry {
  readonly topic: MutableTopic;
  readonly slots: readonly Slot[];
  /** Of the topic as it is; undefined since it last changed. */
  hash: string | undefined;
}

const NO_CONFIGS: Configs = {};

/** What tells two topic names apart in metric names: '.' and '_' are one there. */
export function metricNameOf(topic: string): string {
  return topic.replaceAll(".", "_");
}

export class ImageTables {
  protected nextIndex = 0;
  protected clusterNow: ClusterImage | undefined;
  /** True while, and for ever after, a command was applied in part. */
  protected isBroken = false;
  protected readonly index = new PartitionIndex();
  protected readonly touchedNow = new Set<Slot>();
  readonly #brokers = new Map<NodeId, BrokerImage>();
  readonly #topics = new Map<TopicId, TopicEntry>();
  readonly #byName = new Map<string, TopicEntry>();
  readonly #byMetricName = new Map<string, TopicEntry>();
  readonly #byDirectory = new Map<string, NodeId>();
  readonly #tombstones = new Map<TopicId, TombstoneImage>();
  readonly #brokerConfigs = new Map<NodeId | null, Configs>();
  /** In the order of the log. */
  readonly #requests = new Map<Uuid, RequestImage>();
  protected readonly producers = new ProducerIds();
  #active: ReadonlyMap<NodeId, BrokerEpoch> | undefined;
  #sortedEntries: readonly TopicEntry[] | undefined;
  #sortedNames: readonly string[] | undefined;
  #partitionCount = 0;
  #livePartitionCount = 0;

  /** Index of the next entry to apply or skip. */
  get endOffset(): number {
    return this.nextIndex;
  }
  get cluster(): ClusterImage | undefined {
    return this.clusterNow;
  }
  /** The finalised version; 0 while there is no cluster. */
  get metadataVersion(): number {
    return this.clusterNow?.metadataVersion ?? 0;
  }
  get brokers(): Iterable<BrokerImage> {
    return this.#brokers.values();
  }
  get brokerCount(): number {
    return this.#brokers.size;
  }
  get topics(): Iterable<TopicImage> {
    return topicsOf(this.#topics.values());
  }
  get topicCount(): number {
    return this.#topics.size;
  }
  get partitionCount(): number {
    return this.#partitionCount;
  }
  /** Partitions of topics that are not being deleted. */
  get livePartitionCount(): number {
    return this.#livePartitionCount;
  }
  get tombstones(): Iterable<TombstoneImage> {
    return this.#tombstones.values();
  }
  get tombstoneCount(): number {
    return this.#tombstones.size;
  }
  /** All topic names in code-unit order, deleting ones included. */
  get topicNames(): readonly string[] {
    this.#sortedNames ??= this.#sorted().map(({ topic }) => topic.name);
    return this.#sortedNames;
  }

  broker(nodeId: NodeId): BrokerImage | undefined {
    return this.#brokers.get(nodeId);
  }
  brokerOfDirectory(directoryId: string): BrokerImage | undefined {
    const nodeId = this.#byDirectory.get(directoryId);
    return nodeId === undefined ? undefined : this.#brokers.get(nodeId);
  }
  topic(topicId: TopicId): TopicImage | undefined {
    return this.#topics.get(topicId)?.topic;
  }
  topicByName(name: string): TopicImage | undefined {
    return this.#byName.get(name)?.topic;
  }
  /** A topic whose name is the same in metrics. */
  topicColliding(name: string): TopicImage | undefined {
    return this.#byMetricName.get(metricNameOf(name))?.topic;
  }
  tombstone(topicId: TopicId): TombstoneImage | undefined {
    return this.#tombstones.get(topicId);
  }
  /** What is set at run time for one broker, or for every broker (null). */
  brokerConfigs(nodeId: NodeId | null): Configs {
    return this.#brokerConfigs.get(nodeId) ?? NO_CONFIGS;
  }
  /** The change that a client asked for under this id was made; the last 1,024 are known. */
  requestOf(requestId: Uuid): RequestImage | undefined {
    return this.#requests.get(requestId);
  }
  /** Producer ids given out, and named producers. */
  get producerIds(): Pick<ProducerIds, "nextId" | "nextNamedId" | "size" | "named" | "byName" | "verdictOn"> {
    return this.producers;
  }
  /** Unfenced brokers with their broker epochs: one object for as long as these stay the same. */
  get active(): ReadonlyMap<NodeId, BrokerEpoch> {
    this.#active ??= new Map(unfencedOf(this.#brokers.values()));
    return this.#active;
  }
  /** Places of the partitions that the last command created or changed, of removed topics too. */
  get touched(): ReadonlySet<Slot> {
    return this.touchedNow;
  }
  /** Partitions that the broker has a replica of, of topics that are not being deleted. */
  heldCount(nodeId: NodeId): number {
    return this.index.liveCount(nodeId);
  }
  /** Of these, those of which it is the first replica. */
  firstCount(nodeId: NodeId): number {
    return this.index.firstCount(nodeId);
  }
  /** Partitions that the broker leads, of deleting topics too. */
  ledCount(nodeId: NodeId): number {
    return this.index.led(nodeId).size;
  }
  /** Every partition that the broker has a replica of, those of deleting topics too. The image must not change meanwhile. */
  partitionsOn(nodeId: NodeId): IterableIterator<PartitionPlace> {
    return placesOf(this.index.held(nodeId));
  }
  /** Every partition that nobody leads, deleting topics left out. The image must not change meanwhile. */
  leaderless(): IterableIterator<PartitionPlace> {
    return placesOf(this.index.leaderless);
  }
  /** Every partition that its first replica could lead, and another does, deleting topics left out. The image must not change meanwhile. */
  astray(): IterableIterator<PartitionPlace> {
    return placesOf(this.index.astray);
  }

  /** The whole image: equal images are equal bytes (invariant 39). */
  encode(): Uint8Array {
    return encodeSnapshot({
      ...this.#small(),
      producerIds: this.producers.parts,
      topics: this.#sorted().map(({ topic }) => topic),
    });
  }

  /**
   * Equal when, and but for chance only when, `encode` is. A topic costs its length only when it changed since the last call, and so do the named
   * producers together.
   */
  stateHash(): string {
    const hash = new StateHash().add(snapshotText({ ...this.#small(), producerIds: NO_PRODUCER_IDS, topics: [] }));
    hash.add(this.producers.hash);
    for (const entry of this.#sorted()) {
      entry.hash ??= new StateHash().add(topicText(entry.topic)).hex;
      hash.add(entry.hash);
    }
    return hash.hex;
  }

  protected putBroker(broker: BrokerImage): void {
    this.#active = undefined;
    const before = this.#brokers.get(broker.nodeId);
    if (before !== undefined) this.#byDirectory.delete(before.directoryId);
    this.#brokers.set(broker.nodeId, broker);
    this.#byDirectory.set(broker.directoryId, broker.nodeId);
  }

  protected removeBroker({ nodeId, directoryId }: BrokerImage): void {
    this.#active = undefined;
    this.#brokers.delete(nodeId);
    this.#byDirectory.delete(directoryId);
    this.#brokerConfigs.delete(nodeId);
    for (const tombstone of [...this.#tombstones.values()]) {
      if (!tombstone.owed.includes(nodeId)) continue;
      this.putTombstone({ ...tombstone, owed: tombstone.owed.filter((member) => member !== nodeId) });
    }
  }

  protected putBrokerConfigs(nodeId: NodeId | null, configs: Configs): void {
    if (Object.keys(configs).length === 0) this.#brokerConfigs.delete(nodeId);
    else this.#brokerConfigs.set(nodeId, sortedConfigs(configs));
  }

  protected putTombstone(tombstone: TombstoneImage): void {
    if (tombstone.owed.length === 0) this.#tombstones.delete(tombstone.topicId);
    else this.#tombstones.set(tombstone.topicId, tombstone);
  }

  protected putRequest(request: RequestImage): void {
    this.#requests.set(request.requestId, request);
    for (const oldest of this.#requests.keys()) {
      if (this.#requests.size <= REQUESTS_MAX) break;
      this.#requests.delete(oldest);
    }
  }

  protected putTopic(given: TopicImage): void {
    const topic: MutableTopic = {
      ...given,
      configs: sortedConfigs(given.configs),
      partitions: [...given.partitions],
    };
    const slots = topic.partitions.map(({ index }): Slot => ({ topic, index }));
    const entry: TopicEntry = { topic, slots, hash: undefined };
    this.#topics.set(topic.topicId, entry);
    this.#byName.set(topic.name, entry);
    this.#byMetricName.set(metricNameOf(topic.name), entry);
    for (const slot of slots) {
      this.index.add(slot);
      this.touchedNow.add(slot);
    }
    this.#partitionCount += slots.length;
    if (!topic.isDeleting) this.#livePartitionCount += slots.length;
    this.#forgetOrder();
  }

  /** A retired one. */
  protected removeTopic({ topic, slots }: TopicEntry): void {
    for (const slot of slots) {
      this.index.remove(slot);
      this.touchedNow.add(slot);
    }
    this.#topics.delete(topic.topicId);
    this.#byName.delete(topic.name);
    this.#byMetricName.delete(metricNameOf(topic.name));
    this.#partitionCount -= slots.length;
    this.#forgetOrder();
  }

  protected retireTopic(entry: TopicEntry): void {
    const { topic, slots } = entry;
    if (topic.isDeleting) return;
    for (const slot of slots) this.index.retire(slot);
    topic.isDeleting = true;
    this.#livePartitionCount -= slots.length;
    entry.hash = undefined;
  }

  protected putTopicConfigs(entry: TopicEntry, configs: Configs): void {
    entry.topic.configs = sortedConfigs(configs);
    entry.hash = undefined;
  }

  protected putPartition(entry: TopicEntry, after: PartitionImage): void {
    const slot = entry.slots[after.index];
    const before = entry.topic.partitions[after.index];
    assert(slot !== undefined && before !== undefined, "a partition that changes exists");
    this.index.unlink(slot, before);
    entry.topic.partitions[after.index] = after;
    this.index.link(slot, after);
    this.touchedNow.add(slot);
    entry.hash = undefined;
  }

  protected entry(topicId: TopicId): TopicEntry | undefined {
    return this.#topics.get(topicId);
  }

  #small(): Omit<SnapshotParts, "topics" | "producerIds"> {
    assert(!this.isBroken, "the metadata image holds half of a command");
    return {
      endOffset: this.nextIndex,
      cluster: this.clusterNow ?? null,
      brokers: [...this.#brokers.values()].sort((left, right) => left.nodeId - right.nodeId),
      tombstones: [...this.#tombstones.values()].sort((left, right) => (left.topicId < right.topicId ? -1 : 1)),
      brokerConfigs: [...this.#brokerConfigs]
        .map(([nodeId, configs]) => ({ nodeId, configs }))
        .sort((left, right) => (left.nodeId ?? -1) - (right.nodeId ?? -1)),
      requests: [...this.#requests.values()],
    };
  }

  #sorted(): readonly TopicEntry[] {
    this.#sortedEntries ??= [...this.#topics.values()].sort((left, right) =>
      left.topic.name < right.topic.name ? -1 : 1,
    );
    return this.#sortedEntries;
  }

  #forgetOrder(): void {
    this.#sortedEntries = undefined;
    this.#sortedNames = undefined;
  }
}

function* placesOf(slots: Iterable<Slot>): IterableIterator<PartitionPlace> {
  for (const slot of slots) yield { topic: slot.topic, partition: partitionOf(slot) };
}

function* unfencedOf(brokers: Iterable<BrokerImage>): IterableIterator<readonly [NodeId, BrokerEpoch]> {
  for (const { nodeId, brokerEpoch, isFenced } of brokers) if (!isFenced) yield [nodeId, brokerEpoch];
}

function* topicsOf(entries: Iterable<TopicEntry>): IterableIterator<TopicImage> {
  for (const { topic } of entries) yield topic;
}
