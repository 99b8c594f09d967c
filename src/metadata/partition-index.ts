// Which partitions concern a broker: those it holds, leads, may be elected for, or should lead. Fencing one broker touches its own partitions only.
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
  /** Nobody leads, and the broker is eligible. */
  readonly waiting = new Set<Slot>();
  /** Of `held`, those whose topic is not being deleted. */
  liveCount = 0;
  /** Of these, those of which it is the first replica. */
  firstCount = 0;
}

export const partitionOf = ({ topic, index }: Slot): PartitionImage =>
  present(topic.partitions[index], "a partition that is indexed");

export class PartitionIndex {
  readonly #brokers = new Map<NodeId, BrokerSlots>();
  readonly #none: ReadonlySet<Slot> = new Set();
  /** Of topics that are not being deleted. */
  readonly #leaderless = new Set<Slot>();
  /** Their first replica is in the ISR and does not lead. */
  readonly #astray = new Set<Slot>();

  add(slot: Slot): void {
    const partition = partitionOf(slot);
    for (const nodeId of partition.replicas) this.#slots(nodeId).held.add(slot);
    if (!slot.topic.isDeleting) this.#count(partition, 1);
    this.link(slot, partition);
  }

  /** Of a retired topic. */
  remove(slot: Slot): void {
    const partition = partitionOf(slot);
    this.unlink(slot, partition);
    for (const nodeId of partition.replicas) this.#slots(nodeId).held.delete(slot);
  }

  /** Before a partition changes; `link` follows when it has. Replicas stay the same. */
  unlink(slot: Slot, { leader, elr }: PartitionImage): void {
    if (leader !== null) this.#slots(leader).led.delete(slot);
    else for (const nodeId of elr) this.#slots(nodeId).waiting.delete(slot);
    this.#leaderless.delete(slot);
    this.#astray.delete(slot);
  }

  link(slot: Slot, { replicas, isr, elr, leader }: PartitionImage): void {
    const first = replicas[0];
    if (leader !== null) this.#slots(leader).led.add(slot);
    else for (const nodeId of elr) this.#slots(nodeId).waiting.add(slot);
    if (slot.topic.isDeleting) return;
    if (leader === null) this.#leaderless.add(slot);
    else if (first !== undefined && leader !== first && isr.includes(first)) this.#astray.add(slot);
  }

  /** The topic of the slot is about to be marked as being deleted: it is no load that counts, and nobody is to be chosen to lead it. */
  retire(slot: Slot): void {
    this.#count(partitionOf(slot), -1);
    this.#leaderless.delete(slot);
    this.#astray.delete(slot);
  }

  get leaderless(): ReadonlySet<Slot> {
    return this.#leaderless;
  }
  get astray(): ReadonlySet<Slot> {
    return this.#astray;
  }
  held(nodeId: NodeId): ReadonlySet<Slot> {
    return this.#brokers.get(nodeId)?.held ?? this.#none;
  }
  led(nodeId: NodeId): ReadonlySet<Slot> {
    return this.#brokers.get(nodeId)?.led ?? this.#none;
  }
  waiting(nodeId: NodeId): ReadonlySet<Slot> {
    return this.#brokers.get(nodeId)?.waiting ?? this.#none;
  }
  liveCount(nodeId: NodeId): number {
    return this.#brokers.get(nodeId)?.liveCount ?? 0;
  }
  firstCount(nodeId: NodeId): number {
    return this.#brokers.get(nodeId)?.firstCount ?? 0;
  }

  #count({ replicas }: PartitionImage, by: 1 | -1): void {
    for (const [at, nodeId] of replicas.entries()) {
      const slots = this.#slots(nodeId);
      slots.liveCount += by;
      if (at === 0) slots.firstCount += by;
    }
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
