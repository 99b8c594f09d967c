// Memory of the tail cache that is used again: never under a reader, and never more of it than is said.
import { afterEach, expect, test } from "vitest";
import { bytesEqual, concatBytes } from "../../src/base/bytes.ts";
import { activateMutants } from "../../src/base/mutant.ts";
import { Ring } from "../../src/base/ring.ts";
import { createRng } from "../../src/base/rng.ts";
import type { Offset } from "../../src/model/ids.ts";
import { ReadBuffers } from "../../src/storage/read-buffers.ts";
import { TailMemory } from "../../src/storage/tail-memory.ts";
import type { ReadResult, ReplicaLog } from "../../src/storage/types.ts";
import { MemoryFiles } from "./memory-files.ts";
import { appendBatch, openStore, Recorder, settle, specOf } from "./support.ts";

const MiB = 1024 * 1024;
const nextOffset = 0 as Offset;

afterEach(() => activateMutants([]));

const runOf = (sizeBytes: number, fill = 1): Uint8Array => new Uint8Array(sizeBytes).fill(fill);
const resultOf = (...chunks: Uint8Array[]): ReadResult => ({
  chunks,
  sizeBytes: chunks.reduce((sum, { length }) => sum + length, 0),
  nextOffset,
});

test("what is kept is a copy, several in one block; what is longer than a block stays where it is", () => {
  const memory = new TailMemory(32 * MiB, new ReadBuffers());
  const own = runOf(1000);
  const [first, second] = [memory.keep(own), memory.keep(runOf(2000, 2))];
  own.fill(9);
  expect(first).toEqual(runOf(1000));
  expect(second.buffer).toBe(first.buffer);
  const long = runOf(2 * MiB);
  expect(memory.keep(long)).toBe(long);
  memory.drop(long);
  expect(memory.lend(resultOf(long)).release).toBeUndefined();
  const small = runOf(1);
  expect(new TailMemory(0, new ReadBuffers()).keep(small)).toBe(small);
});

test("a block is filled anew when nothing of it is cached and all that read it gave it back", () => {
  const memory = new TailMemory(32 * MiB, new ReadBuffers());
  const kept = memory.keep(runOf(MiB));
  const [one, other] = [memory.lend(resultOf(kept)), memory.lend(resultOf(kept))];
  memory.keep(runOf(MiB, 2));
  memory.drop(kept);
  one.release?.();
  one.release?.();
  const third = memory.keep(runOf(MiB, 3));
  expect(third.buffer).not.toBe(kept.buffer);
  expect(kept[0]).toBe(1);
  other.release?.();
  expect(memory.freeCount).toBe(1);
  expect(memory.keep(runOf(MiB, 4)).buffer).toBe(kept.buffer);
  expect(memory.freeCount).toBe(0);
});

test("a read of little of a block is a copy and holds nothing", () => {
  const memory = new TailMemory(32 * MiB, new ReadBuffers());
  const [first, second] = [memory.keep(runOf(1000)), memory.keep(runOf(2000, 2))];
  const read = memory.lend(resultOf(first, second));
  expect(read.release).toBeUndefined();
  expect(read.chunks).toEqual([concatBytes([first, second])]);
  expect(read.chunks[0]?.buffer).not.toBe(first.buffer);
});

test("runs of every size take blocks for at most twice the cache's bytes and one more", () => {
  for (const sizeBytes of [5_000, 100_000, 530_000, 700_000, MiB]) {
    const memory = new TailMemory(16 * MiB, new ReadBuffers());
    const run = runOf(sizeBytes);
    const cached = new Ring<Uint8Array>();
    const buffers = new Set<ArrayBufferLike>();
    for (let count = 0; count < (64 * MiB) / sizeBytes; count++) {
      const kept = memory.keep(run);
      buffers.add(kept.buffer);
      cached.push(kept);
      if (cached.length * sizeBytes > 16 * MiB) memory.drop(cached.shift() as Uint8Array);
    }
    expect([...buffers].reduce((sum, { byteLength }) => sum + byteLength, 0)).toBeLessThan(34 * MiB);
    expect(buffers.size).toBeGreaterThan(10);
  }
});

test("what a reader holds is at most four times what it was given, however much lies between its runs (invariant 43, D-26)", () => {
  const memory = new TailMemory(32 * MiB, new ReadBuffers());
  const cached: Uint8Array[] = [];
  const mine: Uint8Array[] = [];
  for (let round = 0; round < 30; round++) {
    const own = memory.keep(runOf(25_000, round));
    mine.push(own);
    cached.push(own, memory.keep(runOf(900_000, 99)), memory.keep(runOf(120_000, 99)));
  }
  const read = memory.lend(resultOf(...mine));
  for (const run of cached) memory.drop(run);
  const blocks = new Set(cached.map(({ buffer }) => buffer)).size;
  expect(blocks).toBeGreaterThan(29);
  // One is open.
  const heldBlocks = blocks - memory.freeCount - 1;
  expect(heldBlocks * MiB).toBeLessThanOrEqual(4 * read.sizeBytes);
  for (let round = 0; round < 32; round++) memory.keep(runOf(MiB, 98));
  expect(isFilled(read, mine.length, 25_000)).toBe(true);
});

