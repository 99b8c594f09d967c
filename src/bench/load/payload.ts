// The values of a load: random bytes, which no codec makes smaller; where they are read again, with a stamp at their head.
import { randomFillSync } from "node:crypto";

/** Connection, sequence, and when it was due. */
export const STAMP_BYTES = 16;
/** Values are slices of one random text at so many places: making one costs as much as sending it. */
const SLICES = 256;
/** An odd step, so that neighbours differ. */
const STEP_BYTES = 4099;

export interface Stamp {
  readonly connection: number;
  readonly sequence: number;
  /** The machine's clock. */
  readonly dueMs: number;
}

export class Payload {
  readonly #slices: readonly Buffer[];
  #at = 0;

  constructor(recordBytes: number) {
    const store = randomFillSync(Buffer.alloc(SLICES * STEP_BYTES + recordBytes));
    this.#slices = Array.from({ length: SLICES }, (_, index) =>
      store.subarray(index * STEP_BYTES, index * STEP_BYTES + recordBytes),
    );
  }

  /** Valid until the next call. */
  next(): Buffer {
    this.#at = (this.#at + 1) % SLICES;
    return this.#slices[this.#at] as Buffer;
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
