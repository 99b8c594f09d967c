// The values of a load: random bytes, which no codec makes smaller; where they are read again, with a stamp at their head.
import { randomFillSync } from "node:crypto";

/** Connection, sequence, and when it was due. */
export const STAMP_BYTES = 16;
/** Values are slices of one random text at changing places. */
const STORE_BYTES = 1024 * 1024;
/** An odd step, so that neighbours differ. */
const STEP_BYTES = 4099;

export interface Stamp {
  readonly connection: number;
  readonly sequence: number;
  /** The machine's clock. */
  readonly dueMs: number;
}

export class Payload {
  readonly #recordBytes: number;
  readonly #store: Buffer;
  #at = 0;

  constructor(recordBytes: number) {
    this.#recordBytes = recordBytes;
    this.#store = randomFillSync(Buffer.alloc(STORE_BYTES + recordBytes));
  }

  /** Valid until the next call. */
  next(): Buffer {
    this.#at = (this.#at + STEP_BYTES) % STORE_BYTES;
    return this.#store.subarray(this.#at, this.#at + this.#recordBytes);
  }

  stamped({ connection, sequence, dueMs }: Stamp): Buffer {
    const value = this.next();
    value.writeUInt32LE(connection, 0);
    value.writeUInt32LE(sequence, 4);
    value.writeDoubleLE(dueMs, 8);
    return value;
  }
}

export class StampReader {
  connection = 0;
  sequence = 0;
  dueMs = 0;

  /** Its fields are then those of this value. False: it is too short to have a stamp. */
  read(value: Uint8Array | null): boolean {
    if (value === null || value.length < STAMP_BYTES) return false;
    const view = new DataView(value.buffer, value.byteOffset, STAMP_BYTES);
    this.connection = view.getUint32(0, true);
    this.sequence = view.getUint32(4, true);
    this.dueMs = view.getFloat64(8, true);
    return true;
  }
}
