// Decisions about single partitions: who is in sync, who leads, what damage means (R-34, R-60, R-61, D-8, D-17).
import { mutant } from "../base/mutant.ts";
import type { ErrorName } from "../model/errors.ts";
import type { NodeId, TopicId } from "../model/ids.ts";
import { type Decision, accepted, refused } from "./decision.ts";
import type { MetadataImage, PartitionImage, TopicImage } from "./image.ts";
import { type ChangeKind, type Standing, elected, withIsr, withoutMember } from "./partition-rules.ts";
import type { MetadataRecord, PartitionChange, PartitionChangeRecord } from "./records.ts";

export interface PartitionRef {
  readonly topicId: TopicId;
  readonly partition: number;
}

/** Of one partition: NONE with a change, NONE without one (it is as wished already), or why not. */
export interface Verdict {
  readonly error: ErrorName;
  readonly message: string;
}

export const DONE: Verdict = { error: "NONE", message: "" };
export const no = (error: ErrorName, message: string): Verdict => ({ error, message });

/** A command stays below the 1,000,000 bytes that every voter takes. */
const COMMAND_BYTES_MAX = 600_000;
const TOPIC_BYTES = 100;
const CHANGE_BYTES = 140;
const NODE_BYTES = 6;

/** Changes of many partitions, for one command. Bound: what a command takes; each partition at most once. */
export class PartitionChanges {
  readonly #byTopic = new Map<TopicId, Map<number, PartitionChange>>();
  #bytes = 0;
  #count = 0;

  get isFull(): boolean {
    return this.#bytes >= COMMAND_BYTES_MAX;
  }
  get count(): number {
    return this.#count;
  }

  has({ topicId, partition }: PartitionRef): boolean {
    return this.#byTopic.get(topicId)?.has(partition) === true;
  }

  add(topicId: TopicId, partition: PartitionImage, standing: Standing, kind: ChangeKind = {}): void {
    let changes = this.#byTopic.get(topicId);
    if (changes === undefined) {
      changes = new Map();
      this.#byTopic.set(topicId, changes);
      this.#bytes += TOPIC_BYTES;
    }
    const { leader, isr, elr } = standing;
    const { index, partitionEpoch } = partition;
    const { isUnclean = false, isNewEpoch = false } = kind;
    changes.set(index, { partition: index, leader, isr, elr, isUnclean, isNewEpoch, partitionEpoch });
    this.#bytes += CHANGE_BYTES + NODE_BYTES * (isr.length + elr.length);
    this.#count++;
  }

  get records(): readonly MetadataRecord[] {
    return [...this.#byTopic].map(
      ([topicId, changes]): PartitionChangeRecord => ({
        type: "partition-change",
        version: 1,
        topicId,
        changes: [...changes.values()],
      }),
    );
  }
}

export interface IsrWish extends PartitionRef {
  readonly leaderEpoch: number;
  readonly partitionEpoch: number;
  /** The whole ISR; each member under the broker epoch in which the leader saw it in sync. */
  readonly isr: readonly { readonly nodeId: number; readonly brokerEpoch: number }[];
  /** D-8: the leader's own disk is behind. */
  readonly wantsMove: boolean;
}

export interface IsrSender {
  readonly nodeId: NodeId;
  readonly brokerEpoch: number;
}

/** What the controller was told beside what is in the image. */
export interface DamageKnown {
  /** Default: nothing is damaged. */
  readonly isDamaged?: (nodeId: NodeId, ref: PartitionRef) => boolean;
}

/** A leader's wish for another ISR, or another leader; of a refused one only why. */
export function decideAlterPartition(
  image: MetadataImage,
  wish: IsrSender & IsrWish,
  known: DamageKnown = {},
): Decision {
  const changes = new PartitionChanges();
  const { error, message } = alterPartition(image, { sender: wish, wish, known, changes });
  return error === "NONE" ? accepted(...changes.records) : refused(error, message);
}

export interface AlterContext {
  readonly sender: IsrSender;
  readonly wish: IsrWish;
  readonly known: DamageKnown;
  readonly changes: PartitionChanges;
}

/**
 * The order of the checks is R-34's. A change goes to `changes`. A wish for a member that is not eligible is refused for good: the partition changes all the
 * same, so that a copy of the wish that comes late, when the member is eligible again, fails its compare-and-set. The leader counts on that: once it is told, it
 * waits for that member no more (R-32).
 */
