// Record batches as attackers send them: whole ones, and ones that were changed in their header and records and then given the length and the
// checksum that fit, so that they are looked at further.
import type { Rng } from "../../src/base/rng.ts";
import { concatBytes, utf8Encode, writeI64, writeU16, writeU32 } from "../../src/base/bytes.ts";
import {
  BATCH_HEADER_BYTES,
  BATCH_OVERHEAD_BYTES,
  type ProducerFields,
  sealBatch,
} from "../../src/model/record-batch.ts";
import { RecordBatchBuilder } from "../../src/model/records.ts";
import { createChecksum } from "../../src/platform/checksum.ts";
import { loadCodecs } from "../../src/platform/codecs.ts";

const codecs = await loadCodecs();
const checksum = createChecksum();
const COMPRESSIONS = ["none", "none", "none", "gzip", "snappy", "lz4", "zstd"] as const;
const LENGTH_AT = 8;

export interface BatchPlan {
  readonly records?: number;
  readonly valueBytes?: number;
  readonly producer?: ProducerFields;
  /** Values of exactly that length, not compressed. */
  readonly isWhole?: boolean;
}

export function batch(
  rng: Rng,
  { records = rng.between(1, 4), valueBytes = 40, producer, isWhole = false }: BatchPlan = {},
): Uint8Array {
  const builder = new RecordBatchBuilder({ limitBytes: (valueBytes + 200) * records + 1024 });
  for (let at = 0; at < records; at++) {
    const value = new Uint8Array(isWhole ? valueBytes : rng.below(valueBytes + 1));
    rng.fill(value);
    const headers = rng.chance(0.2) ? ([["trace", utf8Encode("x")]] as const) : [];
    builder.tryAppend({
      key: rng.chance(0.5) ? null : utf8Encode(`k${at}`),
      value,
      headers,
      timestamp: 1_700_000_000_000 + at,
    });
  }
  const compression = isWhole ? "none" : rng.pick(COMPRESSIONS);
  return builder.build({ compression, codecs, checksum, ...(producer && { producer }) }).slice();
}

/** Values that a field of 16, 32 or 64 bits does not expect. */
const ODD = [
  0,
  1,
  2,
  -1,
  -2,
  0x7f,
  0x80,
  0x7fff,
  0x7fffffff,
  -0x80000000,
  0xffffffff,
  2 ** 40,
  2 ** 53 - 1,
  -(2 ** 53),
];
const I64_AT = [0, 27, 35, 43];
const U32_AT = [12, 23, 53, 57];
const U16_AT = [21, 51];

/** One change; then length and checksum are made right. */
export function repairedBatch(original: Uint8Array, rng: Rng): Uint8Array {
  let bytes: Uint8Array = original.slice();
  const kind = rng.below(6);
  if (bytes.length < BATCH_HEADER_BYTES) return bytes;
  if (kind === 0) writeI64(bytes, rng.pick(I64_AT), rng.pick(ODD));
  else if (kind === 1) writeU32(bytes, rng.pick(U32_AT), rng.pick(ODD) >>> 0);
  else if (kind === 2) writeU16(bytes, rng.pick(U16_AT), rng.below(0x1_0000));
  else if (kind === 3) bytes = bytes.slice(0, rng.between(BATCH_HEADER_BYTES, bytes.length));
  else if (kind === 4) bytes = concatBytes([bytes, bytes.subarray(rng.below(bytes.length))]);
  else bytes[rng.between(16, bytes.length - 1)] = rng.below(256);
  writeU32(bytes, LENGTH_AT, bytes.length - BATCH_OVERHEAD_BYTES);
  sealBatch(bytes, checksum);
  return bytes;
}
