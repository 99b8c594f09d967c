// What the metadata log says now: brokers, topics, partitions, configuration. `apply` is the only way to change it, and is deterministic: no
// clock, no randomness, no configuration (Q-19, D-23), so that every node at one index holds the same image.
import { assertNever } from "../base/assert.ts";
import { mutant } from "../base/mutant.ts";
import { OttlaError } from "../model/errors.ts";
import { type LeaderEpoch, type NodeId, type TopicId, toBrokerEpoch } from "../model/ids.ts";
import { decodeSnapshot } from "./image-snapshot.ts";
import { ImageTables, type TopicEntry } from "./image-tables.ts";
import type { BrokerImage, PartitionImage } from "./image-types.ts";
import { partitionOf, type Slot } from "./partition-index.ts";
import { FIRST_LEADER_EPOCH, SUPPORTED_METADATA_VERSIONS, metadataVersionOf } from "./records.ts";
import type { BrokerConfigRecord, ClusterRecord, FenceBrokerRecordV1, FenceBrokerRecordV2 } from "./records.ts";
import type { MetadataRecord, MetadataVersionRecord, PartitionChange, PartitionChangeRecord } from "./records.ts";
import type {
  RegisterBrokerRecord,
  RequestRecord,
  TombstoneSettledRecord,
  TopicRecord,
  TopicRemovedRecord,
} from "./records.ts";
import type { UnfenceBrokerRecord, UnregisterBrokerRecord, UnsafeRecoveryRecord, VersionRange } from "./records.ts";

export { metricNameOf } from "./image-tables.ts";
export type {
  BrokerImage,
  ClusterImage,
  PartitionImage,
  PartitionPlace,
  RequestImage,
  TombstoneImage,
  TopicImage,
} from "./image-types.ts";

