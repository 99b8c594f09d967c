// What a log holds in memory, counted: batches from `flushedEnd` on are pinned until they are in a segment, those below are kept as tail
// cache for as long as the store has room for them.
import { assert } from "../base/assert.ts";
import type { Offset } from "../model/ids.ts";
import { forEachBatch } from "../model/records.ts";
import { baseInWindow, positionIn, readWindow } from "./batch-run.ts";
import { BatchWindow, HOLD_OVERHEAD_BYTES } from "./batch-window.ts";
import type { TailMemory } from "./tail-memory.ts";
import type { ReadOptions, ReadResult } from "./types.ts";

/** The two budgets of the store, and where it keeps its tail cache. */
export interface MemoryBudgets<Log> {
  readonly tailMemory: TailMemory;
  onPinned(log: Log, sizeBytes: number): void;
  onUnpinned(log: Log, sizeBytes: number): void;
  /** Bytes of the log that became, or ceased to be, tail cache. */
  onCached(log: Log, sizeBytes: number): void;
}

export class HeldBatches<Log> {
  readonly window: BatchWindow;
  readonly #budgets: MemoryBudgets<Log>;
  readonly #log: Log;
  #flushedEnd: number;
  #pinnedBytes = 0;
  #cachedBytes = 0;

  constructor(budgets: MemoryBudgets<Log>, log: Log, endOffset: number) {
    this.#budgets = budgets;
    this.#log = log;
    this.#flushedEnd = endOffset;
    this.window = new BatchWindow(endOffset);
  }

  /** Exclusive end of what may be read from the segments. */
  get flushedEnd(): number {
    return this.#flushedEnd;
  }

  get pinnedBytes(): number {
    return this.#pinnedBytes;
  }

  get cachedBytes(): number {
    return this.#cachedBytes;
  }

  hold(run: Uint8Array, lastOffset: number): void {
    this.window.push(run, lastOffset);
    const heldBytes = run.byteLength + HOLD_OVERHEAD_BYTES;
    this.#pinnedBytes += heldBytes;
    this.#budgets.onPinned(this.#log, heldBytes);
  }

  /** Whether all from `offset` on is here. */
  holdsFrom(offset: number): boolean {
    return offset >= this.window.startOffset;
  }

  /** Base of the batch that holds `offset`; undefined when it is not here. */
  baseOfBatchAt(offset: number): number | undefined {
    return this.window.length > 0 && this.holdsFrom(offset) ? baseInWindow(this.window, offset) : undefined;
  }

  read(offset: Offset, options: ReadOptions): ReadResult {
    return this.#budgets.tailMemory.lend(readWindow(this.window, offset, options));
  }

  /** Visits the batches that end above `offset` and begin below `limitOffset`, until a visit returns false. */
  visit(
    offset: number,
    options: { readonly limitOffset: number; readonly visit: (batch: Uint8Array) => boolean },
  ): void {
    const { window } = this;
    let isDone = false;
    for (let index = 0; index < window.length && !isDone; index++) {
      if (window.endAt(index) <= offset || window.baseAt(index) >= options.limitOffset) continue;
      const run = window.batchAt(index);
      forEachBatch(run, (at, sizeBytes) => {
        isDone ||= !options.visit(run.subarray(at, at + sizeBytes));
      });
    }
  }

  /** Forgets everything from `end` on. */
  dropFrom(end: number): void {
    const { window } = this;
    while (window.length > 0 && window.endOffset > end) {
      const newest = window.length - 1;
      const base = window.baseAt(newest);
      const run = window.batchAt(newest);
      const freedBytes = base >= end ? window.pop() : window.shorten(positionIn(run, end), end);
      if (base >= this.#flushedEnd) this.#unpin(freedBytes);
      else this.#cache(-freedBytes);
      if (base >= end || window.batchAt(newest).buffer !== run.buffer) this.#budgets.tailMemory.drop(run);
    }
    if (window.length === 0) window.reset(end);
    this.#flushedEnd = Math.min(this.#flushedEnd, end);
  }

  /** The segments hold everything below `end`. */
  noteFlushed(end: number): void {
    const { window } = this;
    assert(end <= window.endOffset, `the segments end at ${end}, the log at ${window.endOffset}`);
    let heldBytes = 0;
    for (let index = window.indexOf(this.#flushedEnd); index < window.length && window.endAt(index) <= end; index++) {
      if (window.baseAt(index) < this.#flushedEnd) continue;
      const run = window.batchAt(index);
      heldBytes += run.byteLength + HOLD_OVERHEAD_BYTES;
      window.replace(index, this.#budgets.tailMemory.keep(run));
    }
    this.#flushedEnd = Math.max(this.#flushedEnd, end);
    if (heldBytes === 0) return;
    this.#unpin(heldBytes);
    this.#cache(heldBytes);
  }

  /** Forgets cached batches that end at or below `offset`. */
  evictThrough(offset: number): void {
    const { window } = this;
    while (window.length > 0 && window.endAt(0) <= Math.min(offset, this.#flushedEnd)) {
      const run = window.batchAt(0);
      this.#cache(-window.shift());
      this.#budgets.tailMemory.drop(run);
    }
  }

  /** Gives back everything; what was pinned is lost. */
  clear(): void {
    this.#unpin(this.#pinnedBytes);
    this.#cache(-this.#cachedBytes);
    for (let index = 0; index < this.window.length; index++) this.#budgets.tailMemory.drop(this.window.batchAt(index));
    this.window.reset(this.window.endOffset);
  }

  #unpin(sizeBytes: number): void {
    this.#pinnedBytes -= sizeBytes;
    this.#budgets.onUnpinned(this.#log, sizeBytes);
  }

  #cache(sizeBytes: number): void {
    this.#cachedBytes += sizeBytes;
    this.#budgets.onCached(this.#log, sizeBytes);
  }
}
