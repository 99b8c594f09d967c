// One batch of records of the model: an object that all replicas share, so that equal contents are the same object.
import type { ErrorName, Outcome } from "../../model/errors.ts";
import type { ToldProducers } from "../../model/producer-records.ts";
import type { SequencedBatch } from "../../model/producer-table.ts";
import type { RequiredAcks } from "../../replication/types.ts";
import type { Sent, SimProducer } from "./producer.ts";

export interface SimAnswer {
  readonly error: ErrorName;
  readonly outcome: Outcome;
}

/** Made by a producer; the leader that appends it gives it its place, once. */
export class SimBatch {
  readonly number: number;
  readonly recordCount: number;
  readonly acks: RequiredAcks;
  baseOffset = -1;
  /** Exclusive. */
  endOffset = -1;
  epoch = -1;
  /** Its producer was told that acks=all holds. */
  isPromised = false;
  /** -1: none. */
  producerId = -1;
  producerEpoch = -1;
  baseSequence = -1;
  /** Its producer sent it before, and does not know what became of it. */
  isResent = false;
  /** What it is an attempt of, and whose. */
  message: Sent | undefined;
  producer: SimProducer | undefined;
  /** A control batch: what its leader tells of producers (D-15). */
  told: ToldProducers | undefined;
  /** On the broker: the answer goes out. */
  onAnswer: ((answer: SimAnswer, from: number) => void) | undefined;

  constructor(number: number, { recordCount, acks }: { readonly recordCount: number; readonly acks: RequiredAcks }) {
    this.number = number;
    this.recordCount = recordCount;
    this.acks = acks;
  }

  /** Stands for the checksum: one batch sent again has the same, other records have another one. */
  get crc(): number {
    // Odd: 0 would be a content that nobody knows.
    return 2 * (this.message?.number ?? this.number) + 1;
  }
}

export function sequencedOf(batch: SimBatch): SequencedBatch {
  const { producerId, producerEpoch, baseSequence, baseOffset, endOffset, crc, told } = batch;
  return { producerId, producerEpoch, baseSequence, baseOffset, lastOffset: endOffset - 1, crc, told };
}

/** Place in a list of contiguous batches of the first one that ends above `offset`; the list's length when there is none. */
export function placeOf(batches: readonly SimBatch[], offset: number): number {
  let low = 0;
  let high = batches.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((batches[middle] as SimBatch).endOffset <= offset) low = middle + 1;
    else high = middle;
  }
  return low;
}
