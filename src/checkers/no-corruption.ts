// Invariant 19: key, value, headers and timestamp of what is read equal what was sent.
import { type HistoryEvent, partitionName } from "./history.ts";
import type { Checker, Violation } from "./checker.ts";

export class NoCorruptionChecker implements Checker {
  readonly invariant = 19;
  readonly name = "no corruption";
  readonly #sums = new Map<string, { readonly sum: number; readonly place: string }>();

  observe(event: HistoryEvent): Violation | undefined {
    if (event.type === "send invoked") {
      this.#sums.set(event.value, { sum: event.sum, place: partitionName(event) });
      return undefined;
    }
    if (event.type !== "read") return undefined;
    const sent = this.#sums.get(event.value);
    const where = `${partitionName(event)} offset ${event.offset}`;
    if (sent === undefined) return undefined;
    if (sent.place !== partitionName(event))
      return { invariant: this.invariant, message: `${where} holds ${event.value}, sent to ${sent.place}` };
    if (sent.sum !== event.sum)
      return { invariant: this.invariant, message: `${where}: ${event.value} came back changed` };
    return undefined;
  }
}
