// What a tally knows of each send, and of each partition: where its record was found, and in how many of the final scans.
import type { Acks } from "../client/types.ts";
import type { SendEnded, SendInvoked } from "./history.ts";

export interface Send {
  readonly partition: PartitionSends;
  readonly acks: Acks;
  readonly process: string;
  /** Its process and level: between batches of different levels no order is promised (D-28). */
  readonly lane: string;
  /** Among the sends of its lane to its partition. */
  readonly order: number;
  readonly invokedMs: number;
  outcome: "ok" | "failed" | "unknown";
  /** That its sender was told. */
  offset: number | undefined;
  /** The first at which it was found. */
  foundAt: number | undefined;
  isDuplicated: boolean;
  isOutOfOrder: boolean;
  /** Number of the scan that it was found in last. */
  inScan: number;
  /** Final scans that hold it where it should be, of the partition's current set. */
  finals: { readonly set: number; readonly count: number };
}

/** Sends go on after a scan that looked like a final one: then a new set begins. */
export interface FinalScans {
  readonly set: number;
  readonly startOffsets: number[];
}

export interface PartitionSends {
  readonly topic: string;
  readonly partition: number;
  readonly sends: Send[];
  /** Sends so far, by lane. */
  readonly orders: Map<string, number>;
  finals: FinalScans;
}

export function newPartition({ topic, partition }: SendInvoked): PartitionSends {
  return { topic, partition, sends: [], orders: new Map(), finals: { set: 0, startOffsets: [] } };
}

export function newSend(partition: PartitionSends, { acks, process, timeMs }: SendInvoked): Send {
  const lane = `${acks} ${process}`;
  const order = partition.orders.get(lane) ?? 0;
  partition.orders.set(lane, order + 1);
  const send: Send = {
    ...{ partition, acks, process, lane, order, invokedMs: timeMs, outcome: "unknown", offset: undefined },
    ...{ foundAt: undefined, isDuplicated: false, isOutOfOrder: false, inScan: -1, finals: { set: 0, count: 0 } },
  };
  partition.sends.push(send);
  return send;
}

export function endSend(send: Send, { type, offset }: SendEnded): void {
  send.outcome = type === "send ok" ? "ok" : type === "send failed" ? "failed" : "unknown";
  send.offset = offset;
}

export function found(send: Send, offset: number): void {
  send.foundAt ??= offset;
  if (send.foundAt !== offset) send.isDuplicated = true;
}

/** A final scan of its partition holds it there. */
export function foundInFinal(send: Send, offset: number): void {
  if (send.offset !== undefined && send.offset !== offset) return;
  const { set } = send.partition.finals;
  send.finals = { set, count: send.finals.set === set ? send.finals.count + 1 : 1 };
}

/** Of one that was acknowledged; undefined: no final scan would show it, for none was made, or its log began above it. */
export function isLost({ offset, finals, partition }: Send): boolean | undefined {
  const { set, startOffsets } = partition.finals;
  const due = startOffsets.filter((startOffset) => offset === undefined || offset >= startOffset).length;
  if (due === 0) return undefined;
  return (finals.set === set ? finals.count : 0) < due;
}
