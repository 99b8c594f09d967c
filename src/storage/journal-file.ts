// Creating a journal file, so that its header is durable before any record of it is written.
//
// A journal that a checkpoint has made superfluous becomes the next one: its blocks are allocated and its pages in memory, so that appends
// and syncs cost a fraction, and a full disk still has a journal (D-18). What it held before can never pass for a record of the new
// file, since each file's CRCs start from a salt of its own and each record names its generation (D-11).
import { readU32 } from "../base/bytes.ts";
import type { DirectoryId } from "../model/ids.ts";
import { datasync, syncDirectory } from "./faults.ts";
import type { JournalFile } from "./journal.ts";
import { encodeFileHeader, FILE_HEADER_BYTES, type JournalFileHeader } from "./journal-record.ts";
import { withFile } from "./file-work.ts";
import { JOURNAL_DIR, join, journalName, SPARE_JOURNAL } from "./paths.ts";
import type { StorageDeps } from "./types.ts";

/** `ended`: the file before, wholly synced. Files without one start a chain of their own. May be called again after it failed. */
export async function createJournalFile(
  deps: Pick<StorageDeps, "files" | "entropy" | "checksum">,
  options: {
    readonly root: string;
    readonly generation: number;
    readonly directoryId: DirectoryId;
    readonly ended: JournalFile | undefined;
  },
): Promise<JournalFile> {
  const { root, generation, directoryId, ended } = options;
  const random = new Uint8Array(4);
  deps.entropy.fill(random);
  const header: JournalFileHeader = {
    generation,
    directoryId,
    salt: readU32(random, 0),
    prevGeneration: ended?.place.generation ?? 0,
    prevCrc: ended?.place.prevCrc ?? 0,
    prevSequence: ended === undefined ? 0 : ended.place.sequence - 1,
    prevLength: ended?.position ?? 0,
  };
  const bytes = encodeFileHeader(header, deps.checksum);
  const directory = join(root, JOURNAL_DIR);
  const [spare, path] = [join(directory, SPARE_JOURNAL), join(directory, journalName(generation))];
  await withFile(deps.files, { path: spare, mode: "open-or-create" }, async (file) => {
    await file.write(0, [bytes]);
    await datasync(file);
  });
  await deps.files.rename(spare, path);
  await syncDirectory(deps.files, directory);
  const handle = await deps.files.open(path, "write");
  const place = {
    generation,
    salt: header.salt,
    sequence: header.prevSequence + 1,
    prevCrc: readU32(bytes, 8),
    syncedTo: FILE_HEADER_BYTES,
  };
  return { handle, place, position: FILE_HEADER_BYTES };
}
