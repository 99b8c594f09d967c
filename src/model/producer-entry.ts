// One producer in the table of a partition, and how each change of it is taken back.
import { Ring } from "../base/ring.ts";
import { CONTENT_UNKNOWN, type ProducerView, type WindowBatch } from "./producer-table-codec.ts";

/** Batches that can be taken back, about 200 bytes each. */
export const PRODUCER_UNDO_MAX = 100_000;

/** A place in the order of last writes. `batches` is replaced where the epoch is another, never shared. */
export interface Entry {
  readonly producerId: number;
  producerEpoch: number;
  batches: WindowBatch[];
  /** Of the last control batch that told all of it, whatever came since; -1: none did. */
  carriedOffset: number;
  carriedMs: number;
  older: Entry | undefined;
  newer: Entry | undefined;
}

/** As in ProducersState. */
export interface Forgotten {
  readonly maxId: number;
  readonly toldAt: number;
}

export interface Evicted {
  readonly entry: Entry;
  readonly forgotten: Forgotten;
}

/** What `observe` did, to be undone last first. */
export type Undo = BatchUndo | ToldUndo;

/** A control batch: how each producer was that it changed, undone last first. */
export interface ToldUndo {
  readonly kind: "told";
  readonly lastOffset: number;
  readonly forgotten: Forgotten;
  readonly changes: readonly Change[];
}

export interface Change {
  readonly entry: Entry;
  /** It was there, between these two others. */
  readonly wasThere: boolean;
  readonly older: Entry | undefined;
  readonly producerEpoch: number;
  readonly batches: WindowBatch[];
  readonly carriedOffset: number;
  readonly carriedMs: number;
}

export interface BatchUndo {
  readonly kind: "batch";
  readonly lastOffset: number;
  readonly entry: Entry;
  /** Its neighbour before; it has none where it was the oldest, or was not there. */
  readonly older: Entry | undefined;
  readonly isNew: boolean;
  /** Went out of the window. */
  readonly dropped: WindowBatch | undefined;
  /** The window and the epoch before, where the epoch is another. */
  readonly replaced: { readonly producerEpoch: number; readonly batches: WindowBatch[] } | undefined;
  /** Made room for it. */
  readonly evicted: Evicted | undefined;
}

/** Steps in offset order, at most PRODUCER_UNDO_MAX. */
export class UndoStack {
  readonly #steps = new Ring<Undo>();

  get newest(): Undo | undefined {
    return this.#steps.at(this.#steps.length - 1);
  }

  pop(): void {
    this.#steps.pop();
  }

  *[Symbol.iterator](): IterableIterator<Undo> {
    for (let at = 0; at < this.#steps.length; at++) yield this.#steps.at(at) as Undo;
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

const oldestOf = ({ batches }: Entry): WindowBatch => batches[0] as WindowBatch;
export const newestOf = ({ batches }: Entry): WindowBatch => batches[batches.length - 1] as WindowBatch;

export function entryOf({ producerId, producerEpoch, batches, carriedOffset, carriedMs }: ProducerView): Entry {
  const links = { older: undefined, newer: undefined };
  return { producerId, producerEpoch, batches: [...batches], carriedOffset, carriedMs, ...links };
}

export function setTo(entry: Entry, { producerEpoch, batches, carriedOffset, carriedMs }: ProducerView): Entry {
  return Object.assign(entry, { producerEpoch, batches: [...batches], carriedOffset, carriedMs });
}

export function viewOf(entry: Entry): ProducerView {
  const { producerId, producerEpoch, batches } = entry;
  return {
    producerId,
    producerEpoch,
    batches: [...batches],
    carriedOffset: carriedOffsetOf(entry),
    carriedMs: carriedMsOf(entry),
  };
}

export function changeOf(entry: Entry, wasThere: boolean): Change {
  const { older, producerEpoch, batches, carriedOffset, carriedMs } = entry;
  return { entry, wasThere, older, producerEpoch, batches: [...batches], carriedOffset, carriedMs };
}

/** What is in windows again once the step is taken back. */
export function windowsBefore(step: Undo): (readonly WindowBatch[])[] {
  if (step.kind === "told") return step.changes.map(({ batches }) => batches);
  const { dropped, replaced, evicted } = step;
  return [dropped === undefined ? [] : [dropped], replaced?.batches ?? [], evicted?.entry.batches ?? []];
}

/** Whoever reads the log from here on, or from below, meets all of it. */
export const readableFrom = (entry: Entry): number => Math.max(oldestOf(entry).baseOffset, entry.carriedOffset);

/** Of the same producer, as far as a table can tell (B-10). */
export function isSameEntry(left: Entry, right: Entry): boolean {
  if (left.producerId !== right.producerId || left.producerEpoch !== right.producerEpoch) return false;
  if (left.batches.length !== right.batches.length) return false;
  if (carriedOffsetOf(left) !== carriedOffsetOf(right) || carriedMsOf(left) !== carriedMsOf(right)) return false;
  return left.batches.every(({ baseSequence, baseOffset, lastOffset, crc }, at) => {
    const other = right.batches[at] as WindowBatch;
    const isThere = baseOffset === other.baseOffset && lastOffset === other.lastOffset;
    const isUnknown = crc === CONTENT_UNKNOWN || other.crc === CONTENT_UNKNOWN;
    return isThere && baseSequence === other.baseSequence && (isUnknown || crc === other.crc);
  });
}

/** What was told before all of the window was read says nothing any more. */
const carriedOffsetOf = (entry: Entry): number =>
  entry.carriedOffset > oldestOf(entry).baseOffset ? entry.carriedOffset : -1;
const carriedMsOf = (entry: Entry): number => (entry.carriedOffset > newestOf(entry).lastOffset ? entry.carriedMs : -1);
