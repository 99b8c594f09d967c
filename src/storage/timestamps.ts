// Finding a record by time inside one batch (S-24).
import { assert } from "../base/assert.ts";
import {
  baseOffsetAt,
  checkStoredBatch,
  DECOMPRESSED_BYTES_MAX,
  isControlBatchAt,
  leaderEpochAt,
  maxTimestampAt,
  recordCountAt,
} from "../model/record-batch.ts";
import { type DecodedBatch, decodeRecords } from "../model/records.ts";
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
  const decoded = decodedIfItCan(batch, deps);
  if (decoded === undefined) return wholeBatch(batch, query);
  let isNewestBelow = false;
  for (const record of decoded) {
    if (record.timestamp < query.timestamp) continue;
    if (record.offset >= query.limit) return undefined;
    if (record.offset >= query.from)
      return {
        offset: record.offset as Offset,
        timestamp: record.timestamp,
        epoch: decoded.leaderEpoch as LeaderEpoch,
      };
    isNewestBelow = true;
  }
  // No record is as new as the header says, which nobody checks of compressed ones: a search that went on would open one such batch after
  // the other, all in one turn.
  const isUntrue = !isNewestBelow && recordCountAt(batch, 0) > 0 && !isControlBatchAt(batch, 0);
  return isUntrue ? wholeBatch(batch, query) : undefined;
}

/**
 * Undefined: the bytes are those that a client sent, and hold no records: nobody looks into compressed ones before they are appended. That is no damage of
 * the log, or any client could take a partition out of service.
 */
function decodedIfItCan(batch: Uint8Array, deps: TimestampDeps): DecodedBatch | undefined {
  try {
    return decodeRecords(batch, { ...deps, decompressedBytesMax: DECOMPRESSED_BYTES_MAX });
  } catch (thrown) {
    const isAsSent = checkStoredBatch(batch, 0, { end: batch.length, checksum: deps.checksum }).kind === "valid";
    if (isAsSent) return undefined;
    throw thrown;
  }
}

/** By its header alone: whoever reads from there is told what is wrong with it. */
function wholeBatch(batch: Uint8Array, { from, limit }: TimestampQuery): TimestampResult | undefined {
  const offset = Math.max(baseOffsetAt(batch, 0), from);
  if (offset >= limit) return undefined;
  const epoch = leaderEpochAt(batch, 0) as LeaderEpoch;
  return { offset: offset as Offset, timestamp: maxTimestampAt(batch, 0), epoch };
}
