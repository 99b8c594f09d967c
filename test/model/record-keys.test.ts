import { expect, test } from "vitest";
import { keyFault } from "../../src/model/record-keys.ts";
import { type RecordInput, RecordBatchBuilder } from "../../src/model/records.ts";
import type { CompressionName } from "../../src/ports/codecs.ts";
import { checksum, codecs } from "./batches.ts";

const record = (key: string | null, value: string | null): RecordInput => {
  const bytes = (text: string | null): Uint8Array | null => (text === null ? null : new TextEncoder().encode(text));
  return { key: bytes(key), value: bytes(value), headers: [["h", bytes(value)]], timestamp: 1_700_000_000_000 };
};

function batchOf(records: readonly RecordInput[], compression: CompressionName = "none"): Uint8Array {
  const builder = new RecordBatchBuilder({ limitBytes: 1 << 16 });
  for (const each of records) builder.tryAppend(each);
  return builder.build({ compression, codecs, checksum });
}

const CODECS = ["none", "gzip", "snappy", "lz4", "zstd"] as const;
const faultOf = (batch: Uint8Array, maxBytes = 1 << 16) => keyFault(batch, { codecs, maxBytes });
const keyless = (index: number) => ({
  error: "INVALID_RECORD",
  message: `record ${index} has no key, and the topic is compacted`,
});

test.each(CODECS)(
  "S-36: the first record without a key is found, compressed with %s, too; an empty key is one",
  (codec) => {
    expect(faultOf(batchOf([record("a", "1"), record("", null), record("b".repeat(300), "2")], codec))).toBeUndefined();
    const second = [record("a", "x".repeat(500)), record("b", null), record(null, "2")];
    expect(faultOf(batchOf(second, codec))).toEqual(keyless(2));
    expect(faultOf(batchOf([record(null, "2")], codec))).toEqual(keyless(0));
  },
);

test.each(CODECS.slice(1))("the batches of one request open to 64 MiB together: %s", (codec) => {
  const batch = batchOf([record("a", "x".repeat(10_000))], codec);
  const opened = { bytes: 0 };
  const next = (each: Uint8Array, maxBytes = 2_048) => keyFault(each, { codecs, maxBytes, opened })?.error;
  // Whatever the limits of the topics before it are.
  expect([next(batch, 1 << 20), next(batch), next(batch)]).toEqual([undefined, undefined, undefined]);
  expect(opened.bytes).toBeGreaterThan(60_000);
  opened.bytes = 64 * 1024 * 1024;
  expect(next(batch)).toBe("BUSY");
  // What is not compressed costs nothing to open.
  expect(next(batchOf([record("a", "1")]))).toBeUndefined();
  // One that does not open may have cost all it may open to.
  opened.bytes = 0;
  expect(next(batch, 100)).toBe("INVALID_RECORD");
  expect(opened.bytes).toBe(1_600);
});

test.each(CODECS.slice(1))("a batch of %s opens to 16 times max.message.bytes and no further", (codec) => {
  const bomb = batchOf([record("a", "x".repeat(20_000))], codec);
  expect(faultOf(bomb, 4_096)).toBeUndefined();
  expect(faultOf(bomb, 1_024)).toEqual({
    error: "INVALID_RECORD",
    message: expect.stringMatching(/decompress to more than 16384 bytes, the most that a compacted topic takes/),
  });
});

test.each(CODECS.slice(1))("bytes of %s that do not open are a corrupt batch", (codec) => {
  const broken = batchOf([record("a", "x".repeat(500))], codec).subarray(0, -12);
  expect(faultOf(broken)).toMatchObject({ error: "CORRUPT_MESSAGE" });
});

test("records that are not as the header says are refused", () => {
  const batch = batchOf([record("a", "1"), record("b", "2")], "gzip");
  // The count, and the last offset delta.
  new DataView(batch.buffer, batch.byteOffset).setInt32(57, 1);
  new DataView(batch.buffer, batch.byteOffset).setInt32(23, 0);
  expect(faultOf(batch)).toMatchObject({ error: "INVALID_RECORD", message: expect.not.stringContaining("key") });
});
