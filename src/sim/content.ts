// The bytes of a simulated file, copied only when a shared version of them is changed.

export class Content {
  #bytes: Uint8Array;
  #sizeBytes: number;
  #isShared = false;

  constructor(bytes: Uint8Array = new Uint8Array(0)) {
    this.#bytes = bytes;
    this.#sizeBytes = bytes.length;
  }

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** A view, valid until the next change. */
  get view(): Uint8Array {
    return this.#bytes.subarray(0, this.#sizeBytes);
  }

  /** A second version with the same bytes; a change of either leaves the other alone. */
  share(): Content {
    const twin = new Content(this.#bytes);
    twin.#sizeBytes = this.#sizeBytes;
    twin.#isShared = true;
    this.#isShared = true;
    return twin;
  }

  /** Bytes between the old end and `position` read as zeros. */
  write(position: number, bytes: Uint8Array): void {
    this.#own(position + bytes.length);
    this.#bytes.set(bytes, position);
    this.#sizeBytes = Math.max(this.#sizeBytes, position + bytes.length);
  }

  resize(sizeBytes: number): void {
    if (sizeBytes === this.#sizeBytes) return;
    this.#own(sizeBytes);
    if (sizeBytes < this.#sizeBytes) this.#bytes.fill(0, sizeBytes, this.#sizeBytes);
    this.#sizeBytes = sizeBytes;
  }

  /** Makes the bytes changeable and long enough; what lies beyond the size is always zeros. */
  #own(sizeBytes: number): void {
    if (!this.#isShared && sizeBytes <= this.#bytes.length) return;
    const capacity =
      sizeBytes <= this.#bytes.length
        ? this.#bytes.length
        : Math.max(sizeBytes, Math.min(this.#bytes.length * 2, sizeBytes + 65_536), 512);
    const own = new Uint8Array(capacity);
    own.set(this.view);
    this.#bytes = own;
    this.#isShared = false;
  }
}
