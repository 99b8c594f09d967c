// Records of a run: each value names itself, so that whatever is read can be traced to the send that made it.
import { utf8Decode, utf8Encode, writeI64 } from "../base/bytes.ts";
import type { Rng } from "../base/rng.ts";
import type { ConsumedRecord, Headers, OutgoingRecord } from "../client/types.ts";
import type { RecordInput } from "../model/records.ts";
import type { SendInvoked } from "./history.ts";

/** CRC-32C. */
interface Checksum {
  crc32c(bytes: Uint8Array, seed?: number): number;
}

const NAME_END = 0x7c; // "|": what follows is filler

export interface MadeRecord {
  readonly record: OutgoingRecord;
  /** The same, for a batch that is made by hand. */
  readonly input: RecordInput;
  /** `producer:sequence:partition:crc`. */
  readonly value: string;
  readonly sum: number;
  /** Of a keyed one. */
  readonly keyText?: string;
  readonly isTombstone?: boolean;
}

interface RecordOptions {
  readonly valueBytesMax: number;
  readonly timestamp: number;
  readonly checksum: Checksum;
  /** Every record has a key, some have no value: for a topic that is compacted. A record without a value is named in a header. */
  readonly isKeyed?: boolean;
}

const KEYS = 10;
const TOMBSTONE_CHANCE = 0.15;
/** Of the header that names a record without a value. */
const NAME_HEADER = "name";

export function makeRecord(
  rng: Rng,
  identity: { readonly producer: string; readonly sequence: number; readonly partition: number },
  options: RecordOptions,
): MadeRecord {
  const { checksum, timestamp } = options;
  const plain = `${identity.producer}:${identity.sequence}:${identity.partition}`;
  const value = `${plain}:${checksum.crc32c(utf8Encode(plain)).toString(16)}`;
  const name = utf8Encode(`${value}|`);
  const bytes = new Uint8Array(name.length + rng.below(options.valueBytesMax));
  rng.fill(bytes);
  bytes.set(name);
  if (options.isKeyed === true) return keyedRecord(rng, { ...identity, value, bytes }, options);
  const key = rng.chance(0.3) ? null : utf8Encode(`k${rng.below(KEYS)}`);
  const headers: Headers = rng.chance(0.8) ? [] : [["h", rng.chance(0.2) ? null : utf8Encode(`${identity.sequence}`)]];
  const record: OutgoingRecord = { key, value: bytes, headers, timestamp, partition: identity.partition };
  const input = { key, value: bytes, headers, timestamp };
  return { record, input, value, sum: sumOf(input, checksum) };
}

function keyedRecord(
  rng: Rng,
  { value: name, bytes, partition }: { readonly value: string; readonly bytes: Uint8Array; readonly partition: number },
  { checksum, timestamp }: RecordOptions,
): MadeRecord {
  const keyText = `k${rng.below(KEYS)}`;
  const [key, isTombstone] = [utf8Encode(keyText), rng.chance(TOMBSTONE_CHANCE)];
  const headers: Headers = isTombstone ? [[NAME_HEADER, utf8Encode(name)]] : [];
  const input = { key, value: isTombstone ? null : bytes, headers, timestamp };
  return { record: { ...input, partition }, input, value: name, sum: sumOf(input, checksum), keyText, isTombstone };
}

type Summed = Pick<ConsumedRecord, "key" | "value" | "headers" | "timestamp">;

/** One sum over key, value, headers and timestamp. */
export function sumOf(record: Summed, checksum: Checksum): number {
  const time = new Uint8Array(8);
  writeI64(time, 0, record.timestamp);
  let sum = checksum.crc32c(time);
  const add = (bytes: Uint8Array | null): void => {
    sum = checksum.crc32c(new Uint8Array([bytes === null ? 0 : 1]), sum);
    if (bytes !== null) sum = checksum.crc32c(bytes, sum);
  };
  add(record.key);
  add(record.value);
  for (const [name, value] of record.headers) {
    add(utf8Encode(name));
    add(value);
  }
  return sum;
}

/** What the history says of it when it is sent. */
export function historyOf({
  value,
  sum,
  keyText,
  isTombstone,
}: MadeRecord): Pick<SendInvoked, "value" | "sum" | "key" | "isTombstone"> {
  return keyText === undefined ? { value, sum } : { value, sum, key: keyText, isTombstone: isTombstone === true };
}

/** The name of a record that was read, from its value or, if it has none, from its headers. */
export function nameOf({ value, headers }: Pick<ConsumedRecord, "value" | "headers">): string {
  const named = value === null ? headers.find(([header]) => header === NAME_HEADER)?.[1] : undefined;
  return named === undefined || named === null ? valueOf(value) : utf8Decode(named);
}

/** The name in a value that was read; what is no value of the workload comes back as its text. */
export function valueOf(bytes: Uint8Array | null): string {
  if (bytes === null) return "null";
  const end = bytes.indexOf(NAME_END);
  return utf8Decode(bytes.subarray(0, end < 0 ? bytes.length : end));
}
