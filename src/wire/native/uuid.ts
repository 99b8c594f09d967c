// Uuids between memory (22 characters of base64url) and the wire (16 bytes), by tables: they stand in every produce and fetch
// entry. Same results as uuidFromBytes and uuidToBytes of model/ids.ts.
import type { Uuid } from "../../model/ids.ts";

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const TEXT_LENGTH = 22;
const NO_DIGIT = 0xff;

const CODES = Uint8Array.from(ALPHABET, (character) => character.charCodeAt(0));
const DIGITS = new Uint8Array(128).fill(NO_DIGIT);
for (let digit = 0; digit < CODES.length; digit++) DIGITS[CODES[digit] as number] = digit;

function digitAt(text: string, position: number): number {
  const code = text.charCodeAt(position);
  return code < 128 ? (DIGITS[code] as number) : NO_DIGIT;
}

/** Undefined when the text is not the one text of 16 bytes. */
export function uuidBytesOf(text: string): Uint8Array | undefined {
  if (text.length !== TEXT_LENGTH) return undefined;
  const bytes = new Uint8Array(16);
  let seen = 0;
  let output = 0;
  for (let position = 0; position < 20; position += 4) {
    const a = digitAt(text, position);
    const b = digitAt(text, position + 1);
    const c = digitAt(text, position + 2);
    const d = digitAt(text, position + 3);
    seen |= a | b | c | d;
    bytes[output] = (a << 2) | (b >> 4);
    bytes[output + 1] = (b << 4) | (c >> 2);
    bytes[output + 2] = (c << 6) | d;
    output += 3;
  }
  const first = digitAt(text, 20);
  const last = digitAt(text, 21);
  // The last digit carries two bits only: its lower four must be zero, or two texts would name one uuid.
  if (((seen | first | last) & 0xc0) !== 0 || (last & 0x0f) !== 0) return undefined;
  bytes[15] = (first << 2) | (last >> 4);
  return bytes;
}

/** `bytes` has 16. */
export function uuidTextOf(bytes: Uint8Array): Uuid {
  return (triple(bytes, 0) +
    triple(bytes, 3) +
    triple(bytes, 6) +
    triple(bytes, 9) +
    triple(bytes, 12) +
    tail(bytes)) as Uuid;
}

function triple(bytes: Uint8Array, position: number): string {
  const a = bytes[position] as number;
  const b = bytes[position + 1] as number;
  const c = bytes[position + 2] as number;
  return String.fromCharCode(
    CODES[a >> 2] as number,
    CODES[((a & 3) << 4) | (b >> 4)] as number,
    CODES[((b & 15) << 2) | (c >> 6)] as number,
    CODES[c & 63] as number,
  );
}

function tail(bytes: Uint8Array): string {
  const last = bytes[15] as number;
  return String.fromCharCode(CODES[last >> 2] as number, CODES[(last & 3) << 4] as number);
}
