// A table of producers as bytes: all batches of each window, so that a restart forgets none (P-9).
import { readI16, readI32, readI64, readU32, writeI64, writeU16, writeU32 } from "../base/bytes.ts";

/** P-1, P-2: a client has at most so many unresolved batches in one partition. */
export const PRODUCER_WINDOW = 5;
/**
 * Producers that a partition remembers; a new one takes the place of the one that has not written for longest. Not a configuration key: replicas with
 * different ones would come to different tables. Who is forgotten is refused (UNKNOWN_PRODUCER_ID). Its first batch of an epoch looks like that of a new
 * producer: it is refused where its client says that it was sent before, and an id as high was ever forgotten.
 */
export const PRODUCERS_MAX = 10_000;

/**
 * What a window says of the content of a batch that is not the one that was produced: it goes with any, and the sequence alone decides. A batch whose own
 * checksum is 0, one in 2^32, is taken for one.
 */
export const CONTENT_UNKNOWN = 0;

/** Its last sequence is baseSequence + lastOffset - baseOffset: also after compaction, which keeps both ends (B-10). */
export interface WindowBatch {
  readonly baseSequence: number;
  readonly baseOffset: number;
  /** Inclusive. */
  readonly lastOffset: number;
  /** The batch's own CRC-32C, of all but what the leader writes into it: the same numbers with another one are another batch. Signed, so that it takes no object of its own. */
  readonly crc: number;
}

export interface ProducerView {
  readonly producerId: number;
  readonly producerEpoch: number;
  /** Oldest first, 1 to 5. */
  readonly batches: readonly WindowBatch[];
  /** Offset of the last control batch that says all of this, while it lies above the oldest of the batches; else -1. */
  readonly carriedOffset: number;
  /** When a leader first had to carry it on since its last batch, by that leader's clock; -1: none had to. */
  readonly carriedMs: number;
}

/** What a partition knows. */
export interface ProducersState {
  /** -1: nobody was ever forgotten. */
  readonly forgottenMaxId: number;
  /** Offset of the control batch that said so and who was left, with nobody forgotten since; else -1. */
  readonly forgottenToldAt: number;
  /** In the order of their last batches. */
  readonly producers: readonly ProducerView[];
}

const HEAD_BYTES = 20;
const PRODUCER_BYTES = 27;
const BATCH_BYTES = 20;

/** Big-endian. i64 highest forgotten id, i64 offset where it was told, u32 producers; of each i64 id, i16 epoch, u8 batches, i64 offset and i64 time in ms of its carrying on; of each batch i32 sequence, i64 base offset, u32 last offset delta, u32 CRC. */
export function encodeProducers({
  forgottenMaxId,
  forgottenToldAt,
  size,
  producers,
}: {
  readonly forgottenMaxId: number;
  readonly forgottenToldAt: number;
  readonly size: number;
  readonly producers: Iterable<ProducerView>;
}): Uint8Array {
  const bytes = new Uint8Array(HEAD_BYTES + size * (PRODUCER_BYTES + PRODUCER_WINDOW * BATCH_BYTES));
  writeI64(bytes, 0, forgottenMaxId);
  writeI64(bytes, 8, forgottenToldAt);
  writeU32(bytes, 16, size);
  let at = HEAD_BYTES;
  for (const { producerId, producerEpoch, batches, carriedOffset, carriedMs } of producers) {
    writeI64(bytes, at, producerId);
    writeU16(bytes, at + 8, producerEpoch);
    bytes[at + 10] = batches.length;
    writeI64(bytes, at + 11, carriedOffset);
    writeI64(bytes, at + 19, carriedMs);
    at += PRODUCER_BYTES;
    for (const { baseSequence, baseOffset, lastOffset, crc } of batches) {
      writeU32(bytes, at, baseSequence);
      writeI64(bytes, at + 4, baseOffset);
      writeU32(bytes, at + 12, lastOffset - baseOffset);
      writeU32(bytes, at + 16, crc);
      at += BATCH_BYTES;
    }
  }
  return bytes.slice(0, at);
}

/** Undefined where anything is not as it must be. */
export function decodeProducers(bytes: Uint8Array, endOffset: number): ProducersState | undefined {
  if (bytes.length < HEAD_BYTES) return undefined;
  const forgottenMaxId = readI64(bytes, 0);
  const forgottenToldAt = readI64(bytes, 8);
  const count = readU32(bytes, 16);
  if (count > PRODUCERS_MAX || forgottenMaxId < -1 || !Number.isSafeInteger(forgottenMaxId)) return undefined;
  if (forgottenToldAt < -1 || !Number.isSafeInteger(forgottenToldAt)) return undefined;
  const views: ProducerView[] = [];
  let at = HEAD_BYTES;
  let lastEnd = 0;
  for (let place = 0; place < count; place++) {
    const view = producerAt(bytes, at);
    const end = view === undefined ? -1 : endOf(view);
    if (view === undefined || end <= lastEnd || end > endOffset) return undefined;
    lastEnd = end;
    at += PRODUCER_BYTES + view.batches.length * BATCH_BYTES;
    views.push(view);
  }
  return at === bytes.length ? { forgottenMaxId, forgottenToldAt, producers: views } : undefined;
}

const endOf = ({ batches }: ProducerView): number => (batches.at(-1) as WindowBatch).lastOffset + 1;

function producerAt(bytes: Uint8Array, at: number): ProducerView | undefined {
  if (at + PRODUCER_BYTES > bytes.length) return undefined;
  const producerId = readI64(bytes, at);
  const producerEpoch = readI16(bytes, at + 8);
  const count = bytes[at + 10] as number;
  if (!Number.isSafeInteger(producerId) || producerId < 0 || count < 1 || count > PRODUCER_WINDOW) return undefined;
  if (at + PRODUCER_BYTES + count * BATCH_BYTES > bytes.length) return undefined;
  const batches: WindowBatch[] = [];
  let end = 0;
  for (let place = 0; place < count; place++) {
    const batch = batchAt(bytes, at + PRODUCER_BYTES + place * BATCH_BYTES);
    if (!Number.isSafeInteger(batch.lastOffset) || batch.baseOffset < end || batch.lastOffset < batch.baseOffset)
      return undefined;
    end = batch.lastOffset + 1;
    batches.push(batch);
  }
  const carriedOffset = readI64(bytes, at + 11);
  const carriedMs = readI64(bytes, at + 19);
  const isCarried = carriedOffset > (batches[0] as WindowBatch).baseOffset;
  const isWaiting = carriedOffset >= end;
  if (!(isCarried ? Number.isSafeInteger(carriedOffset) : carriedOffset === -1)) return undefined;
  if (!(isWaiting ? Number.isSafeInteger(carriedMs) && carriedMs >= 0 : carriedMs === -1)) return undefined;
  return { producerId, producerEpoch, batches, carriedOffset, carriedMs };
}

function batchAt(bytes: Uint8Array, at: number): WindowBatch {
  const baseOffset = readI64(bytes, at + 4);
  const lastOffset = baseOffset + readU32(bytes, at + 12);
  return { baseSequence: readI32(bytes, at), baseOffset, lastOffset, crc: readI32(bytes, at + 16) };
}
