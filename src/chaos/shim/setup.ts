// Sets a shim up for each node of a cluster: the library compiled once, a control file and an undo directory per node.
import { mkdirSync, realpathSync, statSync } from "node:fs";
import { join } from "node:path";
import { buildShim } from "./build.ts";
import { openControl, type ShimControl } from "./control.ts";
import { forgetUndo } from "./undo-files.ts";

export interface NodeShim {
  readonly env: Readonly<Record<string, string>>;
  readonly control: ShimControl;
}

export interface Shims {
  /** `dataDir` must be there, and mounted if it is to be. */
  nodeFor(nodeId: number, dataDir: string): NodeShim;
}

/** `directory`: for control files and undo journals; journals work where it is on the file system of the data directories. */
export async function prepareShim(directory: string): Promise<Shims> {
  const library = await buildShim();
  return { nodeFor: (nodeId, dataDir) => nodeShim(join(directory, `shim-${nodeId}`), dataDir, library) };
}

function nodeShim(base: string, dataDir: string, library: string): NodeShim {
  mkdirSync(base, { recursive: true });
  const root = realpathSync(dataDir);
  const controlFile = join(realpathSync(base), "control");
  const undoDir = join(realpathSync(base), "undo");
  forgetUndo(undoDir);
  const isSameDisk = statSync(undoDir).dev === statSync(root).dev;
  const noUndo = isSameDisk ? undefined : "its data directory is a file system of its own";
  const control = openControl({ dataDir: root, controlFile, undoDir: isSameDisk ? undoDir : undefined, noUndo });
  const env = {
    LD_PRELOAD: library,
    PRELOAD_SHIM_CONTROL: controlFile,
    PRELOAD_SHIM_ROOT: root,
    ...(isSameDisk ? { PRELOAD_SHIM_UNDO: undoDir } : {}),
    // libuv's io_uring would pass the shim by.
    UV_USE_IO_URING: "0",
  };
  return { env, control };
}
