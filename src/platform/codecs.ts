// The real Codecs (B-11). Native modules are loaded when first used; only zstd, which has to be started asynchronously, is loaded
// beforehand, and only when it was asked for.
//
// The bomb guard (`maxBytes`), by codec: gzip - zlib stops at the limit; snappy - each block states its size, and its decoder writes no
// more; lz4 - the frame's blocks are bounded, or added up, before decoding; zstd - the result goes into a buffer of at most the limit.
import { createRequire } from "node:module";
import { gunzipSync, gzipSync } from "node:zlib";
import { assertNever } from "../base/assert.ts";
import { concatBytes, readI32, writeU32 } from "../base/bytes.ts";
import { OttlaError } from "../model/errors.ts";
import type { Codecs, CompressionName } from "../ports/codecs.ts";
import { type FrameExtent, lz4Frames, snappyBlockSize, zstdFrames } from "./compressed-size.ts";

const load = createRequire(import.meta.url);

/** The wasm module is one per process, and starting it again while it is in use makes it return garbage. */
const started: { zstd: Promise<void> | undefined } = { zstd: undefined };

export const COMPRESSION_NAMES: readonly CompressionName[] = ["none", "gzip", "snappy", "lz4", "zstd"];

const PIECE_BYTES = 1024;
/** However little they may hold together. */
const PIECES_MIN = 64;

/** Both ways of one codec. */
interface Codec {
  compress(bytes: Uint8Array): Uint8Array;
  decompress(bytes: Uint8Array, maxBytes: number): Uint8Array;
}

/**
 * Codecs for the named compressions, all by default. The others but zstd work too: zstd costs about 10 ms and 1 MiB, which a command
 * that needs none does not pay.
 */
export async function loadCodecs(names: readonly CompressionName[] = COMPRESSION_NAMES): Promise<Codecs> {
  const zstd = names.includes("zstd") ? await loadZstd() : undefined;
  const snappy = once(loadSnappy);
  const lz4 = once(loadLz4);
  const codecOf = (name: CompressionName): Codec => {
    switch (name) {
      case "none":
        return NO_CODEC;
      case "gzip":
        return GZIP;
      case "snappy":
        return snappy();
      case "lz4":
        return lz4();
      case "zstd":
        if (zstd === undefined)
          throw new OttlaError("UNSUPPORTED_COMPRESSION_TYPE", "zstd was not loaded in this process");
        return zstd;
      default:
        return assertNever(name);
    }
  };
  return {
    compress: (name, bytes) => codecOf(name).compress(bytes),
    decompress: (name, bytes, maxBytes) => codecOf(name).decompress(bytes, maxBytes),
  };
}

function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}

function checkSize(sizeBytes: number, maxBytes: number): void {
  if (sizeBytes > maxBytes)
    throw new RangeError(`${sizeBytes} bytes decompressed are more than the ${maxBytes} allowed`);
}

/** Each block or frame is a call into another language, also when nothing is in it; snappy-java's smallest block is of 1 KiB. */
function checkPieces(count: number, maxBytes: number): void {
  const most = PIECES_MIN + maxBytes / PIECE_BYTES;
  if (count > most) throw new RangeError(`${count} blocks or frames are more than the ${Math.floor(most)} allowed`);
}

/** Native code asks for a Buffer: the same bytes, not a copy. */
function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

const NO_CODEC: Codec = {
  compress: (bytes) => bytes,
  decompress: (bytes, maxBytes) => {
    checkSize(bytes.length, maxBytes);
    return bytes;
  },
};

const GZIP: Codec = {
  compress: (bytes) => gzipSync(bytes),
  decompress: (bytes, maxBytes) => gunzipSync(bytes, { maxOutputLength: Math.max(1, maxBytes) }),
};

/** The stream header of snappy-java ("xerial"): magic, version 1, compatible with 1. Blocks with a 32-bit length follow. */
const XERIAL_HEADER = Uint8Array.of(0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0, 0, 0, 0, 1, 0, 0, 0, 1);
const XERIAL_MAGIC_BYTES = 8;
/** Uncompressed bytes of one block, as snappy-java cuts them. */
const XERIAL_BLOCK_BYTES = 32_768;

