// The repository as the house tests see it: its root, its files, and temporary copies of it to plant faults in.
import { spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import type { TestContext } from "vitest";

export const ROOT = resolve(import.meta.dirname, "../..");

/** Every file below a folder of the repository, relative to its root. */
export function filesUnder(folder: string): string[] {
  const path = join(ROOT, folder);
  if (!existsSync(path)) return [];
  return readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(ROOT.length + 1))
    .filter((name) => !name.includes("node_modules/"))
    .sort();
}

export const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");

/** What is in the repository for others to see. Without git, everything that is neither installed nor built. */
export function trackedFiles(): string[] {
  const git = spawnSync("git", ["ls-files"], { cwd: ROOT, encoding: "utf8" });
  if (git.status === 0) return git.stdout.split("\n").filter((path) => path !== "" && existsSync(join(ROOT, path)));
  return [
    "package.json",
    "package-lock.json",
    "README.md",
    ...["src", "test", "scripts", "bench", "docs"].flatMap(filesUnder),
  ];
}

/** A new temporary folder that holds copies of these files and folders, and the installed packages. The caller removes it. */
export function copyOf(paths: readonly string[]): string {
  const root = mkdtempSync(join(tmpdir(), "ottla-house-"));
  for (const path of paths) cpSync(join(ROOT, path), join(root, path), { recursive: true, preserveTimestamps: true });
  symlinkSync(join(ROOT, "node_modules"), join(root, "node_modules"));
  return root;
}

export function plant(root: string, path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

export interface Ran {
  readonly code: number;
  readonly output: string;
}

/** Runs an installed tool in a folder; `output` is what it said on both streams. */
export function runTool(root: string, name: string, args: readonly string[]): Ran {
  const run = spawnSync(join(ROOT, "node_modules/.bin", name), args, { cwd: root, encoding: "utf8", timeout: 200_000 });
  return { code: run.status ?? -1, output: run.stdout + run.stderr };
}

/** Skips the running test, and says so, unless what it needs is here. */
export function skipUnless(context: TestContext, here: boolean, notice: string): void {
  if (!here) console.warn(`SKIPPED: ${context.task.name}: ${notice}`);
  context.skip(!here, notice);
}

/** For tests of the built tree. `npm test` builds first. */
export function needsBuild(context: TestContext): void {
  skipUnless(context, existsSync(join(ROOT, "dist/cli/main.js")), "dist/ is not built: npm run build");
}
