// Where a local cluster keeps everything when nobody says otherwise, relative to the current directory and ignored by git; and words for a
// place there that cannot be used.
import { OttlaError } from "../model/errors.ts";

export const DEFAULT_DATA_DIR = "ottla-data";

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
