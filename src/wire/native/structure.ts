// The check before `unpack` (D-25): walks the raw MessagePack bytes of an envelope and allocates nothing, so that a hostile
// peer gets neither the stack (5 KB of nested arrays overflows msgpackr) nor the heap (1 MiB of empty arrays becomes 41 MB).
import { readI32, readU16, readU32 } from "../../base/bytes.ts";
import { LIMITS } from "./protocol.ts";

const INT64_HIGH_MAX = 0x1fffff;

/** Reused from message to message; one for each assembler. */
export class StructureCheck {
  #bytes: Uint8Array = new Uint8Array(0);
  #end = 0;
  #elementsLeft = 0;
  #fault: string | undefined;

  /** Why the bytes are not exactly one permitted value of at most `elementsMax` array elements in all; undefined when they are. */
  check(bytes: Uint8Array, elementsMax: number): string | undefined {
    this.#bytes = bytes;
    this.#end = bytes.length;
    this.#elementsLeft = elementsMax;
    this.#fault = undefined;
    const position = this.#value(0, 1);
    if (position >= 0 && position !== this.#end) this.#fault = `${this.#end - position} bytes follow the value`;
    return this.#fault;
  }

  /** Position after the value at `position`, or -1. Recursion ends at the permitted depth. */
  #value(position: number, depth: number): number {
    if (position >= this.#end) return this.#fail("the message ends inside a value");
    const token = this.#bytes[position] as number;
    if (token < 0x80 || token >= 0xe0) return position + 1;
    if (token < 0x90) return this.#fail("maps are not allowed");
    if (token < 0xa0) return this.#array(position + 1, { count: token & 0x0f, depth });
    if (token < 0xc0) return this.#skip(position + 1, token & 0x1f);
    return this.#tagged(position, { token, depth });
  }

  #tagged(position: number, { token, depth }: { token: number; depth: number }): number {
    const bytes = this.#bytes;
    switch (token) {
      case 0xc0:
      case 0xc2:
      case 0xc3:
        return position + 1;
      case 0xcc:
      case 0xd0:
        return this.#skip(position + 1, 1);
      case 0xcd:
      case 0xd1:
        return this.#skip(position + 1, 2);
      case 0xce:
      case 0xd2:
        return this.#skip(position + 1, 4);
      case 0xcf:
      case 0xd3:
        return this.#int64(position + 1, token === 0xd3);
      case 0xc4:
      case 0xd9:
        return position + 2 > this.#end ? this.#cut() : this.#skip(position + 2, bytes[position + 1] as number);
      case 0xc5:
      case 0xda:
        return position + 3 > this.#end ? this.#cut() : this.#skip(position + 3, readU16(bytes, position + 1));
      case 0xc6:
      case 0xdb:
        return position + 5 > this.#end ? this.#cut() : this.#skip(position + 5, readU32(bytes, position + 1));
      case 0xdc:
        if (position + 3 > this.#end) return this.#cut();
        return this.#array(position + 3, { count: readU16(bytes, position + 1), depth });
      case 0xdd:
        if (position + 5 > this.#end) return this.#cut();
        return this.#array(position + 5, { count: readU32(bytes, position + 1), depth });
      default:
        return this.#fail(forbidden(token));
    }
  }

  #array(position: number, { count, depth }: { count: number; depth: number }): number {
    if (depth > LIMITS.DEPTH) return this.#fail(`nested deeper than ${LIMITS.DEPTH}`);
    if (count > this.#elementsLeft) return this.#fail("more elements than the request or answer can have");
    if (count > this.#end - position) return this.#cut();
    this.#elementsLeft -= count;
    let next = position;
    for (let index = 0; index < count && next >= 0; index++) next = this.#value(next, depth + 1);
    return next;
  }

  #int64(position: number, signed: boolean): number {
    if (position + 8 > this.#end) return this.#cut();
    const high = signed ? readI32(this.#bytes, position) : readU32(this.#bytes, position);
    const inRange =
      high <= INT64_HIGH_MAX &&
      (high > -INT64_HIGH_MAX - 1 || (high === -INT64_HIGH_MAX - 1 && readU32(this.#bytes, position + 4) > 0));
    return inRange ? position + 8 : this.#fail("an integer beyond 2^53 - 1");
  }

  #skip(position: number, length: number): number {
    return length > this.#end - position ? this.#cut() : position + length;
  }

  #cut(): number {
    return this.#fail("the message ends inside a value");
  }

  #fail(reason: string): number {
    this.#fault = reason;
    return -1;
  }
}

function forbidden(token: number): string {
  if (token === 0xca || token === 0xcb) return "floats are not allowed";
  if (token === 0xde || token === 0xdf) return "maps are not allowed";
  return token === 0xc1 ? "the byte c1 is no MessagePack" : "extension types are not allowed";
}

/**
 * The first three elements of an envelope stand at a fixed place whatever follows, so that a request of an unknown api or
 * version can still be answered by its correlation id.
 */
export class EnvelopeHead {
  api = 0;
  version = 0;
  correlationId = 0;
  #position = 0;

  /** False when the bytes do not begin as an envelope. */
  read(bytes: Uint8Array): boolean {
    const token = bytes[0] ?? 0;
    if (token < 0x93 || token > 0x9f) return false;
    this.#position = 1;
    this.api = this.#uint(bytes);
    this.version = this.#uint(bytes);
    this.correlationId = this.#uint(bytes);
    return this.api >= 0 && this.version >= 0 && this.correlationId >= 0;
  }

  /** The unsigned integer of up to 32 bits at the position, or -1 for good. */
  #uint(bytes: Uint8Array): number {
    const position = this.#position;
    const token = position < 0 || position >= bytes.length ? 0xc1 : (bytes[position] as number);
    const sizeBytes = token < 0x80 ? 0 : token === 0xcc ? 1 : token === 0xcd ? 2 : token === 0xce ? 4 : -1;
    const fits = sizeBytes >= 0 && position + 1 + sizeBytes <= bytes.length;
    this.#position = fits ? position + 1 + sizeBytes : -1;
    if (!fits) return -1;
    if (sizeBytes === 0) return token;
    if (sizeBytes === 1) return bytes[position + 1] as number;
    return sizeBytes === 2 ? readU16(bytes, position + 1) : readU32(bytes, position + 1);
  }
}
