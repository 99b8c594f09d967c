// Cuts a stream of bytes at line feeds. A line longer than the limit is thrown away while it streams by, never held whole.

export interface LineVisitor {
  /** The bytes of a line without its LF; a view that is valid until the visitor returns. A promise holds the splitter back. */
  onLine(line: Uint8Array, lineNumber: number): Promise<void> | undefined;
  onTooLong(lineNumber: number, sizeBytes: number): void;
}

export class LineSplitter {
  readonly #limitBytes: number;
  readonly #visitor: LineVisitor;
  /** Pieces of a line that began in earlier chunks; empty while a long line is being thrown away. */
  #carried: Uint8Array[] = [];
  #carriedBytes = 0;
  #lineNumber = 1;

  constructor(limitBytes: number, visitor: LineVisitor) {
    this.#limitBytes = limitBytes;
    this.#visitor = visitor;
  }

  /** Hands out the lines that end in the chunk. The chunk may be reused after that. */
  async push(chunk: Uint8Array): Promise<void> {
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      const wait = this.#endLine(chunk, start, end);
      start = end + 1;
      if (wait !== undefined) await wait;
    }
    if (start < chunk.length) this.#carry(chunk.subarray(start));
  }

  /** A last line without LF counts. */
  async end(): Promise<void> {
    if (this.#carriedBytes > 0) await this.#endLine(new Uint8Array(0), 0, 0);
  }

  #endLine(chunk: Uint8Array, start: number, end: number): Promise<void> | undefined {
    const lineNumber = this.#lineNumber++;
    const sizeBytes = this.#carriedBytes + end - start;
    if (sizeBytes > this.#limitBytes) {
      this.#forget();
      this.#visitor.onTooLong(lineNumber, sizeBytes);
      return undefined;
    }
    if (this.#carriedBytes === 0) return this.#visitor.onLine(chunk.subarray(start, end), lineNumber);
    const line = Buffer.concat([...this.#carried, chunk.subarray(start, end)], sizeBytes);
    this.#forget();
    return this.#visitor.onLine(line, lineNumber);
  }

  #carry(piece: Uint8Array): void {
    this.#carriedBytes += piece.length;
    // Copied, so that the chunk is free; nothing is kept of a line that is already too long.
    if (this.#carriedBytes <= this.#limitBytes) this.#carried.push(Uint8Array.prototype.slice.call(piece));
    else this.#carried = [];
  }

  #forget(): void {
    this.#carried = [];
    this.#carriedBytes = 0;
  }
}
