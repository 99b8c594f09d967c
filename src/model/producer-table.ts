// What one partition remembers of its idempotent producers, so that a batch that is sent again is not written again (P-1 to P-9).
// A pure function of the log: leaders decide by it, followers and a replay at start-up come to the same one.
import { assert } from "../base/assert.ts";
import { mutant } from "../base/mutant.ts";
import { addSequence } from "./batch-header.ts";
import {
  type BatchUndo,
  type Change,
  changeOf,
  type Entry,
  entryOf,
  type Evicted,
  type Forgotten,
  isSameEntry,
  newestOf,
  readableFrom,
  setTo,
  type Undo,
  UndoStack,
  viewOf,
  windowsBefore,
} from "./producer-entry.ts";
import type { ToldProducers } from "./producer-records.ts";
import { forgottenOfId, type SequencedBatch } from "./sequenced-batch.ts";
import {
  CONTENT_UNKNOWN,
  decodeProducers,
  encodeProducers,
  PRODUCER_WINDOW,
  PRODUCERS_MAX,
  type ProducerView,
  type WindowBatch,
} from "./producer-table-codec.ts";

export { PRODUCER_UNDO_MAX } from "./producer-entry.ts";
export { concernsProducersAt, contentAt, type SequencedBatch, sequencedAt } from "./sequenced-batch.ts";
export {
  CONTENT_UNKNOWN,
  PRODUCER_WINDOW,
  PRODUCERS_MAX,
  type ProducerView,
  type WindowBatch,
} from "./producer-table-codec.ts";

/** What a producer asks to append. */
export interface SequenceCheck {
  readonly producerId: number;
  readonly producerEpoch: number;
  readonly baseSequence: number;
  readonly recordCount: number;
  /** As in WindowBatch. */
  readonly crc: number;
  /** An earlier attempt of it may be in the log: it was sent before, and what became of it is not known. */
  readonly isResent: boolean;
}

export type SequenceError =
  | "OUT_OF_ORDER_SEQUENCE_NUMBER"
  | "SEQUENCE_NUMBER_TAKEN"
  | "INVALID_PRODUCER_EPOCH"
  | "UNKNOWN_PRODUCER_ID";

export type SequenceVerdict =
  /** To be appended. */
  | { readonly kind: "new" }
  /** It is in the log, at [baseOffset, endOffset). */
  | { readonly kind: "duplicate"; readonly baseOffset: number; readonly endOffset: number }
  | { readonly kind: "refused"; readonly error: SequenceError };

const NOBODY: Forgotten = Object.freeze({ maxId: -1, toldAt: -1 });
const NEW: SequenceVerdict = Object.freeze({ kind: "new" });
const refused = (error: SequenceError): SequenceVerdict => Object.freeze({ kind: "refused", error });
const OUT_OF_ORDER = refused("OUT_OF_ORDER_SEQUENCE_NUMBER");
const TAKEN = refused("SEQUENCE_NUMBER_TAKEN");
const INVALID_EPOCH = refused("INVALID_PRODUCER_EPOCH");
const UNKNOWN = refused("UNKNOWN_PRODUCER_ID");

/**
 * Last five batches of each producer in the log [start, endOffset).
 *
 * Shape:     a list of producers in the order of their last batches, and a map into it; the highest id that ever made room for another one; steps that can be taken back, down to `floor`.
 * Invariant: two tables that have seen the same log are equal, however often either was taken back or read from an image between.
 * Example:   empty, [0, 0)
 *              check (7, epoch 0, sequence 0, 3 records)     -> new
 *              observe it at [0, 2]                          -> producer 7: (0..2 at 0)                endOffset 3
 *              check the same again                          -> duplicate, [0, 3)
 *              check (7, 0, 0, 3) with other records         -> SEQUENCE_NUMBER_TAKEN: whoever was told "duplicate" would take its records for written
 *              check (7, 0, sequence 4, 1 record)            -> OUT_OF_ORDER_SEQUENCE_NUMBER: 3 is next
 *              check (7, 1, sequence 0, 1 record)            -> new: a higher epoch begins at 0
 *              check (8, 0, sequence 3, 1 record)            -> UNKNOWN_PRODUCER_ID: what came before is not known here, so nobody can say whether this
 *                                                               is a duplicate (stricter than P-4)
 *              check (8, 0, sequence 0), perhaps there       -> new: nobody was forgotten, so it is not there. Had a producer of id 8 or above made room
 *                                                               for another one, UNKNOWN_PRODUCER_ID: it may have been this one
 *              truncate 0                                    -> empty, [0, 0)
 */
