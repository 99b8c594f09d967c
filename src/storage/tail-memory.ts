// Memory of the tail cache, used again: batches are copied into blocks, and a block is filled anew when nothing of it is cached and nobody reads it.
// Batches kept in the memory that they were received in live just long enough to become old to the collector, which then looks at the whole heap for
// every 64 MB produced.
//
// Bound: blocks for twice the cache's bytes, as the next batch may not fit what is left of one; and those that readers still look at, each at most
// HELD_TIMES_MAX times what it was given.
import { concatBytes, fillWith } from "../base/bytes.ts";
import { mutant } from "../base/mutant.ts";
import type { ReadBuffers } from "./read-buffers.ts";
import type { ReadResult } from "./types.ts";

/** Holds the largest batch that `max.message.bytes` allows by default. */
const BLOCK_BYTES = 1024 * 1024 + 4096;
/** Of a small cache, so that it is not all in one block. */
const BLOCKS_MIN = 8;
/** Half of a block or more, across the border of two, is no copy. Runs that lie far apart are: a reader that stalls would keep all of the cache. */
const HELD_TIMES_MAX = 4;

interface Block {
  readonly bytes: Uint8Array;
  usedBytes: number;
  /** Batches of it in the cache. */
  cached: number;
  /** Reads of it that were not given back. One that never is leaves the block to the collector. */
  readers: number;
}

export class TailMemory {
  readonly #blockBytes: number;
  readonly #freeMax: number;
  readonly #buffers: ReadBuffers;
  readonly #blocks = new Map<ArrayBufferLike, Block>();
  readonly #free: Block[] = [];
  #open: Block | undefined;
  #keptCount = 0;

  /** `buffers`: for copies. */
  constructor(cacheBytes: number, buffers: ReadBuffers) {
    this.#buffers = buffers;
    this.#blockBytes = Math.min(BLOCK_BYTES, Math.floor(cacheBytes / BLOCKS_MIN));
    this.#freeMax = Math.ceil(cacheBytes / BLOCK_BYTES);
  }

  get freeCount(): number {
    return this.#free.length;
  }

  /** Runs copied into blocks so far. */
  get keptCount(): number {
    return this.#keptCount;
  }

  /** The same bytes where the cache keeps them; as they are when they are longer than a block. */
  keep(run: Uint8Array): Uint8Array {
    if (run.length > this.#blockBytes) return run;
    const block = this.#roomFor(run.length);
    const kept = block.bytes.subarray(block.usedBytes, block.usedBytes + run.length);
    kept.set(run);
    block.usedBytes += run.length;
    block.cached++;
    this.#keptCount++;
    return kept;
  }

  /** The cache has forgotten what `keep` gave. */
  drop(run: Uint8Array): void {
    const block = this.#blocks.get(run.buffer);
    if (block === undefined) return;
    block.cached--;
    this.#reuse(block);
  }

  /** What was read from the cache, safe from being overwritten: held until it is given back, or, when it is little of its blocks, a copy. */
  lend(result: ReadResult): ReadResult {
    const blocks = this.#blocksOf(result.chunks);
    if (blocks.size === 0) return result;
    const { chunks, sizeBytes } = result;
    if (sizeBytes * 2 < this.#blockBytes) return { ...result, chunks: [concatBytes(chunks)] };
    if (sizeBytes * HELD_TIMES_MAX < blocks.size * this.#blockBytes) return this.#copyOf(result);
    if (!mutant("S-20c")) for (const block of blocks) block.readers++;
    let isHeld = true;
    const release = (): void => {
      if (!isHeld || mutant("S-20c")) return;
      isHeld = false;
      for (const block of blocks) {
        block.readers--;
        this.#reuse(block);
      }
    };
    return { ...result, release };
  }

  #copyOf(result: ReadResult): ReadResult {
    const { bytes, release } = this.#buffers.take(result.sizeBytes);
    return { ...result, chunks: [fillWith(bytes, result.chunks)], release };
  }

  #blocksOf(chunks: readonly Uint8Array[]): Set<Block> {
    const blocks = new Set<Block>();
    for (const { buffer } of chunks) {
      const block = this.#blocks.get(buffer);
      if (block !== undefined) blocks.add(block);
    }
    return blocks;
  }

  #roomFor(sizeBytes: number): Block {
    const full = this.#open;
    if (full !== undefined && full.usedBytes + sizeBytes <= full.bytes.length) return full;
    const block = this.#free.pop() ?? this.#newBlock();
    block.usedBytes = 0;
    this.#open = block;
    this.#blocks.set(block.bytes.buffer, block);
    if (full !== undefined) this.#reuse(full);
    return block;
  }

  #newBlock(): Block {
    return { bytes: new Uint8Array(this.#blockBytes), usedBytes: 0, cached: 0, readers: 0 };
  }

  #reuse(block: Block): void {
    if (block === this.#open || block.cached > 0) return;
    this.#blocks.delete(block.bytes.buffer);
    if (block.readers === 0 && this.#free.length < this.#freeMax) this.#free.push(block);
  }
}
