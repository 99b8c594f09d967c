// What the metadata log says now: brokers, topics, partitions, configuration. `apply` is the only way to change it, and is deterministic: no
// clock, no randomness, no configuration (Q-19, D-23), so that every node at one index holds the same image.
import { assertNever } from "../base/assert.ts";
import { mutant } from "../base/mutant.ts";
import { PRODUCER_EPOCH_MAX } from "../model/batch-header.ts";
import { OttlaError } from "../model/errors.ts";
import { type NodeId, type TopicId, toBrokerEpoch } from "../model/ids.ts";
import { decodeSnapshot } from "./image-snapshot.ts";
import { ImageTables, type TopicEntry } from "./image-tables.ts";
import type { BrokerImage, PartitionImage, TopicImage } from "./image-types.ts";
import { partitionOf, type Slot } from "./partition-index.ts";
import { changed, effectiveMinIsr, elected, partitionFault, type Standing } from "./partition-rules.ts";
import { withEpochsRaised, withMinIsr, withoutMember } from "./partition-rules.ts";
import { FIRST_LEADER_EPOCH, NAMED_PRODUCER_IDS_START, PRODUCER_IDS_BLOCK } from "./records.ts";
import { SUPPORTED_METADATA_VERSIONS, metadataVersionOf } from "./records.ts";
import type { BrokerConfigRecord, ClusterRecord, FenceBrokerRecordV1, FenceBrokerRecordV2 } from "./records.ts";
import type { MetadataRecord, MetadataVersionRecord, PartitionChangeRecord, TopicConfigRecord } from "./records.ts";
import type {
  NamedProducerRecord,
  ProducerIdsRecord,
  RegisterBrokerRecord,
  RequestRecord,
  TombstoneSettledRecord,
  TopicRecord,
  TopicRemovedRecord,
} from "./records.ts";
import type { UnfenceBrokerRecord, UnregisterBrokerRecord, UnsafeRecoveryRecord, VersionRange } from "./records.ts";

/** Of a topic, or of the cluster. */
const MIN_ISR = "min.insync.replicas";

export { metricNameOf } from "./image-tables.ts";
export type {
  BrokerImage,
  ClusterImage,
  NamedProducerImage,
  PartitionImage,
  PartitionPlace,
  RequestImage,
  TombstoneImage,
  TopicImage,
} from "./image-types.ts";
export type { Slot } from "./partition-index.ts";

/**
 * Guarantees: 1. the first record applied is the cluster record, and no other is one. 2. A partition's leader epoch grows
 * with each change of its leader, its partition epoch with each change, a broker's epoch with each incarnation. 3. ISR and ELR are parts of the
 * replicas without a common member; all of them are registered brokers, all of the ISR unfenced ones; the leader is in the ISR, and there is none only
 * while the ISR is empty; the ELR is empty while the ISR has min ISR members. 4. Names and topic ids are unique, deleting topics included. 5. A
 * directory id belongs to one node. 6. No producer id is given twice, and the epochs of a name's id only rise. 7. Equal contents encode to equal bytes.
 * What a record of a broker or of configuration means for partitions follows when it is applied (partition-rules.ts): one small record for all.
 */
export class MetadataImage extends ImageTables {
  /** Throws DATA_DAMAGED or DATA_DIR_NEWER, and nothing else. */
  static load(bytes: Uint8Array, supported: VersionRange = SUPPORTED_METADATA_VERSIONS): MetadataImage {
    const parts = decodeSnapshot(bytes, supported);
    const image = new MetadataImage();
    image.nextIndex = parts.endOffset;
    image.clusterNow = parts.cluster ?? undefined;
    for (const broker of parts.brokers) image.putBroker(broker);
    for (const topic of parts.topics) image.putTopic(topic);
    for (const tombstone of parts.tombstones) image.putTombstone(tombstone);
    for (const { nodeId, configs } of parts.brokerConfigs) image.putBrokerConfigs(nodeId, configs);
    for (const request of parts.requests) image.putRequest(request);
    image.producers.load(parts.producerIds);
    image.touchedNow.clear();
    return image;
  }

  /** A committed entry that is no command. */
  skip(index: number): void {
    this.#assertNext(index);
    this.touchedNow.clear();
    this.nextIndex = index + 1;
  }

  /**
   * Applies one command. Throws DATA_DAMAGED for a record that does not fit what came before: that is fatal; the image may then hold
   * half of the command, and refuses everything from then on.
   */
  apply(index: number, records: readonly MetadataRecord[]): void {
    this.#assertNext(index);
    this.isBroken = true;
    this.touchedNow.clear();
    for (const record of records) this.#applyOne(index, record);
    this.isBroken = false;
    this.nextIndex = index + 1;
  }

