// Where in a journal damage can be told from a torn tail: below a position that a later record says was synced (docs/storage.md, "Journal").
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const HEADER_BYTES = 128;
const RECORD_BYTES = 72;
const MAGIC = "OTLR";
/** In a record. */
const GENERATION_AT = 16;
const SYNCED_TO_AT = 32;
const BODY_LENGTH_AT = 68;

export interface JournalRange {
  readonly path: string;
  /** Bytes of records, all of which a later record says to be synced. */
  readonly from: number;
  readonly to: number;
}

/** Of the journal that has most; throws when none has a record behind a sync. */
export function longJournal(directory: string): JournalRange {
  const ranges = readdirSync(directory)
    .filter((name) => /^\d{10,}\.journal$/.test(name))
    .map((name) => syncedRange(join(directory, name)));
  const best = ranges.toSorted((one, other) => other.to - one.to)[0];
  if (best === undefined || best.to <= best.from) throw new Error(`${directory} has no journal with synced records`);
  return best;
}

/** The file may have older bytes behind its end: those are of another generation. */
function syncedRange(path: string): JournalRange {
  const bytes = readFileSync(path);
  const generation = bytes.length < HEADER_BYTES ? -1n : bytes.readBigInt64BE(12);
  let to = 0;
  for (let at = HEADER_BYTES; at + RECORD_BYTES <= bytes.length; ) {
    const isRecord = bytes.toString("latin1", at, at + 4) === MAGIC;
    if (!isRecord || bytes.readBigInt64BE(at + GENERATION_AT) !== generation) break;
    to = Number(bytes.readBigInt64BE(at + SYNCED_TO_AT));
    at += RECORD_BYTES + bytes.readUInt32BE(at + BODY_LENGTH_AT);
  }
  return { path, from: HEADER_BYTES, to };
}
