// A metadata log of several brokers for tests: every decision goes through bytes, as it would through Raft.
import type { ClusterId, DirectoryId, IncarnationId, NodeId, TopicId, Uuid } from "../../src/model/ids.ts";
import { uuidFromBytes } from "../../src/model/ids.ts";
import { decodeCommand, encodeCommand } from "../../src/metadata/codec.ts";
import * as controller from "../../src/metadata/controller.ts";
import type { BrokerImage, PartitionImage, TopicImage } from "../../src/metadata/image.ts";
import { MetadataImage } from "../../src/metadata/image.ts";
import type { FenceReason, MetadataRecord, RestartClaim, VersionRange } from "../../src/metadata/records.ts";

export type Decision = controller.Decision;

/** A uuid from a small number. */
export function uuid(value: number): Uuid {
  const bytes = new Uint8Array(16);
  bytes[15] = value & 0xff;
  bytes[14] = value >> 8;
  bytes[13] = value >> 16;
  return uuidFromBytes(bytes);
}

export const CLUSTER = uuid(1000) as ClusterId;
export const node = (value: number): NodeId => value as NodeId;
/** The directory that a node has at first. */
export const directoryOf = (nodeId: number): DirectoryId => uuid(2000 + nodeId) as DirectoryId;
export const topicIdOf = (value: number): TopicId => uuid(value) as TopicId;

/** An entry of the log: a command, or one that the image skips. */
export type Entry = Uint8Array | null;

export interface RegisterOptions {
  readonly directoryId?: DirectoryId;
  /** Default: one never seen. */
  readonly incarnation?: number;
  readonly restart?: RestartClaim;
  readonly address?: string;
  readonly metadataVersions?: VersionRange;
  /** Default: the epoch that the broker has now, as an honest disk would hold it. */
  readonly storedBrokerEpoch?: number | null;
  readonly hasLiveSession?: boolean;
  readonly clusterId?: ClusterId;
}

export interface TopicOptions {
  readonly partitions?: number;
  readonly replicationFactor?: number;
  readonly configs?: readonly { readonly key: string; readonly value: string }[];
  readonly topicId?: number;
  readonly partitionsPerTopicMax?: number;
  readonly partitionsMax?: number;
  readonly partitionsDefault?: number;
  /** Nodes that are low on disk space. */
  readonly low?: readonly number[];
  /** Nodes that were not heard of lately. */
  readonly quiet?: readonly number[];
}

export class History {
  image = new MetadataImage();
  readonly entries: Entry[] = [];
  #incarnations = 5000;
  #topicIds = 1;

  /** A cluster at this metadata.version in which these nodes are registered and unfenced. */
  static started(nodeIds: readonly number[] = [1], metadataVersion = 1): History {
    const history = new History();
    history.skip();
    history.take(controller.decideCluster(history.image, { clusterId: CLUSTER, metadataVersion, nowMs: 1 }));
    for (const nodeId of nodeIds) history.join(nodeId);
    return history;
  }

  /** Applies the records of a decision as one command; throws when it is a refusal. */
  take(decision: Decision): readonly MetadataRecord[] {
    if (decision.kind === "refused") throw new Error(`${decision.error}: ${decision.message}`);
    if (decision.records.length === 0) return [];
    const version = this.image.metadataVersion;
    const bytes = encodeCommand(decision.records, version === 0 ? 1 : version);
    const records = decodeCommand(bytes, this.image.endOffset);
    this.image.apply(this.image.endOffset, records);
    this.entries.push(bytes);
    return records;
  }

  /** Applies records that nobody decided on. */
  force(...records: readonly MetadataRecord[]): void {
    this.image.apply(this.image.endOffset, records);
  }

  skip(): void {
    this.image.skip(this.image.endOffset);
    this.entries.push(null);
  }

