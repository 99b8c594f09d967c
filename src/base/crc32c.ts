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

/** Of polynomials, modulo that of the sums; bits are reversed, as there: the highest is x^0. */
function multiply(left: number, right: number): number {
  let product = 0;
  let term = right;
  for (let rest = left; rest !== 0; rest <<= 1) {
    product ^= term & (rest >> 31);
    term = (term >>> 1) ^ (POLYNOMIAL & -(term & 1));
  }
  return product;
}

/** Four tables of 256 words: table k has x^(8 * byte * 256^k), by which a sum is shifted for that byte of a count of bytes. */
function buildShifts(): Int32Array {
  const shifts = new Int32Array(4 * 256);
  let step = 1 << 23; // x^8
  for (let table = 0; table < shifts.length; table += 256) {
    shifts[table] = 1 << 31;
    for (let byte = 1; byte < 256; byte++) shifts[table + byte] = multiply(shifts[table + byte - 1] as number, step);
    step = multiply(shifts[table + 255] as number, step);
  }
  return shifts;
}

const SHIFTS = buildShifts();

/** What the sum of some bytes adds to that of these and `count` more, below 2^32: sum(first, then second) = sum(second) ^ crc32cShifted(sum(first), length of second). */
export function crc32cShifted(crc: number, count: number): number {
  let shifted = crc;
  for (let left = count, table = 0; left !== 0; left >>>= 8, table += 256)
    if ((left & 0xff) !== 0) shifted = multiply(SHIFTS[table + (left & 0xff)] as number, shifted);
  return shifted >>> 0;
}
