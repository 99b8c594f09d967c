// Invariant 11: no read at or above the high watermark, none below what was asked for.
import { type HistoryEvent, partitionName } from "./history.ts";
import type { Checker, Violation } from "./checker.ts";

export class ReadBoundsChecker implements Checker {
  readonly invariant = 11;
  readonly name = "read bounds";

  observe(event: HistoryEvent): Violation | undefined {
    if (event.type !== "read") return undefined;
    const where = `${partitionName(event)} offset ${event.offset}`;
    if (event.offset >= event.highWatermark) {
      return {
        invariant: this.invariant,
        message: `${where} was read with a high watermark of ${event.highWatermark}`,
      };
    }
    if (event.offset < event.fromOffset)
      return { invariant: this.invariant, message: `${where} was read though ${event.fromOffset} was asked for` };
    return undefined;
  }
}
