// CRC-32C (Castagnoli) in plain JavaScript, slicing-by-8: about 1 GB/s. The fallback of platform/checksum.ts and its choice for
// short inputs, where a call into native code costs more than the sum.

const POLYNOMIAL = 0x82f63b78; // reversed

/** Eight tables of 256 words: table k takes a byte that lies k bytes before the end of an 8-byte group. */
function buildTables(): Int32Array {
  const tables = new Int32Array(8 * 256);
  for (let byte = 0; byte < 256; byte++) {
    let crc = byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? POLYNOMIAL : 0);
    tables[byte] = crc;
  }
  for (let at = 256; at < tables.length; at++) {
    const previous = tables[at - 256] as number;
    tables[at] = (previous >>> 8) ^ (tables[previous & 0xff] as number);
  }
  return tables;
}

const TABLES = buildTables();

/** `seed` is the checksum of the bytes before; 0 to start. */
export function crc32cJs(bytes: Uint8Array, seed = 0): number {
  return crc32cWithin(bytes, { from: 0, end: bytes.length }, seed);
}

/** Of a part of the bytes: a view of a few bytes costs more than their sum. */
export function crc32cWithin(
  bytes: Uint8Array,
  part: { readonly from: number; readonly end: number },
  seed: number,
): number {
  const tables = TABLES;
  const { from, end } = part;
  const bulkEnd = end - ((end - from) % 8);
  let crc = ~seed;
  let at = from;
  for (; at < bulkEnd; at += 8) {
    crc ^=
      (bytes[at] as number) |
      ((bytes[at + 1] as number) << 8) |
      ((bytes[at + 2] as number) << 16) |
      ((bytes[at + 3] as number) << 24);
    crc =
      (tables[0x700 + (crc & 0xff)] as number) ^
      (tables[0x600 + ((crc >>> 8) & 0xff)] as number) ^
      (tables[0x500 + ((crc >>> 16) & 0xff)] as number) ^
      (tables[0x400 + (crc >>> 24)] as number) ^
      (tables[0x300 + (bytes[at + 4] as number)] as number) ^
      (tables[0x200 + (bytes[at + 5] as number)] as number) ^
      (tables[0x100 + (bytes[at + 6] as number)] as number) ^
      (tables[bytes[at + 7] as number] as number);
  }
  for (; at < end; at++) crc = (crc >>> 8) ^ (tables[(crc ^ (bytes[at] as number)) & 0xff] as number);
  return ~crc >>> 0;
}

/** Of x, x^2, x^4, x^8, ... modulo the polynomial; bits are reversed, as in the sums: the highest is x^0. */
const POWERS = ((): Int32Array => {
  const powers = new Int32Array(32);
  for (let power = 1 << 30, at = 0; at < powers.length; at++, power = multiply(power, power)) powers[at] = power;
  return powers;
})();

function multiply(left: number, right: number): number {
  let product = 0;
  let term = right;
  for (let bit = 31; bit >= 0; bit--) {
    if ((left >>> bit) & 1) product ^= term;
    term = (term >>> 1) ^ (term & 1 ? POLYNOMIAL : 0);
  }
  return product;
}

/** What the sum of some bytes adds to that of these and `count` more: sum(first, then second) = sum(second) ^ crc32cShifted(sum(first), length of second). */
export function crc32cShifted(crc: number, count: number): number {
  let shifted = crc;
  // A byte is x^8.
  for (let left = count, at = 3; left > 0; left = Math.floor(left / 2), at++)
    if (left % 2 === 1) shifted = multiply(POWERS[at % 32] as number, shifted);
  return shifted >>> 0;
}
