// A batch as a table of producers takes it: its place in its producer's sequence and in the log, and what it tells of others.
import { mutant } from "../base/mutant.ts";
import {
  attributesAt,
  baseOffsetAt,
  crcAt,
  DELETE_HORIZON_BIT,
  isControlBatchAt,
  lastOffsetAt,
  lastOffsetDeltaAt,
  LOG_APPEND_TIME_BIT,
  producerAt,
  producerIdAt,
  recordCountAt,
} from "./batch-header.ts";
import { type ToldProducers, toldProducersAt } from "./producer-records.ts";
import { CONTENT_UNKNOWN } from "./producer-table-codec.ts";

/** Where a batch stands in its producer's sequence, and where it lies in the log. */
export interface SequencedBatch {
  /** -1: no producer. Below: as `forgottenAsId`. */
  readonly producerId: number;
  readonly producerEpoch: number;
  readonly baseSequence: number;
  readonly baseOffset: number;
  /** Inclusive. */
  readonly lastOffset: number;
  /** As in WindowBatch. */
  readonly crc: number;
  /** Of a control batch that speaks of producers; it has none itself. */
  readonly told?: ToldProducers | undefined;
}

/** The batch at `at` has a producer, or may speak of producers: the table observes it. */
export function concernsProducersAt(bytes: Uint8Array, at: number): boolean {
  return producerIdAt(bytes, at) !== NO_ID || isControlBatchAt(bytes, at);
}

const NO_ID = -1;

/**
 * D-15: the producer id of a batch in which compaction put emptied ones together: ids up to this one were forgotten by then, and batches of theirs may
 * have been among them, which nobody else tells of. Below -1, so that no client can say it, and other readers of Kafka's format see no producer.
 */
export const forgottenAsId = (maxId: number): number => (maxId < 0 ? NO_ID : -2 - maxId);

/** As it was given to `forgottenAsId`; -1: the batch says nothing of the kind. */
export const forgottenOfId = (producerId: number): number =>
  producerId < NO_ID && Number.isSafeInteger(-2 - producerId) ? -2 - producerId : -1;

/** The batch at `at`, which is whole. */
export function sequencedAt(bytes: Uint8Array, at: number): SequencedBatch {
  const place = { baseOffset: baseOffsetAt(bytes, at), lastOffset: lastOffsetAt(bytes, at) };
  return { ...producerAt(bytes, at), ...place, crc: contentAt(bytes, at), told: toldProducersAt(bytes, at) };
}

/** Its covered bytes may differ from those that its producer sent: the leader wrote its time into it, or compaction was at it. */
const CHANGED_BITS = LOG_APPEND_TIME_BIT | DELETE_HORIZON_BIT;

/** What tells the content of the batch at `at` from another one's: see WindowBatch. */
export function contentAt(bytes: Uint8Array, at: number): number {
  const isWhole = recordCountAt(bytes, at) === lastOffsetDeltaAt(bytes, at) + 1;
  const isProduced = isWhole && (attributesAt(bytes, at) & CHANGED_BITS) === 0;
  return isProduced || mutant("B-10c") ? crcAt(bytes, at) | 0 : CONTENT_UNKNOWN;
}
