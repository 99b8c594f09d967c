// Memory and descriptors of a process, as the kernel counts them.
import { readdirSync, readFileSync } from "node:fs";

export interface Usage {
  readonly rssBytes: number;
  readonly descriptors: number;
}

const PAGES = /^VmRSS:\s+(\d+) kB$/m;

/** Undefined: no such process, or no /proc. */
export function usageOf(pid: number): Usage | undefined {
  try {
    const [, kilobytes] = PAGES.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
    return { rssBytes: Number(kilobytes) * 1024, descriptors: readdirSync(`/proc/${pid}/fd`).length };
  } catch {
    return undefined;
  }
}

/**
 * Below this, growth says nothing: a heap is collected when its process finds that worth it (96 MiB), and `tail.cache.bytes` (64 MiB) is filled by a
 * load that lasts, which the steady state is too short for.
 */
const RSS_FLOOR_BYTES = (96 + 64) * 1024 * 1024;
const DESCRIPTORS_FLOOR = 32;
const GROWTH = 1.2;

/** In words: it has not come back to what it was. */
export function grownBeyond(steady: Usage, now: Usage): string | undefined {
  const rssMax = steady.rssBytes * GROWTH + RSS_FLOOR_BYTES;
  if (now.rssBytes > rssMax) return `${mib(now.rssBytes)} of memory, ${mib(steady.rssBytes)} in steady state`;
  const descriptorsMax = steady.descriptors * GROWTH + DESCRIPTORS_FLOOR;
  if (now.descriptors > descriptorsMax) return `${now.descriptors} descriptors, ${steady.descriptors} in steady state`;
  return undefined;
}

const mib = (bytes: number): string => `${Math.round(bytes / 1024 / 1024)} MiB`;
