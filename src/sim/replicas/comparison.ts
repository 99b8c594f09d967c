// The bytes of all replicas of a partition, next to one another (invariant 3).
import { baseOffsetAt, batchSizeAt, leaderEpochAt } from "../../model/batch-header.ts";
import type { LogContent } from "../platter.ts";

interface Copy {
  readonly node: string;
  readonly content: LogContent;
}

export class ReplicaComparison {
  /** Pairs of logs with something to compare. */
  compared = 0;
  readonly #copies = new Map<string, Copy[]>();

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
        if (commonEnd(first, other) > first.content.startOffset) this.compared++;
        const difference = differenceOf(first, other);
        if (difference !== undefined) return difference;
      }
    }
    return undefined;
  }
}

function commonEnd(left: Copy, right: Copy): number {
  return Math.min(left.content.highWatermark, right.content.highWatermark);
}

/** Along the one that holds more. */
function differenceOf(one: Copy, another: Copy): string | undefined {
  const isLonger = one.content.bytes.length >= another.content.bytes.length;
  return differenceAlong(isLonger ? one : another, isLonger ? another : one);
}

function differenceAlong(left: Copy, right: Copy): string | undefined {
  const end = commonEnd(left, right);
  const [mine, other] = [left.content.bytes, right.content.bytes];
  for (let at = 0; at < mine.length && baseOffsetAt(mine, at) < end; at += batchSizeAt(mine, at)) {
    const size = batchSizeAt(mine, at);
    for (let byte = at; byte < at + size; byte++) {
      if (mine[byte] === other[byte]) continue;
      const where = `${left.content.topic}-${left.content.partition} offset ${baseOffsetAt(mine, at)} epoch ${leaderEpochAt(mine, at)}`;
      return `${where}: byte ${byte - at} of the batch is another one on ${left.node} than on ${right.node}, both have it below their high watermarks ${left.content.highWatermark} and ${right.content.highWatermark}`;
    }
  }
  return undefined;
}