export function alterPartition(image: MetadataImage, context: AlterContext): Verdict {
  const { sender, wish, changes } = context;
  if (image.active.get(sender.nodeId) !== sender.brokerEpoch)
    return no("STALE_BROKER_EPOCH", `node ${sender.nodeId} is not active in broker epoch ${sender.brokerEpoch}`);
  const place = placeOf(image, wish);
  if (place === undefined) return no("UNKNOWN_TOPIC_OR_PARTITION", `no partition ${wish.partition} of ${wish.topicId}`);
  const { partition } = place;
  const fault = epochFault(partition, context) ?? isrFault(partition, wish);
  if (fault !== undefined) return fault;
  if (changes.has(wish)) return no("INVALID_UPDATE_VERSION", "it is being changed at this moment");
  if (changes.isFull) return no("BUSY", "too many changes at once");
  const ineligible = memberFault(image, context);
  if (ineligible !== undefined) {
    if (!mutant("R-32")) changes.add(wish.topicId, partition, partition);
    return ineligible;
  }
  const standing = wishedStanding(image, partition, wish);
  if (standing === undefined) return DONE;
  changes.add(wish.topicId, partition, standing);
  return DONE;
}

function epochFault(partition: PartitionImage, { sender, wish }: AlterContext): Verdict | undefined {
  const { leader, leaderEpoch, partitionEpoch } = partition;
  if (wish.leaderEpoch > leaderEpoch || wish.partitionEpoch > partitionEpoch)
    return no("NOT_CONTROLLER", `this controller knows epochs up to ${leaderEpoch} and ${partitionEpoch} only`);
  if (wish.leaderEpoch < leaderEpoch) return no("FENCED_LEADER_EPOCH", `the leader epoch is ${leaderEpoch}`);
  if (leader !== sender.nodeId) return no("INVALID_REQUEST", `node ${sender.nodeId} does not lead it`);
  if (wish.partitionEpoch < partitionEpoch && !mutant("M13"))
    return no("INVALID_UPDATE_VERSION", `the partition epoch is ${partitionEpoch}`);
  return undefined;
}

function isrFault({ replicas, leader }: PartitionImage, { isr }: IsrWish): Verdict | undefined {
  const members = new Set(isr.map(({ nodeId }) => nodeId));
  const isPart = members.size === isr.length && isr.every(({ nodeId }) => replicas.includes(nodeId as NodeId));
  if (isPart && leader !== null && members.has(leader)) return undefined;
  return no("INVALID_REQUEST", "an ISR is a part of the replicas, with the leader");
}

function memberFault(image: MetadataImage, { wish, known }: AlterContext): Verdict | undefined {
  for (const { nodeId, brokerEpoch } of wish.isr) {
    if (image.active.get(nodeId as NodeId) !== brokerEpoch)
      return no("INELIGIBLE_REPLICA", `node ${nodeId} is not active in broker epoch ${brokerEpoch}`);
    if (known.isDamaged?.(nodeId as NodeId, wish) === true && !mutant("D-17"))
      return no("INELIGIBLE_REPLICA", `the replica of node ${nodeId} is damaged`);
  }
  return undefined;
}

/** undefined: it is as wished. */
function wishedStanding(image: MetadataImage, partition: PartitionImage, wish: IsrWish): Standing | undefined {
  const members = new Set<number>(wish.isr.map(({ nodeId }) => nodeId));
  const isr = partition.replicas.filter((node) => members.has(node));
  const heir = wish.wantsMove ? isr.find((node) => node !== partition.leader && image.active.has(node)) : undefined;
  const isSame = isr.length === partition.isr.length && isr.every((node) => partition.isr.includes(node));
  if (isSame && heir === undefined) return undefined;
  if (heir === undefined) return withIsr(partition, isr);
  return { ...withIsr(partition, withoutSlowLeader(partition, isr)), leader: heir };
}

/**
 * D-8: the high watermark waited for the disk of the old leader, and would wait for it once more as long as it takes the new one to see that it lags.
 * It comes back when it has caught up; but the ISR does not fall below min ISR for it, and not to a single one, which may be dead and not known to be: then
 * it is waited for.
 */
function withoutSlowLeader({ leader, minIsr }: PartitionImage, isr: readonly NodeId[]): readonly NodeId[] {
  const others = isr.filter((node) => node !== leader);
  return others.length >= Math.max(2, minIsr) && !mutant("D-8m") ? others : isr;
}

