// Invariant 20, as a client sees it: of each key of a topic that is compacted the last record that was acknowledged is there, or a later one, or the
// key was given up by a record without a value.
import { type HistoryEvent, type PartitionName, partitionName, type ScanEnded, type SendInvoked } from "./history.ts";
import type { Checker, Violation } from "./checker.ts";

interface Last {
  readonly value: string;
  readonly offset: number;
}

interface Partition {
  /** By key: the highest that was acknowledged with acks=all. */
  readonly last: Map<string, Last>;
  /** By key and name: where a record without a value is; infinity: it may be anywhere, or nowhere. */
  readonly tombstones: Map<string, Map<string, number>>;
}

export class CompactionChecker implements Checker {
  readonly invariant = 20;
  readonly name = "last value of each key";
  readonly #open = new Map<number, SendInvoked & { readonly key: string }>();
  readonly #keys = new Map<string, string>();
  readonly #partitions = new Map<PartitionName, Partition>();

  observe(event: HistoryEvent): Violation | undefined {
    switch (event.type) {
      case "send invoked": {
        const { key } = event;
        if (key === undefined) return undefined;
        this.#open.set(event.operation, { ...event, key });
        this.#keys.set(event.value, key);
        if (event.isTombstone === true) this.#tombstonesOf(event, key).set(event.value, Number.POSITIVE_INFINITY);
        return undefined;
      }
      case "send ok":
      case "send failed": {
        const send = this.#open.get(event.operation);
        this.#open.delete(event.operation);
        if (send !== undefined) this.#ended(send, event.type === "send ok" ? event.offset : "nowhere");
        return undefined;
      }
      case "read": {
        const key = this.#keys.get(event.value);
        if (key === undefined) return undefined;
        const tombstones = this.#tombstonesOf(event, key);
        if (tombstones.has(event.value)) tombstones.set(event.value, event.offset);
        return undefined;
      }
      case "scan":
        return this.#scan(event);
      default:
        return undefined;
    }
  }

  #partition(name: PartitionName): Partition {
    const known = this.#partitions.get(name);
    if (known !== undefined) return known;
    const made: Partition = { last: new Map(), tombstones: new Map() };
    this.#partitions.set(name, made);
    return made;
  }

  #tombstonesOf(place: { readonly topic: string; readonly partition: number }, key: string): Map<string, number> {
    const { tombstones } = this.#partition(partitionName(place));
    const known = tombstones.get(key);
    if (known !== undefined) return known;
    const made = new Map<string, number>();
    tombstones.set(key, made);
    return made;
  }

  #ended(send: SendInvoked & { readonly key: string }, offset: number | "nowhere" | undefined): void {
    const { key, value, acks, isTombstone } = send;
    if (isTombstone === true && offset === "nowhere") this.#tombstonesOf(send, key).delete(value);
    if (offset === undefined || offset === "nowhere") return;
    if (isTombstone === true) this.#tombstonesOf(send, key).set(value, offset);
    if (acks !== "all") return;
    const { last } = this.#partition(partitionName(send));
    if ((last.get(key)?.offset ?? -1) < offset) last.set(key, { value, offset });
  }

  #scan(scan: ScanEnded): Violation | undefined {
    const known = this.#partitions.get(partitionName(scan));
    if (known === undefined) return undefined;
    const found = new Map<string, number>();
    for (const { offset, value } of scan.records) {
      const key = this.#keys.get(value);
      if (key !== undefined) found.set(key, offset);
    }
    for (const [key, last] of known.last) {
      const isThere = (found.get(key) ?? -1) >= last.offset;
      const isGivenUp = [...(known.tombstones.get(key)?.values() ?? [])].some((offset) => offset >= last.offset);
      if (isThere || isGivenUp || last.offset < scan.startOffset || last.offset >= scan.endOffset) continue;
      const where = `${partitionName(scan)} [${scan.startOffset}, ${scan.endOffset})`;
      const message = `${where} has nothing of key ${key} from offset ${last.offset} on, where ${last.value} was acknowledged`;
      return { invariant: this.invariant, message };
    }
    return undefined;
  }
}
