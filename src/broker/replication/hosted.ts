// Which slots of all sessions want which partition: from a replica here to whom its news goes.
import type { TopicId } from "../../model/ids.ts";
import type { Replica } from "../replica.ts";
import type { Slot } from "./slot.ts";

/** Slots of all sessions whose partition is not here; more are not kept. */
const ORPHANS_MAX = 20_000;
const NONE: readonly Slot[] = [];

type Find = (topicId: TopicId, partition: number) => Replica | undefined;

export class Hosted {
  readonly #find: Find;
  /** At most one slot of each session. */
  readonly #slots = new Map<Replica, Slot[]>();
  /** Not hosted here, or not yet: a follower may know of a new topic before this broker has made its log. */
  readonly #orphans = new Map<string, Set<Slot>>();
  #orphanCount = 0;

  constructor(find: Find) {
    this.#find = find;
  }

  of(replica: Replica): readonly Slot[] {
    return this.#slots.get(replica) ?? NONE;
  }

  /** False: too many are waited for that are not here. The slot that the partition had in the same session before is removed. */
  attach(slot: Slot): boolean {
    const replica = this.#find(slot.topicId, slot.partition);
    const others = replica === undefined ? this.#orphans.get(keyOf(slot)) : this.#slots.get(replica);
    for (const other of others ?? []) {
      if (other.session !== slot.session) continue;
      slot.session.remove(other.id);
      break;
    }
    if (replica !== undefined) this.#bind(slot, replica);
    else if (this.#orphanCount >= ORPHANS_MAX) return false;
    else this.#keepOrphan(slot);
    return true;
  }

  detach(slot: Slot): void {
    const { replica } = slot;
    if (replica === undefined) return this.#dropOrphan(slot);
    const slots = this.#slots.get(replica);
    const place = slots?.indexOf(slot) ?? -1;
    if (slots === undefined || place < 0) return;
    slots.splice(place, 1);
    if (slots.length === 0) this.#slots.delete(replica);
  }

  /** The replica is here: whoever waits for it has it from now on. */
  adopt(replica: Replica): void {
    if (this.#orphanCount === 0) return;
    const waiting = this.#orphans.get(keyOf(replica.log));
    for (const slot of waiting ?? []) {
      this.#dropOrphan(slot);
      this.#bind(slot, replica);
    }
  }

  /** The replica is gone: whoever has it waits for another one. */
  forget(replica: Replica): void {
    const slots = this.#slots.get(replica) ?? NONE;
    this.#slots.delete(replica);
    for (const slot of slots) {
      slot.replica = undefined;
      if (slot.state !== "silent") slot.state = "held";
      this.#keepOrphan(slot);
    }
  }

  #bind(slot: Slot, replica: Replica): void {
    slot.replica = replica;
    const slots = this.#slots.get(replica);
    if (slots === undefined) this.#slots.set(replica, [slot]);
    else slots.push(slot);
  }

  #keepOrphan(slot: Slot): void {
    const key = keyOf(slot);
    const waiting = this.#orphans.get(key) ?? new Set<Slot>();
    this.#orphans.set(key, waiting.add(slot));
    this.#orphanCount++;
  }

  #dropOrphan(slot: Slot): void {
    const key = keyOf(slot);
    const waiting = this.#orphans.get(key);
    if (waiting?.delete(slot) !== true) return;
    this.#orphanCount--;
    if (waiting.size === 0) this.#orphans.delete(key);
  }
}

function keyOf({ topicId, partition }: { readonly topicId: TopicId; readonly partition: number }): string {
  return `${topicId}/${partition}`;
}
