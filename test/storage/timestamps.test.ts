// Finding a record by time in one batch whose header is not true: whoever sent it compressed may say what he likes there.
import { expect, test } from "vitest";
import { writeI64 } from "../../src/base/bytes.ts";
import { assignOffsets, sealBatch } from "../../src/model/record-batch.ts";
import { RecordBatchBuilder } from "../../src/model/records.ts";
import { loadCodecs } from "../../src/platform/codecs.ts";
import { findInBatch } from "../../src/storage/timestamps.ts";
import { checksum } from "./support.ts";

const MAX_TIMESTAMP_AT = 35;
const codecs = await loadCodecs();

/** Records of 1000, 1001, ... at offsets from 10 on. */
function batchOf(records: number, { newest }: { readonly newest?: number } = {}): Uint8Array {
  const builder = new RecordBatchBuilder({ limitBytes: 1 << 16 });
  for (let at = 0; at < records; at++)
    builder.tryAppend({ key: null, value: new Uint8Array(50), headers: [], timestamp: 1000 + at });
  const batch = builder.build({ compression: "zstd", codecs, checksum }).slice();
  if (newest !== undefined) writeI64(batch, MAX_TIMESTAMP_AT, newest);
  sealBatch(batch, checksum);
  assignOffsets(batch, 10, 3);
  return batch;
}

const find = (batch: Uint8Array, timestamp: number, { from = 0, limit = 100 } = {}) =>
  findInBatch(batch, { timestamp, from, limit }, { checksum, codecs });

test("S-24: a batch of which no record is as new as its header says ends the search: the next one would be opened in the same turn", () => {
  expect(find(batchOf(4, { newest: 5000 }), 2000)).toEqual({ offset: 10, timestamp: 5000, epoch: 3 });
  expect(find(batchOf(4, { newest: 5000 }), 1002)).toEqual({ offset: 12, timestamp: 1002, epoch: 3 });
  expect(find(batchOf(4, { newest: 5000 }), 6000)).toBeUndefined();
});

test("S-24: one whose new records are below where the log starts, or not to be seen yet, does not", () => {
  expect(find(batchOf(4), 1002, { from: 14 })).toBeUndefined();
  expect(find(batchOf(4), 1002, { limit: 12 })).toBeUndefined();
  expect(find(batchOf(4), 1002, { from: 13 })).toEqual({ offset: 13, timestamp: 1003, epoch: 3 });
});
