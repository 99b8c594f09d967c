// Where the histories of a cluster lie: one file per life of each process, and what the harness itself knows.
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";

export const historyDirectory = (clusterDirectory: string): string => join(clusterDirectory, "history");

/** In the order in which events of the same moment count. */
export function historyFilesOf(clusterDirectory: string): readonly string[] {
  const directory = historyDirectory(clusterDirectory);
  if (!existsSync(directory)) return [];
  const names = readdirSync(directory).filter((name) => name.endsWith(".jsonl"));
  return names.sort().map((name) => join(directory, name));
}
