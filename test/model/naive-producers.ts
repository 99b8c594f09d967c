// What a log makes of its producers, computed from the whole log each time: what the table must always be equal to (invariant 25).
import type {
  ProducerView,
  SequenceCheck,
  SequencedBatch,
  SequenceVerdict,
  WindowBatch,
} from "../../src/model/producer-table.ts";

const SEQUENCES = 2 ** 31;

interface Bounds {
  readonly window?: number;
  readonly most?: number;
}

/** By producer id. */
export const naiveProducers = (log: readonly SequencedBatch[], bounds: Bounds = {}): ProducerView[] =>
  naiveState(log, bounds).producers;

interface Known {
  readonly producerId: number;
  readonly producerEpoch: number;
  readonly batches: readonly WindowBatch[];
  readonly carriedOffset: number;
  readonly carriedMs: number;
}

const endOf = ({ batches }: Known): number => batches.at(-1)?.lastOffset ?? -1;
const startOf = ({ batches }: Known): number => batches[0]?.baseOffset ?? -1;

export function naiveState(
  log: readonly SequencedBatch[],
  { window = 5, most = 10_000 }: Bounds = {},
): { readonly producers: ProducerView[]; readonly forgottenMaxId: number } {
  let forgottenMaxId = -1;
  let known: Known[] = [];
  for (const batch of log) {
    const { told, producerId, producerEpoch } = batch;
    if (told?.kind === "expired")
      for (const { producerId: id } of told.producers) {
        forgottenMaxId = Math.max(forgottenMaxId, id);
        known = known.filter((each) => each.producerId !== id);
      }
    if (told?.kind === "carried") {
      const ids = new Set(told.producers.map((each) => each.producerId));
      known = known.filter((each) => endOf(each) >= told.rememberedFrom && !ids.has(each.producerId));
      known = [...known, ...told.producers].toSorted((left, right) => endOf(left) - endOf(right));
      forgottenMaxId = Math.max(forgottenMaxId, told.forgottenMaxId);
    }
    if (producerId < 0) continue;
    const before = known.find((each) => each.producerId === producerId);
    known = known.filter((each) => each !== before);
    if (before === undefined && known.length === most)
      forgottenMaxId = Math.max(forgottenMaxId, known.shift()?.producerId ?? -1);
    const kept = before?.producerEpoch === producerEpoch ? before.batches : [];
    const batches = [...kept, windowOf(batch)].slice(-window);
    const carried = { carriedOffset: before?.carriedOffset ?? -1, carriedMs: before?.carriedMs ?? -1 };
    known.push({ producerId, producerEpoch, batches, ...carried });
  }
  const producers = known
    .map((each) => ({
      ...each,
      carriedOffset: each.carriedOffset > startOf(each) ? each.carriedOffset : -1,
      carriedMs: each.carriedOffset > endOf(each) ? each.carriedMs : -1,
    }))
    .toSorted((left, right) => left.producerId - right.producerId);
  return { producers, forgottenMaxId };
}

function windowOf({ baseSequence, baseOffset, lastOffset, crc }: SequencedBatch): WindowBatch {
  return { baseSequence, baseOffset, lastOffset, crc };
}

export function naiveCheck(log: readonly SequencedBatch[], asked: SequenceCheck, bounds: Bounds = {}): SequenceVerdict {
  const { producers, forgottenMaxId } = naiveState(log, bounds);
  const known = producers.find(({ producerId }) => producerId === asked.producerId);
  if (known === undefined) {
    const isNew = asked.baseSequence === 0 && !(asked.isResent && asked.producerId <= forgottenMaxId);
    return isNew ? { kind: "new" } : { kind: "refused", error: "UNKNOWN_PRODUCER_ID" };
  }
  if (asked.producerEpoch < known.producerEpoch) return { kind: "refused", error: "INVALID_PRODUCER_EPOCH" };
  const last = known.batches.at(-1) as WindowBatch;
  const isHigher = asked.producerEpoch > known.producerEpoch;
  const next = isHigher ? 0 : (last.baseSequence + (last.lastOffset - last.baseOffset) + 1) % SEQUENCES;
  const same = known.batches.find(
    ({ baseSequence, baseOffset, lastOffset }) =>
      !isHigher && baseSequence === asked.baseSequence && lastOffset - baseOffset + 1 === asked.recordCount,
  );
  // B-10: 0 is a content that nobody knows.
  if (same !== undefined && same.crc !== asked.crc && same.crc !== 0)
    return { kind: "refused", error: "SEQUENCE_NUMBER_TAKEN" };
  if (same !== undefined)
    return { kind: "duplicate", baseOffset: same.baseOffset, endOffset: same.baseOffset + asked.recordCount };
  return asked.baseSequence === next ? { kind: "new" } : { kind: "refused", error: "OUT_OF_ORDER_SEQUENCE_NUMBER" };
}
