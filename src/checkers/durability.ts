// Invariant 1: a record acknowledged at an offset is returned at that offset, byte-identical, for ever.
// acks=1 too, unless the fault atlas excuses its loss. Of a topic that is compacted a record may be gone (20 says which), not another one in its place.
import type { Acks } from "../client/types.ts";
import type { FaultAtlas } from "./fault-atlas.ts";
import { type HistoryEvent, type PartitionName, partitionName, type ScanEnded, type SendInvoked } from "./history.ts";
import type { Checker, Violation } from "./checker.ts";

interface Acknowledged {
  readonly value: string;
  readonly acks: Acks;
  readonly invokedMs: number;
}

export class DurabilityChecker implements Checker {
  readonly invariant = 1;
  readonly name = "durability";
  readonly #atlas: FaultAtlas;
  readonly #open = new Map<number, SendInvoked>();
  readonly #acknowledged = new Map<PartitionName, Map<number, Acknowledged>>();
  readonly #compacted = new Set<string>();

  constructor(atlas: FaultAtlas) {
    this.#atlas = atlas;
  }

  observe(event: HistoryEvent): Violation | undefined {
    switch (event.type) {
      case "send invoked":
        this.#open.set(event.operation, event);
        return undefined;
      case "send ok": {
        const send = this.#open.get(event.operation);
        this.#open.delete(event.operation);
        return send === undefined || event.offset === undefined ? undefined : this.#acknowledge(send, event.offset);
      }
      case "send failed":
      case "send unknown":
        this.#open.delete(event.operation);
        return undefined;
      case "read": {
        const expected = this.#acknowledged.get(partitionName(event))?.get(event.offset);
        return this.#compare(partitionName(event), event.offset, expected, event.value);
      }
      case "scan":
        return this.#scan(event);
      case "topic compacted":
        this.#compacted.add(event.topic);
        return undefined;
      case "topic deleting":
        for (const name of [...this.#acknowledged.keys()])
          if (name.startsWith(`${event.topic}-`)) this.#acknowledged.delete(name);
        return undefined;
      case "partition lost": {
        const lost = partitionName(event);
        this.#acknowledged.delete(lost);
        for (const [operation, send] of this.#open) if (partitionName(send) === lost) this.#open.delete(operation);
        return undefined;
      }
      default:
        return undefined;
    }
  }

  #acknowledge(send: SendInvoked, offset: number): Violation | undefined {
    const name = partitionName(send);
    const known = this.#partition(name);
    const before = known.get(offset);
    const now: Acknowledged = { value: send.value, acks: send.acks, invokedMs: send.timeMs };
    // What a leader of before takes with acks=1 while its successor commits is as good as lost; what is committed stays.
    const isLost = before?.acks === "all" && now.acks === 1 && before.value !== now.value;
    if (isLost && this.#atlas.excusesLoss({ ...now, partition: name })) return undefined;
    known.set(offset, now);
    return this.#compare(name, offset, before, send.value);
  }

  #partition(name: PartitionName): Map<number, Acknowledged> {
    let known = this.#acknowledged.get(name);
    if (known === undefined) {
      known = new Map();
      this.#acknowledged.set(name, known);
    }
    return known;
  }

  #scan(scan: ScanEnded): Violation | undefined {
    const found = new Map(scan.records.map((record) => [record.offset, record.value]));
    const name = partitionName(scan);
    for (const [offset, expected] of this.#acknowledged.get(name) ?? []) {
      // Compaction takes records from among others, never the end.
      const mayBeGone = this.#compacted.has(scan.topic) && offset < scan.endOffset && !found.has(offset);
      if (offset < scan.startOffset || mayBeGone) continue;
      const violation = this.#compare(name, offset, expected, found.get(offset));
      if (violation !== undefined) return violation;
    }
    return undefined;
  }

  #compare(
    name: PartitionName,
    offset: number,
    expected: Acknowledged | undefined,
    value: string | undefined,
  ): Violation | undefined {
    if (expected === undefined || expected.value === value) return undefined;
    if (this.#atlas.excusesLoss({ ...expected, partition: name })) {
      this.#acknowledged.get(name)?.delete(offset);
      return undefined;
    }
    const message = `${name} offset ${offset}: acknowledged ${expected.value} with acks=${expected.acks}, now ${value ?? "nothing"}`;
    return { invariant: this.invariant, message };
  }
}
