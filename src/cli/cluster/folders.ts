// Which nodes keep something below a cluster's directory.
import { existsSync, readdirSync } from "node:fs";

/** Ids of the nodes that keep something below this directory, ascending. */
export function nodeFolders(dataDir: string): number[] {
  const names = existsSync(dataDir) ? readdirSync(dataDir) : [];
  const ids = names.flatMap((name) => /^node-(\d{1,5})$/.exec(name)?.[1] ?? []).map(Number);
  return ids.sort((one, other) => one - other);
}
