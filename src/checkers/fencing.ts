// Invariant 24: from the moment at which a producer with a name is acknowledged, nothing of the name's lives before is appended: their later sends are
// not acknowledged, and in no partition does a record of an earlier life stand above one of a later life.
import { type HistoryEvent, partitionName, type ScanEnded, type SendInvoked } from "./history.ts";
import type { Checker, Violation } from "./checker.ts";

type Named = Pick<SendInvoked, "timeMs"> & NonNullable<SendInvoked["named"]>;

export class FencingChecker implements Checker {
  readonly invariant = 24;
  readonly name = "fencing";
  readonly #open = new Map<number, Named>();
  readonly #lifeOf = new Map<string, NonNullable<SendInvoked["named"]>>();
  /** By name: the latest life that was acknowledged, and when first. */
  readonly #acknowledged = new Map<string, { readonly life: number; readonly timeMs: number }>();

  observe(event: HistoryEvent): Violation | undefined {
    switch (event.type) {
      case "send invoked":
        if (event.named === undefined) return undefined;
        this.#open.set(event.operation, { timeMs: event.timeMs, ...event.named });
        this.#lifeOf.set(event.value, event.named);
        return undefined;
      case "send ok": {
        const send = this.#open.get(event.operation);
        this.#open.delete(event.operation);
        return send === undefined ? undefined : this.#ok(send, event.timeMs);
      }
      case "send failed":
      case "send unknown":
        this.#open.delete(event.operation);
        return undefined;
      case "scan":
        return this.#scan(event);
      default:
        return undefined;
    }
  }

  #ok({ name, life, timeMs: invokedMs }: Named, timeMs: number): Violation | undefined {
    const latest = this.#acknowledged.get(name);
    if (latest === undefined || life > latest.life) this.#acknowledged.set(name, { life, timeMs });
    else if (life < latest.life && invokedMs > latest.timeMs) {
      const message = `life ${life} of ${name} is acknowledged what it sent after life ${latest.life} had been acknowledged`;
      return { invariant: this.invariant, message };
    }
    return undefined;
  }

  #scan(scan: ScanEnded): Violation | undefined {
    const lives = new Map<string, number>();
    for (const { offset, value } of scan.records) {
      const named = this.#lifeOf.get(value);
      if (named === undefined) continue;
      const { name, life } = named;
      const latest = lives.get(name) ?? -1;
      if (life < latest) {
        const message = `${partitionName(scan)} offset ${offset} holds ${value} of life ${life} of ${name}, above a record of life ${latest}`;
        return { invariant: this.invariant, message };
      }
      lives.set(name, life);
    }
    return undefined;
  }
}
