// The baseline of every append figure: `writeSync` of 64 KiB to a new file, the page cache dropped before, nothing synced.
import { rawAppend as append } from "../src/bench/limits.ts";
import { dropPageCache } from "./harness.ts";

export const RAW_APPEND_BYTES = 2 * 1000 * 1000 * 1000;

/** Megabytes (10^6) per second. */
export function rawAppend(directory: string, totalBytes: number = RAW_APPEND_BYTES): number {
  dropPageCache();
  return append(directory, totalBytes);
}
