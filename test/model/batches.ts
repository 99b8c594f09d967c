// What the tests of the record format share: real checksum and codecs, a quick way to a batch, and batches known byte for byte.
import { expect } from "vitest";
import { OttlaError } from "../../src/model/errors.ts";
import { type DecodedBatch, decodeRecords, RecordBatchBuilder, type RecordInput } from "../../src/model/records.ts";
import { createChecksum } from "../../src/platform/checksum.ts";
import { loadCodecs } from "../../src/platform/codecs.ts";
import type { CompressionName } from "../../src/ports/codecs.ts";

export const checksum = createChecksum();
export const codecs = await loadCodecs();

export const hex = (text: string): Uint8Array => new Uint8Array(Buffer.from(text.replaceAll(/\s/g, ""), "hex"));
export const ascii = (text: string): Uint8Array => new TextEncoder().encode(text);
export const decode = (batch: Uint8Array, decompressedBytesMax = 1 << 20): DecodedBatch =>
  decodeRecords(batch, { checksum, codecs, decompressedBytesMax });

export function build(records: readonly RecordInput[], compression: CompressionName = "none"): Uint8Array {
  const builder = new RecordBatchBuilder({ limitBytes: 1 << 20 });
  for (const record of records) expect(builder.tryAppend(record)).toBe(true);
  return builder.build({ compression, codecs, checksum });
}

export function codeOf(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    if (error instanceof OttlaError) return error.code;
    throw error;
  }
  return "none";
}

/** Three records: a header; null key and empty value, 5 ms later; empty key, null value, a header of null, 1 ms earlier. */
export const GOLDEN = hex(`
  0000000000000000 00000050 ffffffff 02 4d2e2731
  0000 00000002 0000018bcfe56800 0000018bcfe56805 ffffffffffffffff ffff ffffffff 00000003
  18 00 00 00  02 6b  02 76  02  02 68  02 78
  0c 00 0a 02  01     00     00
  14 00 01 04  00     01     02  04 c3a9  01`);
export const GOLDEN_RECORDS: RecordInput[] = [
  { key: ascii("k"), value: ascii("v"), headers: [["h", ascii("x")]], timestamp: 1_700_000_000_000 },
  { key: null, value: ascii(""), headers: [], timestamp: 1_700_000_000_005 },
  { key: ascii(""), value: null, headers: [["é", null]], timestamp: 1_699_999_999_999 },
];

/** LEADER_CHANGE (2) with a value of version 0, at 1 ms. */
export const GOLDEN_CONTROL = hex(`
  0000000000000000 0000003e ffffffff 02 a497aafd
  0020 00000000 0000000000000001 0000000000000001 ffffffffffffffff ffff ffffffff 00000001
  18 00 00 00  08 00000002  04 0000  00`);
