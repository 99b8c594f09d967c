// Damage to a file of a node that is down: what a disk does to bytes that it had stored. Each leaves the file other than it was, or throws.
import { closeSync, fstatSync, ftruncateSync, openSync, readSync, writeSync } from "node:fs";
import type { Rng } from "../../base/rng.ts";

/** "flip": one bit. "zero": a page of zeros. "copy": bytes of one place at another. "cut": the end is gone. */
export const DAMAGE_MODES = ["flip", "zero", "copy", "cut"] as const;
export type DamageMode = (typeof DAMAGE_MODES)[number];

const PAGE_BYTES = 4_096;
/** Places drawn until one differs from what is to be put there. */
const DRAWS = 100;

/** What was done, in words. Only bytes of [from, to) are touched; of a cut, only what is from there on. */
export function damageFile(
  path: string,
  mode: DamageMode,
  { rng, from = 0, to }: { readonly rng: Rng; readonly from?: number; readonly to?: number },
): string {
  const handle = openSync(path, "r+");
  try {
    const sizeBytes = fstatSync(handle).size;
    const end = Math.min(to ?? sizeBytes, sizeBytes);
    if (end <= from) throw new Error(`${path} has no bytes from ${from} to ${end}`);
    return damage(handle, mode, { rng, from, end });
  } finally {
    closeSync(handle);
  }
}

interface Range {
  readonly rng: Rng;
  readonly from: number;
  readonly end: number;
}

function damage(handle: number, mode: DamageMode, range: Range): string {
  const { rng, from, end } = range;
  switch (mode) {
    case "flip":
      return flip(handle, from + rng.below(end - from), rng.below(8));
    case "zero":
      return overwrite(handle, range, (length) => Buffer.alloc(length));
    case "copy":
      return overwrite(handle, range, (length) => read(handle, from + rng.below(end - from), length));
    case "cut": {
      const keptBytes = from + rng.below(end - from);
      ftruncateSync(handle, keptBytes);
      return `cut to ${keptBytes} bytes`;
    }
  }
}

function flip(handle: number, position: number, bit: number): string {
  const byte = read(handle, position, 1);
  byte[0] = (byte[0] ?? 0) ^ (1 << bit);
  writeSync(handle, byte, 0, 1, position);
  return `bit ${bit} of byte ${position} turned over`;
}

/** A page at a place where it makes a difference. */
function overwrite(handle: number, { rng, from, end }: Range, make: (length: number) => Buffer): string {
  for (let draw = 0; draw < DRAWS; draw++) {
    const page = from + PAGE_BYTES * rng.below(Math.ceil((end - from) / PAGE_BYTES));
    const length = Math.min(PAGE_BYTES, end - page);
    const bytes = make(length);
    if (bytes.length === 0 || bytes.equals(read(handle, page, bytes.length))) continue;
    writeSync(handle, bytes, 0, bytes.length, page);
    return `${bytes.length} other bytes at ${page}`;
  }
  throw new Error("no place of it where other bytes would make a difference");
}

/** Fewer at the end of the file. */
function read(handle: number, position: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  return bytes.subarray(0, readSync(handle, bytes, 0, length, position));
}
