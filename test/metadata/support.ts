// A metadata log of several brokers for tests: every decision goes through bytes, as it would through Raft.
import type { ClusterId, DirectoryId, IncarnationId, NodeId, TopicId, Uuid } from "../../src/model/ids.ts";
import { uuidFromBytes } from "../../src/model/ids.ts";
import { decodeCommand, encodeCommand } from "../../src/metadata/codec.ts";
import * as controller from "../../src/metadata/controller.ts";
import type { BrokerImage, PartitionImage, PartitionPlace, TopicImage } from "../../src/metadata/image.ts";
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
  readonly replicationFactorDefault?: number;
}

export interface IsrOptions {
  readonly leaderEpoch?: number;
  readonly partitionEpoch?: number;
  /** Default: the leader as it is. */
  readonly from?: number;
  readonly senderEpoch?: number;
  /** Of members whose broker epoch is not the present one. */
  readonly memberEpochs?: Readonly<Record<number, number>>;
  readonly wantsMove?: boolean;
  readonly damaged?: readonly number[];
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
      replicationFactorDefault = 1,
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
        replicationFactorDefault,
        isLowOnSpace,
        isQuiet,
      },
    );
  }

  create(name: string, options: TopicOptions = {}): TopicImage {
    this.take(this.wishTopic(name, { partitionsPerTopicMax: 1_000_000, ...options }));
    return this.topic(name);
  }

  /** What the leader of a partition asks for, as of now. */
  wishIsr(name: string, partition: number, isr: readonly number[], options: IsrOptions = {}): Decision {
    const { topicId } = this.topic(name);
    const now = this.partition(name, partition);
    const nodeId = node(options.from ?? now.leader ?? -1);
    const epochOf = (member: number): number => this.image.broker(node(member))?.brokerEpoch ?? -1;
    return controller.decideAlterPartition(
      this.image,
      {
        nodeId,
        brokerEpoch: options.senderEpoch ?? epochOf(nodeId),
        topicId,
        partition,
        leaderEpoch: options.leaderEpoch ?? now.leaderEpoch,
        partitionEpoch: options.partitionEpoch ?? now.partitionEpoch,
        isr: isr.map((member) => ({
          nodeId: member,
          brokerEpoch: options.memberEpochs?.[member] ?? epochOf(member),
        })),
        wantsMove: options.wantsMove ?? false,
      },
      { isDamaged: (member) => options.damaged?.includes(member) ?? false },
    );
  }

  alter(name: string, partition: number, isr: readonly number[], options: IsrOptions = {}): void {
    this.take(this.wishIsr(name, partition, isr, options));
  }

  wishDamage(nodeId: number, name: string, ...partitions: readonly number[]): Decision {
    const { topicId } = this.topic(name);
    const { brokerEpoch } = this.broker(nodeId);
    const refs = partitions.map((partition) => ({ topicId, partition }));
    return controller.decideDamage(this.image, { nodeId: node(nodeId), brokerEpoch, partitions: refs });
  }

  wishElection(
    kind: "preferred" | "unclean",
    name: string,
    partition: number,
    nodeId: number | null = null,
    more: Partial<controller.Elections> = {},
  ): Decision {
    const { topicId } = this.topic(name);
    const { decision, verdicts } = controller.decideElections(this.image, {
      kind,
      partitions: [{ topicId, partition }],
      nodeId: nodeId === null ? null : node(nodeId),
      ...more,
    });
    const [{ error, message } = { error: "UNKNOWN_SERVER_ERROR" as const, message: "" }] = verdicts;
    return error === "NONE" ? decision : { kind: "refused", error, message };
  }

  partition(name: string, index = 0): PartitionImage {
    const partition = this.topic(name).partitions[index];
    if (partition === undefined) throw new Error(`no partition ${name}-${index}`);
    return partition;
  }

  /** "leader epoch, ISR, ELR": `1@0 [1 2 3] []`. */
  standing(name: string, index = 0): string {
    const { leader, leaderEpoch, isr, elr } = this.partition(name, index);
    return `${leader ?? "-"}@${leaderEpoch} [${isr.join(" ")}] [${elr.join(" ")}]`;
  }

  configure(name: string | null, key: string, value: string | null): void {
    const changes = [{ key, value }];
    this.take(
      name === null
        ? controller.decideBrokerConfigs(this.image, { nodeId: null, changes })
        : controller.decideTopicConfigs(this.image, { name, changes }),
    );
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
  const counts = { held: new Map<number, number>(), led: new Map<number, number>(), first: new Map<number, number>() };
  let total = 0;
  let live = 0;
  for (const topic of image.topics) {
    expect(image.topicByName(topic.name) === topic && image.topic(topic.topicId) === topic, `${topic.name} is found`);
    total += topic.partitions.length;
    if (!topic.isDeleting) live += topic.partitions.length;
    for (const partition of topic.partitions) {
      faults.push(...partitionFaults(image, topic, partition));
      if (partition.leader !== null) add(counts.led, partition.leader);
      if (topic.isDeleting) continue;
      for (const replica of partition.replicas) add(counts.held, replica);
      add(counts.first, partition.replicas[0] ?? -1);
    }
  }
  expect(image.partitionCount === total && image.livePartitionCount === live, "the partitions are counted");
  const names = [...image.topics].map(({ name }) => name);
  expect(new Set(names).size === names.length, "names are unique");
  expect(JSON.stringify(image.topicNames) === JSON.stringify(names.sort()), "names are sorted");
  for (const { nodeId, brokerEpoch, confirmedEpoch, isFenced } of image.brokers) {
    expect((confirmedEpoch ?? -1) <= brokerEpoch, `${nodeId} confirmed what it has`);
    expect(image.heldCount(nodeId) === (counts.held.get(nodeId) ?? 0), `partitions held by ${nodeId}`);
    expect(image.ledCount(nodeId) === (counts.led.get(nodeId) ?? 0), `partitions led by ${nodeId}`);
    const held = [...image.partitionsOn(nodeId)].length;
    expect(held >= image.heldCount(nodeId), `places of ${nodeId}`);
    expect(image.firstCount(nodeId) === (counts.first.get(nodeId) ?? 0), `first replicas of ${nodeId}`);
    expect(image.active.get(nodeId) === (isFenced ? undefined : brokerEpoch), `${nodeId} is active`);
  }
  const placesOf = (places: Iterable<PartitionPlace>) =>
    [...places].map(({ topic, partition }) => `${topic.name}-${partition.index}`).sort();
  expect(placesOf(image.leaderless()).join() === found(image, isLeaderless), "the leaderless partitions");
  expect(placesOf(image.astray()).join() === found(image, isAstray), "the partitions led by another");
  for (const { topicId, owed } of image.tombstones) {
    expect(image.topic(topicId) === undefined && owed.length > 0, `tombstone of ${topicId}`);
  }
  return faults;
}

