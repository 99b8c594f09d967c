// Compression of record batches (B-11): snappy in xerial framing, lz4 frames, standard gzip and zstd streams.
export type CompressionName = "none" | "gzip" | "snappy" | "lz4" | "zstd";

export interface Codecs {
  compress(codec: CompressionName, bytes: Uint8Array): Uint8Array;
  /** Throws a RangeError when the result would exceed `maxBytes` (bomb guard), any other Error when the bytes are damaged. */
  decompress(codec: CompressionName, bytes: Uint8Array, maxBytes: number): Uint8Array;
}
