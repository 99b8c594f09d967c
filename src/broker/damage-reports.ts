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
  readonly keys: readonly string[];
  /** Left out for this once: the controller learns that the damage of before has ended. */
  readonly ended: readonly string[];
}

interface Told {
  /** As the own image said when it was told first: from then on this replica said nothing of what it had. */
  readonly leaderEpoch: number;
  isCommitted: boolean;
}

const keyOf = ({ topicId, partition }: PartitionRef): string => `${topicId}-${partition}`;

export class DamageReports {
  readonly #damaged: () => Iterable<PartitionRef>;
  /** Bound: the damaged replicas of this broker. */
  #told = new Map<string, Told>();
  readonly #ended = new Set<string>();

  /** `damaged`: every damaged replica of this broker, as of now. */
  constructor(damaged: () => Iterable<PartitionRef>) {
    this.#damaged = damaged;
  }

  isKnown(image: MetadataImage, ref: PartitionRef): boolean {
    const told = this.#told.get(keyOf(ref));
    if (told === undefined || !told.isCommitted) return false;
    const now = leaderEpochOf(image, ref);
    return now > told.leaderEpoch || now === Number.POSITIVE_INFINITY || mutant("D-17e");
  }

  /** The replica was dropped: whatever happens to its next log is another damage. */
  ended(topicId: TopicId, partition: number): void {
    const key = keyOf({ topicId, partition });
    if (this.#told.delete(key)) this.#ended.add(key);
  }

  /** Some of them still counts, as far as the image says: this broker must not be elected for it. */
  isCounted(image: MetadataImage, nodeId: NodeId): boolean {
    if (mutant("D-17")) return false;
    for (const ref of this.#damaged()) if (isCounted(image, nodeId, ref)) return true;
    return false;
  }

  /** For the next heartbeat: those first that are not committed. */
  list(image: MetadataImage): DamageList {
    const committed: PartitionRef[] = [];
    const fresh: PartitionRef[] = [];
    const told = new Map<string, Told>();
    for (const ref of this.#damaged()) {
      const key = keyOf(ref);
      if (this.#ended.has(key)) continue;
      const known = this.#told.get(key) ?? { leaderEpoch: leaderEpochOf(image, ref), isCommitted: false };
      told.set(key, known);
      (known.isCommitted ? committed : fresh).push(ref);
    }
    this.#told = told;
    const refs = [...fresh, ...committed].slice(0, TOLD_MAX);
    return { damaged: byTopic(refs), keys: refs.map(keyOf), ended: [...this.#ended] };
  }

  /** A heartbeat with this list was answered: the controller answers once it has committed what the list says. */
  answered({ keys, ended }: DamageList): void {
    for (const key of ended) this.#ended.delete(key);
    for (const key of keys) {
      const told = this.#told.get(key);
      if (told !== undefined) told.isCommitted = true;
    }
  }

  /** Another broker epoch: told anew. */
  reset(): void {
    this.#told.clear();
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
