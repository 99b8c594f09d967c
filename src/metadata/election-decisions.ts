// Decisions about elections that an operator asks for: of first replicas, of one in sync that is named, or of replicas that may lack committed records
// (R-60, R-61).
import { mutant } from "../base/mutant.ts";
import type { NodeId } from "../model/ids.ts";
import { type Decision, accepted } from "./decision.ts";
import type { MetadataImage } from "./image.ts";
import {
  type DamageKnown,
  DONE,
  no,
  PartitionChanges,
  type PartitionRef,
  type Place,
  placeOf,
  type Verdict,
} from "./partition-decisions.ts";

/** What a replica says that it has: the leader epoch of its last batch, -1 none, and where its log ends; or why it says nothing. */
export type ReplicaEnd =
  | { readonly kind: "known"; readonly epoch: number; readonly startOffset: number; readonly endOffset: number }
  | { readonly kind: "unknown"; readonly why: string };

export interface Elections extends DamageKnown {
  readonly kind: "preferred" | "unclean";
  readonly partitions: readonly PartitionRef[];
  /** Who is to lead; null = the first replica, of an unclean election the one that has most. */
  readonly nodeId: NodeId | null;
  /** Of an unclean election: also where one that has everything is only down. */
  readonly isForced?: boolean;
  /** As the replicas were asked; undefined = it was not. Default: nobody was. */
  readonly endOf?: (nodeId: NodeId, ref: PartitionRef) => ReplicaEnd | undefined;
}

export interface ElectionVerdict extends Verdict {
  /** Of an unclean election that is done: where the log of the new leader ends; -1 = not known. */
  readonly endOffset: number;
}

export interface ElectionsDecision {
  readonly decision: Decision;
  /** One for each partition, in their order. BUSY: the command was full; ask again. */
  readonly verdicts: readonly ElectionVerdict[];
}

const withoutEnd = (verdict: Verdict): ElectionVerdict => ({ ...verdict, endOffset: -1 });

/** An operator's wish. An unclean one is never anybody else's. */
export function decideElections(image: MetadataImage, wish: Elections): ElectionsDecision {
  const changes = new PartitionChanges();
  const verdicts = wish.partitions.map((ref): ElectionVerdict => {
    const place = placeOf(image, ref);
    if (place === undefined) return withoutEnd(no("UNKNOWN_TOPIC_OR_PARTITION", missing(image, ref)));
    if (changes.has(ref)) return withoutEnd(no("INVALID_REQUEST", "it is named twice"));
    if (changes.isFull) return withoutEnd(no("BUSY", "too many elections at once"));
    return wish.kind === "preferred"
      ? withoutEnd(electInSync(image, { place, wish, changes }))
      : electUnclean(new Candidates(image, place, wish), changes);
  });
  return { decision: accepted(...changes.records), verdicts };
}

function missing(image: MetadataImage, { topicId, partition }: PartitionRef): string {
  const topic = image.topic(topicId);
  return topic === undefined || topic.isDeleting
    ? "no such topic"
    : `${topic.name} has no partition ${partition}: it has ${topic.partitions.length}`;
}

interface InSyncWish {
  readonly place: Place;
  readonly wish: Elections;
  readonly changes: PartitionChanges;
}

/** Whoever is in the ISR has all that is committed: nothing is lost, whoever led. */
function electInSync(image: MetadataImage, { place, wish, changes }: InSyncWish): Verdict {
  const { topic, partition } = place;
  const { leader, isr, elr } = partition;
  const heir = wish.nodeId ?? partition.replicas[0];
  const stranger = wish.nodeId === null ? undefined : strangerFault(image, place, wish.nodeId);
  if (stranger !== undefined) return stranger;
  if (leader === heir) return no("ELECTION_NOT_NEEDED", `node ${heir} leads it`);
  const ref = { topicId: topic.topicId, partition: partition.index };
  const isInSync = heir !== undefined && (isr.includes(heir) || mutant("R-60"));
  if (!isInSync || wish.isDamaged?.(heir, ref) === true) {
    const who = wish.nodeId === null ? `node ${heir}, its first replica,` : `node ${heir}`;
    return no("PREFERRED_LEADER_NOT_AVAILABLE", `${who} ${notInSync(image, place, heir)}`);
  }
  changes.add(topic.topicId, partition, { leader: heir, isr, elr });
  return DONE;
}

