// Which damaged replicas a broker tells the controller of, and which of them the controller has committed as such (D-17). Only these may be dropped and
// begun anew, and only in a later leader epoch than the one in which they were told of: until then a leader may still hold to their credit what they had,
// and a wish to take them into the ISR for it would be granted.
import { mutant } from "../base/mutant.ts";
import type { MetadataImage } from "../metadata/image.ts";
import { isCounted, type PartitionRef } from "../metadata/partition-decisions.ts";
import type { NodeId, TopicId } from "../model/ids.ts";
import type { BrokerHeartbeatRequest } from "../wire/native/quorum-apis.ts";

/** Of one heartbeat; what is left over is told by later ones. */
const TOLD_MAX = 1_000;

/** What one heartbeat says. */
export interface DamageList {
  readonly damaged: BrokerHeartbeatRequest["damaged"];
  readonly told: readonly Told[];
  /** Left out for this once: the controller learns that the damage of before has ended. */
  readonly ended: readonly string[];
}

interface Told {
  readonly key: string;
  /** As the own image said when it was told. */
  readonly leaderEpoch: number;
}

const keyOf = ({ topicId, partition }: PartitionRef): string => `${topicId}-${partition}`;

export class DamageReports {
  readonly #damaged: () => Iterable<PartitionRef>;
  /** Told, and committed; with the leader epoch of the moment before. */
  #known = new Map<string, number>();
  readonly #ended = new Set<string>();

  /** `damaged`: every damaged replica of this broker, as of now. */
  constructor(damaged: () => Iterable<PartitionRef>) {
    this.#damaged = damaged;
  }

  isKnown(image: MetadataImage, ref: PartitionRef): boolean {
    const before = this.#known.get(keyOf(ref));
    if (before === undefined) return false;
    const now = leaderEpochOf(image, ref);
    return now > before || now === Number.POSITIVE_INFINITY || mutant("D-17e");
  }

  /** The replica was dropped: whatever happens to its next log is another damage. */
  ended(topicId: TopicId, partition: number): void {
    const key = keyOf({ topicId, partition });
    if (this.#known.delete(key)) this.#ended.add(key);
  }

  /** Some of them still counts, as far as the image says: this broker must not be elected for it. */
  isCounted(image: MetadataImage, nodeId: NodeId): boolean {
    if (mutant("D-17")) return false;
    for (const ref of this.#damaged()) if (isCounted(image, nodeId, ref)) return true;
    return false;
  }

  /** For the next heartbeat: those first that are not known. */
  list(image: MetadataImage): DamageList {
    const known: PartitionRef[] = [];
    const unknown: PartitionRef[] = [];
    const stillKnown = new Map<string, number>();
    for (const ref of this.#damaged()) {
      const key = keyOf(ref);
      const before = this.#known.get(key);
      if (before !== undefined) {
        stillKnown.set(key, before);
        known.push(ref);
      } else if (!this.#ended.has(key)) unknown.push(ref);
    }
    this.#known = stillKnown;
    const refs = [...unknown, ...known].slice(0, TOLD_MAX);
    const told = refs.map((ref): Told => ({ key: keyOf(ref), leaderEpoch: leaderEpochOf(image, ref) }));
    return { damaged: byTopic(refs), told, ended: [...this.#ended] };
  }

  /** A heartbeat with this list was answered: the controller answers once it has committed what the list says. */
  answered({ told, ended }: DamageList): void {
    for (const key of ended) this.#ended.delete(key);
    for (const { key, leaderEpoch } of told)
      if (!this.#ended.has(key) && !this.#known.has(key)) this.#known.set(key, leaderEpoch);
  }

  /** Another broker epoch: told anew. */
  reset(): void {
    this.#known.clear();
    this.#ended.clear();
  }
}

/** Of a partition that is gone there is nothing to wait for. */
function leaderEpochOf(image: MetadataImage, { topicId, partition }: PartitionRef): number {
  return image.topic(topicId)?.partitions[partition]?.leaderEpoch ?? Number.POSITIVE_INFINITY;
}

function byTopic(refs: readonly PartitionRef[]): BrokerHeartbeatRequest["damaged"] {
  const topics = new Map<TopicId, number[]>();
  for (const { topicId, partition } of refs) {
    const partitions = topics.get(topicId);
    if (partitions === undefined) topics.set(topicId, [partition]);
    else partitions.push(partition);
  }
  return [...topics].map(([topicId, partitions]) => ({ topicId, partitions }));
}