  #assertNext(index: number): void {
    if (this.isBroken) throw misfit(index, "the command before it was applied in part");
    if (index !== this.nextIndex) throw misfit(index, `expected index ${this.nextIndex}`);
  }

  #assertPlace(index: number, record: MetadataRecord): void {
    if (record.type === "unsafe-recovery") return; // an operator's, wherever the log ended
    if ((this.clusterNow === undefined) !== (record.type === "cluster"))
      throw misfit(index, `${record.type} cannot stand here`);
    if (record.type !== "cluster" && metadataVersionOf(record) > this.metadataVersion)
      throw misfit(index, `${record.type} ${record.version} at metadata.version ${this.metadataVersion}`);
  }

  #applyOne(index: number, record: MetadataRecord): void {
    this.#assertPlace(index, record);
    switch (record.type) {
      case "cluster":
        return this.#startCluster(record);
      case "metadata-version":
        return this.#raiseVersion(index, record);
      case "register-broker":
        return this.#registerBroker(index, record);
      case "fence-broker":
        return this.#fenceBroker(index, record);
      case "unfence-broker":
        return this.#unfenceBroker(index, record);
      case "unregister-broker":
        return this.#unregisterBroker(index, record);
      case "partition-change":
        return this.#changePartitions(index, record);
      case "topic":
        return this.#addTopic(index, record);
      case "topic-config":
        return this.#configureTopic(this.#known(index, record.topicId), record);
      case "broker-config":
        return this.#configureBroker(index, record);
      case "delete-topic":
        return this.retireTopic(this.#known(index, record.topicId));
      case "topic-removed":
        return this.#removeTopic(index, record);
      case "tombstone-settled":
        return this.#settleTombstones(index, record);
      case "request":
        return this.#rememberRequest(index, record);
      case "producer-ids":
        return this.#allocateProducerIds(index, record);
      case "named-producer":
        return this.#nameProducer(index, record);
      case "unsafe-recovery":
        return this.#recoverUnsafely(index, record);
      default:
        return assertNever(record);
    }
  }

  #startCluster({ clusterId, metadataVersion, timestampMs }: ClusterRecord): void {
    this.clusterNow = { clusterId, metadataVersion, createdMs: timestampMs };
  }

  #raiseVersion(index: number, { metadataVersion }: MetadataVersionRecord): void {
    const cluster = this.clusterNow;
    if (cluster === undefined || metadataVersion <= cluster.metadataVersion)
      throw misfit(index, `metadata.version is ${this.metadataVersion} already`);
    this.clusterNow = { ...cluster, metadataVersion };
  }

  /** D-1: before {leader 1, epoch 4, ISR {1,2}}; after node 1 registers again {leader 2, epoch 5, ISR {2}}. Alone: {nobody, 5, {}}, then {1, 6, {1}}. */
  #registerBroker(index: number, record: RegisterBrokerRecord): void {
    const { nodeId, directoryId, incarnationId, restart, address, metadataVersions, timestampMs } = record;
    const before = this.broker(nodeId);
    const holder = this.brokerOfDirectory(directoryId);
    if (holder !== undefined && holder.nodeId !== nodeId)
      throw misfit(index, `directory ${directoryId} is of node ${holder.nodeId}`);
    if (before?.incarnationId === incarnationId) {
      if (before.directoryId !== directoryId) throw misfit(index, `node ${nodeId} changed its directory while it ran`);
      return this.putBroker({ ...before, address, metadataVersions });
    }
    const isDiskChanged = restart === "changed-disk";
    if (before !== undefined && before.directoryId !== directoryId && !isDiskChanged)
      throw misfit(index, `node ${nodeId} has another directory`);
    this.putBroker({
      nodeId,
      directoryId,
      incarnationId,
      brokerEpoch: mutant("M31") && before !== undefined ? before.brokerEpoch : toBrokerEpoch(index),
      // Nothing was confirmed on a disk that is new here, or that is an older copy and was just struck from every ISR.
      confirmedEpoch: isDiskChanged ? null : (before?.confirmedEpoch ?? null),
      restart,
      address,
      metadataVersions,
      registeredMs: timestampMs,
      isFenced: true,
      fencedFor: null,
    });
    const isTrusted = restart !== "power-loss" || !mutant("D-6p");
    if (isDiskChanged || !mutant("D-1")) this.#leavePartitions(index, nodeId, isDiskChanged || !isTrusted);
  }

  #fenceBroker(index: number, record: FenceBrokerRecordV1 | FenceBrokerRecordV2): void {
    const broker = this.#inEpoch(index, record);
    this.putBroker({ ...broker, isFenced: true, fencedFor: record.version === 1 ? null : record.reason });
    this.#leavePartitions(index, record.nodeId, false);
  }

  #unfenceBroker(index: number, record: UnfenceBrokerRecord): void {
    const { nodeId, brokerEpoch } = record;
    const broker = this.#inEpoch(index, record);
    this.putBroker({ ...broker, confirmedEpoch: brokerEpoch, isFenced: false, fencedFor: null });
    for (const slot of [...(mutant("M8") ? this.index.held(nodeId) : this.index.waiting(nodeId))])
      this.#elect(index, slot, partitionOf(slot));
  }

  #unregisterBroker(index: number, record: UnregisterBrokerRecord): void {
    const broker = this.#inEpoch(index, record);
    if (!broker.isFenced) throw misfit(index, `broker ${record.nodeId} is not fenced`);
    this.#leavePartitions(index, record.nodeId, true);
    this.removeBroker(broker);
  }

  #inEpoch(index: number, { nodeId, brokerEpoch }: Pick<BrokerImage, "nodeId" | "brokerEpoch">): BrokerImage {
    const broker = this.broker(nodeId);
    if (broker?.brokerEpoch !== brokerEpoch)
      throw misfit(index, `broker ${nodeId} is not in broker epoch ${brokerEpoch}`);
    return broker;
  }

  /** The broker is fenced by now. */
  #leavePartitions(index: number, nodeId: NodeId, isDataLost: boolean): void {
    for (const slot of this.index.held(nodeId)) {
      const partition = partitionOf(slot);
      const isConcerned = partition.isr.includes(nodeId) || (isDataLost && partition.elr.includes(nodeId));
      if (isConcerned) this.#elect(index, slot, withoutMember(partition, nodeId, isDataLost));
    }
  }

  #elect(index: number, slot: Slot, standing: Standing): void {
    const partition = partitionOf(slot);
    const after = elected(partition, standing, this.#isActive);
    if (after !== partition) this.putPartition(this.#known(index, slot.topic.topicId), changed(partition, after));
  }

  readonly #isActive = (nodeId: NodeId): boolean => this.broker(nodeId)?.isFenced === false;
  readonly #isRegistered = (nodeId: NodeId): boolean => this.broker(nodeId) !== undefined;

  #changePartitions(index: number, record: PartitionChangeRecord): void {
    const entry = this.#known(index, record.topicId);
    for (const change of record.changes) {
      const partition = entry.topic.partitions[change.partition];
      if (partition === undefined) throw misfit(index, `no partition ${change.partition} in ${entry.topic.name}`);
      if (partition.partitionEpoch !== change.partitionEpoch)
        throw misfit(index, `partition epoch ${change.partitionEpoch} has passed`);
      const after = changed(partition, change, change);
      const fault = partitionFault(after, this.#isRegistered, this.#isActive);
      if (fault !== undefined) throw misfit(index, fault);
      this.putPartition(entry, after);
    }
  }

  #addTopic(index: number, record: TopicRecord): void {
    const { topicId, name, configs, replicationFactor, timestampMs } = record;
    const isKnown = this.topic(topicId) !== undefined || this.tombstone(topicId) !== undefined;
    if (isKnown || this.topicByName(name) !== undefined) throw misfit(index, `topic ${name} exists`);
    const minIsr = this.#minIsrOf(record);
    const partitions = record.replicas.map((replicas, partition): PartitionImage => {
      const isr = replicas.filter(this.#isActive);
      const first = { leaderEpoch: FIRST_LEADER_EPOCH, partitionEpoch: 0, uncleanEpoch: -1 };
      const image = { index: partition, replicas, isr, elr: [], minIsr, leader: isr[0] ?? null, ...first };
      const isSound = image.leader !== null && replicas.every(this.#isRegistered);
      if (!isSound || partitionFault(image, this.#isRegistered, this.#isActive) !== undefined)
        throw misfit(index, `partition ${partition} of ${name} cannot be on ${replicas.join(", ")}`);
      return image;
    });
    const createdMs = timestampMs;
    this.putTopic({ topicId, name, configs, replicationFactor, createdMs, isDeleting: false, partitions });
  }

  #minIsrOf({ replicationFactor, configs }: Pick<TopicImage, "replicationFactor" | "configs">): number {
    return effectiveMinIsr(replicationFactor, configs[MIN_ISR], this.brokerConfigs(null)[MIN_ISR]);
  }

  #configureTopic(entry: TopicEntry, { configs }: TopicConfigRecord): void {
    this.putTopicConfigs(entry, configs);
    this.#deriveMinIsr(entry);
  }

  #configureBroker(index: number, { nodeId, configs }: BrokerConfigRecord): void {
    if (nodeId !== null && this.broker(nodeId) === undefined) throw misfit(index, `no broker ${nodeId}`);
    this.putBrokerConfigs(nodeId, configs);
    if (nodeId !== null) return;
    for (const topic of this.topics) this.#deriveMinIsr(this.#known(index, topic.topicId));
  }

  /** D-5. */
  #deriveMinIsr(entry: TopicEntry): void {
    const minIsr = this.#minIsrOf(entry.topic);
    for (const partition of entry.topic.partitions)
      if (partition.minIsr !== minIsr) this.putPartition(entry, withMinIsr(partition, minIsr));
  }

  #removeTopic(index: number, { topicId, owed }: TopicRemovedRecord): void {
    const entry = this.#known(index, topicId);
    const { name, isDeleting } = entry.topic;
    if (!isDeleting) throw misfit(index, `topic ${name} was not marked for deletion`);
    const isSound = owed.every((node, at) => this.broker(node) && (at === 0 || (owed[at - 1] ?? node) < node));
    if (!isSound) throw misfit(index, `topic ${name} cannot be owed by ${owed.join(", ")}`);
    this.removeTopic(entry);
    this.putTombstone({ topicId, name, owed });
  }

  #settleTombstones(index: number, { nodeId, topicIds }: TombstoneSettledRecord): void {
    for (const topicId of topicIds) {
      const tombstone = this.tombstone(topicId);
      if (!tombstone?.owed.includes(nodeId)) throw misfit(index, `node ${nodeId} owes nothing for ${topicId}`);
      this.putTombstone({ ...tombstone, owed: tombstone.owed.filter((member) => member !== nodeId) });
    }
  }

  #rememberRequest(index: number, { requestId, topicId }: RequestRecord): void {
    if (this.requestOf(requestId) !== undefined) throw misfit(index, `request ${requestId} was made before`);
    this.putRequest({ requestId, topicId });
  }

  /** P-17. */
  #allocateProducerIds(index: number, record: ProducerIdsRecord): void {
    const { firstId, count } = record;
    this.#inEpoch(index, record);
    const { nextId } = this.producers;
    if (firstId !== nextId || count < 1 || firstId + count > NAMED_PRODUCER_IDS_START)
      throw misfit(index, `${count} producer ids from ${firstId} on, the next one is ${nextId}`);
    this.producers.advanceTo(firstId + count);
  }

  #nameProducer(index: number, record: NamedProducerRecord): void {
    const { name, producerId, producerEpoch, fromId, fromEpoch, forgets, timestampMs } = record;
    const known = this.producers.byName(name);
    const isSame = known?.producerId === producerId;
    const isNext = producerId === this.producers.nextNamedId && producerEpoch === 0;
    if (isSame ? producerEpoch <= known.producerEpoch : !isNext)
      throw misfit(index, `producer ${name} cannot go on as ${producerId} in epoch ${producerEpoch}`);
    if (producerEpoch > PRODUCER_EPOCH_MAX || (forgets !== null && this.producers.byName(forgets) === undefined))
      throw misfit(index, `producer ${name}: no such epoch, or name to be forgotten`);
    if (forgets !== null) this.producers.forget(forgets);
    this.producers.put({ name, producerId, producerEpoch, fromId, fromEpoch, usedMs: timestampMs });
  }

  #recoverUnsafely(index: number, { epochsRaisedBy }: UnsafeRecoveryRecord): void {
    // A lost command gave at most one block, or one name.
    if (this.clusterNow !== undefined) this.producers.skip(epochsRaisedBy * PRODUCER_IDS_BLOCK, epochsRaisedBy);
    for (const broker of [...this.brokers]) this.putBroker({ ...broker, isFenced: true, fencedFor: null });
    for (const { topicId, partitions } of this.topics)
      for (const partition of partitions)
        this.putPartition(this.#known(index, topicId), withEpochsRaised(partition, epochsRaisedBy));
  }

  #known(index: number, topicId: TopicId): TopicEntry {
    const entry = this.entry(topicId);
    if (entry === undefined) throw misfit(index, `no topic ${topicId}`);
    return entry;
  }
}

function misfit(index: number, reason: string): OttlaError {
  return new OttlaError("DATA_DAMAGED", `metadata entry ${index} does not fit: ${reason}`);
}
