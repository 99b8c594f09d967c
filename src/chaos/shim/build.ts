// Compiles the preload shim with the machine's C compiler, once per version of its source, into a cache in the temporary directory.
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, lstatSync, mkdirSync, readFileSync, renameSync } from "node:fs";
import { arch, tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { packageFile } from "../../platform/package-files.ts";

const FLAGS = ["-shared", "-fPIC", "-O2", "-pthread", "-Wall", "-Wextra"];
const COMPILE_MS = 60_000;

/** The C file; a build holds none. */
export function shimSource(): string {
  return packageFile("src/chaos/shim/preload.c");
}

/** Whoever else may write there, or made it, could have a library of theirs loaded into every node. */
function ownDirectory(path: string): string {
  mkdirSync(path, { recursive: true, mode: 0o700 });
  const found = lstatSync(path);
  if (!found.isDirectory() || found.uid !== userInfo().uid || (found.mode & 0o022) !== 0)
    throw new Error(`${path} is not this user's alone: take it away`);
  return path;
}

/** The path of the library. Rejects with the compiler's words where there is none, or on a system that is not Linux. */
export async function buildShim(compiler = process.env["CC"] ?? "cc"): Promise<string> {
  if (process.platform !== "linux") throw new Error(`the preload shim is for Linux, not ${process.platform}`);
  const source = shimSource();
  const key = createHash("sha256").update(readFileSync(source)).update(FLAGS.join(" ")).update(arch()).digest("hex");
  const directory = ownDirectory(join(tmpdir(), `ottla-shim-${userInfo().uid}`));
  const library = join(directory, `${key.slice(0, 16)}.so`);
  if (existsSync(library)) return library;
  const fresh = `${library}.${process.pid}`;
  await promisify(execFile)(compiler, [...FLAGS, "-o", fresh, source, "-ldl"], { timeout: COMPILE_MS });
  // Whole or not there: two may compile at once.
  renameSync(fresh, library);
  return library;
}
