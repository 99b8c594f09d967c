// Invariant 22: the numbered records of one process stand in a partition in the order in which it sent them, over retries, new leaders and new epochs.
import { type HistoryEvent, type PartitionName, partitionName, type RecordRead, type ScanEnded } from "./history.ts";
import type { Checker, Violation } from "./checker.ts";

interface Place {
  readonly process: string;
  /** Among the sends of its process to its partition. */
  readonly order: number;
}

/** By process: the last one that was seen. */
type Seen = Map<string, { readonly order: number; readonly value: string }>;

export class SendOrderChecker implements Checker {
  readonly invariant = 22;
  readonly name = "send order";
  readonly #places = new Map<string, Place>();
  readonly #sent = new Map<string, number>();
  /** By reader and partition. */
  readonly #readers = new Map<string, Seen>();

  observe(event: HistoryEvent): Violation | undefined {
    switch (event.type) {
      case "send invoked": {
        if (event.isNumbered !== true) return undefined;
        const { process, value } = event;
        const key = `${process} ${partitionName(event)}`;
        const order = this.#sent.get(key) ?? 0;
        this.#sent.set(key, order + 1);
        this.#places.set(value, { process, order });
        return undefined;
      }
      case "read":
        return this.#read(event);
      case "scan":
        return this.#scan(event);
      default:
        return undefined;
    }
  }

  #read(event: RecordRead): Violation | undefined {
    const key = `${event.process} ${partitionName(event)}`;
    let seen = this.#readers.get(key);
    if (seen === undefined || event.afterOffset === undefined) {
      seen = new Map();
      this.#readers.set(key, seen);
    }
    return this.#next(seen, event.value, { partition: partitionName(event), offset: event.offset });
  }

  #scan(scan: ScanEnded): Violation | undefined {
    const seen: Seen = new Map();
    const partition = partitionName(scan);
    for (const { offset, value } of scan.records) {
      const violation = this.#next(seen, value, { partition, offset });
      if (violation !== undefined) return violation;
    }
    return undefined;
  }

  #next(
    seen: Seen,
    value: string,
    at: { readonly partition: PartitionName; readonly offset: number },
  ): Violation | undefined {
    const place = this.#places.get(value);
    if (place === undefined) return undefined;
    const { process, order } = place;
    const last = seen.get(process);
    if (last !== undefined && order < last.order) {
      const message = `${at.partition} offset ${at.offset} holds ${value}, sent before ${last.value}, which stands below it`;
      return { invariant: this.invariant, message };
    }
    seen.set(process, { order, value });
    return undefined;
  }
}
