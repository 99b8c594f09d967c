// Invariants 17, 18, 21 and 23: what is read was sent, by a send that is not known to have failed, and stands at one offset only, the one that
// its sender was told. A numbered batch may be sent again as often as its producer likes (21, 23), any other is not sent again while its outcome
// is unknown (17).
import { type HistoryEvent, partitionName, type SendInvoked } from "./history.ts";
import type { Checker, Violation } from "./checker.ts";

interface Sent {
  readonly partition: string;
  readonly isNumbered: boolean;
  hasFailed: boolean;
  /** Offset that its sender was told. */
  toldAt: number | undefined;
  /** At which it was read. */
  readAt: number | undefined;
}

export class NoPhantomChecker implements Checker {
  readonly invariant = 18;
  readonly name = "no phantom";
  readonly #byValue = new Map<string, Sent>();
  readonly #byOperation = new Map<number, Sent>();
  /** Nothing is said of them any more. */
  readonly #lost = new Set<string>();

  observe(event: HistoryEvent): Violation | undefined {
    switch (event.type) {
      case "send invoked":
        this.#invoked(event);
        return undefined;
      case "send ok":
      case "send repeated":
        return event.offset === undefined ? undefined : this.#told(event.operation, event.offset);
      case "send failed": {
        const sent = this.#byOperation.get(event.operation);
        if (sent === undefined) return undefined;
        sent.hasFailed = true;
        return sent.readAt === undefined
          ? undefined
          : this.#broken(`${where(sent, sent.readAt)} holds a record whose send failed: ${event.reason ?? ""}`);
      }
      case "read":
        return this.#read(partitionName(event), event.offset, event.value);
      case "partition lost":
        this.#lost.add(partitionName(event));
        return undefined;
      default:
        return undefined;
    }
  }

  #invoked(event: SendInvoked): void {
    const isNumbered = event.isNumbered === true;
    const partition = partitionName(event);
    const sent: Sent = { partition, isNumbered, hasFailed: false, toldAt: undefined, readAt: undefined };
    this.#byValue.set(event.value, sent);
    this.#byOperation.set(event.operation, sent);
  }

  #told(operation: number, offset: number): Violation | undefined {
    const sent = this.#byOperation.get(operation);
    if (sent === undefined || this.#lost.has(sent.partition)) return undefined;
    const { toldAt, readAt } = sent;
    sent.toldAt = offset;
    if (toldAt !== undefined && toldAt !== offset)
      return {
        invariant: 23,
        message: `a batch of ${sent.partition} was answered with ${toldAt}, then with ${offset}`,
      };
    return readAt === undefined || readAt === offset ? undefined : elsewhere(sent, readAt);
  }

  #read(partition: string, offset: number, value: string): Violation | undefined {
    const sent = this.#byValue.get(value);
    if (sent === undefined) return this.#broken(`${partition} offset ${offset} holds ${value}, which nobody sent`);
    if (sent.hasFailed) return this.#broken(`${where(sent, offset)} holds ${value}, whose send failed`);
    const { readAt } = sent;
    if (readAt !== undefined && readAt !== offset)
      return {
        invariant: sent.isNumbered ? 21 : 17,
        message: `${value} was read at ${where(sent, readAt)} and at ${offset}`,
      };
    sent.readAt = offset;
    return sent.toldAt === undefined || sent.toldAt === offset ? undefined : elsewhere(sent, offset);
  }

  #broken(message: string): Violation {
    return { invariant: this.invariant, message };
  }
}

function where({ partition }: Sent, offset: number): string {
  return `${partition} offset ${offset}`;
}

/** Twice in the log as well: it was told to be where it was not found. */
function elsewhere(sent: Sent, offset: number): Violation {
  return {
    invariant: sent.isNumbered ? 23 : 17,
    message: `${where(sent, offset)} holds a record that its sender was told to be at ${sent.toldAt}`,
  };
}
