// The newest batches of a log in memory, contiguous in offsets: a queue that can also be cut at its young end. What it holds at one
// index is one batch or a run of them.
import { keepable } from "../base/bytes.ts";

/** What a batch or a run held in memory costs beside its bytes: its places in queues and windows, its journal record. Counts for the budgets. */
export const HOLD_OVERHEAD_BYTES = 256;

export class BatchWindow {
  #batches: (Uint8Array | undefined)[] = new Array<Uint8Array | undefined>(8);
  #bases: number[] = new Array<number>(8).fill(0);
  #head = 0;
  #length = 0;
  /** One past the last offset held; where the next batch goes. */
  #endOffset: number;

  constructor(endOffset: number) {
    this.#endOffset = endOffset;
  }

  get length(): number {
    return this.#length;
  }

  /** First offset held; the end when nothing is. */
  get startOffset(): number {
    return this.#length === 0 ? this.#endOffset : this.baseAt(0);
  }

  get endOffset(): number {
    return this.#endOffset;
  }

  push(batch: Uint8Array, lastOffset: number): void {
    if (this.#length === this.#batches.length) this.#grow();
    const slot = (this.#head + this.#length) & (this.#batches.length - 1);
    this.#batches[slot] = batch;
    this.#bases[slot] = this.#endOffset;
    this.#length++;
    this.#endOffset = lastOffset + 1;
  }

  batchAt(index: number): Uint8Array {
    return this.#batches[(this.#head + index) & (this.#batches.length - 1)] as Uint8Array;
  }

  baseAt(index: number): number {
    return this.#bases[(this.#head + index) & (this.#batches.length - 1)] as number;
  }

  /** Exclusive end of the batch at this index. */
  endAt(index: number): number {
    return index + 1 < this.#length ? this.baseAt(index + 1) : this.#endOffset;
  }

  /** Index of what holds `offset`, which must be within the window. */
  indexOf(offset: number): number {
    let low = 0;
    let high = this.#length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.baseAt(middle) <= offset) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** The same bytes in another place. */
  replace(index: number, batch: Uint8Array): void {
    this.#batches[(this.#head + index) & (this.#batches.length - 1)] = batch;
  }

  /** Forgets the oldest batch and returns what it cost to hold. */
  shift(): number {
    const heldBytes = this.batchAt(0).byteLength + HOLD_OVERHEAD_BYTES;
    this.#batches[this.#head] = undefined;
    this.#head = (this.#head + 1) & (this.#batches.length - 1);
    this.#length--;
    return heldBytes;
  }

  /** Forgets the newest batch, so that the window ends at its base, and returns what it cost to hold. */
  pop(): number {
    const index = this.#length - 1;
    const heldBytes = this.batchAt(index).byteLength + HOLD_OVERHEAD_BYTES;
    this.#endOffset = this.baseAt(index);
    this.#batches[(this.#head + index) & (this.#batches.length - 1)] = undefined;
    this.#length--;
    return heldBytes;
  }

  /** Shortens the newest to its first `sizeBytes` bytes, so that the window ends at `endOffset`; returns what that gives back. */
  shorten(sizeBytes: number, endOffset: number): number {
    const slot = (this.#head + this.#length - 1) & (this.#batches.length - 1);
    const run = this.#batches[slot] as Uint8Array;
    this.#batches[slot] = keepable(run.subarray(0, sizeBytes));
    this.#endOffset = endOffset;
    return run.byteLength - sizeBytes;
  }

  /** Empties the window and sets where it goes on. */
  reset(endOffset: number): void {
    this.#batches = new Array<Uint8Array | undefined>(8);
    this.#bases = new Array<number>(8).fill(0);
    this.#head = 0;
    this.#length = 0;
    this.#endOffset = endOffset;
  }

  #grow(): void {
    const size = this.#batches.length * 2;
    const batches = new Array<Uint8Array | undefined>(size);
    const bases = new Array<number>(size).fill(0);
    for (let index = 0; index < this.#length; index++) {
      batches[index] = this.batchAt(index);
      bases[index] = this.baseAt(index);
    }
    this.#batches = batches;
    this.#bases = bases;
    this.#head = 0;
  }
}
