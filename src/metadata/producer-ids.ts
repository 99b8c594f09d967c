// Producer ids as the metadata knows them: how far they were given out, and the named producers with their present epochs.
import type { NamedProducerImage } from "./image-types.ts";
import { NAMED_PRODUCER_IDS_START } from "./records.ts";
import { StateHash } from "./state-hash.ts";

export interface ProducerIdsParts {
  /** The first id that no block has. */
  readonly nextId: number;
  /** The first id that no name ever had. */
  readonly nextNamedId: number;
  /** The least recently used first, in the order of the log. */
  readonly named: readonly NamedProducerImage[];
}

/** What a leader does with a batch of this id and epoch. "ahead": of what this image knows, it has yet to be applied here. */
export type EpochVerdict = "taken" | "fenced" | "ahead";

export const NO_PRODUCER_IDS: ProducerIdsParts = { nextId: 0, nextNamedId: NAMED_PRODUCER_IDS_START, named: [] };

/** Bound: producer.names.max names, which the controller keeps to (`decideNamedProducer`). */
export class ProducerIds {
  #nextId = NO_PRODUCER_IDS.nextId;
  #nextNamedId = NO_PRODUCER_IDS.nextNamedId;
  readonly #byName = new Map<string, NamedProducerImage>();
  /** Of named ones only: for every produced batch one look. */
  readonly #epochs = new Map<number, number>();
  #hash: string | undefined;

  get nextId(): number {
    return this.#nextId;
  }
  get nextNamedId(): number {
    return this.#nextNamedId;
  }
  get size(): number {
    return this.#byName.size;
  }
  /** The least recently used first. */
  get named(): Iterable<NamedProducerImage> {
    return this.#byName.values();
  }

  byName(name: string): NamedProducerImage | undefined {
    return this.#byName.get(name);
  }

  /** Invariant 24: of a name only the present epoch is taken; an id whose name was forgotten, or went on under another id, is fenced for good. */
  verdictOn(producerId: number, producerEpoch: number): EpochVerdict {
    if (producerId < NAMED_PRODUCER_IDS_START) return "taken";
    if (producerId >= this.#nextNamedId) return "ahead";
    const epoch = this.#epochs.get(producerId);
    if (epoch === undefined || producerEpoch < epoch) return "fenced";
    return producerEpoch === epoch ? "taken" : "ahead";
  }

  advanceTo(nextId: number): void {
    this.#changed();
    this.#nextId = nextId;
  }

  put(producer: NamedProducerImage): void {
    this.#changed();
    this.forget(producer.name);
    this.#byName.set(producer.name, producer);
    this.#epochs.set(producer.producerId, producer.producerEpoch);
    if (producer.producerId >= this.#nextNamedId) this.#nextNamedId = producer.producerId + 1;
  }

  forget(name: string): void {
    const known = this.#byName.get(name);
    if (known === undefined) return;
    this.#changed();
    this.#byName.delete(name);
    this.#epochs.delete(known.producerId);
  }

  /** What was given out may be unknown here: no id below these is given again, and every named producer has to take its name anew. */
  skip(blockIds: number, namedIds: number): void {
    this.#changed();
    this.#nextId = Math.min(this.#nextId + blockIds, NAMED_PRODUCER_IDS_START);
    this.#nextNamedId += namedIds;
    this.#byName.clear();
    this.#epochs.clear();
  }

  load({ nextId, nextNamedId, named }: ProducerIdsParts): void {
    this.#changed();
    this.#nextId = nextId;
    for (const producer of named) this.put(producer);
    this.#nextNamedId = nextNamedId;
  }

  get parts(): ProducerIdsParts {
    return { nextId: this.#nextId, nextNamedId: this.#nextNamedId, named: [...this.named] };
  }

  /** Of its text in a snapshot. */
  get hash(): string {
    this.#hash ??= new StateHash().add(producerIdsText(this.parts)).hex;
    return this.#hash;
  }

  #changed(): void {
    this.#hash = undefined;
  }
}

export function producerIdsText({ nextId, nextNamedId, named }: ProducerIdsParts): string {
  const rows = named.map(({ name, producerId, producerEpoch, fromId, fromEpoch, usedMs }) =>
    JSON.stringify([name, producerId, producerEpoch, fromId, fromEpoch, usedMs]),
  );
  return `{"nextId":${nextId},"nextNamedId":${nextNamedId},"named":[${rows.join(",")}]}`;
}

/** What breaks a guarantee of the table. */
export function producerIdsFault({ nextId, nextNamedId, named }: ProducerIdsParts): string | undefined {
  if (nextId > NAMED_PRODUCER_IDS_START || nextNamedId < NAMED_PRODUCER_IDS_START) return "producer ids out of range";
  if (new Set(named.map(({ name }) => name)).size < named.length) return "a named producer twice";
  if (new Set(named.map(({ producerId }) => producerId)).size < named.length) return "a producer id of two names";
  const isGiven = ({ producerId }: NamedProducerImage): boolean =>
    producerId >= NAMED_PRODUCER_IDS_START && producerId < nextNamedId;
  return named.every(isGiven) ? undefined : "a named producer with an id that was never given";
}