function notInSync(image: MetadataImage, { partition }: Place, heir: NodeId | undefined): string {
  if (heir !== undefined && !image.active.has(heir)) return "is fenced";
  return heir !== undefined && partition.isr.includes(heir) ? "is damaged" : "is not in sync";
}

/** The node that was named has nothing to do with the partition. */
function strangerFault(image: MetadataImage, { topic, partition }: Place, nodeId: NodeId): Verdict | undefined {
  const { replicas } = partition;
  if (replicas.includes(nodeId)) return undefined;
  const name = `${topic.name}-${partition.index}`;
  return image.broker(nodeId) === undefined
    ? no("BROKER_ID_NOT_REGISTERED", `there is no node ${nodeId}: ${name} is on ${listed(replicas)}`)
    : no("ELIGIBLE_LEADERS_NOT_AVAILABLE", `node ${nodeId} has no replica of ${name}: it is on ${listed(replicas)}`);
}

function electUnclean(candidates: Candidates, changes: PartitionChanges): ElectionVerdict {
  const { place, wish } = candidates;
  const { topic, partition } = place;
  const refusal = candidates.refusal() ?? (wish.isForced === true ? undefined : candidates.completeButDown());
  if (refusal !== undefined) return withoutEnd(refusal);
  const heir = wish.nodeId ?? candidates.fullest;
  if (heir === undefined || !candidates.mayLead(heir))
    return withoutEnd(no("ELIGIBLE_LEADERS_NOT_AVAILABLE", candidates.why(heir)));
  const silence = wish.isForced === true || wish.nodeId !== null ? undefined : candidates.silence(heir);
  if (silence !== undefined) return withoutEnd(silence);
  // Whoever was eligible has more than this leader may have, and gives it up when it follows.
  changes.add(topic.topicId, partition, { leader: heir, isr: [heir], elr: [] }, { isUnclean: true });
  const end = candidates.endOf(heir);
  return {
    error: "NONE",
    message: candidates.told(heir),
    endOffset: end?.kind === "known" ? end.endOffset : -1,
  };
}

/** The replicas of one partition that nobody leads, as an unclean election sees them. */
class Candidates {
  readonly place: Place;
  readonly wish: Elections;
  readonly #image: MetadataImage;

  constructor(image: MetadataImage, place: Place, wish: Elections) {
    this.#image = image;
    this.place = place;
    this.wish = wish;
  }

