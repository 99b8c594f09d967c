// Power loss of a node that is dead: of what it changed and did not sync, some is kept, some dropped, some torn; the rules are those
// of a disk that keeps what was synced and nothing else in any order (as the simulator's disk).
//
//   write, truncate             ->  unsettled until a sync of the file that began after it succeeds
//   create, remove, rename      ->  unsettled until such a sync of the directory
//   after a failed sync         ->  unsettled for good what it should have covered
//
// Not played: the page cache losing, without a power loss, what a failed sync left (the process goes on reading it).
import { createChecksum } from "../../platform/checksum.ts";
import { type Choices, Tally } from "./choices.ts";
import { undoFile } from "./file-undo.ts";
import { rebuild, scanTree, undoNames } from "./name-undo.ts";
import { forgetUndo, readUndo } from "./undo-files.ts";

/** What a power loss did to a data directory. */
export interface PowerLoss {
  /** Operations that no sync had covered. */
  readonly pending: number;
  readonly kept: number;
  readonly dropped: number;
  /** Writes of which a part was kept. */
  readonly torn: number;
  /** What the journal and the disk do not agree about: something changed the files and did not pass the shim. Empty when all is well. */
  readonly problems: readonly string[];
}

export interface PowerLossPaths {
  readonly dataDir: string;
  readonly undoDir: string;
}

/** What is left counts as synced. */
export function losePower(paths: PowerLossPaths, choices: Choices): PowerLoss {
  const tally = new Tally();
  const checksum = createChecksum();
  const undo = readUndo(paths.undoDir, checksum);
  const live = scanTree(paths.dataDir);
  const after = undoNames(live, undo.names, choices, tally);
  const { paths: pathOf, sources } = rebuild({ ...paths, live, after, operations: undo.names });
  for (const inode of undo.files) {
    if (!sources.has(inode)) tally.problems.push(`inode ${inode}: was written, and is gone without a removal`);
    const path = pathOf.get(inode);
    // A file that has no name afterwards has no bytes either.
    if (path !== undefined) undoFile({ path, operations: undo.operationsOf(inode), choices, checksum, tally });
  }
  forgetUndo(paths.undoDir);
  const { kept, dropped, torn, problems } = tally;
  return { pending: kept + dropped + torn, kept, dropped, torn, problems };
}
