// The only door to msgpackr, with typed results. Offsets above 2^32 would leave msgpackr as floats, so schemas hand them over
// as bigint, and it writes those as 64-bit integers; on the way back it gives numbers (structure.ts has checked their range).
//
// "msgpackr/pack" is the package without its native reader of strings, which gains nothing on envelopes and costs 15 ms of every start.
// Its types lead nowhere, so it gets those of the whole.
import type * as Msgpackr from "msgpackr";
import * as light from "msgpackr/pack";

/** What an envelope may consist of. */
export type Plain = null | boolean | number | string | Uint8Array | readonly Plain[];
/** The same on its way out: integers beyond 32 bits are bigint. */
export type PlainOut = null | boolean | number | bigint | string | Uint8Array | readonly PlainOut[];

const { Packr, Unpackr } = light as unknown as typeof Msgpackr;
const packer = new Packr({ useRecords: false, variableMapSize: true });
const unpacker = new Unpackr({ useRecords: false, int64AsType: "number" });

/** msgpackr keeps the largest block it ever needed; one longer than this is handed back, or small answers would pin it (D-26). */
const BLOCK_BYTES_MAX = 256 * 1024;
const BLOCK_BYTES = 8 * 1024;

/** The result is nobody else's: msgpackr goes on behind it in its block of memory. */
export function packPlain(value: PlainOut): Uint8Array {
  const packed = packer.pack(value) as Uint8Array;
  if (packed.buffer.byteLength <= BLOCK_BYTES_MAX) return packed;
  packer.useBuffer(copyOf(packed, BLOCK_BYTES));
  return copyOf(packed, packed.length);
}

/** A copy in a store of its own and of the same class: msgpackr wants its blocks to be what the host allocates for it. */
function copyOf(bytes: Uint8Array, length: number): Uint8Array {
  return Uint8Array.prototype.slice.call(bytes, 0, length);
}

/** Only for bytes that passed the check of structure.ts. Bins come out as views. */
export function unpackPlain(bytes: Uint8Array): Plain {
  return unpacker.unpack(bytes) as Plain;
}
