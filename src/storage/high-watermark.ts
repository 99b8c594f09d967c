// What a log knows to be committed, and how the journal comes to know it (D-7).
import { EMPTY_BYTES, readI32, readI64, writeI64, writeU32 } from "../base/bytes.ts";
import { mutant } from "../base/mutant.ts";
import type { Offset } from "../model/ids.ts";
import { epochBefore } from "./epochs.ts";
import type { StoredHighWatermark } from "./image.ts";
import type { Damage, EpochEntry } from "./types.ts";

export const ROW_BYTES = 20;
/** Logs in one record; the others go with the next group. */
export const ROWS_MAX = 4096;
const NOT_JOURNALED = -1;

/** The high watermark of one log. */
export class LogHighWatermark {
  offset: Offset;
  /** What the journal says, or is about to. */
  journaled = NOT_JOURNALED;
  /** In the list of those whose rise the journal does not have. */
  isRisen = false;
  /** Of image and journal, until recovery has seen the epochs that it is true of. */
  #stored: StoredHighWatermark;

  constructor(startOffset: Offset, stored: StoredHighWatermark) {
    this.offset = startOffset;
    this.#stored = stored;
  }

  /** False: it stood there already. */
  raise(offset: number): boolean {
    if (offset <= this.offset) return false;
    this.offset = offset as Offset;
    return true;
  }

  /** The log ends at `end` now. */
  cut(end: number): void {
    if (this.offset > end) this.offset = end as Offset;
    if (this.journaled > end) this.journaled = end;
  }

  /** A row of the journal: it counts in place of all before. */
  replay(stored: StoredHighWatermark): void {
    this.#stored = stored;
  }

  /** A TRUNCATE of the journal. */
  replayCut(end: number, epochs: readonly EpochEntry[]): void {
    if (this.#stored.offset > end && !mutant("D-7")) this.#stored = { offset: end, epoch: epochBefore(epochs, end) };
  }

  /** D-7: it is of the records that the log had; if they are not there, or another epoch has that place now, it says nothing. */
  settle(log: {
    readonly startOffset: Offset;
    readonly endOffset: Offset;
    readonly epochs: readonly EpochEntry[];
  }): void {
    const { offset, epoch } = this.#stored;
    const isThere = offset >= log.startOffset && (offset <= log.endOffset || mutant("D-7a"));
    const agrees = epochBefore(log.epochs, offset) === epoch || mutant("D-7");
    this.offset = (isThere && agrees ? offset : log.startOffset) as Offset;
  }
}

/** Of a log whose high watermark rises. */
export interface RisingLog {
  readonly logId: number;
  readonly durableEnd: number;
  readonly epochs: readonly EpochEntry[];
  readonly isDeleted: boolean;
  readonly damage: Damage | undefined;
  readonly mark: LogHighWatermark;
}

/**
 * Logs whose high watermark rose since the journal was told, each once.
 *
 * Bound:     the logs of the store. A record takes ROWS_MAX of them, whose bytes are used again when its write has settled.
 * Invariant: what a record says of a log is durable when it is made: whoever reads the record has read what it is about.
 */
export class RisenHighWatermarks {
  readonly #risen: RisingLog[] = [];
  /** Those of the record being written. */
  readonly #carried: RisingLog[] = [];
  #bytes: Uint8Array = EMPTY_BYTES;
  /** Something rose that no record was made for: worth one of its own when nothing else is written. */
  isFresh = false;

  add(log: RisingLog): void {
    this.isFresh = true;
    if (log.mark.isRisen) return;
    log.mark.isRisen = true;
    this.#risen.push(log);
  }

  /** The body of the record of what rose; `written` or `putBack` must follow before the next. */
  take(): Uint8Array | undefined {
    const risen = this.#risen;
    if (risen.length === 0 || mutant("D-7j")) return undefined;
    let kept = 0;
    for (const log of risen) if (this.#carry(log)) risen[kept++] = log;
    risen.length = kept;
    const sizeBytes = this.#carried.length * ROW_BYTES;
    this.isFresh = this.#carried.length === ROWS_MAX && kept > 0;
    if (sizeBytes === 0) return undefined;
    return this.#bytes.subarray(0, sizeBytes);
  }

  /** True: it has more to tell, later. */
  #carry(log: RisingLog): boolean {
    const { mark } = log;
    if (this.#carried.length === ROWS_MAX) return true;
    if (!log.isDeleted && log.damage === undefined) {
      const offset = mutant("D-7a") ? mark.offset : Math.min(mark.offset, log.durableEnd);
      if (offset > mark.journaled) this.#writeRow(log, offset);
      if (offset < mark.offset) return true;
    }
    mark.isRisen = false;
    return false;
  }

  #writeRow(log: RisingLog, offset: number): void {
    const at = this.#carried.length * ROW_BYTES;
    if (at === this.#bytes.length) {
      const grown = new Uint8Array(Math.min(Math.max(2 * at, 16 * ROW_BYTES), ROWS_MAX * ROW_BYTES));
      grown.set(this.#bytes);
      this.#bytes = grown;
    }
    writeI64(this.#bytes, at, log.logId);
    writeI64(this.#bytes, at + 8, offset);
    writeU32(this.#bytes, at + 16, epochBefore(log.epochs, offset));
    log.mark.journaled = offset;
    this.#carried.push(log);
  }

  written(): void {
    this.#carried.length = 0;
  }

  /** The record was not written: its rows go with the next group, but no group is made for them. */
  putBack(): void {
    const { isFresh } = this;
    for (const log of this.#carried) {
      log.mark.journaled = NOT_JOURNALED;
      this.add(log);
    }
    this.#carried.length = 0;
    this.isFresh = isFresh;
  }
}

/** The rows of a HIGH_WATERMARKS record. */
export function* rowsOf(body: Uint8Array): Iterable<StoredHighWatermark & { readonly logId: number }> {
  for (let at = 0; at + ROW_BYTES <= body.length; at += ROW_BYTES)
    yield { logId: readI64(body, at), offset: readI64(body, at + 8), epoch: readI32(body, at + 16) };
}
