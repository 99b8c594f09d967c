// What one partition remembers of its idempotent producers, so that a batch that is sent again is not written again (P-1 to P-9).
// A pure function of the log: leaders decide by it, followers and a replay at start-up come to the same one.
import { assert } from "../base/assert.ts";
import { mutant } from "../base/mutant.ts";
import { Ring } from "../base/ring.ts";
import { addSequence, baseOffsetAt, crcAt, lastOffsetAt, producerAt } from "./batch-header.ts";
import {
  decodeProducers,
  encodeProducers,
  PRODUCER_WINDOW,
  PRODUCERS_MAX,
  type ProducerView,
  type WindowBatch,
} from "./producer-table-codec.ts";

export { PRODUCER_WINDOW, PRODUCERS_MAX, type ProducerView, type WindowBatch } from "./producer-table-codec.ts";

/** Batches that can be taken back, about 200 bytes each. */
export const PRODUCER_UNDO_MAX = 100_000;

/** Where a batch stands in its producer's sequence, and where it lies in the log. */
export interface SequencedBatch {
  /** -1: no producer. */
  readonly producerId: number;
  readonly producerEpoch: number;
  readonly baseSequence: number;
  readonly baseOffset: number;
  /** Inclusive. */
  readonly lastOffset: number;
  /** As in WindowBatch. */
  readonly crc: number;
}

/** The batch at `at`. */
export function sequencedAt(bytes: Uint8Array, at: number): SequencedBatch {
  const place = { baseOffset: baseOffsetAt(bytes, at), lastOffset: lastOffsetAt(bytes, at) };
  return { ...producerAt(bytes, at), ...place, crc: contentAt(bytes, at) };
}

/** What tells the content of the batch at `at` from another one's: see WindowBatch. */
export function contentAt(bytes: Uint8Array, at: number): number {
  return crcAt(bytes, at) | 0;
}

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

/** A place in the order of last writes. `batches` is replaced where the epoch is another, never shared. */
interface Entry {
  readonly producerId: number;
  producerEpoch: number;
  batches: WindowBatch[];
  older: Entry | undefined;
  newer: Entry | undefined;
}

interface Evicted {
  readonly entry: Entry;
  readonly forgottenMaxId: number;
}

