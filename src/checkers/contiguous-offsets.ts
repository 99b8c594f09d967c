// Invariant 4: offsets are contiguous: a full re-read has every offset from the start to the end once, in order, and a reader
// that does not seek gets one after the other (29).
import { type HistoryEvent, partitionName } from "./history.ts";
import type { Checker, Violation } from "./checker.ts";

export class ContiguousOffsetsChecker implements Checker {
  readonly invariant = 4;
  readonly name = "contiguous offsets";

  observe(event: HistoryEvent): Violation | undefined {
    if (event.type === "read" && event.afterOffset !== undefined && event.offset !== event.afterOffset + 1) {
      return this.#broken(partitionName(event), event.afterOffset + 1, `${event.process} got ${event.offset}`);
    }
    if (event.type !== "scan") return undefined;
    let expected = event.startOffset;
    for (const record of event.records) {
      if (record.offset !== expected) return this.#broken(partitionName(event), expected, `found ${record.offset}`);
      expected++;
    }
    return expected < event.endOffset
      ? this.#broken(partitionName(event), expected, `the end is ${event.endOffset}`)
      : undefined;
  }

  #broken(name: string, expected: number, found: string): Violation {
    return { invariant: this.invariant, message: `${name}: offset ${expected} is missing, ${found}` };
  }
}
