// The numbers of one producer's batches in one partition: which batch is sent next, what an answer means for those behind it, and when only a
// new epoch helps. Pure: it sends nothing and knows no time (sender.ts does), so that a test can put it against any broker and any network.
//
// A batch gets its sequence when it is first sent and keeps it while one of its attempts may be in the log or may still get there (it is "in
// doubt"): sent again under the same numbers it can be there only once (P-2). A batch of which every attempt was refused for certain, and that
// none behind it depends on, gives its sequence back. A batch that was given up in doubt leaves a gap: perhaps nothing behind it will be taken any
// more. Then what is in doubt is still sent under its own numbers, and when nothing is under way or in doubt the rest goes on in a new epoch.
import { mutant } from "../base/mutant.ts";
import { addSequence, type ProducerFields } from "../model/batch-header.ts";
import { PRODUCER_WINDOW } from "../model/producer-table.ts";

/** Under which a producer numbers its batches. */
export interface ProducerIdentity {
  readonly producerId: number;
  readonly producerEpoch: number;
}

/** What a batch carries: an identity, and its own place. */
export type Stamp = ProducerFields;

/**
 * underWay: a request carries it. waiting: to be sent again. appended: acknowledged, while an earlier one is not. givenUp: its sender was told
 * that its outcome is unknown. dropped: its sender was told that it was not appended.
 */
type SlotState = "underWay" | "waiting" | "appended" | "givenUp" | "dropped";

/** A batch that has a sequence. */
export interface Slot<Item> {
  readonly item: Item;
  readonly stamp: Stamp;
  readonly state: SlotState;
  /** An attempt of it may be in the log, or may still get there. */
  readonly isDoubtful: boolean;
}

interface OwnSlot<Item> extends Slot<Item> {
  readonly recordCount: number;
  state: SlotState;
  isDoubtful: boolean;
  /** Refused under these numbers although nothing before it was open: it waits for a new epoch. */
  isStranded: boolean;
  /** When it was sent last nothing before it was open: an out-of-order answer is about itself. */
  wasFirst: boolean;
}

export type Step<Item> =
  /** Send this one again, with the numbers it has. */
  | { readonly kind: "again"; readonly slot: Slot<Item> }
  /** Send one that has no numbers: `begin` gives it some. */
  | { readonly kind: "new" }
  /** What is under way decides. */
  | { readonly kind: "hold" }
  /** Nothing is under way or in doubt, and only a new epoch goes on: `restart`. */
  | { readonly kind: "restart" };

const NEW: Step<never> = { kind: "new" };
const HOLD: Step<never> = { kind: "hold" };
const RESTART: Step<never> = { kind: "restart" };

/**
 * Shape:     slots by sequence, from the oldest that is not known to be appended to the newest that was sent.
 * Bound:     5 slots: an older one could not be told from a new one by the broker (P-2).
 * Invariant: a sequence is given to another batch only after every attempt under it was refused for certain.
 * Example:   A, B, C under way at 0, 1, 2
 *              A is refused (another leader), B and C out of order   -> A again, then B, C: in a row, each under its numbers
 *              no answer for B, its time is up: told "unknown"       -> A again, then C; C is taken: then B is there, too, and no gap is left
 *                                                                    -> C is refused as out of order: told "unknown"; what follows has a new epoch
 */
export class Sequences<Item> {
  #identity: ProducerIdentity | undefined;
  #slots: OwnSlot<Item>[] = [];
  #nextSequence = 0;
  /** Something is missing before what is to come. */
  #isBroken = false;

  /** Of what is sent from now on; undefined: none yet. */
  get identity(): ProducerIdentity | undefined {
    return this.#identity;
  }

  /** Something is under way or in doubt: the epoch must stay (D-28). */
  get isOpen(): boolean {
    return this.#slots.some(isOpen);
  }

  get isUnderWay(): boolean {
    return this.#slots.some(({ state }) => state === "underWay");
  }