  wishRegistration(nodeId: number, options: RegisterOptions = {}): Decision {
    const { restart = "clean", address = `host${nodeId}:7070`, metadataVersions = { min: 1, max: 2 } } = options;
    const { directoryId = directoryOf(nodeId), hasLiveSession = false, clusterId = CLUSTER } = options;
    const { storedBrokerEpoch = this.image.broker(node(nodeId))?.brokerEpoch ?? null } = options;
    const incarnationId = uuid(options.incarnation ?? this.#incarnations++) as IncarnationId;
    const identity = { clusterId, nodeId: node(nodeId), directoryId, incarnationId, restart, address };
    return controller.decideRegistration(this.image, {
      ...identity,
      metadataVersions,
      storedBrokerEpoch,
      hasLiveSession,
      nowMs: 3,
    });
  }

  register(nodeId: number, options: RegisterOptions = {}): readonly MetadataRecord[] {
    return this.take(this.wishRegistration(nodeId, options));
  }

  wishUnfence(nodeId: number, options: Partial<controller.UnfenceWish> = {}): Decision {
    const brokerEpoch = this.image.broker(node(nodeId))?.brokerEpoch ?? -1;
    const wish = { nodeId: node(nodeId), brokerEpoch, isConfirmed: true, appliedEnd: this.image.endOffset };
    return controller.decideUnfence(this.image, { ...wish, ...options });
  }

  unfence(nodeId: number): readonly MetadataRecord[] {
    return this.take(this.wishUnfence(nodeId));
  }

  join(nodeId: number, options: RegisterOptions = {}): void {
    this.register(nodeId, options);
    this.unfence(nodeId);
  }

  wishFence(nodeIds: readonly number[], reason: FenceReason = "session"): Decision {
    const wishes = nodeIds.map((nodeId) => {
      const brokerEpoch = this.image.broker(node(nodeId))?.brokerEpoch ?? -1;
      return { nodeId: node(nodeId), brokerEpoch, reason };
    });
    return controller.decideFence(this.image, wishes);
  }

  fence(...nodeIds: readonly number[]): readonly MetadataRecord[] {
    return this.take(this.wishFence(nodeIds));
  }

  wishTopic(name: string, options: TopicOptions = {}): Decision {
    const { partitions = -1, replicationFactor = -1, configs = [], topicId = this.#topicIds++ } = options;
    const {
      partitionsPerTopicMax = 10,
      partitionsMax = 1_000_000,
      partitionsDefault = 1,
      low = [],
      quiet = [],
    } = options;
    const isLowOnSpace = (nodeId: NodeId) => low.includes(nodeId);
    const isQuiet = (nodeId: NodeId) => quiet.includes(nodeId);
    return controller.decideTopic(
      this.image,
      { name, partitions, replicationFactor, configs },
      {
        topicId: topicIdOf(topicId),
        nowMs: 7,
        partitionsDefault,
        partitionsPerTopicMax,
        partitionsMax,
        isLowOnSpace,
        isQuiet,
      },
    );
  }

  create(name: string, options: TopicOptions = {}): TopicImage {
    this.take(this.wishTopic(name, { partitionsPerTopicMax: 1_000_000, ...options }));
    return this.topic(name);
  }

  delete(name: string): void {
    this.take(controller.decideDeletion(this.image, name));
  }

  topic(name: string): TopicImage {
    const topic = this.image.topicByName(name);
    if (topic === undefined) throw new Error(`no topic ${name}`);
    return topic;
  }

  broker(nodeId: number): BrokerImage {
    const broker = this.image.broker(node(nodeId));
    if (broker === undefined) throw new Error(`no broker ${nodeId}`);
    return broker;
  }

  leaders(name: string): (number | null)[] {
    return this.topic(name).partitions.map(({ leader }) => leader);
  }

  epochs(name: string): number[] {
    return this.topic(name).partitions.map(({ leaderEpoch }) => leaderEpoch);
  }
}

/** The image that the entries make, from the first one or from a snapshot. */
export function replayed(entries: readonly Entry[], from: Uint8Array | null = null): MetadataImage {
  const image = from === null ? new MetadataImage() : MetadataImage.load(from);
  for (let index = image.endOffset; index < entries.length; index++) {
    const entry = entries[index] ?? null;
    if (entry === null) image.skip(index);
    else image.apply(index, decodeCommand(entry, index));
  }
  return image;
}

/** What breaks a guarantee of the image, found by looking at everything. */
export function faultsOf(image: MetadataImage): string[] {
  const faults: string[] = [];
  const expect = (isSo: boolean, what: string): void => void (isSo || faults.push(what));
  const counts = { held: new Map<number, number>(), led: new Map<number, number>() };
  let total = 0;
  let live = 0;
  for (const topic of image.topics) {
    expect(image.topicByName(topic.name) === topic && image.topic(topic.topicId) === topic, `${topic.name} is found`);
    total += topic.partitions.length;
    if (!topic.isDeleting) live += topic.partitions.length;
    for (const partition of topic.partitions) {
      faults.push(...partitionFaults(image, topic, partition));
      if (partition.leader !== null) add(counts.led, partition.leader);
      if (!topic.isDeleting) for (const replica of partition.replicas) add(counts.held, replica);
    }
  }
  expect(image.partitionCount === total && image.livePartitionCount === live, "the partitions are counted");
  const names = [...image.topics].map(({ name }) => name);
  expect(new Set(names).size === names.length, "names are unique");
  expect(JSON.stringify(image.topicNames) === JSON.stringify(names.sort()), "names are sorted");
  for (const { nodeId, brokerEpoch, confirmedEpoch } of image.brokers) {
    expect((confirmedEpoch ?? -1) <= brokerEpoch, `${nodeId} confirmed what it has`);
    expect(image.heldCount(nodeId) === (counts.held.get(nodeId) ?? 0), `partitions held by ${nodeId}`);
    expect(image.ledCount(nodeId) === (counts.led.get(nodeId) ?? 0), `partitions led by ${nodeId}`);
    const waiting = [...image.leaderlessOn(nodeId)].map(({ topic, partition }) => `${topic.name}-${partition.index}`);
    expect(waiting.sort().join() === leaderless(image, nodeId).sort().join(), `partitions waiting for ${nodeId}`);
    const held = [...image.partitionsOn(nodeId)].length;
    expect(held >= image.heldCount(nodeId), `places of ${nodeId}`);
  }
  for (const { topicId, owed } of image.tombstones) {
    expect(image.topic(topicId) === undefined && owed.length > 0, `tombstone of ${topicId}`);
  }
  return faults;
}

function add(counts: Map<number, number>, key: number): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

function leaderless(image: MetadataImage, nodeId: NodeId): string[] {
  return [...image.topics]
    .filter(({ isDeleting }) => !isDeleting)
    .flatMap(({ name, partitions }) =>
      partitions
        .filter(({ leader, isr }) => leader === null && isr.includes(nodeId))
        .map(({ index }) => `${name}-${index}`),
    );
}

function partitionFaults(image: MetadataImage, { name }: TopicImage, partition: PartitionImage): string[] {
  const { index, leader, isr, replicas } = partition;
  const faults: string[] = [];
  if (leader !== null && !isr.includes(leader)) faults.push(`the leader of ${name}-${index} is outside the ISR`);
  if (leader !== null && image.broker(leader)?.isFenced !== false)
    faults.push(`${name}-${index} is led by a fenced one`);
  if (!isr.every((member) => replicas.includes(member))) faults.push(`the ISR of ${name}-${index} is no replicas`);
  return faults;
}
