// The bytes of all replicas of a partition, next to one another (invariant 3): from where both begin to where both know to be committed. Of a log that is
// compacted each replica has what its own compaction left: what both have is equal, and what one lacks a later record of the key explains, which may be
// gone from both where it is one without a value: a replica that was away for longer than its grace never had it.
import { baseOffsetAt, batchSizeAt, lastOffsetAt, leaderEpochAt } from "../../model/batch-header.ts";
import type { LogContent } from "../platter.ts";
import { type DecodeParts, RecordTruth, type RecordSeen } from "./record-truth.ts";

interface Copy {
  readonly node: string;
  readonly content: LogContent;
}

export interface CompactedTopics {
  readonly isCompacted: (topic: string) => boolean;
  /** A record without a value was committed behind it, of the same key. */
  readonly isDeleted: (content: LogContent, record: RecordSeen) => boolean;
}

export class ReplicaComparison {
  /** Pairs of logs with something to compare. */
  compared = 0;
  readonly #copies = new Map<string, Copy[]>();
  readonly #topics: CompactedTopics;
  readonly #parts: DecodeParts;

  constructor(parts: DecodeParts, topics: CompactedTopics) {
    this.#parts = parts;
    this.#topics = topics;
  }

  add(node: string, contents: readonly LogContent[]): void {
    for (const content of contents) {
      const key = `${content.topicId} ${content.partition}`;
      const copies = this.#copies.get(key) ?? [];
      this.#copies.set(key, copies);
      copies.push({ node, content });
    }
  }

  /** In words; undefined: below what both know to be committed any two are equal. */
  get difference(): string | undefined {
    for (const copies of this.#copies.values()) {
      const [first, ...others] = copies;
      if (first === undefined) continue;
      for (const other of others) {
        const range = commonRange(first, other);
        if (range.end <= range.start) continue;
        this.compared++;
        const difference = this.#topics.isCompacted(first.content.topic)
          ? this.#differenceOfRecords(first, other)
          : differenceOfBytes(first, other);
        if (difference !== undefined) return difference;
      }
    }
    return undefined;
  }

  #differenceOfRecords(left: Copy, right: Copy): string | undefined {
    const { start, end } = commonRange(left, right);
    const [mine, other] = [this.#recordsOf(left), this.#recordsOf(right)];
    const last = new Map<string, RecordSeen>();
    for (const records of [mine, other])
      for (const record of records.values()) {
        const { key, offset } = record;
        if (key !== undefined && offset >= (last.get(key)?.offset ?? -1)) last.set(key, record);
      }
    for (const [records, others, has, lacks] of [
      [mine, other, left, right],
      [other, mine, right, left],
    ] as const)
      for (const record of records.values()) {
        const { offset, key = "", isTombstone, sum } = record;
        if (offset < start || offset >= end) continue;
        const twin = others.get(offset);
        const where = `${left.content.topic}-${left.content.partition} offset ${offset}`;
        if (twin !== undefined && twin.sum !== sum)
          return `${where}: another record on ${left.node} than on ${right.node}`;
        const latest = last.get(key);
        const isExplained = twin !== undefined || isTombstone || latest !== record;
        if (!isExplained && !this.#topics.isDeleted(has.content, record))
          return `${where}: ${has.node} has it, ${lacks.node} has nothing of key ${key} from there on`;
      }
    return undefined;
  }

  #recordsOf({ content }: Copy): Map<number, RecordSeen> {
    const truth = new RecordTruth(this.#parts);
    const found = new Map<number, RecordSeen>();
    const { bytes } = content;
    for (let at = 0; at < bytes.length; at += batchSizeAt(bytes, at))
      for (const record of truth.recordsIn(bytes, at, 0)) found.set(record.offset, record);
    return found;
  }
}

function commonRange(left: Copy, right: Copy): { readonly start: number; readonly end: number } {
  return {
    start: Math.max(left.content.startOffset, right.content.startOffset),
    end: Math.min(left.content.highWatermark, right.content.highWatermark),
  };
}

/** Where each batch is that has something in the range, by its base offset. */
function batchesIn({ content: { bytes } }: Copy, { start, end }: { readonly start: number; readonly end: number }) {
  const found = new Map<number, number>();
  for (let at = 0; at < bytes.length; at += batchSizeAt(bytes, at))
    if (lastOffsetAt(bytes, at) >= start && baseOffsetAt(bytes, at) < end) found.set(baseOffsetAt(bytes, at), at);
  return found;
}

function differenceOfBytes(left: Copy, right: Copy): string | undefined {
  const range = commonRange(left, right);
  const [mine, other] = [left.content.bytes, right.content.bytes];
  const [places, others] = [batchesIn(left, range), batchesIn(right, range)];
  for (const base of new Set([...places.keys(), ...others.keys()])) {
    const [at, otherAt] = [places.get(base), others.get(base)];
    const epoch = at === undefined ? leaderEpochAt(other, otherAt ?? 0) : leaderEpochAt(mine, at);
    const where = `${left.content.topic}-${left.content.partition} offset ${base} epoch ${epoch}`;
    const marks = `both have it below their high watermarks ${left.content.highWatermark} and ${right.content.highWatermark}`;
    if (at === undefined || otherAt === undefined)
      return `${where}: a batch begins there on ${at === undefined ? right.node : left.node} alone, ${marks}`;
    for (let byte = 0; byte < batchSizeAt(mine, at); byte++)
      if (mine[at + byte] !== other[otherAt + byte])
        return `${where}: byte ${byte} of the batch is another one on ${left.node} than on ${right.node}, ${marks}`;
  }
  return undefined;
}
