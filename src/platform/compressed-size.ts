// How large compressed bytes will become, told from their framing before anything is decompressed: the native decoders take no
// limit. All functions throw an Error for framing that cannot be right; none trusts a size that the bytes state about themselves.

/** Frames one after another, as lz4 and zstd allow. */
export interface FrameExtent {
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
  /** Upper bound of the decompressed size. */
  readonly maxBytes: number;
  /** What the frame itself states, if it does. */
  readonly statedBytes: number | undefined;
}

function readLe(bytes: Uint8Array, position: number, size: number): number {
  if (position + size > bytes.length) throw new Error(`compressed data is cut at byte ${bytes.length}`);
  let value = 0;
  for (let at = size - 1; at >= 0; at--) value = value * 256 + (bytes[position + at] as number);
  return value;
}

/** A frame that decoders skip: 0x184D2A50 to 5F, a size, that many bytes. Shared by lz4 and zstd. */
function skippableEnd(bytes: Uint8Array, position: number, magic: number): number | undefined {
  return magic >= 0x184d2a50 && magic <= 0x184d2a5f ? position + 8 + readLe(bytes, position + 4, 4) : undefined;
}

function readFrames(bytes: Uint8Array, magic: number, readFrame: (start: number) => FrameExtent): FrameExtent[] {
  const frames: FrameExtent[] = [];
  let position = 0;
  while (position < bytes.length) {
    const found = readLe(bytes, position, 4);
    const skipTo = skippableEnd(bytes, position, found);
    if (skipTo === undefined && found !== magic) throw new Error(`no frame at byte ${position} of the compressed data`);
    const frame = skipTo === undefined ? readFrame(position) : undefined;
    if (frame !== undefined) frames.push(frame);
    position = frame?.end ?? (skipTo as number);
  }
  if (position !== bytes.length || frames.length === 0) throw new Error("compressed data is cut short");
  return frames;
}

/** The length that a raw snappy block starts with; its decoder takes it as the size of the result and never writes more. */
export function snappyBlockSize(block: Uint8Array): number {
  let size = 0;
  for (let at = 0; at < 5; at++) {
    const byte = readLe(block, at, 1);
    size += (byte & 0x7f) * 2 ** (7 * at);
    if (byte < 0x80) return size;
  }
  throw new Error("a snappy block has no length");
}

const LZ4_MAGIC = 0x184d2204;
const LZ4_END_MARK = 0;

/**
 * The bound of an lz4 frame is exact where it matters: a block counts with the largest size that its frame allows (64 KiB to 4 MiB),
 * and when a frame's sum passes `limitBytes` its sequences are added up instead.
 */
export function lz4Frames(bytes: Uint8Array, limitBytes: number): FrameExtent[] {
  return readFrames(bytes, LZ4_MAGIC, (start) => {
    const rough = lz4Frame(bytes, start, (block) => block.maxBytes);
    return rough.maxBytes <= limitBytes ? rough : lz4Frame(bytes, start, lz4BlockSize);
  });
}

interface Lz4Block {
  readonly bytes: Uint8Array;
  readonly start: number;
  readonly end: number;
  readonly maxBytes: number;
}

function lz4Frame(bytes: Uint8Array, start: number, sizeOf: (block: Lz4Block) => number): FrameExtent {
  const flags = readLe(bytes, start + 4, 1);
  const blockMaxBytes = 2 ** (8 + 2 * ((readLe(bytes, start + 5, 1) >> 4) & 7));
  if (flags >> 6 !== 1 || blockMaxBytes < 65_536) throw new Error("an lz4 frame header is damaged");
  const hasContentSize = (flags & 0x08) !== 0;
  const statedBytes = hasContentSize ? readLe(bytes, start + 6, 8) : undefined;
  let position = start + 7 + (hasContentSize ? 8 : 0) + ((flags & 0x01) !== 0 ? 4 : 0);
  const blockChecksumBytes = (flags & 0x10) !== 0 ? 4 : 0;
  let maxBytes = 0;
  for (;;) {
    const word = readLe(bytes, position, 4);
    position += 4;
    if (word === LZ4_END_MARK) break;
    const isStored = word >= 0x80000000;
    const end = position + (isStored ? word - 0x80000000 : word);
    if (end + blockChecksumBytes > bytes.length) throw new Error("an lz4 block is cut short");
    maxBytes += isStored ? end - position : sizeOf({ bytes, start: position, end, maxBytes: blockMaxBytes });
    position = end + blockChecksumBytes;
  }
  const end = position + ((flags & 0x04) !== 0 ? 4 : 0);
  return { start, end, maxBytes, statedBytes };
}

/** Adds up the sequences of a block: literals copied, then a match of at least 4. The last one has literals only. */
function lz4BlockSize(block: Lz4Block): number {
  const { bytes, end } = block;
  let position = block.start;
  let sizeBytes = 0;
  const extend = (length: number): number => {
    if (length !== 15) return length;
    let total = length;
    let byte = 255;
    while (byte === 255 && position < end) {
      byte = bytes[position++] as number;
      total += byte;
    }
    return total;
  };
  while (position < end) {
    const token = bytes[position++] as number;
    const literals = extend(token >> 4);
    sizeBytes += literals;
    position += literals;
    if (position >= end) break;
    position += 2; // how far back the match lies
    sizeBytes += extend(token & 15) + 4;
  }
  return sizeBytes;
}

const ZSTD_MAGIC = 0xfd2fb528;
/** No zstd block becomes larger than this (RFC 8878, 3.1.1.2.4). */
const ZSTD_BLOCK_BYTES_MAX = 131_072;

/** The bound of a zstd frame: stored and run-length blocks state their size, a compressed block has at most 128 KiB. */
export function zstdFrames(bytes: Uint8Array): FrameExtent[] {
  return readFrames(bytes, ZSTD_MAGIC, (start) => zstdFrame(bytes, start));
}

function zstdFrame(bytes: Uint8Array, start: number): FrameExtent {
  const descriptor = readLe(bytes, start + 4, 1);
  const isSingleSegment = (descriptor & 0x20) !== 0;
  let position = start + 5 + (isSingleSegment ? 0 : 1) + ([0, 1, 2, 4][descriptor & 3] as number);
  const sizeBytes = [isSingleSegment ? 1 : 0, 2, 4, 8][descriptor >> 6] as number;
  const stated = readLe(bytes, position, sizeBytes) + (sizeBytes === 2 ? 256 : 0);
  position += sizeBytes;
  let maxBytes = 0;
  for (let isLast = false; !isLast; ) {
    const header = readLe(bytes, position, 3);
    isLast = (header & 1) === 1;
    const kind = (header >> 1) & 3;
    const size = header >> 3;
    if (kind === 3) throw new Error("a zstd block is of no known kind");
    maxBytes += kind === 2 ? ZSTD_BLOCK_BYTES_MAX : size;
    position += 3 + (kind === 1 ? 1 : size);
  }
  const end = position + ((descriptor & 0x04) !== 0 ? 4 : 0);
  if (end > bytes.length) throw new Error("a zstd frame is cut short");
  return { start, end, maxBytes, statedBytes: sizeBytes === 0 ? undefined : stated };
}
