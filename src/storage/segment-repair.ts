// Segments of a damaged log made anew from what the leader of its partition has (D-17), below the high watermark: there all replicas have the same records.
// The damage ends with the checkpoint that puts the files in their places.
import { mutant } from "../base/mutant.ts";
import { baseOffsetAt, checkStoredBatch, lastOffsetAt, leaderEpochAt } from "../model/record-batch.ts";
import { CLEANUP } from "../model/config-values.ts";
import type { Offset } from "../model/ids.ts";
import type { Checksum } from "../ports/checksum.ts";
import type { Files } from "../ports/files.ts";
import { epochBefore } from "./epochs.ts";
import { storageError } from "./faults.ts";
import { giveUpCleaned, type Replacement } from "./replacement.ts";
import { ReplacementWriter } from "./replacement-writer.ts";
import type { ReplicaLogImpl } from "./replica-log.ts";
import type { Segment } from "./segment.ts";
import type { Damage, LogRepair, OffsetRange } from "./types.ts";

export interface RepairDeps {
  readonly files: Files;
  readonly checksum: Checksum;
}

/**
 * The segments in which something was met that cannot be right, if those are all that is damaged: closed, named by the last checkpoint, committed and not compacted.
 * Undefined: all of the log has to be fetched again. A damage that a start found always is, since nobody knows the producers then (D-15).
 */
export function beginRepair(deps: RepairDeps, log: ReplicaLogImpl): LogRepair | undefined {
  const { segments, damage } = log;
  const suspects = segments.all.filter(({ isSuspect }) => isSuspect);
  if (damage === undefined || suspects.length === 0 || !log.canRepair) return undefined;
  const places = suspects.map((segment) => ({ segment, range: rangeOf(log, segment) }));
  const committedEnd = Math.min(log.highWatermark, log.durableEnd);
  const isClosed = ({ base, endOffset }: OffsetRange): boolean =>
    endOffset <= committedEnd &&
    base >= log.startOffset &&
    !isCompacted(log, base) &&
    segments.isClosedRange(base, endOffset);
  if (!places.every(({ range }) => isClosed(range))) return undefined;
  return new SegmentsRepair(deps, { log, damage, places });
}

function rangeOf({ segments }: ReplicaLogImpl, segment: Segment): OffsetRange {
  const endOffset = segments.endOf(segments.all.indexOf(segment));
  return { base: segment.base as Offset, endOffset: endOffset as Offset };
}

interface Place {
  readonly segment: Segment;
  readonly range: OffsetRange;
}

class SegmentsRepair implements LogRepair {
  readonly #deps: RepairDeps;
  readonly #log: ReplicaLogImpl;
  readonly #damage: Damage;
  readonly #places: readonly Place[];
  readonly #done: Replacement[] = [];
  #writer: ReplacementWriter | undefined;
  #nextOffset = -1;

  constructor(
    deps: RepairDeps,
    parts: { readonly log: ReplicaLogImpl; readonly damage: Damage; readonly places: readonly Place[] },
  ) {
    this.#deps = deps;
    this.#log = parts.log;
    this.#damage = parts.damage;
    this.#places = parts.places;
  }

  get nextOffset(): Offset | undefined {
    const place = this.#places[this.#done.length];
    if (place === undefined) return undefined;
    return (this.#writer === undefined ? place.range.base : this.#nextOffset) as Offset;
  }

  async take(run: Uint8Array): Promise<void> {
    const place = this.#places[this.#done.length];
    if (place === undefined) return;
    if (this.#writer === undefined) {
      this.#writer = await ReplacementWriter.open(this.#deps.files, this.#log.segments, place.segment);
      this.#nextOffset = place.range.base;
    }
    for (let at = 0; at < run.length && this.#nextOffset < place.range.endOffset; ) {
      const check = checkStoredBatch(run, at, { end: run.length, checksum: this.#deps.checksum });
      if (check.kind !== "valid") throw storageError(`a repair got a batch that is ${check.kind}`);
      await this.#takeBatch(this.#writer, run.subarray(at, at + check.sizeBytes), place.range);
      at += check.sizeBytes;
    }
    if (this.#nextOffset === place.range.endOffset) await this.#finishOne(this.#writer, place);
  }

  async #takeBatch(writer: ReplacementWriter, batch: Uint8Array, { endOffset }: OffsetRange): Promise<void> {
    const [base, last, epoch] = [baseOffsetAt(batch, 0), lastOffsetAt(batch, 0), leaderEpochAt(batch, 0)];
    if (last < this.#nextOffset) return;
    const isNext = base === this.#nextOffset && last < endOffset && epoch === epochBefore(this.#log.epochs, last + 1);
    if (!isNext) throw storageError(`a repair got offset ${base} of epoch ${epoch}, not offset ${this.#nextOffset}`);
    await writer.append(batch);
    this.#nextOffset = last + 1;
  }

  async #finishOne(writer: ReplacementWriter, { segment, range }: Place): Promise<void> {
    const state = await writer.finish(range.endOffset);
    this.#writer = undefined;
    this.#done.push({ fromBase: range.base, endOffset: range.endOffset, state, repairs: this.#damage });
    if (state.chain !== segment.chain && !mutant("D-17r"))
      throw storageError(`a repair got other batches than those that were written from offset ${range.base} on`);
  }

  async finish(): Promise<boolean> {
    if (this.nextOffset !== undefined) throw storageError("a repair that is not complete");
    const replaced = await Promise.all(this.#done.map((each) => this.#log.replace(each)));
    return replaced.every(Boolean) && this.#log.damage === undefined;
  }

  async giveUp(): Promise<void> {
    await this.#writer?.discard();
    for (const { fromBase } of this.#done) await giveUpCleaned(this.#deps.files, this.#log.segments, fromBase);
  }
}

/** Each replica compacts for itself (D-17): an older value that the leader still has could come back where the tombstone behind it is gone already. */
function isCompacted(log: ReplicaLogImpl, base: number): boolean {
  return (log.segments.settings.cleanupPolicy & CLEANUP.COMPACT) !== 0 || log.cleanedTo > base;
}
