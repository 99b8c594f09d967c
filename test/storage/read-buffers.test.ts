// Memory of reads that is used again: whose it is, how much of it is kept, and that no read shows what another has read.
import { expect, test } from "vitest";
import { bytesEqual, concatBytes } from "../../src/base/bytes.ts";
import type { Offset } from "../../src/model/ids.ts";
import { READ_BUFFER_BYTES, ReadBuffers } from "../../src/storage/read-buffers.ts";
import type { ReadResult, ReplicaLog } from "../../src/storage/types.ts";
import { MemoryFiles } from "./memory-files.ts";
import { appendBatch, openStore, Recorder, settle, specOf } from "./support.ts";

const MiB = 1024 * 1024;

test("a buffer that was given back is taken again, once however often it was given back", () => {
  const buffers = new ReadBuffers();
  const first = buffers.take(READ_BUFFER_BYTES - 5);
  expect(first.bytes.length).toBe(READ_BUFFER_BYTES - 5);
  first.release();
  first.release();
  const again = buffers.take(READ_BUFFER_BYTES);
  expect(again.bytes.buffer).toBe(first.bytes.buffer);
  expect(again.bytes.length).toBe(READ_BUFFER_BYTES);
  first.release();
  expect(buffers.take(READ_BUFFER_BYTES).bytes.buffer).not.toBe(again.bytes.buffer);
});

test("what is short or long has memory of its own, and no more is kept than the bound", () => {
  const buffers = new ReadBuffers();
  for (const sizeBytes of [0, 100, READ_BUFFER_BYTES / 2 - 1, READ_BUFFER_BYTES + 1]) {
    const { bytes, release } = buffers.take(sizeBytes);
    expect(bytes.buffer.byteLength).toBe(sizeBytes);
    release();
  }
  expect(buffers.freeCount).toBe(0);
  const many = Array.from({ length: 40 }, () => buffers.take(READ_BUFFER_BYTES));
  for (const { release } of many) release();
  expect(buffers.freeCount).toBe(16);
});

async function longLog() {
  const store = await openStore(new MemoryFiles(), { segmentBytes: 8 * MiB, journalPinnedBytes: 64 * MiB });
  const recorder = new Recorder();
  store.listen(recorder);
  const log = await store.createLog(specOf("a"));
  const batches = Array.from({ length: 24 }, () => appendBatch(log, { valueBytes: 100_000 }));
  await recorder.until(() => log.durableEnd === log.endOffset);
  while (log.isInMemory(23 as Offset)) await settle();
  return { store, log, batches };
}

const readAt = (log: ReplicaLog, offset: number, maxBytes = MiB): Promise<ReadResult> =>
  Promise.resolve(log.read(offset as Offset, { limitOffset: log.endOffset, maxBytes, atLeastOne: true }));

/** Not toEqual: that takes seconds for a megabyte. */
const isOf = ({ chunks }: ReadResult, batches: readonly Uint8Array[]): boolean =>
  bytesEqual(concatBytes(chunks), concatBytes(batches));

test("what was read stays as it is until it is given back, and the next reads use its memory after that", async () => {
  const { store, log, batches } = await longLog();
  const [first, second] = [await readAt(log, 0), await readAt(log, 10)];
  expect(isOf(first, batches.slice(0, 10))).toBe(true);
  expect(isOf(second, batches.slice(10, 20))).toBe(true);
  expect(second.chunks[0]?.buffer).not.toBe(first.chunks[0]?.buffer);
  first.release?.();
  const third = await readAt(log, 5);
  expect(third.chunks[0]?.buffer).toBe(first.chunks[0]?.buffer);
  expect(isOf(third, batches.slice(5, 15))).toBe(true);
  expect(isOf(second, batches.slice(10, 20))).toBe(true);
  await store.close();
});

test("a short answer has memory of its own and holds no large buffer", async () => {
  const { store, log, batches } = await longLog();
  const short = await readAt(log, 3, 100_500);
  expect(short.release).toBeUndefined();
  expect(isOf(short, batches.slice(3, 4))).toBe(true);
  expect(short.chunks[0]?.buffer.byteLength).toBeLessThan(2 * 101_000);
  await store.close();
});
