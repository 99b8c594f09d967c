// The identities and numbers that everything else speaks of (D-32). Branded, so that an offset never passes for an epoch.
// `endOffset` is exclusive and `lastOffset` inclusive, everywhere.
import { assert } from "../base/assert.ts";
import type { Brand } from "../base/brand.ts";

/** Position of a record in a partition: 0 .. 2^53 - 1, contiguous. */
export type Offset = Brand<number, "Offset">;
/** Raised at each change of a partition's leadership and at each restart of its leader (D-1); -1 means none. */
export type LeaderEpoch = Brand<number, "LeaderEpoch">;
export type PartitionIndex = Brand<number, "PartitionIndex">;
export type NodeId = Brand<number, "NodeId">;
/** Offset, in the metadata log, of the record that registered a broker's present incarnation. */
export type BrokerEpoch = Brand<number, "BrokerEpoch">;
/** Identity of one replica log on one disk; never reused there (D-14). */
export type LogId = Brand<number, "LogId">;
/** 128 bits as 22 characters of base64url, as Kafka prints them. */
export type Uuid = Brand<string, "Uuid">;
export type TopicId = Uuid;
export type ClusterId = Uuid;
export type DirectoryId = Uuid;
export type IncarnationId = Uuid;

export const NO_LEADER_EPOCH = -1 as LeaderEpoch;

function checked(value: number, what: string): number {
  assert(Number.isSafeInteger(value) && value >= 0, `${what} out of range: ${value}`);
  return value;
}

export const toOffset = (value: number): Offset => checked(value, "offset") as Offset;
export const toLeaderEpoch = (value: number): LeaderEpoch => checked(value, "leader epoch") as LeaderEpoch;
export const toPartitionIndex = (value: number): PartitionIndex => checked(value, "partition index") as PartitionIndex;
export const toNodeId = (value: number): NodeId => checked(value, "node id") as NodeId;
export const toBrokerEpoch = (value: number): BrokerEpoch => checked(value, "broker epoch") as BrokerEpoch;
export const toLogId = (value: number): LogId => checked(value, "log id") as LogId;

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
export const UUID_BYTES = 16;

export function uuidFromBytes(bytes: Uint8Array): Uuid {
  assert(bytes.length === UUID_BYTES, `a uuid has 16 bytes, not ${bytes.length}`);
  let text = "";
  for (let position = 0; position < UUID_BYTES; position += 3) {
    const first = bytes[position] as number;
    const second = bytes[position + 1] ?? 0;
    const third = bytes[position + 2] ?? 0;
    text += ALPHABET.charAt(first >> 2) + ALPHABET.charAt(((first & 3) << 4) | (second >> 4));
    if (position + 1 < UUID_BYTES)
      text += ALPHABET.charAt(((second & 15) << 2) | (third >> 6)) + ALPHABET.charAt(third & 63);
  }
  return text as Uuid;
}

/** The 16 bytes of a uuid text; undefined when the text is not one. */
export function uuidToBytes(text: string): Uint8Array | undefined {
  if (text.length !== 22) return undefined;
  const bytes = new Uint8Array(UUID_BYTES);
  let bits = 0;
  let value = 0;
  let position = 0;
  for (const character of text) {
    const digit = ALPHABET.indexOf(character);
    if (digit < 0) return undefined;
    value = ((value << 6) | digit) & 0xffff;
    bits += 6;
    if (bits >= 8 && position < UUID_BYTES) {
      bits -= 8;
      bytes[position++] = value >>> bits;
    }
  }
  return uuidFromBytes(bytes) === text ? bytes : undefined;
}