/** Whether the read has so many runs, each filled with its number. */
function isFilled({ chunks }: ReadResult, runs: number, runBytes: number): boolean {
  const bytes = concatBytes(chunks);
  return bytes.length === runs * runBytes && bytes.every((byte, at) => byte === Math.floor(at / runBytes));
}

test("a read of most of two blocks is no copy", () => {
  const memory = new TailMemory(32 * MiB, new ReadBuffers());
  const runs = Array.from({ length: 6 }, (_, fill) => memory.keep(runOf(250_000, fill)));
  const read = memory.lend(resultOf(...runs.slice(2)));
  expect(new Set(read.chunks.map(({ buffer }) => buffer)).size).toBe(2);
  expect(read.chunks[0]?.buffer).toBe(runs[0]?.buffer);
  expect(read.release).toBeDefined();
});

/** How many of many reads had changed when they were given back. */
function changedReads(seed: number): number {
  const rng = createRng(seed);
  const memory = new TailMemory(8 * 1024, new ReadBuffers());
  const cached: { readonly run: Uint8Array; readonly fill: number }[] = [];
  const lent: { readonly read: ReadResult; readonly fills: readonly number[] }[] = [];
  let changed = 0;
  for (let step = 0; step < 600; step++) {
    if (cached.length < 20 && rng.chance(0.6)) {
      const fill = rng.below(256);
      cached.push({ run: memory.keep(runOf(1 + rng.below(1_100), fill)), fill });
    } else if (rng.chance(0.5)) {
      const [gone] = cached.splice(rng.below(3), 1);
      if (gone !== undefined) memory.drop(gone.run);
    } else if (rng.chance(0.6)) {
      const some = cached.slice(0, 1 + rng.below(4));
      lent.push({ read: memory.lend(resultOf(...some.map(({ run }) => run))), fills: fillsOf(some) });
    } else {
      const [back] = lent.splice(rng.below(lent.length + 1), 1);
      if (back === undefined) continue;
      if (!bytesEqual(concatBytes([...back.read.chunks]), Uint8Array.from(back.fills))) changed++;
      // One in ten is never given back.
      if (rng.chance(0.9)) back.read.release?.();
    }
    changed += cached.filter(({ run, fill }) => run[0] !== fill || run.at(-1) !== fill).length;
  }
  return changed;
}

const fillsOf = (runs: readonly { readonly run: Uint8Array; readonly fill: number }[]): number[] =>
  runs.flatMap(({ run, fill }) => Array.from({ length: run.length }, () => fill));

test("whatever is kept, dropped, read and given back, nothing changes under the cache or a reader", () => {
  for (let seed = 1; seed <= 5; seed++) expect(changedReads(seed)).toBe(0);
});

test("S-20c: if readers did not count, what they read would change", () => {
  activateMutants(["S-20c"]);
  expect(changedReads(1)).toBeGreaterThan(0);
});

const readAt = (log: ReplicaLog, offset: number): Promise<ReadResult> =>
  Promise.resolve(log.read(offset as Offset, { limitOffset: log.endOffset, maxBytes: 2 * MiB, atLeastOne: true }));

test("a log gives what was appended, from a cache whose memory is used again", async () => {
  const store = await openStore(new MemoryFiles(), {
    segmentBytes: 8 * MiB,
    journalPinnedBytes: 64 * MiB,
    tailCacheBytes: 8 * MiB,
  });
  const recorder = new Recorder();
  store.listen(recorder);
  const log = await store.createLog(specOf("a"));
  const buffers = new Set<ArrayBufferLike | undefined>();
  const reads: { readonly read: ReadResult; readonly batch: Uint8Array }[] = [];
  for (let round = 0; round < 16; round++) {
    const [batch] = [
      appendBatch(log, { valueBytes: MiB - 1000, fill: round }),
      appendBatch(log, { valueBytes: 500_000 }),
    ];
    const flushed = store.tailMemory.keptCount + 2;
    await recorder.until(() => log.durableEnd === log.endOffset);
    while (store.tailMemory.keptCount < flushed) await settle();
    const read = await readAt(log, 2 * round);
    for (const { buffer } of read.chunks) buffers.add(buffer);
    reads.push({ read, batch });
    // Every fifth one is given back late.
    if (round % 5 !== 0) read.release?.();
  }
  for (const [round, { read, batch }] of reads.entries())
    if (round % 5 === 0) expect(bytesEqual((read.chunks[0] as Uint8Array).subarray(0, batch.length), batch)).toBe(true);
  expect(reads.every(({ read }) => read.release !== undefined)).toBe(true);
  // Of 32.
  expect(buffers.size).toBeLessThan(26);
  await store.close();
});
