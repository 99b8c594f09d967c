// What producers with an id rely on: invariants 21 to 25, as far as one partition shows them.
import type { ErrorName } from "../../model/errors.ts";
import { PRODUCER_WINDOW, type ProducerTable } from "../../model/producer-table.ts";
import type { SimBatch } from "./batch.ts";

export interface ProducerFault {
  readonly invariant: 21 | 22 | 23 | 24 | 25;
  readonly message: string;
}

interface Written {
  producerEpoch: number;
  /** Oldest first. */
  readonly batches: SimBatch[];
}

interface Writers {
  /** Who wrote last comes last. */
  readonly producers: ReadonlyMap<number, Written>;
  /** Ids that made room for others or expired, whether or not they came back. */
  readonly forgotten: ReadonlySet<number>;
}

/** Computed in another way than the table does it: each producer's batches of its last epoch, all of them; of those that wrote last, `most`. */
function writtenBy(batches: readonly SimBatch[], most: number): Writers {
  const producers = new Map<number, Written>();
  const forgotten = new Set<number>();
  for (const batch of batches) {
    const { producerId, producerEpoch, told } = batch;
    // Who is carried on is known here already: these are all batches that ever were in the log.
    if (told?.kind === "expired")
      for (const { producerId: id } of told.producers) {
        producers.delete(id);
        forgotten.add(id);
      }
    if (producerId < 0) continue;
    const known = producers.get(producerId);
    producers.delete(producerId);
    if (known?.producerEpoch === producerEpoch) known.batches.push(batch);
    producers.set(producerId, known?.producerEpoch === producerEpoch ? known : { producerEpoch, batches: [batch] });
    for (const oldest of producers.keys()) {
      if (producers.size <= most) break;
      producers.delete(oldest);
      forgotten.add(oldest);
    }
  }
  return { producers, forgotten };
}

const highestOf = (ids: ReadonlySet<number>): number => Math.max(-1, ...ids);

/** Of a replica, and what of its rules is not the same everywhere. */
export interface ProducersOfLog {
  readonly name: string;
  /** All that were ever in it, also below its start. */
  readonly batches: readonly SimBatch[];
  readonly most: number;
}

/** 25: the table is what the log makes of it. */
export function differs({ name, batches, most }: ProducersOfLog, table: ProducerTable): ProducerFault | undefined {
  const { producers: wanted, forgotten } = writtenBy(batches, most);
  const view = table.view();
  const fault = (message: string): ProducerFault => ({ invariant: 25, message: `${name} ${message}` });
  if (view.length !== wanted.size) return fault(`knows ${view.length} producers, its log has ${wanted.size}`);
  if (table.forgottenMaxId !== highestOf(forgotten))
    return fault(`has forgotten ids up to ${table.forgottenMaxId}, its log up to ${highestOf(forgotten)}`);
  for (const { producerId, producerEpoch, batches: known } of view) {
    const log = wanted.get(producerId);
    const window = log?.batches.slice(-PRODUCER_WINDOW) ?? [];
    const isSame =
      log?.producerEpoch === producerEpoch &&
      window.length === known.length &&
      window.every(({ baseOffset, baseSequence, crc }, at) => {
        const batch = known[at];
        return batch?.baseOffset === baseOffset && batch.baseSequence === baseSequence && batch.crc === crc;
      });
    if (!isSame)
      return fault(
        `knows of producer ${producerId} in epoch ${producerEpoch} the batches at [${known.map(({ baseOffset }) => baseOffset).join(" ")}], its log has in epoch ${log?.producerEpoch} [${window.map(({ baseOffset }) => baseOffset).join(" ")}]`,
      );
  }
  return undefined;
}

/** Of one partition. Shape: of each producer its last committed batch. */
export class ProducerTruth {
  readonly #last = new Map<number, SimBatch>();
  /** Below that nobody knows what was. */
  #knownFrom = 0;

  /** After an unclean election: so much was committed. `knownFrom`: the new leader's log begins there. */
  restart(committed: readonly SimBatch[], knownFrom: number): void {
    this.#knownFrom = Math.max(this.#knownFrom, knownFrom);
    this.#last.clear();
    for (const batch of committed)
      if (batch.producerId >= 0 && batch.baseOffset >= knownFrom) this.#last.set(batch.producerId, batch);
  }

  /** 21, 22, 24: `batch` is what is committed next. */
  commits(batch: SimBatch): ProducerFault | undefined {
    const { producerId, producerEpoch, baseSequence } = batch;
    if (producerId < 0) return undefined;
    const last = this.#last.get(producerId);
    this.#last.set(producerId, batch);
    if (last === undefined && this.#knownFrom > 0) return undefined;
    const what = `batch ${batch.number} at ${batch.baseOffset} (producer ${producerId}, epoch ${producerEpoch}, sequence ${baseSequence})`;
    if (last !== undefined && producerEpoch < last.producerEpoch)
      return { invariant: 24, message: `${what} is committed after epoch ${last.producerEpoch} was` };
    const next = last?.producerEpoch === producerEpoch ? last.baseSequence + last.recordCount : 0;
    if (baseSequence < next) return { invariant: 21, message: `${what} is committed once more, ${next} was next` };
    if (baseSequence > next) return { invariant: 22, message: `${what} is committed, ${next} was next` };
    return undefined;
  }
}

/** 23: what `replica` answers to `batch` with the offset is where its log has it. */
export function isOriginal(batch: SimBatch, original: SimBatch | undefined, baseOffset: number): boolean {
  if (batch.producerId < 0) return original === batch && batch.baseOffset === baseOffset;
  return original !== undefined && original.message === batch.message && original.baseOffset === baseOffset;
}

/** Of a producer that is not known (any more). */
function mayRefuse({ baseSequence, producerId, isResent }: SimBatch, forgotten: ReadonlySet<number>): boolean {
  return baseSequence > 0 ? forgotten.has(producerId) : isResent && producerId <= highestOf(forgotten);
}

/** 22, 23: a leader refuses what it has, or what is next. */
export function refusedWrongly(
  batch: SimBatch,
  error: ErrorName,
  { name, batches, most, isLeader }: ProducersOfLog & { readonly isLeader: boolean },
): ProducerFault | undefined {
  const { producer, producerEpoch, producerId, baseSequence } = batch;
  const what = `${name} answers ${error} to sequence ${baseSequence} of producer ${producerId} in epoch ${producerEpoch}`;
  switch (error) {
    case "OUT_OF_ORDER_SEQUENCE_NUMBER":
    case "SEQUENCE_NUMBER_TAKEN":
    case "UNKNOWN_PRODUCER_ID": {
      const { producers, forgotten } = writtenBy(batches, most);
      const log = producers.get(producerId);
      if (log === undefined && mayRefuse(batch, forgotten)) return undefined;
      const window = log?.producerEpoch === producerEpoch ? log.batches.slice(-PRODUCER_WINDOW) : [];
      const original = window.find(({ message }) => message === batch.message);
      if (original !== undefined) return { invariant: 23, message: `${what}, which it has at ${original.baseOffset}` };
      return isLeader && producer?.isHead(batch) === true
        ? { invariant: 22, message: `${what}, which is next: all before it are acknowledged` }
        : undefined;
    }
    case "INVALID_PRODUCER_EPOCH":
      return producerEpoch === producer?.producerEpoch && !producer.isSuperseded
        ? { invariant: 24, message: `${what}, which nobody has fenced` }
        : undefined;
    default:
      return undefined;
  }
}
