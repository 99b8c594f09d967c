// Follows one direction of a WebSocket connection through the bytes, whatever the chunks, and tells which of them are record batches that lie under their own
// CRC: bodies of messages, behind the first bytes of each batch (base offset, length, epoch), which are not.

/** Opcodes of data frames: continuation and binary. */
const DATA_OPCODES: readonly number[] = [0, 2];
/** Up to and with the magic byte of a batch. */
const BATCH_HEAD_BYTES = 17;
const BATCH_LENGTH_AT = 8;
/** Base offset and the length itself are not counted by it. */
const BEFORE_LENGTH_BYTES = 12;
const BATCH_MAGIC = 2;
/** Envelopes are not looked into: a body of its own is longer than that. */
const BODY_BYTES_MIN = 8 * 1024;
const END_OF_HEAD = 0x0d0a0d0a;

type Where = "http" | "frame head" | "batch head" | "batch" | "other";

export class RecordFrames {
  #where: Where = "http";
  /** The last four bytes of the HTTP head. */
  #tail = 0;
  #head: number[] = [];
  #mask: readonly number[] = [];
  /** Of the frame's payload: bytes to come, and how many came. */
  #payloadLeft = 0;
  #payloadCame = 0;
  #batchHead = Buffer.alloc(BATCH_HEAD_BYTES);
  #batchHeadBytes = 0;
  #batchLeft = 0;

  /** `found` is called with ranges of `bytes` that are under a batch's CRC. */
  take(bytes: Uint8Array, found: (from: number, to: number) => void): void {
    for (let at = 0; at < bytes.length; ) {
      switch (this.#where) {
        case "http":
          at = this.#http(bytes, at);
          break;
        case "frame head":
          this.#frameHead(bytes[at++] ?? 0);
          break;
        case "batch head":
          this.#takeBatchHead(bytes[at++] ?? 0);
          break;
        case "batch":
        case "other":
          at = this.#pass(bytes, at, found);
          break;
      }
    }
  }

  #http(bytes: Uint8Array, from: number): number {
    let at = from;
    while (at < bytes.length) {
      this.#tail = (this.#tail << 8) | (bytes[at++] ?? 0) | 0;
      if (this.#tail !== END_OF_HEAD) continue;
      this.#where = "frame head";
      break;
    }
    return at;
  }

  /** Two bytes, 0, 2 or 8 of the length, 0 or 4 of the mask. */
  #frameHead(byte: number): void {
    this.#head.push(byte);
    const [first = 0, second = 0] = this.#head;
    if (this.#head.length < 2) return;
    const short = second & 0x7f;
    const lengthBytes = short === 126 ? 2 : short === 127 ? 8 : 0;
    const maskBytes = (second & 0x80) === 0 ? 0 : 4;
    if (this.#head.length < 2 + lengthBytes + maskBytes) return;
    const long = this.#head.slice(2, 2 + lengthBytes);
    const length = lengthBytes === 0 ? short : long.reduce((sum, each) => sum * 256 + each, 0);
    this.#mask = this.#head.slice(2 + lengthBytes);
    this.#head = [];
    this.#payloadLeft = length;
    this.#payloadCame = 0;
    this.#batchHeadBytes = 0;
    const isBody = DATA_OPCODES.includes(first & 0x0f) && length > BODY_BYTES_MIN;
    this.#where = length === 0 ? "frame head" : isBody ? "batch head" : "other";
  }

  #takeBatchHead(byte: number): void {
    this.#batchHead[this.#batchHeadBytes++] = byte ^ (this.#mask[this.#payloadCame % 4] ?? 0);
    this.#came(1);
    if (this.#where !== "batch head" || this.#batchHeadBytes < BATCH_HEAD_BYTES) return;
    this.#batchHeadBytes = 0;
    const wholeBytes = BEFORE_LENGTH_BYTES + this.#batchHead.readInt32BE(BATCH_LENGTH_AT);
    const isBatch = this.#batchHead[BATCH_HEAD_BYTES - 1] === BATCH_MAGIC && wholeBytes > BATCH_HEAD_BYTES;
    this.#batchLeft = wholeBytes - BATCH_HEAD_BYTES;
    this.#where = isBatch ? "batch" : "other";
  }

  #pass(bytes: Uint8Array, at: number, found: (from: number, to: number) => void): number {
    const left = this.#where === "batch" ? Math.min(this.#batchLeft, this.#payloadLeft) : this.#payloadLeft;
    const length = Math.min(left, bytes.length - at);
    if (this.#where === "batch") {
      found(at, at + length);
      this.#batchLeft -= length;
      if (this.#batchLeft === 0) this.#where = "batch head";
    }
    this.#came(length);
    return at + length;
  }

  #came(length: number): void {
    this.#payloadCame += length;
    this.#payloadLeft -= length;
    if (this.#payloadLeft === 0) this.#where = "frame head";
  }
}
