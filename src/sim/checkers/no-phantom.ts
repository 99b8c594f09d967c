// Invariants 17 and 18: what is read was sent, by a send that is not known to have failed, and stands at one offset only (no
// producer of this build repeats a batch whose outcome it does not know).
import { type HistoryEvent, partitionName } from "../history.ts";
import type { Checker, Violation } from "./checker.ts";

interface Sent {
  readonly operation: number;
  hasFailed: boolean;
  /** Partition and offset at which it was read. */
  readAt: string | undefined;
}

export class NoPhantomChecker implements Checker {
  readonly invariant = 18;
  readonly name = "no phantom";
  readonly #byValue = new Map<string, Sent>();
  readonly #byOperation = new Map<number, Sent>();

  observe(event: HistoryEvent): Violation | undefined {
    switch (event.type) {
      case "send invoked": {
        const sent: Sent = { operation: event.operation, hasFailed: false, readAt: undefined };
        this.#byValue.set(event.value, sent);
        this.#byOperation.set(event.operation, sent);
        return undefined;
      }
      case "send failed": {
        const sent = this.#byOperation.get(event.operation);
        if (sent === undefined) return undefined;
        sent.hasFailed = true;
        return sent.readAt === undefined
          ? undefined
          : this.#broken(`${sent.readAt} holds a record whose send failed: ${event.reason ?? ""}`);
      }
      case "read":
        return this.#read(`${partitionName(event)} offset ${event.offset}`, event.value);
      default:
        return undefined;
    }
  }

  #read(where: string, value: string): Violation | undefined {
    const sent = this.#byValue.get(value);
    if (sent === undefined) return this.#broken(`${where} holds ${value}, which nobody sent`);
    if (sent.hasFailed) return this.#broken(`${where} holds ${value}, whose send failed`);
    if (sent.readAt !== undefined && sent.readAt !== where) {
      return { invariant: 17, message: `${value} was read at ${sent.readAt} and at ${where}` };
    }
    sent.readAt = where;
    return undefined;
  }

  #broken(message: string): Violation {
    return { invariant: this.invariant, message };
  }
}
