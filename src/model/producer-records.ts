// What a leader writes into a log of its producers, so that they outlive the batches that told of them (D-15): control batches (D-33, B-9).
import { readI16, readI64, readU32, writeI64, writeU16, writeU32 } from "../base/bytes.ts";
import { readVarint, readVarlong, type VarintCursor } from "../base/varint.ts";
import {
  BATCH_HEADER_BYTES,
  baseOffsetAt,
  batchSizeAt,
  CODEC_MASK,
  attributesAt,
  type Crc32c,
  isControlBatchAt,
  recordCountAt,
} from "./batch-header.ts";
import { decodeProducers, encodeProducers, PRODUCERS_MAX, type ProducerView } from "./producer-table-codec.ts";
import { buildControlBatch, CONTROL_TYPES } from "./records-encode.ts";

/** So that a batch of them stays below 64 KiB; a whole table is at most 20 of them. */
export const TOLD_PRODUCERS_MAX = 500;

export type ToldProducers =
  /** These windows go on, though batches of them may be gone. */
  | {
      readonly kind: "carried";
      /** In the order of their last batches, up to TOLD_PRODUCERS_MAX. */
      readonly producers: readonly ProducerView[];
      /** -1: nobody was ever forgotten. */
      readonly forgottenMaxId: number;
      /** Whoever's last batch ends below this offset is forgotten. */
      readonly rememberedFrom: number;
    }
  /** These are forgotten. */
  | { readonly kind: "expired"; readonly producers: readonly ExpiredProducer[] };

export interface ExpiredProducer {
  readonly producerId: number;
  readonly producerEpoch: number;
}

const VERSION = 0;
const CARRIED_HEAD_BYTES = 10;
const EXPIRED_HEAD_BYTES = 6;
const EXPIRED_BYTES = 10;

/** Base offset and leader epoch are for the leader to write, as in any batch. */
export function buildToldProducers(told: ToldProducers, timestamp: number, checksum: Crc32c): Uint8Array {
  const type = told.kind === "carried" ? "PRODUCERS_CARRIED" : "PRODUCERS_EXPIRED";
  const value = told.kind === "carried" ? encodeCarried(told) : encodeExpired(told.producers);
  return buildControlBatch({ type, value, timestamp, checksum });
}

/** i16 version; i64 remembered from; then as in an image of producers. */
function encodeCarried({
  producers,
  forgottenMaxId,
  rememberedFrom,
}: Extract<ToldProducers, { kind: "carried" }>): Uint8Array {
  const table = encodeProducers({ forgottenMaxId, forgottenToldAt: -1, size: producers.length, producers });
  const value = new Uint8Array(CARRIED_HEAD_BYTES + table.length);
  writeU16(value, 0, VERSION);
  writeI64(value, 2, rememberedFrom);
  value.set(table, CARRIED_HEAD_BYTES);
  return value;
}

/** i16 version; u32 count; of each i64 id, i16 epoch. */
function encodeExpired(producers: readonly ExpiredProducer[]): Uint8Array {
  const value = new Uint8Array(EXPIRED_HEAD_BYTES + producers.length * EXPIRED_BYTES);
  writeU16(value, 0, VERSION);
  writeU32(value, 2, producers.length);
  let at = EXPIRED_HEAD_BYTES;
  for (const { producerId, producerEpoch } of producers) {
    writeI64(value, at, producerId);
    writeU16(value, at + 8, producerEpoch);
    at += EXPIRED_BYTES;
  }
  return value;
}

/** What the batch at `at` tells; undefined: nothing, as any other batch. The batch is whole. */
export function toldProducersAt(bytes: Uint8Array, at: number): ToldProducers | undefined {
  if (!isControlBatchAt(bytes, at) || recordCountAt(bytes, at) !== 1) return undefined;
  if ((attributesAt(bytes, at) & CODEC_MASK) !== 0) return undefined;
  const record = controlRecordIn(bytes.subarray(at + BATCH_HEADER_BYTES, at + batchSizeAt(bytes, at)));
  if (record === undefined) return undefined;
  if (record.type === CONTROL_TYPES.PRODUCERS_CARRIED) return decodeCarried(record.value, baseOffsetAt(bytes, at));
  if (record.type === CONTROL_TYPES.PRODUCERS_EXPIRED) return decodeExpired(record.value);
  return undefined;
}

function decodeCarried(value: Uint8Array, offset: number): ToldProducers | undefined {
  if (value.length < CARRIED_HEAD_BYTES || readI16(value, 0) < VERSION) return undefined;
  const rememberedFrom = readI64(value, 2);
  const table = decodeProducers(value.subarray(CARRIED_HEAD_BYTES), offset);
  if (table === undefined || !Number.isSafeInteger(rememberedFrom)) return undefined;
  return { kind: "carried", producers: table.producers, forgottenMaxId: table.forgottenMaxId, rememberedFrom };
}

function decodeExpired(value: Uint8Array): ToldProducers | undefined {
  if (value.length < EXPIRED_HEAD_BYTES || readI16(value, 0) < VERSION) return undefined;
  const count = readU32(value, 2);
  if (count > PRODUCERS_MAX || value.length < EXPIRED_HEAD_BYTES + count * EXPIRED_BYTES) return undefined;
  const producers: ExpiredProducer[] = [];
  for (let place = 0; place < count; place++) {
    const at = EXPIRED_HEAD_BYTES + place * EXPIRED_BYTES;
    const producerId = readI64(value, at);
    if (!Number.isSafeInteger(producerId) || producerId < 0) return undefined;
    producers.push({ producerId, producerEpoch: readI16(value, at + 8) });
  }
  return { kind: "expired", producers };
}

/** B-4, B-9: the one record of a control batch. Undefined where lengths do not fit. */
function controlRecordIn(records: Uint8Array): { readonly type: number; readonly value: Uint8Array } | undefined {
  const end = records.length;
  const cursor: VarintCursor = { value: 0, position: 0 };
  // Length, then one byte of attributes.
  if (!readVarint(records, end, cursor)) return undefined;
  cursor.position++;
  if (!readVarlong(records, end, cursor) || !readVarint(records, end, cursor)) return undefined;
  const key = bytesAt(records, cursor);
  const value = key && bytesAt(records, cursor);
  if (key === undefined || value === undefined || key.length < 4 || readI16(key, 0) < 0) return undefined;
  return { type: readI16(key, 2), value };
}

function bytesAt(records: Uint8Array, cursor: VarintCursor): Uint8Array | undefined {
  if (!readVarint(records, records.length, cursor)) return undefined;
  const { value: length, position } = cursor;
  if (length < 0 || position + length > records.length) return undefined;
  cursor.position = position + length;
  return records.subarray(position, cursor.position);
}
