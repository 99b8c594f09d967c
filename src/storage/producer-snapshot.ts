// Kafka's file of the producers of a log, <end offset>.snapshot, so that Kafka's tools can read it: the last batch of each. Written beside an image
// of producers, from the same table; nothing of ours reads it.
import { readI32, readI64, readU16, readU32, writeI64, writeU16, writeU32 } from "../base/bytes.ts";
import { addSequence } from "../model/batch-header.ts";
import type { ProducerView } from "../model/producer-table.ts";
import type { Checksum } from "../ports/checksum.ts";

const VERSION = 1;
/** Version, checksum of what follows, number of producers. */
const HEAD_BYTES = 10;
const CHECKED_FROM = 6;
/** Id, epoch, last sequence, last offset, offset delta, timestamp, coordinator's epoch, first offset of a transaction. */
const ENTRY_BYTES = 46;
const NONE = -1;

/** What it says of a producer: its last batch. */
export interface SnapshotEntry {
  readonly producerId: number;
  readonly producerEpoch: number;
  readonly lastSequence: number;
  readonly lastOffset: number;
  readonly offsetDelta: number;
}

export function snapshotEntries(producers: readonly ProducerView[]): SnapshotEntry[] {
  return producers.flatMap(({ producerId, producerEpoch, batches }) => {
    const last = batches.at(-1);
    if (last === undefined) return [];
    const offsetDelta = last.lastOffset - last.baseOffset;
    const lastSequence = addSequence(last.baseSequence, offsetDelta);
    return { producerId, producerEpoch, lastSequence, lastOffset: last.lastOffset, offsetDelta };
  });
}

/** Times are not known here, and there are no transactions. */
export function encodeSnapshot(entries: readonly SnapshotEntry[], checksum: Checksum): Uint8Array {
  const bytes = new Uint8Array(HEAD_BYTES + entries.length * ENTRY_BYTES);
  writeU16(bytes, 0, VERSION);
  writeU32(bytes, 6, entries.length);
  for (const [place, entry] of entries.entries()) {
    const at = HEAD_BYTES + place * ENTRY_BYTES;
    writeI64(bytes, at, entry.producerId);
    writeU16(bytes, at + 8, entry.producerEpoch);
    writeU32(bytes, at + 10, entry.lastSequence);
    writeI64(bytes, at + 14, entry.lastOffset);
    writeU32(bytes, at + 22, entry.offsetDelta);
    writeI64(bytes, at + 26, NONE);
    writeU32(bytes, at + 34, NONE);
    writeI64(bytes, at + 38, NONE);
  }
  writeU32(bytes, 2, checksum.crc32c(bytes.subarray(CHECKED_FROM)));
  return bytes;
}

/** Or why it is none. */
export function decodeSnapshot(bytes: Uint8Array, checksum: Checksum): readonly SnapshotEntry[] | string {
  if (bytes.length < HEAD_BYTES) return "it ends within its head";
  if (readU16(bytes, 0) !== VERSION) return `it is of version ${readU16(bytes, 0)}`;
  if (checksum.crc32c(bytes.subarray(CHECKED_FROM)) !== readU32(bytes, 2)) return "it does not match its checksum";
  const count = readU32(bytes, 6);
  if (bytes.length !== HEAD_BYTES + count * ENTRY_BYTES) return `it is not as long as ${count} producers`;
  const entries = Array.from({ length: count }, (_, place) => entryAt(bytes, HEAD_BYTES + place * ENTRY_BYTES));
  const areSafe = entries.every(
    (each) => Number.isSafeInteger(each.producerId) && Number.isSafeInteger(each.lastOffset),
  );
  return areSafe ? entries : "a number in it is beyond 2^53";
}

const entryAt = (bytes: Uint8Array, at: number): SnapshotEntry => ({
  producerId: readI64(bytes, at),
  producerEpoch: readU16(bytes, at + 8),
  lastSequence: readI32(bytes, at + 10),
  lastOffset: readI64(bytes, at + 14),
  offsetDelta: readI32(bytes, at + 22),
});
