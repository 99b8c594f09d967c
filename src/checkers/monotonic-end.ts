// Invariant 10: the end of a partition as one client is told it (the high watermark that comes with records, the answer to "where does it end")
// never goes back, across changes of the leader too.
import { type HistoryEvent, partitionName } from "./history.ts";
import type { Checker, Violation } from "./checker.ts";

export class MonotonicEndChecker implements Checker {
  readonly invariant = 10;
  readonly name = "monotonic end";
  /** By client and partition: what was told, and when. A question asked before that may be answered with less. */
  readonly #told = new Map<string, { endOffset: number; timeMs: number }>();

  observe(event: HistoryEvent): Violation | undefined {
    if (event.type === "read")
      return this.#tell(event.process, event, { endOffset: event.highWatermark, sinceMs: undefined });
    if (event.type === "latest")
      return this.#tell(event.process, event, { endOffset: event.endOffset, sinceMs: event.invokedMs });
    return undefined;
  }

  #tell(
    process: string,
    at: { readonly topic: string; readonly partition: number; readonly timeMs: number },
    { endOffset, sinceMs }: { readonly endOffset: number; readonly sinceMs: number | undefined },
  ): Violation | undefined {
    const client = process.split(" ")[0] ?? process;
    // Of one consumer: another one of the same client may have been answered earlier and heard later.
    const key = `${sinceMs === undefined ? process : client} ${partitionName(at)}`;
    const before = this.#told.get(key);
    if (before !== undefined && endOffset < before.endOffset && (sinceMs === undefined || before.timeMs < sinceMs)) {
      return {
        invariant: this.invariant,
        message: `${process} was told that ${partitionName(at)} ends at ${before.endOffset}, and now at ${endOffset}`,
      };
    }
    for (const each of new Set([key, `${client} ${partitionName(at)}`])) {
      const known = this.#told.get(each);
      if (known === undefined || endOffset > known.endOffset) this.#told.set(each, { endOffset, timeMs: at.timeMs });
    }
    return undefined;
  }
}
