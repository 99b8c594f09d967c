// The undo journal's files: one for each file and directory with operations that no sync has covered, and links to removed files.
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";

/** Links to files whose removal no sync has covered yet. */
export const ATTIC = "attic";

/** All that is on the disk counts as synced from here on. */
export function forgetUndo(undoDir: string): void {
  rmSync(undoDir, { recursive: true, force: true });
  mkdirSync(join(undoDir, ATTIC), { recursive: true });
}
