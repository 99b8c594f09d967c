// Collects small pieces of bytes and writes them to a stream in large chunks, waiting while the reader is slow.
import { once } from "node:events";
import type { ByteSink } from "./format.ts";

const CHUNK_BYTES = 256 * 1024;

export class ByteWriter implements ByteSink {
  readonly #stream: NodeJS.WritableStream;
  #chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  #used = 0;
  #isFull = false;

  constructor(stream: NodeJS.WritableStream) {
    this.#stream = stream;
  }

  byte(value: number): void {
    if (this.#used === CHUNK_BYTES) this.#hand();
    this.#chunk[this.#used++] = value;
  }

  bytes(value: Uint8Array): void {
    if (value.length > CHUNK_BYTES - this.#used) {
      this.#hand();
      if (value.length > CHUNK_BYTES / 2) {
        // Copied: the view may be of a fetch answer that is reused or freed.
        this.#write(Buffer.from(value));
        return;
      }
    }
    this.#chunk.set(value, this.#used);
    this.#used += value.length;
  }

  text(value: string): void {
    this.bytes(Buffer.from(value, "utf8"));
  }

  /** True: wait for `flush` before more is written, so that memory stays bounded. */
  get isFull(): boolean {
    return this.#isFull;
  }

  async flush(): Promise<void> {
    this.#hand();
    if (!this.#isFull) return;
    this.#isFull = false;
    if (this.#stream.writable) await once(this.#stream, "drain");
  }

  #hand(): void {
    if (this.#used === 0) return;
    this.#write(this.#chunk.subarray(0, this.#used));
    this.#chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    this.#used = 0;
  }

  #write(bytes: Uint8Array): void {
    if (!this.#stream.write(bytes)) this.#isFull = true;
  }
}
