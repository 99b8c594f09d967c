// Memory for large reads of segments, used again: a fresh megabyte for each read costs more than the read, in zeros, page faults and collections.
//
// Who takes a buffer owns it until it gives it back; one that is never given back is the collector's, and nothing else is lost.

/** One size, so that any fits any read; longer reads get memory of their own. */
export const READ_BUFFER_BYTES = 1024 * 1024;

/** Kept while nobody uses them: as much as a crowd of readers has in use at once. */
const FREE_MAX = 16;

export interface ReadBuffer {
  /** Of the asked length. Holds what was read before. */
  readonly bytes: Uint8Array;
  /** Once nobody looks at the bytes any more. Another call does nothing. */
  release(): void;
}

export class ReadBuffers {
  readonly #free: Uint8Array[] = [];

  get freeCount(): number {
    return this.#free.length;
  }

  take(sizeBytes: number): ReadBuffer {
    // Whoever keeps a view of less than half of its memory copies it: see `keepable`.
    if (sizeBytes > READ_BUFFER_BYTES || sizeBytes * 2 < READ_BUFFER_BYTES)
      return { bytes: new Uint8Array(sizeBytes), release: () => undefined };
    const whole = this.#free.pop() ?? new Uint8Array(READ_BUFFER_BYTES);
    let isHeld = true;
    const release = (): void => {
      if (isHeld && this.#free.length < FREE_MAX) this.#free.push(whole);
      isHeld = false;
    };
    return { bytes: whole.subarray(0, sizeBytes), release };
  }
}
