// Walks the record batches of a file from a batch's start on, with large reads, checking each against its CRC.
import { baseOffsetAt, batchSizeAt, checkStoredBatch, lastOffsetAt } from "../model/record-batch.ts";
import type { Checksum } from "../ports/checksum.ts";
import type { FileHandle } from "../ports/files.ts";

const READ_BYTES = 256 * 1024;
/** Bytes that tell a batch's length. */
const LENGTH_BYTES = 12;

/** One batch under the eyes of a walk; `bytes` is used again after the visit. */
export interface ScannedBatch {
  readonly bytes: Uint8Array;
  /** Where the batch starts in `bytes`. */
  readonly at: number;
  /** Where it starts in the file. */
  readonly position: number;
  readonly sizeBytes: number;
  readonly base: number;
  readonly last: number;
}

/** Where a walk stopped: "end" at the end of its range or because the visitor said so. */
export interface ScanEnd {
  readonly kind: "end" | "incomplete" | "corrupt";
  readonly position: number;
  readonly reason: string;
}

/** Visits every batch in [from, end); a visit that returns false ends the walk. */
export async function scanBatches(
  handle: Pick<FileHandle, "read">,
  options: {
    readonly from: number;
    readonly end: number;
    readonly checksum: Checksum;
    readonly visit: (batch: ScannedBatch) => boolean;
  },
): Promise<ScanEnd> {
  const { end, checksum, visit } = options;
  let position = options.from;
  let buffer = new Uint8Array(Math.min(READ_BYTES, Math.max(end - position, 0)));
  while (position < end) {
    const wanted = buffer.subarray(0, Math.min(buffer.length, end - position));
    const length = await handle.read(position, wanted);
    const filled = wanted.subarray(0, length);
    const step = visitBuffer(filled, { position, checksum, visit });
    if (step.kind !== "more") return { kind: step.kind, position: position + step.used, reason: step.reason };
    position += step.used;
    if (step.used > 0) continue;
    if (length < wanted.length || position + length >= end)
      return { kind: "incomplete", position, reason: "the file ends inside a batch" };
    const claimed = length >= LENGTH_BYTES ? batchSizeAt(filled, 0) : READ_BYTES;
    if (claimed > end - position) return { kind: "incomplete", position, reason: "the batch reaches past the end" };
    buffer = new Uint8Array(Math.max(claimed, READ_BYTES));
  }
  return { kind: "end", position, reason: "" };
}

interface Step {
  readonly kind: "more" | "end" | "corrupt";
  readonly used: number;
  readonly reason: string;
}

function visitBuffer(
  bytes: Uint8Array,
  options: { position: number; checksum: Checksum; visit: (batch: ScannedBatch) => boolean },
): Step {
  let used = 0;
  while (used < bytes.length) {
    const check = checkStoredBatch(bytes, used, { end: bytes.length, checksum: options.checksum });
    if (check.kind === "incomplete") break;
    if (check.kind === "corrupt") return { kind: "corrupt", used, reason: check.reason };
    const batch: ScannedBatch = {
      bytes,
      at: used,
      position: options.position + used,
      sizeBytes: check.sizeBytes,
      base: baseOffsetAt(bytes, used),
      last: lastOffsetAt(bytes, used),
    };
    if (!options.visit(batch)) return { kind: "end", used, reason: "" };
    used += check.sizeBytes;
  }
  return { kind: "more", used, reason: "" };
}