function add(counts: Map<number, number>, key: number): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

const isLeaderless = ({ leader }: PartitionImage): boolean => leader === null;

function isAstray({ leader, isr, replicas: [first = node(-1)] }: PartitionImage): boolean {
  return leader !== null && leader !== first && isr.includes(first);
}

function found(image: MetadataImage, isWanted: (partition: PartitionImage) => boolean): string {
  return [...image.topics]
    .filter(({ isDeleting }) => !isDeleting)
    .flatMap(({ name, partitions }) => partitions.filter(isWanted).map(({ index }) => `${name}-${index}`))
    .sort()
    .join();
}

/** Written anew, so that it is no copy of the rules that it checks. */
function partitionFaults(image: MetadataImage, topic: TopicImage, partition: PartitionImage): string[] {
  const { index, leader, isr, elr, replicas, minIsr, leaderEpoch, uncleanEpoch } = partition;
  const what = `${topic.name}-${index}`;
  const faults: string[] = [];
  const isFenced = (nodeId: NodeId): boolean => image.broker(nodeId)?.isFenced !== false;
  if (leader !== null && !isr.includes(leader)) faults.push(`the leader of ${what} is outside the ISR`);
  if (leader !== null && isFenced(leader)) faults.push(`${what} is led by a fenced one`);
  if (leader === null && isr.length > 0) faults.push(`${what} has an ISR and no leader`);
  if (isr.some(isFenced)) faults.push(`the ISR of ${what} has a fenced one`);
  if ([...isr, ...elr].some((member) => !replicas.includes(member)))
    faults.push(`ISR or ELR of ${what} is no replicas`);
  if (isr.some((member) => elr.includes(member))) faults.push(`${what} has one in ISR and ELR`);
  if (new Set(isr).size < isr.length || new Set(elr).size < elr.length) faults.push(`${what} has one twice`);
  if (elr.some((member) => image.broker(member) === undefined)) faults.push(`the ELR of ${what} has a stranger`);
  if (isr.length >= minIsr && elr.length > 0) faults.push(`${what} has an ELR that it does not need`);
  if (isr.length === 0 && elr.some((member) => !isFenced(member))) faults.push(`${what} could have a leader`);
  if (minIsr !== expectedMinIsr(image, topic)) faults.push(`min ISR of ${what} is ${minIsr}`);
  if (uncleanEpoch > leaderEpoch) faults.push(`${what} had an unclean election in times to come`);
  return faults;
}

function expectedMinIsr(image: MetadataImage, { configs, replicationFactor }: TopicImage): number {
  const set = configs["min.insync.replicas"] ?? image.brokerConfigs(null)["min.insync.replicas"];
  return Math.min(set ?? Math.ceil((replicationFactor + 1) / 2), replicationFactor);
}