  /** The numbers of the next batch that has none. */
  get nextStamp(): Stamp | undefined {
    const { producerId, producerEpoch } = this.#identity ?? { producerId: -1, producerEpoch: -1 };
    return producerId < 0 ? undefined : { producerId, producerEpoch, baseSequence: this.#nextSequence };
  }

  next(): Step<Item> {
    let hasGap = this.#isBroken;
    let isUnderWay = false;
    for (const slot of this.#slots) {
      if (slot.state === "waiting" && !slot.isStranded) return { kind: "again", slot };
      if (slot.state === "underWay") isUnderWay = true;
      else if (slot.state !== "appended") hasGap = true;
    }
    if (this.#identity === undefined) return RESTART;
    if (hasGap) return isUnderWay && !mutant("D-28e") ? HOLD : RESTART;
    return this.#slots.length < PRODUCER_WINDOW ? NEW : HOLD;
  }

  /** A batch is sent for the first time, or again after it gave its sequence back. Only after "new". */
  begin(item: Item, recordCount: number): Slot<Item> {
    const stamp = this.nextStamp as Stamp;
    const wasFirst = !this.#slots.some(isOpen);
    const slot: OwnSlot<Item> = {
      item,
      stamp,
      recordCount,
      state: "underWay",
      isDoubtful: false,
      isStranded: false,
      wasFirst,
    };
    this.#slots.push(slot);
    this.#nextSequence = addSequence(this.#nextSequence, recordCount);
    return slot;
  }

  again(slot: Slot<Item>): void {
    const own = this.#own(slot);
    if (own === undefined) return;
    own.state = "underWay";
    own.wasFirst = !this.#isOpenBefore(own);
  }

  /** Acknowledged: by whichever attempt, and however late. What stands before it in its epoch is there, too. */
  appended(slot: Slot<Item>): Item[] {
    const own = this.#own(slot);
    if (own === undefined) return [];
    own.state = "appended";
    this.#isBroken = false;
    for (const earlier of this.#slots) {
      if (earlier === own) break;
      if (earlier.state === "givenUp") earlier.state = "appended";
      earlier.isStranded = false;
    }
    while (this.#slots[0]?.state === "appended") this.#slots.shift();
    return this.#giveBack();
  }

  /** The attempt under way was refused, or its outcome is unknown. Returns those that have no numbers any more. */
  refused(slot: Slot<Item>, isDoubtful: boolean): Item[] {
    const own = this.#own(slot);
    if (own === undefined) return [];
    own.state = "waiting";
    if (isDoubtful) own.isDoubtful = true;
    return this.#giveBack();
  }

  /**
   * Refused for its numbers, thus not appended by this attempt. lost: it will never be taken under them, and an attempt of before may be in the log.
   */
  outOfOrder(slot: Slot<Item>): { readonly kind: "again" | "lost"; readonly freed: readonly Item[] } {
    const own = this.#own(slot);
    if (own === undefined) return { kind: "again", freed: [] };
    own.state = "waiting";
    // P-16: behind one that is to be sent again that is as it should be.
    if (!own.wasFirst || this.#isOpenBefore(own)) return { kind: "again", freed: this.#giveBack() };
    if (own.isDoubtful) return { kind: "lost", freed: [] };
    own.isStranded = true;
    this.#isBroken = true;
    return { kind: "again", freed: this.#giveBack() };
  }

  /** Its sender is told that it failed. */
  failed(slot: Slot<Item>): Item[] {
    const own = this.#own(slot);
    if (own === undefined || own.state === "appended") return [];
    own.state = own.isDoubtful || own.state === "underWay" ? "givenUp" : "dropped";
    return this.#giveBack();
  }

  /** Begins anew at sequence 0: in a new epoch, or in a partition that was never written to. What has numbers has none any more. */
  restart(identity: ProducerIdentity | undefined): Item[] {
    const freed = this.#slots.filter(({ state }) => state === "waiting").map(({ item }) => item);
    this.#slots = [];
    this.#nextSequence = 0;
    this.#isBroken = false;
    this.#identity = identity;
    return freed;
  }

  /** Sequences wrap after 2^31 - 1 (P-3): for tests of that. */
  skipTo(nextSequence: number): void {
    this.#nextSequence = nextSequence;
  }

  #own(slot: Slot<Item>): OwnSlot<Item> | undefined {
    return this.#slots.find((own) => own === slot);
  }

  #isOpenBefore(slot: OwnSlot<Item>): boolean {
    return this.#slots.slice(0, this.#slots.indexOf(slot)).some(isOpenOrWaiting);
  }

  /** From the newest back: nobody has ever taken their sequences, and nobody will. */
  #giveBack(): Item[] {
    const freed: Item[] = [];
    for (let last = this.#slots.at(-1); last !== undefined; last = this.#slots.at(-1)) {
      if (last.isDoubtful || (last.state !== "waiting" && last.state !== "dropped")) break;
      this.#slots.pop();
      this.#nextSequence = last.stamp.baseSequence;
      if (last.state === "waiting") freed.push(last.item);
    }
    return freed;
  }
}

const isOpen = ({ state, isDoubtful }: OwnSlot<unknown>): boolean =>
  state === "underWay" || (state === "waiting" && isDoubtful);

const isOpenOrWaiting = ({ state, isStranded }: OwnSlot<unknown>): boolean =>
  state === "underWay" || (state === "waiting" && !isStranded);
