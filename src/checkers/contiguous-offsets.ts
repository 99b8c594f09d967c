// Invariant 4: offsets are contiguous: a full re-read has every offset from the start to the end once, in order, and a reader
// that does not seek gets one after the other (29). Missing may be only what readers are not given (control batches) and, in a topic that is compacted,
// what compaction took: what stays is in order there, too.
import { type HistoryEvent, type PartitionName, partitionName, type ScanEnded } from "./history.ts";
import type { Checker, Violation } from "./checker.ts";

export class ContiguousOffsetsChecker implements Checker {
  readonly invariant = 4;
  readonly name = "contiguous offsets";
  readonly #compacted = new Set<string>();
  /** Offsets of control batches, in any epoch. */
  readonly #hidden = new Map<PartitionName, Set<number>>();

  observe(event: HistoryEvent): Violation | undefined {
    switch (event.type) {
      case "topic compacted":
        this.#compacted.add(event.topic);
        return undefined;
      case "control": {
        const name = partitionName(event);
        const hidden = this.#hidden.get(name) ?? new Set();
        this.#hidden.set(name, hidden);
        for (let offset = event.offset; offset <= event.lastOffset; offset++) hidden.add(offset);
        return undefined;
      }
      case "read": {
        if (event.afterOffset === undefined) return undefined;
        const missing = this.#missing(event, { from: event.afterOffset + 1, to: event.offset });
        return missing === undefined
          ? undefined
          : this.#broken(partitionName(event), missing, `${event.process} got ${event.offset}`);
      }
      case "scan":
        return this.#scan(event);
      default:
        return undefined;
    }
  }

  #scan(scan: ScanEnded): Violation | undefined {
    let next = scan.startOffset;
    for (const { offset } of scan.records) {
      const missing = this.#missing(scan, { from: next, to: offset });
      if (missing !== undefined) return this.#broken(partitionName(scan), missing, `found ${offset}`);
      next = offset + 1;
    }
    if (next >= scan.endOffset) return undefined;
    const missing = this.#missing(scan, { from: next, to: scan.endOffset });
    return missing === undefined
      ? undefined
      : this.#broken(partitionName(scan), missing, `the end is ${scan.endOffset}`);
  }

  /** The first of them that should have been read; also where `to` lies before `from`. */
  #missing(
    place: { readonly topic: string; readonly partition: number },
    { from, to }: { readonly from: number; readonly to: number },
  ): number | undefined {
    if (to < from) return from;
    if (this.#compacted.has(place.topic)) return undefined;
    const hidden = this.#hidden.get(partitionName(place));
    for (let offset = from; offset < to; offset++) if (hidden?.has(offset) !== true) return offset;
    return undefined;
  }

  #broken(name: string, expected: number, found: string): Violation {
    return { invariant: this.invariant, message: `${name}: offset ${expected} is missing, ${found}` };
  }
}
