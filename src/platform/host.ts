// Facts about the machine and the process.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";

/** Where the kernel names no boot id: one per process, so it never equals a stored one and the page cache is never trusted (D-6). */
const UNKNOWN_PREFIX = "unknown-";
const UNKNOWN_BOOT_ID = `${UNKNOWN_PREFIX}${randomUUID()}`;

/** Identifies this boot of the kernel: while it is the same, what processes wrote is still in the page cache. */
export function readBootId(): string {
  try {
    const text = readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
    return text === "" ? UNKNOWN_BOOT_ID : text;
  } catch {
    return UNKNOWN_BOOT_ID;
  }
}

export function isUnknownBootId(bootId: string): boolean {
  return bootId.startsWith(UNKNOWN_PREFIX);
}
