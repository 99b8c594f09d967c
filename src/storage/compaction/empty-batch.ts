// What is left of a batch that lost all its records: its header, for its offsets and for what it says of its producer (S-38, B-10).
import { mutant } from "../../base/mutant.ts";
import {
  attributesAt,
  assignOffsets,
  BATCH_HEADER_BYTES,
  baseOffsetAt,
  CODEC_MASK,
  DELETE_HORIZON_BIT,
  lastOffsetDeltaAt,
  leaderEpochAt,
  maxTimestampAt,
  type ProducerFields,
  producerAt,
  recordCountAt,
  writeBatchHeader,
} from "../../model/record-batch.ts";
import { forgottenOfId } from "../../model/sequenced-batch.ts";
import type { Checksum } from "../../ports/checksum.ts";
import type { ReadResult } from "../types.ts";

export const NO_PRODUCER: ProducerFields = { producerId: -1, producerEpoch: -1, baseSequence: -1 };

export interface EmptyBatch {
  readonly base: number;
  readonly last: number;
  readonly epoch: number;
  readonly attributes: number;
  readonly maxTimestamp: number;
  readonly producer: ProducerFields;
}

/** Without records there is nothing compressed and no tombstone that waits. */
export function emptied(batch: Uint8Array): EmptyBatch {
  const base = baseOffsetAt(batch, 0);
  return {
    base,
    last: base + lastOffsetDeltaAt(batch, 0),
    epoch: leaderEpochAt(batch, 0),
    attributes: attributesAt(batch, 0) & ~(CODEC_MASK | DELETE_HORIZON_BIT),
    maxTimestamp: maxTimestampAt(batch, 0),
    producer: producerAt(batch, 0),
  };
}

export function encodeEmpty(empty: EmptyBatch, checksum: Checksum): Uint8Array {
  const bytes = new Uint8Array(BATCH_HEADER_BYTES);
  const { base, last, epoch, attributes, maxTimestamp, producer } = empty;
  const header = {
    sizeBytes: BATCH_HEADER_BYTES,
    attributes,
    lastOffsetDelta: last - base,
    baseTimestamp: maxTimestamp,
    maxTimestamp,
    recordCount: 0,
    producer,
  };
  writeBatchHeader(bytes, header, checksum);
  assignOffsets(bytes, base, epoch);
  return bytes;
}

/**
 * A read for who has everything below `offset`: an empty batch that reaches across it is given from there on. Batches that others still have under
 * another base only become one when they are empty, so no other one can.
 */
export function splitEmptyFront(result: ReadResult, offset: number, checksum: Checksum): ReadResult {
  const [first, ...others] = result.chunks;
  if (first === undefined || baseOffsetAt(first, 0) >= offset || recordCountAt(first, 0) !== 0) return result;
  if (mutant("S-19f")) return result;
  const empty = emptied(first);
  // D-15: what is gone from there on may be all that there was of somebody.
  const producer = forgottenOfId(empty.producer.producerId) < 0 ? NO_PRODUCER : empty.producer;
  const front = encodeEmpty({ ...empty, base: offset, producer }, checksum);
  const rest = first.subarray(BATCH_HEADER_BYTES);
  return { ...result, chunks: [front, ...(rest.length === 0 ? [] : [rest]), ...others] };
}
