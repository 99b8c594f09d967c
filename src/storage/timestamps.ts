// Finding a record by time inside one batch (S-24).
import { assert } from "../base/assert.ts";
import { DECOMPRESSED_BYTES_MAX, maxTimestampAt } from "../model/record-batch.ts";
import { decodeRecords } from "../model/records.ts";
import type { LeaderEpoch, Offset } from "../model/ids.ts";
import type { Checksum } from "../ports/checksum.ts";
import type { Codecs } from "../ports/codecs.ts";
import type { TimestampResult } from "./types.ts";

export interface TimestampDeps {
  readonly checksum: Checksum;
  readonly codecs: Codecs;
}

export interface TimestampQuery {
  readonly timestamp: number;
  /** Offsets in [from, limit) count. */
  readonly from: number;
  readonly limit: number;
}

/** The first record of the batch that the query wants. */
export function findInBatch(
  batch: Uint8Array,
  query: TimestampQuery,
  deps: TimestampDeps,
): TimestampResult | undefined {
  if (maxTimestampAt(batch, 0) < query.timestamp) return undefined;
  assert(query.from >= 0, "a query starts at an offset");
  const decoded = decodeRecords(batch, { ...deps, decompressedBytesMax: DECOMPRESSED_BYTES_MAX });
  for (const record of decoded) {
    if (record.offset < query.from || record.timestamp < query.timestamp) continue;
    if (record.offset >= query.limit) return undefined;
    return { offset: record.offset as Offset, timestamp: record.timestamp, epoch: decoded.leaderEpoch as LeaderEpoch };
  }
  return undefined;
}
