// The file that holds the producers of a log as they were where it ended (D-15), beside its segments.
import { readI32, readI64, readU16, readU32, writeI64, writeU16, writeU32 } from "../base/bytes.ts";
import { PRODUCERS_MAX } from "../model/producer-table-codec.ts";
import { ProducerTable } from "../model/producer-table.ts";
import type { Checksum } from "../ports/checksum.ts";
import { FileError, type Files } from "../ports/files.ts";
import { readWhole, withFile } from "./file-work.ts";
import { MAGIC } from "./format.ts";

/** 3: with the CRC of each batch. 4: with what was told of producers whose batches are gone. */
const VERSION = 4;
const PREFIX_BYTES = 12;
const HEAD_BYTES = 36;
/** Of a producer with all its batches, and its share of the table's head. */
const PRODUCER_BYTES_MAX = 128;
const FILE_BYTES_MAX = HEAD_BYTES + PRODUCERS_MAX * PRODUCER_BYTES_MAX;

/** The last batch of a log that ends at `endOffset`: a log that has it there has the same records before it (D-15). */
export interface LogTail {
  readonly endOffset: number;
  readonly epoch: number;
  readonly batchCrc: number;
}

export interface ProducerImage extends LogTail {
  readonly logId: number;
  /** As ProducerTable.encode. */
  readonly table: Uint8Array;
}

/** Magic, version, oldest reader, CRC of all that follows; log id, end, epoch and CRC of the batch before it; the table. */
export function encodeProducerImage(image: ProducerImage, checksum: Checksum): Uint8Array {
  const bytes = new Uint8Array(HEAD_BYTES + image.table.length);
  writeU32(bytes, 0, MAGIC.PRODUCERS);
  writeU16(bytes, 4, VERSION);
  writeU16(bytes, 6, VERSION);
  writeI64(bytes, 12, image.logId);
  writeI64(bytes, 20, image.endOffset);
  writeU32(bytes, 28, image.epoch);
  writeU32(bytes, 32, image.batchCrc);
  bytes.set(image.table, HEAD_BYTES);
  writeU32(bytes, 8, checksum.crc32c(bytes.subarray(PREFIX_BYTES)));
  return bytes;
}

/** The reason why it is none, where it is none: no failure, the log itself tells the same. */
export function decodeProducerImage(bytes: Uint8Array, checksum: Checksum): ProducerImage | string {
  if (bytes.length < HEAD_BYTES) return "the file is too short for an image of producers";
  if (readU32(bytes, 0) !== MAGIC.PRODUCERS) return "it does not begin with the magic number";
  if (readU16(bytes, 4) < VERSION) return `it is of version ${readU16(bytes, 4)}, which knows less`;
  if (readU16(bytes, 6) > VERSION) return `it needs a reader of version ${readU16(bytes, 6)} or newer`;
  if (checksum.crc32c(bytes.subarray(PREFIX_BYTES)) !== readU32(bytes, 8)) return "it does not match its checksum";
  return {
    logId: readI64(bytes, 12),
    endOffset: readI64(bytes, 20),
    epoch: readI32(bytes, 28),
    batchCrc: readU32(bytes, 32),
    table: bytes.subarray(HEAD_BYTES),
  };
}

export interface LoadedProducers {
  readonly image: ProducerImage;
  readonly table: ProducerTable;
}

/** A file that is whole, of this log and this end where they are known; or why it is not. */
export async function loadProducerImage(
  deps: { readonly files: Files; readonly checksum: Checksum },
  options: { readonly path: string; readonly logId: number | undefined; readonly endOffset: number | undefined },
): Promise<LoadedProducers | string> {
  const { path, logId } = options;
  const bytes = await readOrReason(deps.files, path);
  if (typeof bytes === "string") return bytes;
  const image = decodeProducerImage(bytes, deps.checksum);
  if (typeof image === "string") return image;
  if (logId !== undefined && image.logId !== logId) return `it is of log ${image.logId}, not ${logId}`;
  const endOffset = options.endOffset ?? image.endOffset;
  if (image.endOffset !== endOffset) return `it is of a log that ends at ${image.endOffset}`;
  const table = ProducerTable.decode(image.table, endOffset);
  return table === undefined ? "what it holds is no table of producers" : { image, table };
}

async function readOrReason(files: Files, path: string): Promise<Uint8Array | string> {
  try {
    return await withFile(files, { path, mode: "read" }, async (handle) => {
      const sizeBytes = await handle.size();
      return sizeBytes > FILE_BYTES_MAX
        ? `${sizeBytes} bytes are too many for an image of producers`
        : readWhole(handle);
    });
  } catch (thrown) {
    if (thrown instanceof FileError) return thrown.message;
    throw thrown;
  }
}
