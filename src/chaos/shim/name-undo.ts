// Power loss of names: which files and directories a data directory has afterwards. The tree is worked out first (inodes, not paths,
// since names move), then built anew beside with hard links and put in the place of the old one.
import { existsSync, linkSync, lstatSync, mkdirSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Choices, Tally } from "./choices.ts";
import { ATTIC, type NameOperation } from "./undo-files.ts";

type Names = Map<string, number>;

export interface Tree {
  readonly root: number;
  /** Names in each directory, by its inode. */
  readonly directories: Map<number, Names>;
  /** A path of each file. */
  readonly paths: Map<number, string>;
}

export function scanTree(dataDir: string): Tree {
  const root = lstatSync(dataDir).ino;
  const tree: Tree = { root, directories: new Map(), paths: new Map() };
  const walk = (directory: string, inode: number): void => {
    const names: Names = new Map();
    tree.directories.set(inode, names);
    for (const name of readdirSync(directory)) {
      const path = join(directory, name);
      const stat = lstatSync(path);
      names.set(name, stat.ino);
      if (stat.isDirectory()) walk(path, stat.ino);
      else tree.paths.set(stat.ino, path);
    }
  };
  walk(dataDir, root);
  return tree;
}

/** The tree as the power loss leaves it. `operations`: of all directories, the oldest first. */
export function undoNames(live: Tree, operations: readonly NameOperation[], choices: Choices, tally: Tally): Tree {
  const directories = new Map([...live.directories].map(([inode, names]) => [inode, new Map(names)]));
  const tree = { root: live.root, directories, paths: live.paths };
  const made: NameOperation[] = [];
  for (const operation of operations.toReversed()) {
    if (!isMade(tree, operation)) {
      // The process was killed before it did what it had written down.
      if (!operation.isCertain) continue;
      tally.problems.push(`${operation.name}: its ${operation.kind} is not what the directory shows`);
    }
    takeBack(tree, operation);
    made.push(operation);
  }
  for (const operation of made.reverse())
    if (operation.isSettled || tally.count(choices.ofName(operation) ? "kept" : "dropped")) doAgain(tree, operation);
  return tree;
}

function namesOf(tree: Tree, inode: number): Names {
  let names = tree.directories.get(inode);
  if (names === undefined) {
    names = new Map();
    tree.directories.set(inode, names);
  }
  return names;
}

function isMade(tree: Tree, operation: NameOperation): boolean {
  const names = namesOf(tree, operation.directory);
  switch (operation.kind) {
    case "link":
    case "makeDirectory":
      return names.get(operation.name) === operation.inode;
    case "unlink":
    case "removeDirectory":
      return !names.has(operation.name);
    case "rename":
      return names.get(operation.toName) === operation.inode && !names.has(operation.name);
  }
}

function takeBack(tree: Tree, operation: NameOperation): void {
  const names = namesOf(tree, operation.directory);
  switch (operation.kind) {
    case "link":
    case "makeDirectory":
      names.delete(operation.name);
      return;
    case "removeDirectory":
    case "unlink":
      if (operation.kind === "removeDirectory") namesOf(tree, operation.inode);
      names.set(operation.name, operation.inode);
      return;
    case "rename":
      names.delete(operation.toName);
      if (operation.replaced !== undefined) names.set(operation.toName, operation.replaced);
      names.set(operation.name, operation.inode);
      return;
  }
}

function doAgain(tree: Tree, operation: NameOperation): void {
  const names = namesOf(tree, operation.directory);
  switch (operation.kind) {
    case "link":
    case "makeDirectory":
      names.set(operation.name, operation.inode);
      return;
    case "removeDirectory":
    case "unlink":
      if (names.get(operation.name) === operation.inode) names.delete(operation.name);
      return;
    case "rename":
      // An earlier rename may have been dropped: the file goes away under whatever name it has.
      if (names.get(operation.name) === operation.inode) names.delete(operation.name);
      else for (const [name, inode] of names) if (inode === operation.inode) names.delete(name);
      names.set(operation.toName, operation.inode);
      return;
  }
}

/** What the tree holds, by path: the inode of a file, or -1 for a directory. */
function listing(tree: Tree): Map<string, number> {
  const found = new Map<string, number>();
  const walk = (inode: number, path: string): void => {
    for (const [name, child] of tree.directories.get(inode) ?? []) {
      const isDirectory = tree.directories.has(child) && !tree.paths.has(child);
      found.set(`${path}${name}`, isDirectory ? -1 : child);
      if (isDirectory) walk(child, `${path}${name}/`);
    }
  };
  walk(tree.root, "");
  return found;
}

export interface Rebuild {
  readonly dataDir: string;
  readonly undoDir: string;
  readonly live: Tree;
  readonly after: Tree;
  readonly operations: readonly NameOperation[];
}

export interface Rebuilt {
  /** A path of each file in the data directory. */
  readonly paths: ReadonlyMap<number, string>;
  /** Where each file was that a power loss may leave. */
  readonly sources: ReadonlyMap<number, string>;
}

/** Makes the data directory what the tree says. */
export function rebuild(parts: Rebuild): Rebuilt {
  const { dataDir, undoDir, after } = parts;
  const sources = sourcesOf(parts);
  const wanted = listing({ ...after, paths: sources });
  const paths = new Map<number, string>();
  for (const [path, inode] of wanted) if (inode !== -1) paths.set(inode, join(dataDir, path));
  if (isSame(wanted, listing(parts.live))) return { paths, sources };
  const fresh = join(undoDir, "restored");
  mkdirSync(fresh);
  for (const [path, inode] of wanted) {
    if (inode === -1) mkdirSync(join(fresh, path));
    else linkSync(sourceOf(sources, inode, path), join(fresh, path));
  }
  for (const name of readdirSync(dataDir)) rmSync(join(dataDir, name), { recursive: true });
  for (const name of readdirSync(fresh)) renameSync(join(fresh, name), join(dataDir, name));
  return { paths, sources };
}

function isSame(left: ReadonlyMap<string, number>, right: ReadonlyMap<string, number>): boolean {
  return left.size === right.size && [...left].every(([path, inode]) => right.get(path) === inode);
}

/** Where each file that may be wanted is now: in the data directory, or in the attic. */
function sourcesOf({ undoDir, live, operations }: Rebuild): Map<number, string> {
  const sources = new Map<number, string>();
  for (const operation of operations) {
    const removed =
      operation.kind === "unlink" ? operation.inode : operation.kind === "rename" ? operation.replaced : undefined;
    const kept = join(undoDir, ATTIC, String(operation.sequence));
    // After a failed sync even what a later one settled may still be wanted, under an older name.
    if (removed !== undefined && existsSync(kept)) sources.set(removed, kept);
  }
  for (const [inode, path] of live.paths) sources.set(inode, path);
  return sources;
}

function sourceOf(sources: ReadonlyMap<number, string>, inode: number, path: string): string {
  const source = sources.get(inode);
  if (source === undefined) throw new Error(`power loss: ${path} (inode ${inode}) is nowhere to be found`);
  return source;
}