export class ProducerTable {
  readonly #producers = new Map<number, Entry>();
  #oldest: Entry | undefined;
  #newest: Entry | undefined;
  #undo: UndoStack = new UndoStack();
  #endOffset: number;
  #floor: number;
  #toldFrom: number;
  #forgotten: Forgotten = NOBODY;
  readonly #most: number;
  /** Nothing below is ever taken back (D-9). */
  #settled = 0;

  /** Of an empty log that begins here. `most` producers, the same on all replicas: fewer for tests. */
  constructor(startOffset = 0, most = PRODUCERS_MAX) {
    this.#most = most;
    this.#endOffset = startOffset;
    this.#floor = startOffset;
    this.#toldFrom = startOffset;
  }

  /** Of exactly the log [start, endOffset). */
  get endOffset(): number {
    return this.#endOffset;
  }
  /** The lowest offset that it can be taken back to. */
  get floor(): number {
    return this.#floor;
  }
  /** Producers. */
  get size(): number {
    return this.#producers.size;
  }

  /** As a new one: nobody is known, and nobody was ever forgotten. */
  get isBlank(): boolean {
    return this.#producers.size === 0 && this.#forgotten.maxId < 0;
  }

  /** Highest id of a producer that made room for another one, whether or not it came back; -1: none did. */
  get forgottenMaxId(): number {
    return this.#forgotten.maxId;
  }

  /** As in ProducersState. */
  get forgottenToldAt(): number {
    return this.#forgotten.toldAt;
  }

  /** P-2 to P-4. Changes nothing. */
  check({ producerId, producerEpoch, baseSequence, recordCount, crc, isResent }: SequenceCheck): SequenceVerdict {
    const entry = this.#producers.get(producerId);
    if (entry === undefined) {
      // Nobody is refused for ever by an id that was forgotten: the first sending of its next epoch is believed.
      const mayBeThere = isResent && producerId <= this.#forgotten.maxId && !mutant("D-15f");
      return baseSequence !== 0 || mayBeThere ? UNKNOWN : NEW;
    }
    if (producerEpoch < entry.producerEpoch) return INVALID_EPOCH;
    if (producerEpoch > entry.producerEpoch) return baseSequence === 0 ? NEW : OUT_OF_ORDER;
    const { batches } = entry;
    // First of all: whatever a follower may have had to mirror (P-7), what is in the log is not written again.
    for (const { baseSequence: known, baseOffset, lastOffset, crc: content } of batches)
      if (known === baseSequence && lastOffset - baseOffset === recordCount - 1)
        return content === crc || content === CONTENT_UNKNOWN || mutant("D-15c")
          ? { kind: "duplicate", baseOffset, endOffset: lastOffset + 1 }
          : TAKEN;
    return baseSequence === sequenceAfter(batches[batches.length - 1] as WindowBatch) ? NEW : OUT_OF_ORDER;
  }

  /** Epoch and sequence that it goes on with; undefined: nothing is known of it. */
  nextOf(producerId: number): { readonly producerEpoch: number; readonly baseSequence: number } | undefined {
    const entry = this.#producers.get(producerId);
    const last = entry?.batches.at(-1);
    if (entry === undefined || last === undefined) return undefined;
    return { producerEpoch: entry.producerEpoch, baseSequence: sequenceAfter(last) };
  }