/** What `observe` did, to be undone last first. */
interface Undo {
  readonly lastOffset: number;
  readonly entry: Entry;
  /** Its neighbour before; it has none where it was the oldest, or was not there. */
  readonly older: Entry | undefined;
  readonly isNew: boolean;
  /** Went out of the window. */
  readonly dropped: WindowBatch | undefined;
  /** The window and the epoch before, where the epoch is another. */
  readonly replaced: { readonly producerEpoch: number; readonly batches: WindowBatch[] } | undefined;
  /** Made room for it, and `forgottenMaxId` before. */
  readonly evicted: Evicted | undefined;
}

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
  #forgottenMaxId = -1;
  readonly #most: number;
  /** Nothing below is ever taken back (D-9). */
  #settled = 0;

  /** Of an empty log that begins here. `most` producers, the same on all replicas: fewer for tests. */
  constructor(startOffset = 0, most = PRODUCERS_MAX) {
    this.#most = most;
    this.#endOffset = startOffset;
    this.#floor = startOffset;
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

  /** Highest id of a producer that made room for another one, whether or not it came back; -1: none did. */
  get forgottenMaxId(): number {
    return this.#forgottenMaxId;
  }

  /** P-2 to P-4. Changes nothing. */
  check({ producerId, producerEpoch, baseSequence, recordCount, crc, isResent }: SequenceCheck): SequenceVerdict {
    const entry = this.#producers.get(producerId);
    if (entry === undefined) {
      const mayBeThere = isResent && producerId <= this.#forgottenMaxId && !mutant("D-15f");
      return baseSequence !== 0 || mayBeThere ? UNKNOWN : NEW;
    }
    if (producerEpoch < entry.producerEpoch) return INVALID_EPOCH;
    if (producerEpoch > entry.producerEpoch) return baseSequence === 0 ? NEW : OUT_OF_ORDER;
    const { batches } = entry;
    // First of all: whatever a follower may have had to mirror (P-7), what is in the log is not written again.
    for (const { baseSequence: known, baseOffset, lastOffset, crc: content } of batches)
      if (known === baseSequence && lastOffset - baseOffset === recordCount - 1)
        return content === crc || mutant("D-15c")
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
    this.#endOffset = batch.lastOffset + 1;
    if (batch.producerId >= 0) this.#put(batch);
  }

  /** What was appended below `endOffset` has no producer. */
  advance(endOffset: number): void {
    assert(endOffset >= this.#endOffset, "producers of a log that ends earlier");
    this.#endOffset = endOffset;
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
    if (mutant("D-15b")) return true;
    for (let last = this.#undo.newest; last !== undefined && last.lastOffset >= toOffset; last = this.#undo.newest) {
      this.#undo.pop();
      this.#takeBack(last);
    }
    return true;
  }

  encode(): Uint8Array {
    const { size } = this.#producers;
    return encodeProducers({ forgottenMaxId: this.#forgottenMaxId, size, producers: this.#inOrder() });
  }

  /** Undefined: these bytes are no table of a log that ends at `endOffset`. It can only be taken back to there. */
  static decode(bytes: Uint8Array, endOffset: number, most = PRODUCERS_MAX): ProducerTable | undefined {
    const read = decodeProducers(bytes, endOffset);
    if (read === undefined || read.producers.length > most) return undefined;
    const table = new ProducerTable(endOffset, most);
    table.#forgottenMaxId = read.forgottenMaxId;
    for (const { producerId, producerEpoch, batches } of read.producers) {
      if (table.#producers.has(producerId)) return undefined;
      const entry = { producerId, producerEpoch, batches: [...batches], older: undefined, newer: undefined };
      table.#producers.set(producerId, entry);
      table.#linkNewest(entry);
    }
    return table;
  }

  /** By producer id. */
  view(): ProducerView[] {
    return [...this.#inOrder()]
      .map(({ producerId, producerEpoch, batches }) => ({ producerId, producerEpoch, batches: [...batches] }))
      .toSorted((left, right) => left.producerId - right.producerId);
  }

  /** Of the same producers, in the same order, at the same end, and the same were forgotten. */
  equals(other: ProducerTable): boolean {
    if (this.#endOffset !== other.#endOffset || this.size !== other.size) return false;
    if (this.#forgottenMaxId !== other.#forgottenMaxId) return false;
    let theirs = other.#oldest;
    for (const ours of this.#inOrder()) {
      if (theirs === undefined || !isSame(ours, theirs)) return false;
      theirs = theirs.newer;
    }
    return true;
  }

  *#inOrder(): IterableIterator<Entry> {
    for (let entry = this.#oldest; entry !== undefined; entry = entry.newer) yield entry;
  }

  #put(batch: SequencedBatch): void {
    const { producerId, producerEpoch, baseSequence, baseOffset, lastOffset, crc } = batch;
    const known = this.#producers.get(producerId);
    const entry = known ?? { producerId, producerEpoch, batches: [], older: undefined, newer: undefined };
    const isNew = known === undefined;
    const evicted = isNew ? this.#makeRoom() : undefined;
    const older = entry.older;
    let replaced: Undo["replaced"];
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
    else this.#remember({ lastOffset, entry, older, isNew, dropped, replaced, evicted });
  }

  #remember(step: Undo): void {
    const forgotten = this.#undo.push(step);
    if (forgotten !== undefined) this.#raiseFloor(forgotten.lastOffset + 1);
  }

  #raiseFloor(to: number): void {
    if (to > this.#floor) this.#floor = to;
  }

  #takeBack({ entry, older, isNew, dropped, replaced, evicted }: Undo): void {
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
    this.#forgottenMaxId = evicted.forgottenMaxId;
    this.#producers.set(evicted.entry.producerId, evicted.entry);
    this.#linkAfter(evicted.entry, undefined);
  }

  #makeRoom(): Evicted | undefined {
    const entry = this.#producers.size >= this.#most ? this.#oldest : undefined;
    if (entry === undefined) return undefined;
    const forgottenMaxId = this.#forgottenMaxId;
    this.#forgottenMaxId = Math.max(forgottenMaxId, entry.producerId);
    this.#producers.delete(entry.producerId);
    this.#unlink(entry);
    return { entry, forgottenMaxId };
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

/** Steps in offset order, at most PRODUCER_UNDO_MAX. */
class UndoStack {
  readonly #steps = new Ring<Undo>();

  get newest(): Undo | undefined {
    return this.#steps.at(this.#steps.length - 1);
  }

  pop(): void {
    this.#steps.pop();
  }

  /** The step that there was no room for any more. */
  push(step: Undo): Undo | undefined {
    this.#steps.push(step);
    return this.#steps.length > PRODUCER_UNDO_MAX ? this.#steps.shift() : undefined;
  }

  dropBelow(offset: number): void {
    for (let first = this.#steps.peek(); first !== undefined && first.lastOffset < offset; first = this.#steps.peek())
      this.#steps.shift();
  }
}

/** The one that its producer gives to the next batch. */
function sequenceAfter({ baseSequence, baseOffset, lastOffset }: WindowBatch): number {
  return addSequence(baseSequence, lastOffset - baseOffset + 1);
}

function isSame(left: Entry, right: Entry): boolean {
  if (left.producerId !== right.producerId || left.producerEpoch !== right.producerEpoch) return false;
  if (left.batches.length !== right.batches.length) return false;
  return left.batches.every(({ baseSequence, baseOffset, lastOffset, crc }, at) => {
    const other = right.batches[at] as WindowBatch;
    const isThere = baseOffset === other.baseOffset && lastOffset === other.lastOffset;
    return isThere && baseSequence === other.baseSequence && crc === other.crc;
  });
}
