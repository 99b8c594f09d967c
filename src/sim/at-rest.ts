// What becomes of a file at rest, with nobody told (D5, D6): bits turn over, a page reads as zeros, the end or the file is gone, a write of another place
// landed here, a write that was told to have been done was not. Where it can, the wrong bytes are whole batches with sums that are right: only who
// knows what belongs there can tell.
import { bytesEqual } from "../base/bytes.ts";
import type { Rng } from "../base/rng.ts";
import { baseOffsetAt, batchSizeAt, BATCH_HEADER_BYTES } from "../model/batch-header.ts";
import { type DiskImage, SECTOR_BYTES } from "./disk-image.ts";

export const AT_REST_KINDS = [
  "bit flip",
  "zero page",
  "truncation",
  "missing file",
  "misdirected write",
  "stale write",
] as const;
export type AtRestKind = (typeof AT_REST_KINDS)[number];

/** What was planted, and how to see whether it is still there. */
export interface Planted {
  readonly kind: AtRestKind;
  readonly path: string;
  readonly from: number;
  /** Exclusive. */
  readonly to: number;
  /** What is there now; empty of a truncation and of a missing file. */
  readonly bad: Uint8Array;
}

const PAGE_BYTES = 4096;
/** Around a single byte, so that nothing else has the same ones by chance. */
const NEIGHBOURS = 12;

interface Place {
  readonly path: string;
  readonly view: Uint8Array;
}

/** Changes the file; undefined: this kind has no effect on it. `others`: files whose bytes may land here. */
export function plantAtRest(
  image: DiskImage,
  path: string,
  { kind, rng, others }: { readonly kind: AtRestKind; readonly rng: Rng; readonly others: readonly string[] },
): Planted | undefined {
  const view = viewOf(image, path);
  if (view === undefined || view.length === 0) return undefined;
  const place = { path, view };
  switch (kind) {
    case "bit flip": {
      const at = rng.below(view.length);
      image.flipBit(path, at, rng.below(8));
      return planted(image, { kind, path, from: Math.max(0, at - NEIGHBOURS), to: at + NEIGHBOURS });
    }
    case "zero page": {
      const from = rng.below(Math.ceil(view.length / PAGE_BYTES)) * PAGE_BYTES;
      return put(image, place, { kind, from, bytes: new Uint8Array(Math.min(PAGE_BYTES, view.length - from)) });
    }
    case "truncation": {
      // Some byte other than zero goes: a hole in place of zeros would be no damage.
      const last = view.findLastIndex((byte) => byte !== 0);
      const [from, to] = [Math.min(rng.below(view.length), Math.max(0, last)), view.length];
      image.cutOff(path, from);
      return { kind, path, from, to, bad: new Uint8Array(0) };
    }
    case "missing file": {
      const to = view.length;
      return image.vanish(path) ? { kind, path, from: 0, to, bad: new Uint8Array(0) } : undefined;
    }
    case "misdirected write":
      return misdirected(image, place, { rng, others });
    case "stale write":
      return stale(image, place, rng);
  }
}

/** Is it as it was planted? Written anew, replaced, or gone where it should not be missing: no. */
export function isStillThere(image: DiskImage, { kind, path, from, to, bad }: Planted): boolean {
  const view = viewOf(image, path);
  if (kind === "missing file") return view === undefined;
  if (view === undefined) return false;
  if (kind === "truncation") return isStillCut(view, from, to);
  return view.length >= from + bad.length && bytesEqual(view.subarray(from, from + bad.length), bad);
}

/** Cut there still, or written behind that end since, over a hole. A file that is shorter is another one, or was cut since: compaction writes less. */
function isStillCut(view: Uint8Array, from: number, to: number): boolean {
  return view.length >= from && view.subarray(from, to).every((byte) => byte === 0);
}

function viewOf(image: DiskImage, path: string): Uint8Array | undefined {
  const node = image.find(path);
  return node?.kind === "file" ? node.live.view : undefined;
}

function planted(image: DiskImage, { kind, path, from, to }: Omit<Planted, "bad">): Planted {
  const bad = viewOf(image, path)?.slice(from, to) ?? new Uint8Array(0);
  return { kind, path, from, to: from + bad.length, bad };
}

