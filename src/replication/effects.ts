// The effects of one step, in order. A step without any costs no allocation.
import type { ErrorName, Outcome } from "../model/errors.ts";
import type { PartitionEffect, WaitingProduce } from "./types.ts";

const NONE: readonly never[] = Object.freeze([]);

export class Effects<Token, Body> {
  #list: PartitionEffect<Token, Body>[] | undefined;

  push(effect: PartitionEffect<Token, Body>): void {
    if (this.#list === undefined) this.#list = [effect];
    else this.#list.push(effect);
  }

  /** Answers a produce that waits, once. */
  settle(waiting: WaitingProduce<Token>, answer: { readonly error: ErrorName; readonly outcome: Outcome }): void {
    if (waiting.isSettled) return;
    waiting.isSettled = true;
    const { error, outcome } = answer;
    const baseOffset = outcome === "appended" ? waiting.baseOffset : undefined;
    this.push({ kind: "answer", token: waiting.token, error, outcome, baseOffset });
  }

  /** Nothing of it is anywhere. */
  refuse(token: Token, error: ErrorName): void {
    this.push({ kind: "answer", token, error, outcome: "not appended", baseOffset: undefined });
  }

  take(): readonly PartitionEffect<Token, Body>[] {
    const list = this.#list;
    if (list === undefined) return NONE;
    this.#list = undefined;
    return list;
  }
}
