// What was sent against what was read, record by record: lost is what was acknowledged and is nowhere.
import type { DoneMessage, ReceivedLane, SentLane, SequenceRange } from "./types.ts";

export interface Loss {
  readonly acknowledged: number;
  readonly lost: number;
  readonly duplicates: number;
  readonly outOfOrder: number;
  /** Partitions whose end was not reached: what is missing there is no loss yet. */
  readonly unread: number;
  /** The first ones, in words. */
  readonly examples: readonly string[];
}

const EXAMPLES_MAX = 5;

export function lossOf(dones: readonly Pick<DoneMessage, "sent" | "received" | "unread">[]): Loss {
  const received = new Map<string, ReceivedLane>();
  for (const lane of dones.flatMap((done) => done.received)) received.set(keyOf(lane), lane);
  const unread = new Set(dones.flatMap((done) => done.unread));
  const examples: string[] = [];
  let lost = 0;
  let acknowledged = 0;
  for (const lane of dones.flatMap((done) => done.sent)) {
    acknowledged += lane.count - sizeOf(lane.failed);
    if (unread.has(lane.partition)) continue;
    for (const [from, to] of missing(lane, received.get(keyOf(lane)))) {
      lost += to - from + 1;
      if (examples.length < EXAMPLES_MAX)
        examples.push(`connection ${lane.connection}, partition ${lane.partition}: records ${from} to ${to}`);
    }
  }
  const lanes = [...received.values()];
  const duplicates = lanes.reduce((sum, lane) => sum + lane.duplicates, 0);
  const outOfOrder = lanes.reduce((sum, lane) => sum + lane.outOfOrder, 0);
  return { acknowledged, lost, duplicates, outOfOrder, unread: unread.size, examples };
}

const keyOf = ({ connection, partition }: { readonly connection: number; readonly partition: number }) =>
  `${connection}/${partition}`;

const sizeOf = (ranges: readonly SequenceRange[]) => ranges.reduce((sum, [from, to]) => sum + to - from + 1, 0);

/** Acknowledged and not received. */
function missing(sent: SentLane, received: ReceivedLane | undefined): SequenceRange[] {
  const next = received?.next ?? 0;
  const absent = [...(received?.gaps ?? [])];
  if (next < sent.count) absent.push([next, sent.count - 1]);
  return absent.flatMap((range) => without(range, sent.failed));
}

/** The range less what is in these, which are in order. */
function without(range: SequenceRange, cut: readonly SequenceRange[]): SequenceRange[] {
  const rest: SequenceRange[] = [];
  let from = range[0];
  for (const [cutFrom, cutTo] of cut) {
    if (cutTo < from) continue;
    if (cutFrom > range[1]) break;
    if (cutFrom > from) rest.push([from, cutFrom - 1]);
    from = cutTo + 1;
  }
  if (from <= range[1]) rest.push([from, range[1]]);
  return rest;
}

export function lossWords({ acknowledged, lost, duplicates, outOfOrder, unread }: Loss): string {
  const rest = unread === 0 ? "" : `, ${unread} partitions not read to their end`;
  return `${acknowledged} records acknowledged, ${lost} lost, ${duplicates} read twice, ${outOfOrder} out of order${rest}`;
}

/** acks 0 promises nothing; that a record is there once and in its place is promised with "all" only. */
export function isDamning({ lost, duplicates, outOfOrder, unread }: Loss, acks: string | null): boolean {
  if (acks === "0") return false;
  return lost > 0 || unread > 0 || (acks === "all" && (duplicates > 0 || outOfOrder > 0));
}
