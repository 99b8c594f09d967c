// What the two indexes of a segment have in common: entries that are only added, but for a cut, a file that has them, and a checksum that an
// image has of them.
import type { Checksum } from "../ports/checksum.ts";

/** What an image says of an index: so many entries, with this CRC-32C over their bytes. The file may have more of them. */
export interface IndexCheck {
  readonly entries: number;
  readonly crc: number;
}

export const NO_ENTRIES: IndexCheck = { entries: 0, crc: 0 };

export abstract class SavedEntries {
  /** So many entries are in the file, and nothing else is; -1: it has to be written whole. */
  savedCount = -1;
  /** They are being written to it. */
  isSaving = false;
  #check = NO_ENTRIES;

  abstract readonly count: number;
  /** Bytes of the entries from this one on. */
  abstract encode(from?: number): Uint8Array;

  check(checksum: Checksum): IndexCheck {
    const known = this.#check;
    if (known.entries !== this.count)
      this.#check = { entries: this.count, crc: checksum.crc32c(this.encode(known.entries), known.crc) };
    return this.#check;
  }

  /** Of those that are in the file. */
  savedCheck(checksum: Checksum): IndexCheck {
    const all = this.encode();
    const bytes = all.subarray(0, (all.length / Math.max(this.count, 1)) * this.savedCount);
    return { entries: this.savedCount, crc: checksum.crc32c(bytes) };
  }

  /** To be called when entries were dropped. */
  protected noteDropped(): void {
    if (this.savedCount > this.count) this.savedCount = -1;
    if (this.#check.entries > this.count) this.#check = NO_ENTRIES;
  }

  /** The entries are those of a file, as this check says. */
  protected noteLoaded(check: IndexCheck, isWholeFile: boolean): void {
    this.#check = check;
    this.savedCount = isWholeFile ? check.entries : -1;
  }
}
