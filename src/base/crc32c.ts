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