/** Undefined: these very bytes are there. */
function put(
  image: DiskImage,
  { path, view }: Place,
  { kind, from, bytes }: { readonly kind: AtRestKind; readonly from: number; readonly bytes: Uint8Array },
): Planted | undefined {
  const to = from + bytes.length;
  if (bytes.length === 0 || to > view.length || bytesEqual(view.subarray(from, to), bytes)) return undefined;
  image.corrupt(path, from, bytes);
  return planted(image, { kind, path, from, to });
}

/** D6: the best that another file has to offer: a batch for a batch, else its head for this one's, else its sectors. */
function misdirected(
  image: DiskImage,
  place: Place,
  { rng, others }: { readonly rng: Rng; readonly others: readonly string[] },
): Planted | undefined {
  const donors = others.filter((path) => path !== place.path);
  if (donors.length === 0) return undefined;
  const kind = "misdirected write";
  const start = rng.below(donors.length);
  for (const isExact of [true, false])
    for (let at = 0; at < donors.length; at++) {
      const donor = viewOf(image, donors[(start + at) % donors.length] ?? "");
      const swap = donor === undefined ? undefined : twinOf(place.view, donor, isExact);
      const done = swap === undefined ? undefined : put(image, place, { kind, ...swap });
      if (done !== undefined) return done;
    }
  const donor = viewOf(image, donors[start] ?? "");
  if (donor === undefined) return undefined;
  const from = rng.below(Math.ceil(place.view.length / SECTOR_BYTES)) * SECTOR_BYTES;
  const room = Math.min(place.view.length, from + PAGE_BYTES, donor.length);
  return put(image, place, { kind, from, bytes: donor.slice(from, Math.max(from, room)) });
}

/**
 * Batches of `donor` that fit where batches of `view` are, from one that has the same base offset on. `isExact`: they end where one of those ends, so
 * that the rest is as it was.
 */
function twinOf(
  view: Uint8Array,
  donor: Uint8Array,
  isExact: boolean,
): { readonly from: number; readonly bytes: Uint8Array } | undefined {
  const places = new Map(batchesIn(view).map((at) => [baseOffsetAt(view, at), at]));
  const own = new Set(places.values()).add(view.length);
  for (const at of batchesIn(donor)) {
    const from = places.get(baseOffsetAt(donor, at));
    if (from === undefined) continue;
    let [length, best] = [0, 0];
    while (at + length + BATCH_HEADER_BYTES <= donor.length) {
      const sizeBytes = batchSizeAt(donor, at + length);
      // The donor may be rotten itself.
      if (sizeBytes < BATCH_HEADER_BYTES) break;
      if (from + length + sizeBytes > view.length || at + length + sizeBytes > donor.length) break;
      length += sizeBytes;
      if (own.has(from + length)) best = length;
    }
    const taken = isExact ? best : length;
    if (taken > 0) return { from, bytes: donor.slice(at, at + taken) };
  }
  return undefined;
}

/** D6: what was there before the file was cut and written anew, or nothing where a batch should be. */
function stale(image: DiskImage, place: Place, rng: Rng): Planted | undefined {
  const kind = "stale write";
  const node = image.find(place.path);
  const before = node?.kind === "file" ? node.before?.view : undefined;
  const common = Math.min(before?.length ?? 0, place.view.length);
  for (let from = 0; before !== undefined && from < common; from += SECTOR_BYTES) {
    const done = put(image, place, { kind, from, bytes: before.slice(from, common) });
    if (done !== undefined) return done;
  }
  const batches = batchesIn(place.view);
  if (batches.length === 0) return undefined;
  const at = rng.below(batches.length);
  const from = batches[at] ?? 0;
  const to = batches[Math.min(batches.length, at + 1 + rng.below(3))] ?? place.view.length;
  return put(image, place, { kind, from, bytes: new Uint8Array(to - from) });
}

/** Positions of whole batches, as far as they follow one another. */
function batchesIn(view: Uint8Array): number[] {
  const found: number[] = [];
  for (let at = 0; at + BATCH_HEADER_BYTES <= view.length; ) {
    const sizeBytes = batchSizeAt(view, at);
    if (sizeBytes < BATCH_HEADER_BYTES || at + sizeBytes > view.length) return found;
    found.push(at);
    at += sizeBytes;
  }
  return found;
}
