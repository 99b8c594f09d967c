// Ctrl-C of a command that measures or breaks things: the first one ends in order what is under way, a second one ends the command.
import type { Output } from "./output.ts";
import { endBySignal, onStopSignals, type StopSignal } from "./signals.ts";

export class Interruption {
  readonly #abort = new AbortController();
  readonly #off: () => void;
  /** What ended it; undefined: nothing did. */
  by: StopSignal | undefined;

  /** `says`: told at the first one. */
  constructor(output: Output, says: string) {
    this.#off = onStopSignals({
      onFirst: (signal) => {
        this.by = signal;
        output.note(says);
        this.#abort.abort(new Error(`ended by ${signal}`));
      },
      onAgain: endBySignal,
    });
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Nobody listens any more. */
  close(): void {
    this.#off();
  }
}