  get #name(): string {
    return `${this.place.topic.name}-${this.place.partition.index}`;
  }

  #isDamaged(node: NodeId): boolean {
    const { topic, partition } = this.place;
    return this.wish.isDamaged?.(node, { topicId: topic.topicId, partition: partition.index }) === true;
  }

  mayLead(node: NodeId): boolean {
    return this.place.partition.replicas.includes(node) && this.#image.active.has(node) && !this.#isDamaged(node);
  }

  endOf(node: NodeId): ReplicaEnd | undefined {
    const { topic, partition } = this.place;
    return this.wish.endOf?.(node, { topicId: topic.topicId, partition: partition.index });
  }

  /** Nothing to elect, or nobody whom the wish could mean. */
  refusal(): Verdict | undefined {
    const { leader } = this.place.partition;
    const { nodeId } = this.wish;
    const stranger = nodeId === null ? undefined : strangerFault(this.#image, this.place, nodeId);
    if (stranger !== undefined) return stranger;
    return leader === null ? undefined : no("ELECTION_NOT_NEEDED", `node ${leader} leads ${this.#name}`);
  }

  /** Whoever is in ISR or ELR has all that is committed; that nobody leads says that none of them is up. */
  completeButDown(): Verdict | undefined {
    const { isr, elr } = this.place.partition;
    const complete = [...isr, ...elr].filter((node) => !this.#isDamaged(node));
    if (complete.length === 0) return undefined;
    const who =
      complete.length === 1
        ? `${listed(complete)} has everything and is`
        : `${listed(complete)} have everything and are`;
    return no(
      "ELIGIBLE_LEADER_DOWN",
      `${this.#name}: ${who} only down: start ${complete.length === 1 ? "it" : "one of them"}`,
    );
  }

  /** The first of those that have most. As in Raft: whose last batch is of the latest epoch, then whose log is longest. */
  get fullest(): NodeId | undefined {
    let best: NodeId | undefined;
    for (const node of this.place.partition.replicas)
      if (this.mayLead(node) && (best === undefined || isMore(this.endOf(node), this.endOf(best)))) best = node;
    return best;
  }

  /** Somebody who says nothing may have something, where nobody else has. */
  silence(heir: NodeId): Verdict | undefined {
    const { replicas } = this.place.partition;
    if (!isEmpty(this.endOf(heir)) || this.wish.endOf === undefined) return undefined;
    const silent = replicas.filter((node) => this.mayLead(node) && this.endOf(node)?.kind !== "known");
    if (silent.length === 0) return undefined;
    return no("ELIGIBLE_LEADERS_NOT_AVAILABLE", `${this.#states()}: try again, or name a node`);
  }

  why(heir: NodeId | undefined): string {
    const { replicas } = this.place.partition;
    const who =
      heir === undefined ? this.#states() : `the replica of ${this.#name} on node ${heir} ${this.#stateOf(heir)}`;
    const isGone = (node: NodeId) =>
      this.#image.broker(node) === undefined || (this.#image.active.has(node) && this.#isDamaged(node));
    if (!replicas.every(isGone)) return who;
    return `${who}. ${noneIsLeft(
      this.#name,
      replicas.length,
      replicas.every((node) => this.#isDamaged(node)),
    )}`;
  }

  /** What the new leader has, and the others. */
  told(heir: NodeId): string {
    const others = this.place.partition.replicas.filter((node) => node !== heir);
    return [heir, ...others].map((node) => `node ${node} ${this.#stateOf(node)}`).join(", ");
  }

  #states(): string {
    return `${this.#name}: ${this.place.partition.replicas.map((node) => `node ${node} ${this.#stateOf(node)}`).join(", ")}`;
  }

  #stateOf(node: NodeId): string {
    if (this.#image.broker(node) === undefined) return "is not registered";
    if (!this.#image.active.has(node)) return "is fenced";
    if (this.#isDamaged(node)) return "is damaged";
    const end = this.endOf(node);
    if (end === undefined) return "is active";
    if (end.kind === "unknown") return `does not say what it has (${end.why})`;
    return isEmpty(end) ? "has nothing" : `has offsets ${end.startOffset} to ${end.endOffset - 1} (epoch ${end.epoch})`;
  }
}

function noneIsLeft(name: string, count: number, areDamaged: boolean): string {
  const onlyOne = `The only replica of ${name} is damaged: the data from the damaged segment on cannot be served`;
  const all = count === 1 ? onlyOne : `All replicas of ${name} are damaged`;
  const what = areDamaged ? all : "No intact replica is left";
  return `${what}. Bring back a disk with a good copy, or delete the topic; ottla log dump on a stopped node shows what can still be read of it`;
}

const listed = (nodes: readonly NodeId[]): string => `${nodes.length === 1 ? "node" : "nodes"} ${nodes.join(", ")}`;

function isEmpty(end: ReplicaEnd | undefined): boolean {
  return end?.kind !== "known" || end.endOffset <= end.startOffset;
}

function isMore(one: ReplicaEnd | undefined, than: ReplicaEnd | undefined): boolean {
  if (one?.kind !== "known") return false;
  if (than?.kind !== "known") return true;
  if (one.epoch !== than.epoch) return one.epoch > than.epoch;
  return one.endOffset > than.endOffset;
}
