// Invariant 16: what a node reported durable is on its platter. An end that a client was told is a durable end (one replica:
// the high watermark is the durable end), so no later end, told or recovered from what a power loss left, may be below it; nor
// may a start be refused because the data directory is damaged.
import { type HistoryEvent, type PartitionName, partitionName } from "./history.ts";
import type { Checker, Violation } from "./checker.ts";

export class DurableTruthChecker implements Checker {
  readonly invariant = 16;
  readonly name = "no durable lie";
  readonly #told = new Map<PartitionName, number>();
  readonly #sends = new Map<number, PartitionName>();

  observe(event: HistoryEvent): Violation | undefined {
    switch (event.type) {
      case "send invoked":
        if (event.acks === "all") this.#sends.set(event.operation, partitionName(event));
        return undefined;
      case "send ok": {
        const name = this.#sends.get(event.operation);
        this.#sends.delete(event.operation);
        if (name !== undefined && event.offset !== undefined) this.#tell(name, event.offset + 1);
        return undefined;
      }
      case "read":
        this.#tell(partitionName(event), event.highWatermark);
        return undefined;
      case "end":
        return this.#end(event.source, partitionName(event), event.endOffset);
      case "start refused":
        return event.code === "DATA_DAMAGED"
          ? { invariant: this.invariant, message: `${event.node} does not start: ${event.reason}` }
          : undefined;
      case "topic deleting":
        for (const name of [...this.#told.keys()]) if (name.startsWith(`${event.topic}-`)) this.#told.delete(name);
        return undefined;
      default:
        return undefined;
    }
  }

  #tell(name: PartitionName, endOffset: number): void {
    this.#told.set(name, Math.max(this.#told.get(name) ?? 0, endOffset));
  }

  #end(source: "told" | "platter", name: PartitionName, endOffset: number): Violation | undefined {
    const told = this.#told.get(name) ?? 0;
    if (endOffset < told) {
      const message = `${name}: durable up to ${told} was told, ${source === "platter" ? "the platter has" : "now it is"} ${endOffset}`;
      return { invariant: this.invariant, message };
    }
    if (source === "told") this.#tell(name, endOffset);
    return undefined;
  }
}
