// Where a bit of a journal may turn over within the fault atlas: in what a later record of it proves to have been synced (D-11), a record that is
// synced itself, so that no power loss takes it. Rot behind the last such proof cannot be told from a write that the power loss took.
import type { Checksum } from "../ports/checksum.ts";
import { decodeFileHeader, decodeRecord, FILE_HEADER_BYTES, type JournalRecord } from "../storage/journal-record.ts";
import { JOURNAL_DIR, generationOf } from "../storage/paths.ts";
import { DROP_ALL, type DiskImage } from "./disk-image.ts";

export interface Stretch {
  readonly path: string;
  readonly from: number;
  /** Exclusive. */
  readonly to: number;
}

/** Of the newest journal; undefined where nothing is proven. */
export function provenPartOf(image: DiskImage, directory: string, checksum: Checksum): Stretch | undefined {
  const synced = image.clone();
  synced.crash(DROP_ALL);
  const path = synced
    .filesBelow(`${directory}/${JOURNAL_DIR}`)
    .map((file) => file.path)
    .filter((each) => generationOf(each.slice(each.lastIndexOf("/") + 1), "journal") !== undefined)
    .at(-1);
  const file = path === undefined ? undefined : synced.find(path);
  if (path === undefined || file?.kind !== "file") return undefined;
  const ends = chainIn(file.live.view, path, checksum);
  const last = ends.at(-1);
  if (last === undefined) return undefined;
  // The record that proves it must stay whole.
  const to = Math.max(...ends.map(({ end }) => end).filter((end) => end <= Math.min(last.syncedTo, last.start)));
  return to > FILE_HEADER_BYTES ? { path, from: FILE_HEADER_BYTES, to } : undefined;
}

/** The records of the chain: where each is, and how far it says that the file was synced. */
function chainIn(
  bytes: Uint8Array,
  path: string,
  checksum: Checksum,
): { readonly start: number; readonly end: number; readonly syncedTo: number }[] {
  const header = decodeFileHeader(bytes.subarray(0, FILE_HEADER_BYTES), { path, checksum });
  if (header === undefined) return [];
  const found: { start: number; end: number; syncedTo: number }[] = [];
  let before: JournalRecord | undefined;
  for (let start = FILE_HEADER_BYTES; ; ) {
    const record = decodeRecord(bytes, start, { salt: header.salt, checksum });
    if (record === undefined || record.generation !== header.generation) return found;
    if (before !== undefined && (record.prevCrc !== before.crc || record.sequence !== before.sequence + 1))
      return found;
    found.push({ start, end: start + record.sizeBytes, syncedTo: record.syncedTo });
    before = record;
    start += record.sizeBytes;
  }
}
