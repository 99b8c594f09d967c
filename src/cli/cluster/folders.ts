// Which nodes keep something below a cluster's directory, and where each keeps its data.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { SUPERBLOCK } from "../../storage/paths.ts";
import { unusable } from "../data-dir.ts";
import { stderrLogOf } from "../log-tail.ts";

/** Holds the path of the data of a node whose data.dir is not below its folder. */
export const dataDirNoteOf = (folder: string): string => join(folder, "data-dir");

export const nodeFolder = (dataDir: string, nodeId: number): string => join(dataDir, `node-${nodeId}`);
export const ownDataDir = (folder: string): string => join(folder, "data");
export const nodeLogOf = (folder: string): string => join(folder, "log", "ottla.log");

/** Nothing where there is no such directory. */
export const namesIn = (directory: string): string[] => (existsSync(directory) ? readdirSync(directory) : []);

/** Ids of the nodes that keep something below this directory, ascending. What only has the name of such a folder is none. */
export function nodeFolders(dataDir: string): number[] {
  const ids = namesIn(dataDir)
    .flatMap((name) => /^node-(\d{1,5})$/.exec(name)?.[1] ?? [])
    .map(Number);
  return ids.filter((id) => isOfNode(nodeFolder(dataDir, id))).sort((one, other) => one - other);
}

function isOfNode(folder: string): boolean {
  const log = nodeLogOf(folder);
  const marks = [log, stderrLogOf(log), dataDirNoteOf(folder), join(ownDataDir(folder), SUPERBLOCK)];
  return marks.some((path) => existsSync(path));
}

/** Before it starts: so that whoever wipes it later finds its data. */
export function noteDataDir(logFile: string, dataDir: string): void {
  const folder = dirname(dirname(logFile));
  const note = dataDirNoteOf(folder);
  try {
    if (resolve(dataDir) === ownDataDir(folder)) return rmSync(note, { force: true });
    mkdirSync(folder, { recursive: true });
    writeFileSync(note, `${resolve(dataDir)}\n`);
  } catch (thrown) {
    throw unusable(folder, thrown);
  }
}

/** Where the node of this folder has its data. */
export function dataDirOf(folder: string): string {
  const note = dataDirNoteOf(folder);
  return existsSync(note) ? readFileSync(note, "utf8").trim() : ownDataDir(folder);
}
