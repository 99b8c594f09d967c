// CRC-32C (Castagnoli). Check value: crc32c of the ASCII bytes "123456789" is 0xE3069283.
export interface Checksum {
  /** `seed` is the checksum of the bytes before, so that a run may be summed in pieces; 0 to start. */
  crc32c(bytes: Uint8Array, seed?: number): number;
}
