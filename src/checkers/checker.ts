// What every checker is: it is shown the history event by event, and names the invariant that broke.
import type { HistoryEvent } from "./history.ts";

export interface Violation {
  readonly invariant: number;
  readonly message: string;
}

export interface Checker {
  /** The invariant's number (docs/simulator.md lists them). */
  readonly invariant: number;
  readonly name: string;
  observe(event: HistoryEvent): Violation | undefined;
  /** At the end of the history, once: what only the whole of it shows. */
  conclude?(): Violation | undefined;
}
