// Writes a file that is there whole or as it was: what goes wrong on the way leaves the one of before.
import { closeSync, lstatSync, openSync, renameSync, rmSync, writeFileSync } from "node:fs";

/** `write` gets a descriptor; what it throws is thrown on. What is no plain file (a link, as /dev/stdout is; a pipe) is written to as it stands. */
export function replaceFile(path: string, write: (fd: number) => void): void {
  const isPlain = lstatSync(path, { throwIfNoEntry: false })?.isFile() ?? true;
  const target = isPlain ? `${path}.new` : path;
  const fd = openSync(target, "w");
  try {
    write(fd);
  } catch (thrown) {
    closeSync(fd);
    if (isPlain) rmSync(target, { force: true });
    throw thrown;
  }
  closeSync(fd);
  if (isPlain) renameSync(target, path);
}

export const replaceText = (path: string, text: string): void => replaceFile(path, (fd) => writeFileSync(fd, text));
