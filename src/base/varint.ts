// Zigzag base-128 varints (B-5): 32-bit ones for lengths and deltas, 64-bit ones (as safe integers) for timestamp deltas.

/** What a read gives: the value, and where the next byte is. Kept in one reused object so that a walk allocates nothing. */
export interface VarintCursor {
  value: number;
  position: number;
}

export const VARINT_MAX_BYTES = 5;
export const VARLONG_MAX_BYTES = 10;

/** Bytes that the zigzag varint of a 32-bit integer takes. */
export function varintSize(value: number): number {
  const zigzag = ((value << 1) ^ (value >> 31)) >>> 0;
  if (zigzag < 0x80) return 1;
  if (zigzag < 0x4000) return 2;
  if (zigzag < 0x200000) return 3;
  return zigzag < 0x10000000 ? 4 : 5;
}

/** Writes a 32-bit integer and returns the position after it. */
export function writeVarint(bytes: Uint8Array, position: number, value: number): number {
  let rest = ((value << 1) ^ (value >> 31)) >>> 0;
  let at = position;
  while (rest >= 0x80) {
    bytes[at++] = rest | 0x80;
    rest >>>= 7;
  }
  bytes[at++] = rest;
  return at;
}

/** Reads a 32-bit varint into the cursor; false when it is cut short before `end`, longer than 5 bytes or wider than 32 bits. */
export function readVarint(bytes: Uint8Array, end: number, cursor: VarintCursor): boolean {
  let zigzag = 0;
  let at = cursor.position;
  for (let shift = 0; shift <= 28; shift += 7) {
    if (at >= end) return false;
    const byte = bytes[at++] as number;
    if (shift === 28 && byte > 0x0f) return false;
    zigzag |= (byte & 0x7f) << shift;
    if (byte < 0x80) {
      cursor.value = (zigzag >>> 1) ^ -(zigzag & 1);
      cursor.position = at;
      return true;
    }
  }
  return false;
}

/**
 * The fast way to read a varint of up to four bytes: its zigzag value times 8, plus its size in bytes. -1 when it is longer or runs out of
 * the array; it may run past the caller's own end. It is small enough to be inlined, and keeps a walk's position in a register.
 */
export function peekVarint(bytes: Uint8Array, position: number): number {
  const first = bytes[position] as number;
  if (first < 0x80) return (first << 3) | 1;
  const second = bytes[position + 1] as number;
  if (second < 0x80) return ((first & 0x7f) << 3) | (second << 10) | 2;
  return peekLongVarint(bytes, position);
}

function peekLongVarint(bytes: Uint8Array, position: number): number {
  const low = ((bytes[position] as number) & 0x7f) | (((bytes[position + 1] as number) & 0x7f) << 7);
  const third = bytes[position + 2] as number;
  if (third < 0x80) return ((low | (third << 14)) << 3) | 3;
  const fourth = bytes[position + 3] as number;
  return fourth < 0x80 ? ((low | ((third & 0x7f) << 14) | (fourth << 21)) << 3) | 4 : -1;
}

function zigzagLong(value: number): number {
  return value >= 0 ? value * 2 : -value * 2 - 1;
}

/** Bytes that the zigzag varint of an integer of magnitude below 2^52 takes. */
export function varlongSize(value: number): number {
  if (value >= -0x40000000 && value < 0x40000000) return varintSize(value);
  let zigzag = zigzagLong(value);
  let size = 1;
  while (zigzag >= 0x80) {
    zigzag = Math.floor(zigzag / 128);
    size++;
  }
  return size;
}

/** Writes an integer of magnitude below 2^52 and returns the position after it. */
export function writeVarlong(bytes: Uint8Array, position: number, value: number): number {
  if (value >= -0x40000000 && value < 0x40000000) return writeVarint(bytes, position, value);
  let rest = zigzagLong(value);
  let at = position;
  while (rest >= 0x80) {
    bytes[at++] = (rest % 128) | 0x80;
    rest = Math.floor(rest / 128);
  }
  bytes[at++] = rest;
  return at;
}

/** Reads a varlong into the cursor; false when cut short, longer than 10 bytes or outside +-2^52. */
export function readVarlong(bytes: Uint8Array, end: number, cursor: VarintCursor): boolean {
  let zigzag = 0;
  let factor = 1;
  let at = cursor.position;
  for (let count = 0; count < VARLONG_MAX_BYTES; count++) {
    if (at >= end) return false;
    const byte = bytes[at++] as number;
    zigzag += (byte & 0x7f) * factor;
    if (byte < 0x80) {
      if (zigzag > Number.MAX_SAFE_INTEGER) return false;
      const half = Math.floor(zigzag / 2);
      cursor.value = zigzag % 2 === 0 ? half : -half - 1;
      cursor.position = at;
      return true;
    }
    factor *= 128;
  }
  return false;
}