/**
 * Guarantees: 1. the first record applied is the cluster record, and no other is one. 2. A partition's leader epoch only grows, and a broker's
 * epoch too. 3. A leader is an unfenced broker and in the ISR; the ISR is part of the replicas, and all of it are registered brokers. 4. Names and
 * topic ids are unique, deleting topics included. 5. A directory id belongs to one node. 6. Equal contents encode to equal bytes.
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
    return image;
  }

  /** A committed entry that is no command. */
  skip(index: number): void {
    this.#assertNext(index);
    this.nextIndex = index + 1;
  }

  /**
   * Applies one command. Throws DATA_DAMAGED for a record that does not fit what came before: that is fatal; the image may then hold
   * half of the command, and refuses everything from then on.
   */
  apply(index: number, records: readonly MetadataRecord[]): void {
    this.#assertNext(index);
    this.isBroken = true;
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
        return this.putTopicConfigs(this.#known(index, record.topicId), record.configs);
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
      case "unsafe-recovery":
        return this.#recoverUnsafely(record);
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

  /** D-1: before partition {leader 1, epoch 4}, after node 1 registers again {leader null, epoch 5}; its election then gives epoch 6. */
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
    if (!mutant("D-1")) this.#takeLeaderships(index, nodeId);
    if (isDiskChanged) this.#leaveIsrs(index, nodeId);
    this.putBroker({
      nodeId,
      directoryId,
      incarnationId,
      brokerEpoch: toBrokerEpoch(index),
      // Nothing was confirmed on a disk that is new here, or that is an older copy and was just struck from every ISR.
      confirmedEpoch: isDiskChanged ? null : (before?.confirmedEpoch ?? null),
      restart,
      address,
      metadataVersions,
      registeredMs: timestampMs,
      isFenced: true,
      fencedFor: null,
    });
  }

  #fenceBroker(index: number, record: FenceBrokerRecordV1 | FenceBrokerRecordV2): void {
    const broker = this.#inEpoch(index, record);
    this.#takeLeaderships(index, record.nodeId);
    this.putBroker({ ...broker, isFenced: true, fencedFor: record.version === 1 ? null : record.reason });
  }

  #unfenceBroker(index: number, record: UnfenceBrokerRecord): void {
    const broker = this.#inEpoch(index, record);
    this.putBroker({ ...broker, confirmedEpoch: record.brokerEpoch, isFenced: false, fencedFor: null });
  }

  #unregisterBroker(index: number, record: UnregisterBrokerRecord): void {
    const broker = this.#inEpoch(index, record);
    if (!broker.isFenced) throw misfit(index, `broker ${record.nodeId} is not fenced`);
    this.#leaveIsrs(index, record.nodeId);
    this.removeBroker(broker);
  }

  #inEpoch(index: number, { nodeId, brokerEpoch }: Pick<BrokerImage, "nodeId" | "brokerEpoch">): BrokerImage {
    const broker = this.broker(nodeId);
    if (broker?.brokerEpoch !== brokerEpoch)
      throw misfit(index, `broker ${nodeId} is not in broker epoch ${brokerEpoch}`);
    return broker;
  }

  #takeLeaderships(index: number, nodeId: NodeId): void {
    for (const slot of [...this.index.led(nodeId)])
      this.#replace(index, slot, { leader: null, isr: partitionOf(slot).isr });
  }

  /** D-6. An ISR may end empty: such a partition has nobody who holds its records. */
  #leaveIsrs(index: number, nodeId: NodeId): void {
    for (const slot of this.index.held(nodeId)) {
      const { leader, isr } = partitionOf(slot);
      if (isr.includes(nodeId)) this.#replace(index, slot, { leader, isr: isr.filter((member) => member !== nodeId) });
    }
  }

  #replace(index: number, slot: Slot, change: Pick<PartitionChange, "leader" | "isr">): void {
    this.putPartition(this.#known(index, slot.topic.topicId), changed(partitionOf(slot), change));
  }

  #changePartitions(index: number, record: PartitionChangeRecord): void {
    const entry = this.#known(index, record.topicId);
    for (const change of record.changes) {
      const partition = entry.topic.partitions[change.partition];
      if (partition === undefined) throw misfit(index, `no partition ${change.partition} in ${entry.topic.name}`);
      if (partition.partitionEpoch !== change.partitionEpoch)
        throw misfit(index, `partition epoch ${change.partitionEpoch} has passed`);
      const isSound = isPartOf(change.isr, partition.replicas) && change.isr.every((node) => this.broker(node));
      if (!isSound) throw misfit(index, "an ISR that is no part of the replicas that are registered");
      if (change.leader !== null && !this.#mayLead(change.leader, change.isr))
        throw misfit(index, `${change.leader} may not lead`);
      this.putPartition(entry, changed(partition, change));
    }
  }

  #mayLead(leader: NodeId, isr: readonly NodeId[]): boolean {
    return isr.includes(leader) && this.broker(leader)?.isFenced === false;
  }

  #addTopic(index: number, record: TopicRecord): void {
    const { topicId, name, configs, replicationFactor, minIsr, timestampMs } = record;
    const isKnown = this.topic(topicId) !== undefined || this.tombstone(topicId) !== undefined;
    if (isKnown || this.topicByName(name) !== undefined) throw misfit(index, `topic ${name} exists`);
    const partitions = record.replicas.map((replicas, partition): PartitionImage => {
      const leader = replicas[0];
      const isSound = new Set(replicas).size === replicas.length && replicas.every((node) => this.broker(node));
      if (leader === undefined || !isSound || !this.#mayLead(leader, replicas))
        throw misfit(index, `partition ${partition} of ${name} cannot be on ${replicas.join(", ")}`);
      const first = { leaderEpoch: FIRST_LEADER_EPOCH, partitionEpoch: 0 };
      return { index: partition, replicas, isr: replicas, minIsr, leader, ...first };
    });
    const createdMs = timestampMs;
    this.putTopic({ topicId, name, configs, replicationFactor, createdMs, isDeleting: false, partitions });
  }

  #configureBroker(index: number, { nodeId, configs }: BrokerConfigRecord): void {
    if (nodeId !== null && this.broker(nodeId) === undefined) throw misfit(index, `no broker ${nodeId}`);
    this.putBrokerConfigs(nodeId, configs);
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

  #recoverUnsafely({ epochsRaisedBy }: UnsafeRecoveryRecord): void {
    for (const broker of [...this.brokers]) this.putBroker({ ...broker, isFenced: true, fencedFor: null });
    for (const { topicId } of this.topics) {
      const entry = this.entry(topicId);
      for (const partition of entry?.topic.partitions ?? []) {
        const leaderEpoch = (partition.leaderEpoch + epochsRaisedBy) as LeaderEpoch;
        const partitionEpoch = partition.partitionEpoch + epochsRaisedBy;
        if (entry !== undefined) this.putPartition(entry, { ...partition, leader: null, leaderEpoch, partitionEpoch });
      }
    }
  }

  #known(index: number, topicId: TopicId): TopicEntry {
    const entry = this.entry(topicId);
    if (entry === undefined) throw misfit(index, `no topic ${topicId}`);
    return entry;
  }
}

/** A leader epoch is of one leader in one incarnation: every loss and every gain of leadership opens a new one (D-1). */
function changed(partition: PartitionImage, { leader, isr }: Pick<PartitionChange, "leader" | "isr">): PartitionImage {
  const isNew = leader !== partition.leader && !mutant("D-1e");
  const leaderEpoch = (isNew ? partition.leaderEpoch + 1 : partition.leaderEpoch) as LeaderEpoch;
  return { ...partition, leader, isr, leaderEpoch, partitionEpoch: partition.partitionEpoch + 1 };
}

function isPartOf(isr: readonly NodeId[], replicas: readonly NodeId[]): boolean {
  return new Set(isr).size === isr.length && isr.every((nodeId) => replicas.includes(nodeId));
}

function misfit(index: number, reason: string): OttlaError {
  return new OttlaError("DATA_DAMAGED", `metadata entry ${index} does not fit: ${reason}`);
}
