// Producers that wait on the leader, in offset order.
import { Heap } from "../base/heap.ts";
import { Ring } from "../base/ring.ts";
import type { ErrorName, Outcome } from "../model/errors.ts";
import type { Offset } from "../model/ids.ts";
import type { Effects } from "./effects.ts";
import type { WaitingProduce } from "./types.ts";

const COMMITTED = Object.freeze({ error: "NONE", outcome: "appended" });

/**
 * acks=1 and acks=all in two queues, so that a written batch never waits behind one that is not committed; duplicates by themselves, since the offset of an
 * original may be any.
 *
 * Bound: twice what the shell lets wait. Whoever gives up does not count there any more, and here not for long, though nothing be committed for hours.
 */
export class ProduceQueues<Token, Body> {
  readonly #effects: Effects<Token, Body>;
  readonly #untilWritten = new Ring<WaitingProduce<Token>>();
  readonly #untilCommitted = new Ring<WaitingProduce<Token>>();
  /** By offset. Made when first needed: hardly any partition ever has one. */
  #duplicates: Heap<WaitingProduce<Token>> | undefined;
  /** At least as many as are here and wait no longer. */
  #gaveUpCount = 0;
  /** Of the log, when it was last told. */
  #lastEnd = Number.POSITIVE_INFINITY;

  constructor(effects: Effects<Token, Body>) {
    this.#effects = effects;
  }

  get length(): number {
    return this.#untilWritten.length + this.#untilCommitted.length + (this.#duplicates?.length ?? 0);
  }

  untilWritten(waiting: WaitingProduce<Token>): void {
    this.#untilWritten.push(waiting);
  }

  untilCommitted(waiting: WaitingProduce<Token>): void {
    this.#untilCommitted.push(waiting);
  }

  /** Answered when its original is committed (P-15). */
  untilOriginalCommitted(waiting: WaitingProduce<Token>): void {
    this.#duplicates ??= new Heap<WaitingProduce<Token>>((left, right) => left.endOffset < right.endOffset);
    this.#duplicates.push(waiting);
  }

  /** One was told by its deadline. Linear in what waits, once for each half of it. */
  gaveUp(): void {
    if (++this.#gaveUpCount * 2 < this.length) return;
    this.#gaveUpCount = 0;
    for (const queue of [this.#untilWritten, this.#untilCommitted]) keepOnly(queue, isAwaited);
    for (const waiting of this.#takeDuplicates()) if (isAwaited(waiting)) this.untilOriginalCommitted(waiting);
  }

  written(end: Offset): void {
    this.#answerBelow(this.#untilWritten, end);
  }

  committed(end: Offset): void {
    this.#answerBelow(this.#untilCommitted, end);
    const duplicates = this.#duplicates;
    for (let first = duplicates?.peek(); first !== undefined && first.endOffset <= end; first = duplicates?.peek()) {
      duplicates?.pop();
      this.#effects.settle(first, COMMITTED);
    }
  }

  /** The disk had no room. */
  takeBack(from: Offset): void {
    this.#dropFrom(from, { error: "STORAGE_FULL", outcome: "not appended" });
  }

  /** What ends above is not in the log any more; whether another replica has it and will keep it, nobody knows. */
  endAt(end: Offset): void {
    if (end < this.#lastEnd) this.#dropFrom(end, { error: "NOT_LEADER_OR_FOLLOWER", outcome: "unknown" });
    this.#lastEnd = end;
  }

  /** Linear in what waits; happens only on a full disk, or once where leadership was handed over. */
  #dropFrom(from: Offset, answer: { readonly error: ErrorName; readonly outcome: Outcome }): void {
    for (const queue of [this.#untilWritten, this.#untilCommitted]) {
      keepOnly(queue, (waiting) => {
        if (waiting.endOffset <= from) return true;
        this.#effects.settle(waiting, answer);
        return false;
      });
    }
    for (const waiting of this.#takeDuplicates()) {
      if (waiting.endOffset <= from) this.untilOriginalCommitted(waiting);
      else this.#effects.settle(waiting, answer);
    }
  }

  answerAll(error: ErrorName, outcome: Outcome): void {
    for (const queue of [this.#untilWritten, this.#untilCommitted]) {
      if (queue.length === 0) continue;
      for (const waiting of queue) this.#effects.settle(waiting, { error, outcome });
      queue.clear();
    }
    for (const waiting of this.#takeDuplicates()) this.#effects.settle(waiting, { error, outcome });
  }

  /** By offset. */
  #takeDuplicates(): WaitingProduce<Token>[] {
    const taken: WaitingProduce<Token>[] = [];
    const duplicates = this.#duplicates;
    for (let first = duplicates?.pop(); first !== undefined; first = duplicates?.pop()) taken.push(first);
    return taken;
  }

  #answerBelow(queue: Ring<WaitingProduce<Token>>, end: Offset): void {
    for (let head = queue.peek(); head !== undefined && head.endOffset <= end; head = queue.peek()) {
      queue.shift();
      this.#effects.settle(head, COMMITTED);
    }
  }
}

const isAwaited = ({ isSettled }: WaitingProduce<unknown>): boolean => !isSettled;

/** In their order. */
function keepOnly<T>(queue: Ring<T>, holds: (item: T) => boolean): void {
  const kept = [...queue].filter(holds);
  queue.clear();
  for (const item of kept) queue.push(item);
}
