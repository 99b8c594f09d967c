// Which damaged replicas a broker tells the controller of, and which of them the controller has committed as such (D-17). Only these may be dropped and
// begun anew: until then a wish to take the replica into the ISR, made when it was whole, may still be under way, and would be granted.
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

const keyOf = ({ topicId, partition }: PartitionRef): string => `${topicId}-${partition}`;

export class DamageReports {
  readonly #damaged: () => Iterable<PartitionRef>;
  /** Told, and committed. */
  #known = new Set<string>();
  readonly #ended = new Set<string>();

  /** `damaged`: every damaged replica of this broker, as of now. */
  constructor(damaged: () => Iterable<PartitionRef>) {
    this.#damaged = damaged;
  }

  isKnown(topicId: TopicId, partition: number): boolean {
    return this.#known.has(keyOf({ topicId, partition }));
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
  list(): DamageList {
    const known: PartitionRef[] = [];
    const unknown: PartitionRef[] = [];
    const stillKnown = new Set<string>();
    for (const ref of this.#damaged()) {
      const key = keyOf(ref);
      if (this.#known.has(key)) {
        stillKnown.add(key);
        known.push(ref);
      } else if (!this.#ended.has(key)) unknown.push(ref);
    }
    this.#known = stillKnown;
    const told = [...unknown, ...known].slice(0, TOLD_MAX);
    return { damaged: byTopic(told), keys: told.map(keyOf), ended: [...this.#ended] };
  }

  /** A heartbeat with this list was answered: the controller answers once it has committed what the list says. */
  answered({ keys, ended }: DamageList): void {
    for (const key of ended) this.#ended.delete(key);
    for (const key of keys) if (!this.#ended.has(key)) this.#known.add(key);
  }

  /** Another broker epoch: told anew. */
  reset(): void {
    this.#known.clear();
    this.#ended.clear();
  }
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
