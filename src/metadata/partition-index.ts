// Which partitions concern a broker: those it holds, leads, or may be elected to lead. Fencing one broker touches its own partitions only.
import { present } from "../base/assert.ts";
import type { NodeId } from "../model/ids.ts";
import type { PartitionImage, TopicImage } from "./image-types.ts";

/** Where a partition stands: one object for as long as it exists. */
export interface Slot {
  readonly topic: TopicImage;
  readonly index: number;
}

class BrokerSlots {
  readonly held = new Set<Slot>();
  readonly led = new Set<Slot>();
  /** Leaderless, of a topic that is not being deleted, and its ISR has the broker. */
  readonly waiting = new Set<Slot>();
  /** Of `held`, those whose topic is not being deleted. */
  liveCount = 0;
}

export const partitionOf = ({ topic, index }: Slot): PartitionImage =>
  present(topic.partitions[index], "a partition that is indexed");

export class PartitionIndex {
  readonly #brokers = new Map<NodeId, BrokerSlots>();

  add(slot: Slot): void {
    const partition = partitionOf(slot);
    for (const nodeId of partition.replicas) {
      const slots = this.#slots(nodeId);
      slots.held.add(slot);
      if (!slot.topic.isDeleting) slots.liveCount++;
    }
    this.link(slot, partition);
  }

  /** Of a retired topic. */
  remove(slot: Slot): void {
    const partition = partitionOf(slot);
    this.unlink(slot, partition);
    for (const nodeId of partition.replicas) this.#slots(nodeId).held.delete(slot);
  }

  /** Before a partition changes; `link` follows when it has. Replicas stay the same. */
  unlink(slot: Slot, { leader, isr }: PartitionImage): void {
    if (leader !== null) this.#slots(leader).led.delete(slot);
    else for (const nodeId of isr) this.#slots(nodeId).waiting.delete(slot);
  }

  link(slot: Slot, { leader, isr }: PartitionImage): void {
    if (leader !== null) this.#slots(leader).led.add(slot);
    else if (!slot.topic.isDeleting) for (const nodeId of isr) this.#slots(nodeId).waiting.add(slot);
  }

  /** The topic of the slot is about to be marked as being deleted: it is nobody's to be elected for, and no load that counts. */
  retire(slot: Slot): void {
    for (const nodeId of partitionOf(slot).replicas) {
      const slots = this.#slots(nodeId);
      slots.waiting.delete(slot);
      slots.liveCount--;
    }
  }

  held(nodeId: NodeId): ReadonlySet<Slot> {
    return this.#brokers.get(nodeId)?.held ?? new Set();
  }
  led(nodeId: NodeId): ReadonlySet<Slot> {
    return this.#brokers.get(nodeId)?.led ?? new Set();
  }
  waiting(nodeId: NodeId): ReadonlySet<Slot> {
    return this.#brokers.get(nodeId)?.waiting ?? new Set();
  }
  liveCount(nodeId: NodeId): number {
    return this.#brokers.get(nodeId)?.liveCount ?? 0;
  }

  #slots(nodeId: NodeId): BrokerSlots {
    let slots = this.#brokers.get(nodeId);
    if (slots === undefined) {
      slots = new BrokerSlots();
      this.#brokers.set(nodeId, slots);
    }
    return slots;
  }
}