export interface DamageWish {
  readonly nodeId: NodeId;
  readonly brokerEpoch: number;
  readonly partitions: Iterable<PartitionRef>;
}

/**
 * D-17: what the broker holds of these partitions is damaged. It leaves ISR and ELR, and others lead. A new leader epoch begins always, also where the
 * broker was in neither and the leader stays: a wish to take it in that is still under way, and whatever a leader still holds to its credit, are of an
 * epoch that has passed. So from then on the replica may be dropped and begun anew. What one command does not take is left out.
 */
export function decideDamage(image: MetadataImage, { nodeId, brokerEpoch, partitions }: DamageWish): Decision {
  const broker = image.broker(nodeId);
  if (broker?.brokerEpoch !== brokerEpoch)
    return refused("STALE_BROKER_EPOCH", `node ${nodeId} is not in broker epoch ${brokerEpoch}`);
  const changes = new PartitionChanges();
  if (mutant("D-17")) return accepted();
  for (const ref of partitions) {
    if (changes.isFull) break;
    const place = placeOf(image, ref);
    if (place === undefined || changes.has(ref) || !place.partition.replicas.includes(nodeId)) continue;
    const { topic, partition } = place;
    const standing = withoutMember(partition, nodeId, true);
    const after = elected(partition, standing, (node) => image.active.has(node));
    changes.add(topic.topicId, partition, after, { isNewEpoch: !mutant("D-17e") });
  }
  return accepted(...changes.records);
}

/** The replica counts in its partition: it is in sync, or eligible. */
export function isCounted(image: MetadataImage, nodeId: NodeId, ref: PartitionRef): boolean {
  const partition = image.topic(ref.topicId)?.partitions[ref.partition];
  return partition !== undefined && (partition.isr.includes(nodeId) || partition.elr.includes(nodeId));
}

export interface BalanceWish {
  /** Bound of one command. */
  readonly max: number;
  /** Such a broker may be given leaderships back. */
  readonly isSteady: (nodeId: NodeId) => boolean;
}

/** Gives leaderships back to first replicas that are in sync again. Looks only at partitions that are led by another. */
export function decideBalance(image: MetadataImage, { max, isSteady }: BalanceWish): Decision {
  const changes = new PartitionChanges();
  const steady = new Map<NodeId, boolean>();
  for (const { topic, partition } of image.astray()) {
    if (changes.count >= max || changes.isFull) break;
    const [first] = partition.replicas;
    if (first === undefined) continue;
    const isFit = steady.get(first) ?? isSteady(first);
    steady.set(first, isFit);
    const { isr, elr } = partition;
    if (isFit) changes.add(topic.topicId, partition, { leader: first, isr, elr });
  }
  return accepted(...changes.records);
}

export interface ReliefWish {
  /** Bound of one command. */
  readonly max: number;
  /** Their disks take nothing more. */
  readonly full: Iterable<NodeId>;
  /** Such a broker has room, and is there. */
  readonly isFit: (nodeId: NodeId) => boolean;
}

/** A leader that takes nothing is led by another one in sync that does; where there is none it goes on leading, for those who read. */
export function decideRelief(image: MetadataImage, { max, full, isFit }: ReliefWish): Decision {
  const changes = new PartitionChanges();
  const fit = new Map<NodeId, boolean>();
  const isHeir = (nodeId: NodeId): boolean => {
    const isKnownFit = fit.get(nodeId) ?? (image.active.has(nodeId) && isFit(nodeId));
    fit.set(nodeId, isKnownFit);
    return isKnownFit;
  };
  for (const nodeId of full) {
    if (image.ledCount(nodeId) === 0) continue;
    for (const { topic, partition } of image.partitionsOn(nodeId)) {
      if (changes.count >= max || changes.isFull) break;
      const { leader, isr, elr, replicas } = partition;
      if (leader !== nodeId || topic.isDeleting) continue;
      const heir = replicas.find((node) => node !== nodeId && isr.includes(node) && isHeir(node));
      if (heir !== undefined) changes.add(topic.topicId, partition, { leader: heir, isr, elr });
    }
  }
  return accepted(...changes.records);
}

export interface Place {
  readonly topic: TopicImage;
  readonly partition: PartitionImage;
}

export function placeOf(image: MetadataImage, { topicId, partition }: PartitionRef): Place | undefined {
  const topic = image.topic(topicId);
  const found = topic?.partitions[partition];
  return topic === undefined || topic.isDeleting || found === undefined ? undefined : { topic, partition: found };
}
