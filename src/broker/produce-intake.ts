// Where produce requests enter: in order of arrival, straight on while storage has room, in one queue while it has not. What the queue can
// hold is bounded by the accounts: the sockets that fill it are paused.
import { Ring } from "../base/ring.ts";
import type { ErrorName } from "../model/errors.ts";
import type { LogStore } from "../storage/types.ts";
import type { Accountant } from "./accountant.ts";
import type { ProduceOperation } from "./produce-operation.ts";

export class ProduceIntake {
  readonly #store: LogStore;
  readonly #accountant: Accountant;
  /** Bound: twice those that are not answered. */
  readonly #queue = new Ring<ProduceOperation>();
  /** At least as many of the queue as are answered. */
  #answeredCount = 0;
  /** Taken in and not answered: what a stop waits for. */
  readonly #open = new Set<ProduceOperation>();
  /** What idle() waits for. */
  #awaited = new Set<ProduceOperation>();
  #onIdle: (() => void) | undefined;

  constructor(deps: { readonly store: LogStore; readonly accountant: Accountant }) {
    this.#store = deps.store;
    this.#accountant = deps.accountant;
  }

  get openCount(): number {
    return this.#open.size;
  }

  get queuedCount(): number {
    return this.#queue.length;
  }

  /** False when too many requests wait already: nothing was taken. */
  take(operation: ProduceOperation): boolean {
    // On a full disk memory does not empty either: refuse at once rather than hold the request, and its socket, until its deadline.
    const mustQueue = !this.#store.isLowOnSpace && (this.#queue.length > 0 || !this.#store.hasRoom);
    if (!mustQueue) {
      operation.start();
      if (operation.isDone) return true;
    }
    // One that has been appended must be answered by its own fate: the bound refuses only what has not.
    if (!this.#accountant.tryDelay()) {
      if (mustQueue) return false;
      this.#accountant.forceDelay();
    }
    this.#open.add(operation);
    operation.onDone = () => this.#done(operation);
    operation.armDeadline();
    if (!mustQueue) return true;
    operation.keep();
    this.#queue.push(operation);
    return true;
  }

  /** Storage has room again, or has changed its mind about it. */
  drain(): void {
    while (this.#store.hasRoom || this.#store.isLowOnSpace) {
      const operation = this.#queue.shift();
      if (operation === undefined) return;
      // D-26: one whose deadline passed while it waited is not begun.
      if (!operation.isDone) operation.start();
    }
  }

  abandonAll(error: ErrorName): void {
    this.#queue.clear();
    for (const operation of [...this.#open]) operation.abandon(error);
  }

  /** Resolves when everything that was taken in until now is answered. One caller at a time. */
  idle(): Promise<void> {
    this.#awaited = new Set(this.#open);
    if (this.#awaited.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onIdle = resolve;
    });
  }

  #done(operation: ProduceOperation): void {
    if (!this.#open.delete(operation)) return;
    this.#accountant.endDelay();
    if (this.#queue.length > 0) this.#forgetAnswered();
    if (this.#awaited.delete(operation) && this.#awaited.size === 0) this.#onIdle?.();
  }

  /**
   * D-26: while storage takes nothing, each is answered by its deadline and others come in its place: they must not pile up. Linear in the queue, once for
   * each half of it.
   */
  #forgetAnswered(): void {
    if (++this.#answeredCount * 2 < this.#queue.length) return;
    this.#answeredCount = 0;
    const open = [...this.#queue].filter(({ isDone }) => !isDone);
    this.#queue.clear();
    for (const operation of open) this.#queue.push(operation);
  }
}