  /** A batch that was appended, here or by whoever led: nothing is checked (P-7). */
  observe(batch: SequencedBatch): void {
    assert(batch.baseOffset >= this.#endOffset, "a batch of producers that is not the next one");
    const isTold = batch.told !== undefined && batch.baseOffset === this.#endOffset;
    this.#endOffset = batch.lastOffset + 1;
    if (!isTold) this.#toldFrom = this.#endOffset;
    if (batch.producerId >= 0) this.#put(batch);
    else if (batch.told !== undefined) this.#tell(batch.told, batch.baseOffset);
    else this.#hear(forgottenOfId(batch.producerId), batch.lastOffset);
  }

  /** From here on the log has nothing but what was told of producers; as far as is known. To tell it again only to delete it would never end. */
  get toldFrom(): number {
    return this.#toldFrom;
  }

  /** Whom nobody would know who reads the log from `startOffset` on only: neither all batches of the window are there nor what was told of it since. In the order of last batches. */
  unreadableFrom(startOffset: number): ProducerView[] {
    const found: ProducerView[] = [];
    for (const entry of this.#inOrder()) if (readableFrom(entry) < startOffset) found.push(viewOf(entry));
    return found;
  }

  /** Whoever's last batch ends below this offset is not remembered; the end where there is nobody. */
  get rememberedFrom(): number {
    return this.#oldest === undefined ? this.#endOffset : newestOf(this.#oldest).lastOffset;
  }

  /** Base offsets of all batches that are in a window, or are again once the log is cut: up to PRODUCER_UNDO_MAX and all windows. Compaction keeps their headers. */
  windowOffsets(): Set<number> {
    const found = new Set<number>();
    const add = ({ baseOffset }: WindowBatch): unknown => found.add(baseOffset);
    for (const { batches } of this.#inOrder()) batches.forEach(add);
    for (const step of this.#undo) for (const batches of windowsBefore(step)) batches.forEach(add);
    return found;
  }

  /** Of `forgottenMaxId` what no cut takes back. Compaction leaves it in place of the batches that it drops: whoever was forgotten since is in `windowOffsets`. */
  get settledForgottenMaxId(): number {
    for (const step of this.#undo) {
      const before = step.kind === "told" ? step.forgotten : step.evicted?.forgotten;
      if (before !== undefined) return before.maxId;
    }
    return this.#forgotten.maxId;
  }

  /** What was appended below `endOffset` has no producer. */
  advance(endOffset: number): void {
    assert(endOffset >= this.#endOffset, "producers of a log that ends earlier");
    if (endOffset > this.#endOffset) this.#toldFrom = endOffset;
    this.#endOffset = endOffset;
  }

  /** Once all below is committed (`settle`), no producer can be again as it was before; 0: none can. */
  get unsettledEnd(): number {
    return (this.#undo.newest?.lastOffset ?? -1) + 1;
  }

  /** No log is cut below its high watermark (D-9): how it was before is forgotten. */
  settle(highWatermark: number): void {
    if (highWatermark <= this.#settled) return;
    this.#settled = highWatermark;
    this.#undo.dropBelow(highWatermark);
    this.#raiseFloor(Math.min(highWatermark, this.#endOffset));
  }

  /** The log ends at `toOffset` at most. False, and nothing happens: that is below the floor. */
  truncate(toOffset: number): boolean {
    if (toOffset >= this.#endOffset) return true;
    if (toOffset < this.#floor) return false;
    this.#endOffset = toOffset;
    this.#toldFrom = Math.min(this.#toldFrom, toOffset);
    if (mutant("D-15b")) return true;
    for (let last = this.#undo.newest; last !== undefined && last.lastOffset >= toOffset; last = this.#undo.newest) {
      this.#undo.pop();
      this.#takeBack(last);
    }
    return true;
  }

  encode(): Uint8Array {
    const { size } = this.#producers;
    const { maxId: forgottenMaxId, toldAt: forgottenToldAt } = this.#forgotten;
    return encodeProducers({ forgottenMaxId, forgottenToldAt, size, producers: this.#views() });
  }

  /** Undefined: these bytes are no table of a log that ends at `endOffset`. It can only be taken back to there. */
  static decode(bytes: Uint8Array, endOffset: number, most = PRODUCERS_MAX): ProducerTable | undefined {
    const read = decodeProducers(bytes, endOffset);
    if (read === undefined || read.producers.length > most) return undefined;
    const table = new ProducerTable(endOffset, most);
    table.#forgotten = { maxId: read.forgottenMaxId, toldAt: read.forgottenToldAt };
    for (const view of read.producers) {
      if (table.#producers.has(view.producerId)) return undefined;
      const entry = entryOf(view);
      table.#producers.set(view.producerId, entry);
      table.#linkNewest(entry);
    }
    return table;
  }

  /** By producer id. */
  view(): ProducerView[] {
    return [...this.#views()].toSorted((left, right) => left.producerId - right.producerId);
  }

  /** Of the same producers, in the same order, at the same end, and the same were forgotten. What is not known of a content is no difference. */
  equals(other: ProducerTable): boolean {
    if (this.#endOffset !== other.#endOffset || this.size !== other.size) return false;
    if (this.forgottenMaxId !== other.forgottenMaxId || this.forgottenToldAt !== other.forgottenToldAt) return false;
    let theirs = other.#oldest;
    for (const ours of this.#inOrder()) {
      if (theirs === undefined || !isSameEntry(ours, theirs)) return false;
      theirs = theirs.newer;
    }
    return true;
  }

  *#inOrder(): IterableIterator<Entry> {
    for (let entry = this.#oldest; entry !== undefined; entry = entry.newer) yield entry;
  }

  *#views(): IterableIterator<ProducerView> {
    for (const entry of this.#inOrder()) yield viewOf(entry);
  }

  /** Where all of this is known already, only where it was told is new. */
  #tell(told: ToldProducers, offset: number): void {
    const changes: Change[] = [];
    const forgotten = this.#forgotten;
    if (told.kind === "expired") for (const { producerId } of told.producers) this.#forget(producerId, changes);
    else {
      this.#carry(told, changes);
      // Who read a compacted log may have heard already of somebody who was forgotten only later: this does not tell of him.
      const isAll = told.forgottenMaxId >= this.#forgotten.maxId;
      this.#forgotten = { maxId: Math.max(this.#forgotten.maxId, told.forgottenMaxId), toldAt: isAll ? offset : -1 };
    }
    this.#rememberTold({ kind: "told", lastOffset: offset, forgotten, changes });
  }

  /** In place of batches that compaction dropped. Nobody is forgotten by it who is known here: he came back. */
  #hear(forgottenMaxId: number, lastOffset: number): void {
    const forgotten = this.#forgotten;
    if (forgottenMaxId <= forgotten.maxId) return;
    this.#forgotten = { maxId: forgottenMaxId, toldAt: -1 };
    this.#rememberTold({ kind: "told", lastOffset, forgotten, changes: [] });
  }

  #rememberTold(step: Extract<Undo, { kind: "told" }>): void {
    if (step.lastOffset < this.#settled) this.#raiseFloor(step.lastOffset + 1);
    else this.#remember(step);
  }

  #carry(told: Extract<ToldProducers, { kind: "carried" }>, changes: Change[]): void {
    for (const entry of this.#inOrder()) {
      if (newestOf(entry).lastOffset >= told.rememberedFrom) break;
      this.#drop(entry, changes);
    }
    // They come in the order of the list: each has its place behind the one before.
    let place: Entry | undefined;
    for (const view of told.producers) {
      const entry = this.#producers.get(view.producerId);
      const { lastOffset } = view.batches.at(-1) as WindowBatch;
      const isInPlace = entry !== undefined && newestOf(entry).lastOffset === lastOffset;
      if (isInPlace) changes.push(changeOf(entry, true));
      else if (entry !== undefined) this.#drop(entry, changes);
      place = isInPlace ? setTo(entry, view) : this.#insert(entryOf(view), place, changes);
    }
  }

  #insert(entry: Entry, behind: Entry | undefined, changes: Change[]): Entry {
    const room = this.#producers.size >= this.#most ? this.#oldest : undefined;
    if (room !== undefined) this.#forget(room.producerId, changes);
    let older = behind === room ? undefined : behind;
    const { lastOffset } = newestOf(entry);
    for (
      let next = older === undefined ? this.#oldest : older.newer;
      next !== undefined && newestOf(next).lastOffset < lastOffset;
      next = next.newer
    )
      older = next;
    this.#linkAfter(entry, older);
    this.#producers.set(entry.producerId, entry);
    changes.push(changeOf(entry, false));
    return entry;
  }

  /** Known or not: whoever never met it must come to the same. */
  #forget(producerId: number, changes: Change[]): void {
    this.#forgotten = { maxId: Math.max(this.#forgotten.maxId, producerId), toldAt: -1 };
    const entry = this.#producers.get(producerId);
    if (entry !== undefined) this.#drop(entry, changes);
  }

  #drop(entry: Entry, changes: Change[]): void {
    changes.push(changeOf(entry, true));
    this.#unlink(entry);
    this.#producers.delete(entry.producerId);
  }

  #takeBackTold({ changes, forgotten }: Extract<Undo, { kind: "told" }>): void {
    for (const { entry, wasThere, older, ...before } of changes.toReversed()) {
      const isThere = this.#producers.get(entry.producerId) === entry;
      if (isThere && !wasThere) {
        this.#unlink(entry);
        this.#producers.delete(entry.producerId);
      }
      if (!isThere && wasThere) {
        this.#linkAfter(entry, older);
        this.#producers.set(entry.producerId, entry);
      }
      Object.assign(entry, before);
    }
    this.#forgotten = forgotten;
  }

  #put(batch: SequencedBatch): void {
    const { producerId, producerEpoch, baseSequence, baseOffset, lastOffset, crc } = batch;
    const known = this.#producers.get(producerId);
    const entry = known ?? entryOf({ producerId, producerEpoch, batches: [], carriedOffset: -1, carriedMs: -1 });
    const isNew = known === undefined;
    const evicted = isNew ? this.#makeRoom() : undefined;
    const older = entry.older;
    let replaced: BatchUndo["replaced"];
    if (entry.producerEpoch !== producerEpoch) {
      replaced = { producerEpoch: entry.producerEpoch, batches: entry.batches };
      entry.producerEpoch = producerEpoch;
      entry.batches = [];
    }
    const isFull = entry.batches.length >= (mutant("M23w") ? 1 : PRODUCER_WINDOW);
    const dropped = isFull ? entry.batches.shift() : undefined;
    entry.batches.push({ baseSequence, baseOffset, lastOffset, crc });
    if (isNew) this.#producers.set(producerId, entry);
    else this.#unlink(entry);
    this.#linkNewest(entry);
    if (lastOffset < this.#settled) this.#raiseFloor(lastOffset + 1);
    else this.#remember({ kind: "batch", lastOffset, entry, older, isNew, dropped, replaced, evicted });
  }

  #remember(step: Undo): void {
    const forgotten = this.#undo.push(step);
    if (forgotten !== undefined) this.#raiseFloor(forgotten.lastOffset + 1);
  }

  #raiseFloor(to: number): void {
    if (to > this.#floor) this.#floor = to;
  }

  #takeBack(step: Undo): void {
    if (step.kind === "told") return this.#takeBackTold(step);
    const { entry, older, isNew, dropped, replaced, evicted } = step;
    this.#unlink(entry);
    if (isNew) this.#producers.delete(entry.producerId);
    else {
      entry.batches.pop();
      if (dropped !== undefined) entry.batches.unshift(dropped);
      if (replaced !== undefined) {
        entry.producerEpoch = replaced.producerEpoch;
        entry.batches = replaced.batches;
      }
      this.#linkAfter(entry, older);
    }
    if (evicted === undefined) return;
    this.#forgotten = evicted.forgotten;
    this.#producers.set(evicted.entry.producerId, evicted.entry);
    this.#linkAfter(evicted.entry, undefined);
  }

  #makeRoom(): Evicted | undefined {
    const entry = this.#producers.size >= this.#most ? this.#oldest : undefined;
    if (entry === undefined) return undefined;
    const forgotten = this.#forgotten;
    this.#forgotten = { maxId: Math.max(forgotten.maxId, entry.producerId), toldAt: -1 };
    this.#producers.delete(entry.producerId);
    this.#unlink(entry);
    return { entry, forgotten };
  }

  #unlink(entry: Entry): void {
    const { older, newer } = entry;
    if (older === undefined) this.#oldest = newer;
    else older.newer = newer;
    if (newer === undefined) this.#newest = older;
    else newer.older = older;
  }

  #linkNewest(entry: Entry): void {
    this.#linkAfter(entry, this.#newest);
  }

  /** `older` undefined: it becomes the oldest. */
  #linkAfter(entry: Entry, older: Entry | undefined): void {
    const newer = older === undefined ? this.#oldest : older.newer;
    entry.older = older;
    entry.newer = newer;
    if (older === undefined) this.#oldest = entry;
    else older.newer = entry;
    if (newer === undefined) this.#newest = entry;
    else newer.older = entry;
  }
}

/** The one that its producer gives to the next batch. */
function sequenceAfter({ baseSequence, baseOffset, lastOffset }: WindowBatch): number {
  return addSequence(baseSequence, lastOffset - baseOffset + 1);
}
