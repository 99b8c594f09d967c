// Takes a tally event by event. Memory grows with the number of sends (about 300 bytes each), not with reads and scans.
import type { Acks } from "../client/types.ts";
import { GapMeter } from "./gap-meter.ts";
import {
  type HistoryEvent,
  type PartitionName,
  partitionName,
  type ScanEnded,
  type SendEnded,
  type SendInvoked,
} from "./history.ts";
import { exampleOf, LatencyBins, rowOf, totalOf } from "./tally-figures.ts";
import type { Tally, TallyOptions, TallyWindow } from "./tally.ts";
import { endSend, found, foundInFinal, newPartition, newSend, type PartitionSends, type Send } from "./tally-sends.ts";

const EXAMPLES_MAX = 20;

/** Of a topic and a level of acknowledgement, while it is counted. */
export interface OpenRow {
  readonly topic: string;
  readonly acks: Acks;
  readonly sends: Send[];
  readonly gaps: GapMeter;
  readonly partitionGaps: Map<number, Watched>;
  readonly latency: LatencyBins;
  lastMs: number;
}

interface Watched {
  readonly gaps: GapMeter;
  lastMs: number;
}

export class TallyTaker {
  readonly #windows: readonly TallyWindow[];
  readonly #finalFromMs: number | undefined;
  readonly #rows = new Map<string, OpenRow>();
  readonly #partitions = new Map<PartitionName, PartitionSends>();
  readonly #open = new Map<number, Send>();
  readonly #byValue = new Map<string, Send>();
  readonly #strangers = new Set<string>();
  readonly #all: Watched;
  #scans = 0;

  constructor({ windows = [], finalFromMs }: TallyOptions = {}) {
    this.#windows = windows;
    this.#finalFromMs = finalFromMs;
    this.#all = { gaps: new GapMeter(windows), lastMs: 0 };
  }

  observe(event: HistoryEvent): void {
    switch (event.type) {
      case "send invoked":
        this.#invoked(event);
        return;
      case "send ok":
      case "send failed":
      case "send unknown":
        this.#ended(event);
        return;
      case "read":
        this.#read(event.offset, event.value);
        return;
      case "scan":
        this.#scan(event);
        return;
      case "topic deleting":
        this.#forget(event.topic);
        return;
      default:
        return;
    }
  }

  conclude(): Tally {
    const sends = [...this.#rows.values()].flatMap((row) => row.sends);
    const rows = [...this.#rows.values()].map((row) => this.#closed(row)).toSorted(byPlace);
    this.#all.gaps.end(this.#all.lastMs);
    return {
      rows,
      total: totalOf(rows),
      strangers: this.#strangers.size,
      longestGapMs: this.#all.gaps.longestMs,
      longestPartitionGapMs: Math.max(0, ...rows.map((row) => row.longestPartitionGapMs)),
      examples: sends.flatMap(exampleOf).slice(0, EXAMPLES_MAX),
    };
  }

  #invoked(event: SendInvoked): void {
    const partition = this.#partitionOf(event);
    this.#sentAgain(partition);
    const send = newSend(partition, event);
    this.#open.set(event.operation, send);
    this.#byValue.set(event.value, send);
    const row = this.#rowOf(send);
    row.sends.push(send);
    for (const watched of this.#watching(row, event.partition)) {
      watched.gaps.begin(event.timeMs);
      watched.lastMs = event.timeMs;
    }
  }

  #ended(event: SendEnded): void {
    const send = this.#open.get(event.operation);
    if (send === undefined) return;
    this.#open.delete(event.operation);
    this.#sentAgain(send.partition);
    endSend(send, event);
    const row = this.#rowOf(send);
    for (const watched of this.#watching(row, send.partition.partition)) {
      if (send.outcome === "ok") watched.gaps.acknowledged(event.timeMs);
      watched.lastMs = event.timeMs;
    }
    if (send.outcome === "ok") row.latency.add(send.invokedMs, event.timeMs);
  }

  #read(offset: number, value: string): Send | undefined {
    const send = this.#byValue.get(value);
    if (send === undefined) this.#strangers.add(value);
    else found(send, offset);
    return send;
  }

  #scan(scan: ScanEnded): void {
    const number = this.#scans++;
    const partition = this.#partitions.get(partitionName(scan));
    const isFinal = scan.timeMs >= (this.#finalFromMs ?? Number.NEGATIVE_INFINITY);
    if (isFinal) partition?.finals.startOffsets.push(scan.startOffset);
    const highest = new Map<string, number>();
    for (const { offset, value } of scan.records) {
      const send = this.#read(offset, value);
      if (send === undefined || send.inScan === number) continue;
      send.inScan = number;
      if (isFinal) foundInFinal(send, offset);
      const before = highest.get(send.lane) ?? -1;
      if (send.order < before) send.isOutOfOrder = true;
      highest.set(send.lane, Math.max(before, send.order));
    }
  }

  /** Without a time from which scans are final, one is that nothing was sent after. */
  #sentAgain(partition: PartitionSends): void {
    if (this.#finalFromMs !== undefined || partition.finals.startOffsets.length === 0) return;
    partition.finals = { set: partition.finals.set + 1, startOffsets: [] };
  }

  /** Its records are gone because somebody wished it. */
  #forget(topic: string): void {
    for (const [name, partition] of this.#partitions) if (partition.topic === topic) this.#partitions.delete(name);
    for (const row of this.#rows.values()) if (row.topic === topic) row.sends.length = 0;
  }

  #partitionOf(event: SendInvoked): PartitionSends {
    const name = partitionName(event);
    const partition = this.#partitions.get(name) ?? newPartition(event);
    this.#partitions.set(name, partition);
    return partition;
  }

  #rowOf({ partition: { topic }, acks }: Send): OpenRow {
    const key = `${acks} ${topic}`;
    let row = this.#rows.get(key);
    if (row === undefined) {
      const gaps = new GapMeter(this.#windows);
      const latency = new LatencyBins(this.#windows);
      row = { topic, acks, sends: [], gaps, partitionGaps: new Map(), latency, lastMs: 0 };
      this.#rows.set(key, row);
    }
    return row;
  }

  #watching(row: OpenRow, partition: number): readonly Watched[] {
    let ofPartition = row.partitionGaps.get(partition);
    if (ofPartition === undefined) {
      ofPartition = { gaps: new GapMeter(this.#windows), lastMs: 0 };
      row.partitionGaps.set(partition, ofPartition);
    }
    return [this.#all, row, ofPartition];
  }

  #closed(row: OpenRow): Tally["rows"][number] {
    for (const watched of [row, ...row.partitionGaps.values()]) watched.gaps.end(watched.lastMs);
    return rowOf(row);
  }
}

function byPlace(a: Tally["rows"][number], b: Tally["rows"][number]): number {
  if (a.topic !== b.topic) return a.topic < b.topic ? -1 : 1;
  return rank(a.acks) - rank(b.acks);
}

function rank(acks: Acks): number {
  return acks === "all" ? 2 : acks;
}
