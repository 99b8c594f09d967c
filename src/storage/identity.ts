// The identity of a segment (D-16): a hash chained over the headers of its batches, seeded with whose they are. Kafka's batch checksum does not cover
// base offset, length and epoch, and knows no partition: a batch that was written to the wrong place, or an old one that a lost write left behind,
// still matches it. The chain is made from what was accepted, never from what a file says.
import { crc32cJs, crc32cWithin } from "../base/crc32c.ts";
import { present } from "../base/assert.ts";
import { writeI64, writeU32 } from "../base/bytes.ts";
import { type PartitionIndex, type TopicId, uuidToBytes } from "../model/ids.ts";
import { CRC_START } from "../model/record-batch.ts";

/** Of a segment of which nobody knows what was written to it. */
export const UNKNOWN_CHAIN = -1;

/** Where a chain begins: topic id, partition and base of the segment. */
export function segmentSeed(topicId: TopicId, partition: PartitionIndex, base: number): number {
  const bytes = new Uint8Array(28);
  bytes.set(present(uuidToBytes(topicId), "topic id"));
  writeU32(bytes, 16, partition);
  writeI64(bytes, 20, base);
  return crc32cJs(bytes);
}

/** The chain behind the batch at this position: over its base offset, length, epoch, format and checksum, which lie side by side. */
export function chainOver(chain: number, bytes: Uint8Array, at: number): number {
  return crc32cWithin(bytes, { from: at, end: at + CRC_START }, chain);
}
