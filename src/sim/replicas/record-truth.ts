// The records of a partition whose log is compacted, as their leaders wrote them: what compaction leaves must be among them, each at its offset.
import { utf8Decode } from "../../base/bytes.ts";
import { sumOf } from "../../checkers/named-records.ts";
import { baseOffsetAt, batchSizeAt, isControlBatchAt, lastOffsetAt, leaderEpochAt } from "../../model/batch-header.ts";
import { decodeRecords, type DecodeOptions } from "../../model/records-decode.ts";

export interface RecordSeen {
  readonly offset: number;
  /** Undefined: it has none. */
  readonly key: string | undefined;
  readonly isTombstone: boolean;
  /** Over key, value, headers and timestamp. */
  readonly sum: number;
  readonly appendedMs: number;
}

const DECOMPRESSED_BYTES_MAX = 1 << 20;

export type DecodeParts = Pick<DecodeOptions, "checksum" | "codecs">;

type IsCommitted = (place: { readonly epoch: number; readonly offset: number }) => boolean;

export class RecordTruth {
  /** By epoch, then offset. Bound: what one run writes. */
  readonly #epochs = new Map<number, Map<number, RecordSeen>>();
  /** By epoch: behind the last batch. */
  readonly #ends = new Map<number, number>();
  /** By key, in the order in which they were written. */
  readonly #byKey = new Map<string, { readonly epoch: number; readonly record: RecordSeen }[]>();
  readonly #parts: DecodeParts;

  constructor(parts: DecodeParts) {
    this.#parts = parts;
  }

  /** A leader wrote the batch that begins there. */
  wrote(bytes: Uint8Array, at: number, appendedMs: number): void {
    const epoch = leaderEpochAt(bytes, at);
    const records = this.#epochs.get(epoch) ?? new Map<number, RecordSeen>();
    this.#epochs.set(epoch, records);
    const base = baseOffsetAt(bytes, at);
    if (base < (this.#ends.get(epoch) ?? base)) this.#takeBack(records, base);
    this.#ends.set(epoch, lastOffsetAt(bytes, at) + 1);
    for (const record of this.recordsIn(bytes, at, appendedMs)) {
      records.set(record.offset, record);
      if (record.key === undefined) continue;
      const all = this.#byKey.get(record.key) ?? [];
      this.#byKey.set(record.key, all);
      all.push({ epoch, record });
    }
  }

  /** The leader's disk had no room for what it had written from there on. */
  #takeBack(records: Map<number, RecordSeen>, from: number): void {
    for (const record of [...records.values()]) {
      if (record.offset < from) continue;
      records.delete(record.offset);
      const all = this.#byKey.get(record.key ?? "") ?? [];
      const place = all.findIndex((each) => each.record === record);
      if (place >= 0) all.splice(place, 1);
    }
  }

  /** Of this key, a later one that counts: it makes this one old. */
  isOld(record: RecordSeen, isCommitted: IsCommitted): boolean {
    return this.#hasLater(record, isCommitted, () => true);
  }

  /** A later record of its key that counts has no value. */
  isDeleted(record: RecordSeen, isCommitted: IsCommitted): boolean {
    return this.#hasLater(record, isCommitted, ({ isTombstone }) => isTombstone);
  }

  #hasLater(
    { key = "", offset }: RecordSeen,
    isCommitted: IsCommitted,
    isMeant: (record: RecordSeen) => boolean,
  ): boolean {
    const all = this.#byKey.get(key) ?? [];
    return all.some(
      ({ epoch, record }) => record.offset > offset && isMeant(record) && isCommitted({ epoch, offset: record.offset }),
    );
  }

  /** In words: the batch has records that were not written so; undefined: it has none. `onRecord` is told each that it has. */
  faultOf(bytes: Uint8Array, at: number, onRecord: (record: RecordSeen) => void = () => undefined): string | undefined {
    const epoch = leaderEpochAt(bytes, at);
    const [base, last] = [baseOffsetAt(bytes, at), lastOffsetAt(bytes, at)];
    for (const { offset, sum } of this.recordsIn(bytes, at, 0)) {
      const written = this.#epochs.get(epoch)?.get(offset);
      if (offset < base || offset > last) return `offset ${offset} is in the batch of [${base}, ${last}]`;
      if (written === undefined) return `offset ${offset} of epoch ${epoch} has a record, none was written there`;
      if (written.sum !== sum) return `offset ${offset} of epoch ${epoch} has another record than was written`;
      onRecord(written);
    }
    return undefined;
  }

  /** Those that were written in this epoch at these offsets, ascending. */
  *written(epoch: number, from: number, to: number): IterableIterator<RecordSeen> {
    const records = this.#epochs.get(epoch);
    for (let offset = from; records !== undefined && offset < to; offset++) {
      const record = records.get(offset);
      if (record !== undefined) yield record;
    }
  }

  recordsIn(bytes: Uint8Array, at: number, appendedMs: number): readonly RecordSeen[] {
    if (isControlBatchAt(bytes, at)) return [];
    const batch = bytes.slice(at, at + batchSizeAt(bytes, at));
    const decoded = decodeRecords(batch, { ...this.#parts, decompressedBytesMax: DECOMPRESSED_BYTES_MAX });
    return [...decoded].map((record) => ({
      offset: record.offset,
      key: record.key === null ? undefined : utf8Decode(record.key),
      isTombstone: record.value === null,
      sum: sumOf(record, this.#parts.checksum),
      appendedMs,
    }));
  }
}
