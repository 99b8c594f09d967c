// What each replica must remember of its idempotent producers (invariant 25): worked out from the batches of its log alone, and compared with what its
// core remembers. And who may append under a name (24): nobody in an epoch below one that a broker has given away.
import { isControlBatchAt, producerAt, producerIdAt } from "../../model/batch-header.ts";
import { type ToldProducers, toldProducersAt } from "../../model/producer-records.ts";
import { contentAt, type ProducerView, type WindowBatch } from "../../model/producer-table.ts";
import type { BatchSeen } from "./epoch-truth.ts";

const WINDOW = 5;
const NO_NUMBERS = {};

/** Of a batch with a producer, or that speaks of producers. */
export function numbersAt(bytes: Uint8Array, at: number): Pick<BatchSeen, "numbers" | "told"> {
  if (producerIdAt(bytes, at) >= 0) return { numbers: { ...producerAt(bytes, at), crc: contentAt(bytes, at) } };
  return isControlBatchAt(bytes, at) ? { told: toldProducersAt(bytes, at) } : NO_NUMBERS;
}

interface Window {
  epoch: number;
  batches: WindowBatch[];
}

/** The last five batches of each producer of one log; not made from the product's own. */
class Windows {
  readonly #windows = new Map<number, Window>();

  take({ base, last, numbers, told }: BatchSeen): void {
    if (told?.kind === "expired") for (const { producerId } of told.producers) this.#windows.delete(producerId);
    if (told?.kind === "carried") this.#carry(told);
    if (numbers === undefined) return;
    const { producerId, producerEpoch, baseSequence, crc } = numbers;
    let window = this.#windows.get(producerId);
    if (window === undefined || window.epoch !== producerEpoch) {
      window = { epoch: producerEpoch, batches: [] };
      this.#windows.set(producerId, window);
    }
    window.batches.push({ baseSequence, baseOffset: base, lastOffset: last, crc });
    if (window.batches.length > WINDOW) window.batches.shift();
  }

  /** Of who was there all the time nothing changes: that is how a leader that carries on something else is found out. */
  #carry({ producers, rememberedFrom }: Extract<ToldProducers, { kind: "carried" }>): void {
    for (const [id, { batches }] of this.#windows)
      if ((batches.at(-1)?.lastOffset ?? -1) < rememberedFrom) this.#windows.delete(id);
    for (const { producerId, producerEpoch, batches } of producers)
      if (!this.#windows.has(producerId))
        this.#windows.set(producerId, { epoch: producerEpoch, batches: [...batches] });
  }

  /** In words; undefined: they are the same. */
  differenceFrom(views: readonly ProducerView[]): string | undefined {
    for (const { producerId, producerEpoch, batches } of views) {
      const window = this.#windows.get(producerId);
      if (window?.epoch === producerEpoch && areSame(window.batches, batches)) continue;
      const [has, must] = [textOf(producerEpoch, batches), textOf(window?.epoch, window?.batches ?? [])];
      return `producer ${producerId}: it has ${has}, its log says ${must}`;
    }
    if (views.length === this.#windows.size) return undefined;
    const known = new Set(views.map(({ producerId }) => producerId));
    const missing = [...this.#windows.keys()].filter((id) => !known.has(id));
    return `it knows nothing of producers ${missing.join()}`;
  }
}

/** A content that nobody can know is any (B-10). */
function areSame(wanted: readonly WindowBatch[], found: readonly WindowBatch[]): boolean {
  const isSame = ({ baseSequence, baseOffset, lastOffset, crc }: WindowBatch, at: number): boolean => {
    const other = found[at];
    if (other === undefined || other.baseSequence !== baseSequence || other.baseOffset !== baseOffset) return false;
    return other.lastOffset === lastOffset && (crc === 0 || other.crc === 0 || crc === other.crc);
  };
  return wanted.length === found.length && wanted.every(isSame);
}

function textOf(epoch: number | undefined, batches: readonly WindowBatch[]): string {
  if (epoch === undefined) return "nothing";
  const each = batches.map(
    ({ baseSequence, baseOffset, lastOffset, crc }) => `${baseSequence} at ${baseOffset}..${lastOffset} (${crc})`,
  );
  return `epoch ${epoch} (${each.join(", ")})`;
}

export class ProducerWatch {
  /** By the object that stands for the replica. */
  readonly #windows = new WeakMap<object, Windows>();
  /** Highest epoch that was given away, by producer id. */
  readonly #given = new Map<number, number>();

  /** A broker answered a producer that asked for an id. */
  gave(producerId: number, producerEpoch: number): void {
    if (producerEpoch > (this.#given.get(producerId) ?? -1)) this.#given.set(producerId, producerEpoch);
  }

  /** In words: the leader must not append this batch (24). */
  forbids({ numbers }: BatchSeen): string | undefined {
    const given = numbers === undefined ? undefined : this.#given.get(numbers.producerId);
    return given === undefined || numbers === undefined || numbers.producerEpoch >= given
      ? undefined
      : `producer ${numbers.producerId} in epoch ${numbers.producerEpoch}, ${given} was given away before`;
  }

  appended(replica: object, batch: BatchSeen): void {
    this.#windows.get(replica)?.take(batch);
  }

  /** Its log is another one now: these batches. */
  became(replica: object, batches: Iterable<BatchSeen>): void {
    const windows = new Windows();
    for (const batch of batches) windows.take(batch);
    this.#windows.set(replica, windows);
  }

  /** In words; undefined: the core remembers what its log says. */
  differenceOf(replica: object, views: readonly ProducerView[]): string | undefined {
    return this.#windows.get(replica)?.differenceFrom(views);
  }
}
