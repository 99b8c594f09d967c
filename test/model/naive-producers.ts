// What a log makes of its producers, computed from the whole log each time: what the table must always be equal to (invariant 25).
import type { ProducerView, SequenceCheck, SequencedBatch, SequenceVerdict } from "../../src/model/producer-table.ts";

const SEQUENCES = 2 ** 31;

interface Bounds {
  readonly window?: number;
  readonly most?: number;
}

/** By producer id. */
export const naiveProducers = (log: readonly SequencedBatch[], bounds: Bounds = {}): ProducerView[] =>
  naiveState(log, bounds).producers;

export function naiveState(
  log: readonly SequencedBatch[],
  { window = 5, most = 10_000 }: Bounds = {},
): { readonly producers: ProducerView[]; readonly forgottenMaxId: number } {
  let forgottenMaxId = -1;
  const known: { producerId: number; producerEpoch: number; batches: SequencedBatch[] }[] = [];
  for (const batch of log) {
    if (batch.producerId < 0) continue;
    const at = known.findIndex(({ producerId }) => producerId === batch.producerId);
    const before = at < 0 ? undefined : known.splice(at, 1)[0];
    if (before === undefined && known.length === most)
      forgottenMaxId = Math.max(forgottenMaxId, known.shift()?.producerId ?? -1);
    const kept = before?.producerEpoch === batch.producerEpoch ? before.batches : [];
    const { producerId, producerEpoch } = batch;
    known.push({ producerId, producerEpoch, batches: [...kept, batch].slice(-window) });
  }
  const producers = known
    .map(({ producerId, producerEpoch, batches }) => ({
      producerId,
      producerEpoch,
      batches: batches.map(({ baseSequence, baseOffset, lastOffset, crc }) => ({
        baseSequence,
        baseOffset,
        lastOffset,
        crc,
      })),
    }))
    .toSorted((left, right) => left.producerId - right.producerId);
  return { producers, forgottenMaxId };
}

export function naiveCheck(log: readonly SequencedBatch[], asked: SequenceCheck, bounds: Bounds = {}): SequenceVerdict {
  const { producers, forgottenMaxId } = naiveState(log, bounds);
  const known = producers.find(({ producerId }) => producerId === asked.producerId);
  if (known === undefined) {
    const isNew = asked.baseSequence === 0 && !(asked.isResent && asked.producerId <= forgottenMaxId);
    return isNew ? { kind: "new" } : { kind: "refused", error: "UNKNOWN_PRODUCER_ID" };
  }
  if (asked.producerEpoch < known.producerEpoch) return { kind: "refused", error: "INVALID_PRODUCER_EPOCH" };
  const last = known.batches.at(-1) as SequencedBatch;
  const isHigher = asked.producerEpoch > known.producerEpoch;
  const next = isHigher ? 0 : (last.baseSequence + (last.lastOffset - last.baseOffset) + 1) % SEQUENCES;
  const same = known.batches.find(
    ({ baseSequence, baseOffset, lastOffset }) =>
      !isHigher && baseSequence === asked.baseSequence && lastOffset - baseOffset + 1 === asked.recordCount,
  );
  if (same !== undefined && same.crc !== asked.crc) return { kind: "refused", error: "SEQUENCE_NUMBER_TAKEN" };
  if (same !== undefined)
    return { kind: "duplicate", baseOffset: same.baseOffset, endOffset: same.baseOffset + asked.recordCount };
  return asked.baseSequence === next ? { kind: "new" } : { kind: "refused", error: "OUT_OF_ORDER_SEQUENCE_NUMBER" };
}
