// Big-endian integers, comparison and text on Uint8Array. 64-bit values travel as numbers: 2^53 - 1 is the limit, checked
// where bytes from outside are read (bigint costs 5 to 40 times more).

const encoder = new TextEncoder();
/** A U+FEFF at the start is part of the text. */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

export const EMPTY_BYTES: Uint8Array = new Uint8Array(0);

export function utf8Encode(text: string): Uint8Array {
  return encoder.encode(text);
}

/** Invalid sequences become U+FFFD: for messages, names and keys of headers, never for what is kept as bytes. */
export function utf8Decode(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}

/** Bytes that `utf8Encode(text)` gives; a lone surrogate takes the 3 of U+FFFD. */
export function utf8Size(text: string): number {
  let size = text.length;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit < 0x80) continue;
    const isPair = (unit & 0xfc00) === 0xd800 && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00;
    if (isPair) at++; // two units, four bytes
    size += unit < 0x800 ? 1 : 2;
  }
  return size;
}

/** Writes the text, for which there must be room, and returns the position after it. */
export function utf8Write(bytes: Uint8Array, position: number, text: string): number {
  return position + encoder.encodeInto(text, bytes.subarray(position)).written;
}

export function readU16(bytes: Uint8Array, position: number): number {
  return ((bytes[position] as number) << 8) | (bytes[position + 1] as number);
}

export function readI16(bytes: Uint8Array, position: number): number {
  return (readU16(bytes, position) << 16) >> 16;
}

export function readI32(bytes: Uint8Array, position: number): number {
  return (
    ((bytes[position] as number) << 24) |
    ((bytes[position + 1] as number) << 16) |
    ((bytes[position + 2] as number) << 8) |
    (bytes[position + 3] as number)
  );
}

export function readU32(bytes: Uint8Array, position: number): number {
  return readI32(bytes, position) >>> 0;
}

/** A signed 64-bit integer as a number. Outside +-2^53 the result is not exact: callers that read foreign bytes check `Number.isSafeInteger`. */
export function readI64(bytes: Uint8Array, position: number): number {
  return readI32(bytes, position) * 0x100000000 + readU32(bytes, position + 4);
}

export function writeU16(bytes: Uint8Array, position: number, value: number): void {
  bytes[position] = value >>> 8;
  bytes[position + 1] = value;
}

export function writeU32(bytes: Uint8Array, position: number, value: number): void {
  bytes[position] = value >>> 24;
  bytes[position + 1] = value >>> 16;
  bytes[position + 2] = value >>> 8;
  bytes[position + 3] = value;
}

/** Writes a safe integer, negative allowed, as a signed 64-bit integer. */
export function writeI64(bytes: Uint8Array, position: number, value: number): void {
  const high = Math.floor(value / 0x100000000);
  writeU32(bytes, position, high);
  writeU32(bytes, position + 4, value - high * 0x100000000);
}

export function bytesEqual(left: Uint8Array, right: Uint8Array): boolean {
  if (left.length !== right.length) return false;
  for (let index = 0; index < left.length; index++) if (left[index] !== right[index]) return false;
  return true;
}

export function concatBytes(parts: readonly Uint8Array[]): Uint8Array {
  let total = 0;
  for (const part of parts) total += part.length;
  return fillWith(new Uint8Array(total), parts);
}

/** The parts one after another from the start of `target`, which must have room for them. */
export function fillWith(target: Uint8Array, parts: readonly Uint8Array[]): Uint8Array {
  let position = 0;
  for (const part of parts) {
    target.set(part, position);
    position += part.length;
  }
  return target;
}

/**
 * A view that is safe to keep: one that covers less than half of its backing store is copied first, since a 100-byte view of
 * a socket chunk would pin all 64 KiB of it (D-26).
 */
export function keepable(view: Uint8Array): Uint8Array {
  return view.byteLength * 2 >= view.buffer.byteLength ? view : new Uint8Array(view);
}
