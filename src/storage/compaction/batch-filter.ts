// What compaction leaves of one batch (S-36 to S-38): all of it, some records, or its header. Pure.
import {
  readVarint,
  readVarlong,
  type VarintCursor,
  varintSize,
  varlongSize,
  writeVarint,
  writeVarlong,
} from "../../base/varint.ts";
import { assert } from "../../base/assert.ts";
import { mutant } from "../../base/mutant.ts";
import {
  assignOffsets,
  attributesAt,
  BATCH_HEADER_BYTES,
  baseOffsetAt,
  baseTimestampAt,
  compressionAt,
  DECOMPRESSED_BYTES_MAX,
  DELETE_HORIZON_BIT,
  isControlBatchAt,
  isLogAppendTimeAt,
  lastOffsetAt,
  lastOffsetDeltaAt,
  leaderEpochAt,
  maxTimestampAt,
  producerAt,
  recordCountAt,
  writeBatchHeader,
} from "../../model/record-batch.ts";
import { type DecodedBatch, decodeRecords } from "../../model/records.ts";
import type { Checksum } from "../../ports/checksum.ts";
import type { Codecs } from "../../ports/codecs.ts";

export interface FilterRules {
  /** The offset of the last record of a key in the dirty part; -1: it has none there. */
  lastOffsetOf(key: Uint8Array): number;
  /** Records above this were not looked at: they stay. */
  readonly mapEnd: number;
  /** Where the dirty part begins: every value below a tombstone that is below this is gone for good. */
  readonly firstDirty: number;
  readonly nowMs: number;
  readonly deleteRetentionMs: number;
}

export interface FilterDeps {
  readonly checksum: Checksum;
  readonly codecs: Codecs;
}

export type Filtered =
  | { readonly kind: "whole" /** It could not be opened. */; readonly isUnreadable: boolean }
  | { readonly kind: "some"; readonly batch: Uint8Array; readonly removed: number; readonly keyless: number }
  | { readonly kind: "none"; readonly removed: number; readonly keyless: number };

/** Times beyond these have no difference that a record can hold. */
const TIMESTAMP_ABS_MAX = 2 ** 51;
const HORIZON_MAX_MS = 2 ** 50;

interface Verdict {
  /** By the place of the record in the batch. */
  readonly keeps: readonly boolean[];
  readonly kept: number;
  readonly keyless: number;
  readonly hasTombstone: boolean;
  /** Of those that are kept. */
  readonly maxTimestamp: number;
  readonly minTimestamp: number;
}

const horizonOf = (batch: Uint8Array): number | undefined =>
  (attributesAt(batch, 0) & DELETE_HORIZON_BIT) === 0 ? undefined : baseTimestampAt(batch, 0);

function judge(batch: Uint8Array, records: DecodedBatch, rules: FilterRules): Verdict {
  const horizonMs = horizonOf(batch);
  const keeps: boolean[] = [];
  let [kept, keyless, hasTombstone] = [0, 0, false];
  let [minTimestamp, maxTimestamp] = [Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER];
  records.forEach((record) => {
    const { key, offset, value, timestamp } = record;
    let keep = offset > rules.mapEnd;
    if (!keep && key === null) keyless++;
    else if (!keep && key !== null) {
      const isLast = offset >= rules.lastOffsetOf(key) && !(mutant("S-36") && value !== null && offset % 2 === 0);
      keep = isLast && (value !== null || !mayGo(offset, horizonMs, rules));
    }
    keeps.push(keep);
    if (!keep) return;
    kept++;
    hasTombstone ||= value === null;
    minTimestamp = Math.min(minTimestamp, timestamp);
    maxTimestamp = Math.max(maxTimestamp, timestamp);
  });
  return { keeps, kept, keyless, hasTombstone, minTimestamp, maxTimestamp };
}

/** A tombstone: readers had the time to see it, and a crash cannot bring back what it deleted. */
function mayGo(offset: number, horizonMs: number | undefined, rules: FilterRules): boolean {
  if (mutant("S-37")) return true;
  return horizonMs !== undefined && rules.nowMs >= horizonMs && offset < rules.firstDirty;
}

