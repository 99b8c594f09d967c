// Where a local cluster keeps everything when nobody says otherwise, relative to the current directory and ignored by git; and words for a
// place there that cannot be used.
import { statSync } from "node:fs";
import { resolve } from "node:path";
import { OttlaError } from "../model/errors.ts";
import { UsageError } from "./values.ts";

export const DEFAULT_DATA_DIR = "ottla-data";

/** Of a local cluster: what the flag says, else OTTLA_DATA_DIR, which counts as not set when it is empty, else the cluster file. */
export function clusterDataDir(
  flag: string | undefined,
  environment: NodeJS.ProcessEnv = process.env,
  ofFile?: string,
): string {
  if (flag === "") throw new UsageError("--data-dir takes a directory, not an empty text");
  return resolve(flag ?? (environment["OTTLA_DATA_DIR"] || undefined) ?? ofFile ?? DEFAULT_DATA_DIR);
}

/** False also for what is not there: reading it says so. */
export const isDirectory = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;

/** `cause`: what node:fs said of the path. */
export function unusable(path: string, cause: unknown): OttlaError {
  const code = (cause as NodeJS.ErrnoException).code ?? String(cause);
  if (code === "EEXIST" || code === "ENOTDIR")
    return new OttlaError("DATA_DIR_FOREIGN", `${path} is not a directory`, { cause });
  // Node names a read-only file system ENOENT when it makes parents too.
  const isReadOnly = code === "EROFS" || code === "ENOENT";
  const reason = isReadOnly ? "the file system cannot be written" : code === "EACCES" ? "permission denied" : code;
  return new OttlaError("DATA_DIR_READ_ONLY", `${path}: ${reason}`, { cause });
}
