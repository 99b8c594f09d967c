// The baseline of every append figure: `writeSync` of 64 KiB to a new file, the page cache dropped before, nothing synced.
import { closeSync, openSync, unlinkSync, writeSync } from "node:fs";
import { randomFillSync } from "node:crypto";
import { join } from "node:path";
import { dropPageCache } from "./harness.ts";

const CHUNK_BYTES = 64 * 1024;
export const RAW_APPEND_BYTES = 2 * 1000 * 1000 * 1000;

/** Megabytes (10^6) per second. */
export function rawAppend(directory: string, totalBytes: number = RAW_APPEND_BYTES): number {
  dropPageCache();
  const path = join(directory, "raw-append.bin");
  const chunk = randomFillSync(Buffer.alloc(CHUNK_BYTES));
  const file = openSync(path, "wx");
  try {
    const startedAt = performance.now();
    for (let position = 0; position < totalBytes; position += CHUNK_BYTES)
      writeSync(file, chunk, 0, CHUNK_BYTES, position);
    return totalBytes / 1000 / (performance.now() - startedAt);
  } finally {
    closeSync(file);
    unlinkSync(path);
  }
}