export function filterBatch(batch: Uint8Array, rules: FilterRules, deps: FilterDeps): Filtered {
  // Control batches say of producers what no other batch does any more (D-15).
  if (recordCountAt(batch, 0) === 0 || isControlBatchAt(batch, 0) || baseOffsetAt(batch, 0) > rules.mapEnd)
    return { kind: "whole", isUnreadable: false };
  let records: DecodedBatch;
  try {
    records = decodeRecords(batch, { ...deps, decompressedBytesMax: DECOMPRESSED_BYTES_MAX });
  } catch {
    // Nobody can read it, so no key of it is known: it stays, as it is.
    return { kind: "whole", isUnreadable: true };
  }
  const verdict = judge(batch, records, rules);
  const { kept, keyless } = verdict;
  const removed = records.recordCount - kept;
  if (kept === 0) return { kind: "none", removed, keyless };
  // S-37: what this pass has not removed the values of gets no horizon yet.
  const isWithin = verdict.minTimestamp > -TIMESTAMP_ABS_MAX && verdict.maxTimestamp < TIMESTAMP_ABS_MAX;
  const isNewHorizon =
    verdict.hasTombstone && isWithin && horizonOf(batch) === undefined && lastOffsetAt(batch, 0) <= rules.mapEnd;
  if (removed === 0 && !isNewHorizon) return { kind: "whole", isUnreadable: false };
  const horizonMs = isNewHorizon ? Math.min(rules.nowMs + rules.deleteRetentionMs, HORIZON_MAX_MS) : horizonOf(batch);
  return { kind: "some", batch: rebuild(batch, { records, verdict, horizonMs }, deps), removed, keyless };
}

/** The records that are kept, at the same offsets, in a batch of the same place, producer and codec. */
function rebuild(
  batch: Uint8Array,
  parts: { readonly records: DecodedBatch; readonly verdict: Verdict; readonly horizonMs: number | undefined },
  { checksum, codecs }: FilterDeps,
): Uint8Array {
  const { verdict, horizonMs } = parts;
  const baseTimestamp = horizonMs ?? baseTimestampAt(batch, 0);
  const body = copyKept(parts.records.raw, verdict.keeps, baseTimestampAt(batch, 0) - baseTimestamp);
  const codec = compressionAt(batch, 0) ?? "none";
  const packed = codec === "none" ? body : codecs.compress(codec, body);
  const bytes = new Uint8Array(BATCH_HEADER_BYTES + packed.length);
  bytes.set(packed, BATCH_HEADER_BYTES);
  const header = {
    sizeBytes: bytes.length,
    attributes: attributesAt(batch, 0) | (horizonMs === undefined ? 0 : DELETE_HORIZON_BIT),
    lastOffsetDelta: lastOffsetDeltaAt(batch, 0),
    baseTimestamp,
    maxTimestamp: isLogAppendTimeAt(batch, 0) ? maxTimestampAt(batch, 0) : verdict.maxTimestamp,
    recordCount: verdict.kept,
    producer: producerAt(batch, 0),
  };
  writeBatchHeader(bytes, header, checksum);
  assignOffsets(bytes, baseOffsetAt(batch, 0), leaderEpochAt(batch, 0));
  return bytes;
}

/** Records of a body that has been checked, with their time deltas moved by `shiftMs`. */
function copyKept(
  { bytes, start }: { readonly bytes: Uint8Array; readonly start: number },
  keeps: readonly boolean[],
  shiftMs: number,
): Uint8Array {
  const cursor: VarintCursor = { value: 0, position: start };
  // A delta that moves may take more bytes: ten, and five more in the record's length, at most.
  const target = new Uint8Array(bytes.length - start + (shiftMs === 0 ? 0 : keeps.length * 15));
  let at = 0;
  for (const keep of keeps) {
    const recordStart = cursor.position;
    readVarint(bytes, bytes.length, cursor);
    const bodyStart = cursor.position;
    const bodyEnd = bodyStart + cursor.value;
    if (keep && shiftMs === 0) {
      target.set(bytes.subarray(recordStart, bodyEnd), at);
      at += bodyEnd - recordStart;
    } else if (keep) {
      cursor.position = bodyStart + 1;
      readVarlong(bytes, bytes.length, cursor);
      const delta = cursor.value + shiftMs;
      const rest = bytes.subarray(cursor.position, bodyEnd);
      const bodyBytes = 1 + varlongSize(delta) + rest.length;
      assert(varintSize(bodyBytes) <= 5, "a record's length is a varint");
      at = writeVarint(target, at, bodyBytes);
      target[at++] = bytes[bodyStart] as number;
      at = writeVarlong(target, at, delta);
      target.set(rest, at);
      at += rest.length;
    }
    cursor.position = bodyEnd;
  }
  return target.subarray(0, at);
}