function loadSnappy(): Codec {
  const { compressSync, uncompressSync } = load("snappy") as typeof import("snappy");
  const openBlock = (block: Uint8Array): Uint8Array => uncompressSync(block, { asBuffer: true }) as Uint8Array;
  return {
    compress(bytes) {
      const parts: Uint8Array[] = [XERIAL_HEADER];
      for (let start = 0; start < bytes.length; start += XERIAL_BLOCK_BYTES) {
        const block = compressSync(bytes.subarray(start, start + XERIAL_BLOCK_BYTES));
        const length = new Uint8Array(4);
        writeU32(length, 0, block.length);
        parts.push(length, block);
      }
      return concatBytes(parts);
    },
    decompress(bytes, maxBytes) {
      const blocks = isXerialHeader(bytes, 0) ? xerialBlocks(bytes) : [bytes];
      checkPieces(blocks.length, maxBytes);
      let sizeBytes = 0;
      for (const block of blocks) sizeBytes += snappyBlockSize(block);
      checkSize(sizeBytes, maxBytes);
      return blocks.length === 1 ? openBlock(blocks[0] as Uint8Array) : concatBytes(blocks.map(openBlock));
    },
  };
}

function isXerialHeader(bytes: Uint8Array, position: number): boolean {
  if (position + XERIAL_HEADER.length > bytes.length) return false;
  for (let at = 0; at < XERIAL_MAGIC_BYTES; at++) if (bytes[position + at] !== XERIAL_HEADER[at]) return false;
  return true;
}

/** Streams may be strung together, so a header may come again where a block's length would. */
function xerialBlocks(bytes: Uint8Array): Uint8Array[] {
  const blocks: Uint8Array[] = [];
  let position = 0;
  while (position < bytes.length) {
    if (isXerialHeader(bytes, position)) {
      position += XERIAL_HEADER.length;
      continue;
    }
    const length = position + 4 <= bytes.length ? readI32(bytes, position) : -1;
    if (length < 0 || position + 4 + length > bytes.length) throw new Error("a snappy block is cut short");
    blocks.push(bytes.subarray(position + 4, position + 4 + length));
    position += 4 + length;
  }
  return blocks;
}

function loadLz4(): Codec {
  const { compressFrameSync, decompressFrameSync } = load("lz4-napi") as typeof import("lz4-napi");
  return {
    compress: (bytes) => compressFrameSync(asBuffer(bytes)),
    decompress(bytes, maxBytes) {
      const rough = lz4Frames(bytes, Number.POSITIVE_INFINITY);
      const frames = sumOf(rough) <= maxBytes ? rough : lz4Frames(bytes, 0);
      checkSize(sumOf(frames), maxBytes);
      checkPieces(frames.length, maxBytes);
      for (const frame of frames) checkSize(frame.statedBytes ?? 0, maxBytes);
      return joinFrames(frames, (frame) => decompressFrameSync(asBuffer(bytes.subarray(frame.start, frame.end))));
    },
  };
}

async function loadZstd(): Promise<Codec> {
  const zstd = load("@bokuweb/zstd-wasm") as typeof import("@bokuweb/zstd-wasm");
  started.zstd ??= zstd.init();
  await started.zstd;
  /** The module makes a buffer of the stated size, or of the one it is given here, and writes no more than that. */
  const openFrame = (frame: FrameExtent, bytes: Uint8Array, maxBytes: number): Uint8Array => {
    checkSize(frame.statedBytes ?? 0, Math.min(maxBytes, ZSTD_RESULT_BYTES_MAX));
    const defaultHeapSize = Math.min(frame.maxBytes, maxBytes, ZSTD_RESULT_BYTES_MAX);
    try {
      return zstd.decompress(asBuffer(bytes.subarray(frame.start, frame.end)), { defaultHeapSize });
    } catch (error) {
      if (String(error).includes(ZSTD_RESULT_TOO_LARGE)) checkSize(frame.statedBytes ?? frame.maxBytes, maxBytes);
      throw error;
    }
  };
  return {
    compress: (bytes) => zstd.compress(asBuffer(bytes), ZSTD_LEVEL),
    decompress(bytes, maxBytes) {
      const frames = zstdFrames(bytes);
      checkPieces(frames.length, maxBytes);
      let leftBytes = maxBytes;
      return joinFrames(frames, (frame) => {
        const opened = openFrame(frame, bytes, leftBytes);
        leftBytes -= opened.length;
        return opened;
      });
    },
  };
}

/** The module's memory ends at 2 GiB, and it does not look whether it got what it asked for. */
const ZSTD_RESULT_BYTES_MAX = 2 ** 30;
/** Kafka's default. */
const ZSTD_LEVEL = 3;
/** ZSTD_error_dstSize_tooSmall. */
const ZSTD_RESULT_TOO_LARGE = "-70";

function sumOf(frames: readonly FrameExtent[]): number {
  let sizeBytes = 0;
  for (const frame of frames) sizeBytes += frame.maxBytes;
  return sizeBytes;
}

function joinFrames(frames: readonly FrameExtent[], open: (frame: FrameExtent) => Uint8Array): Uint8Array {
  return frames.length === 1 ? open(frames[0] as FrameExtent) : concatBytes(frames.map(open));
}
