// size: one data structure and its crash model, useful only together.
// What a simulated disk holds: for each file and directory what processes see and what is on the platter, and between the two
// the operations that no sync has covered yet. Pure and synchronous; disk.ts adds time and faults, the crash enumerator choices.
//
//   write, truncate             ->  live at once, pending until sync() of the file
//   link, unlink, rename        ->  live at once, pending until syncDirectory() of a directory it touches
//   crash(choices)              ->  live = platter + the pending operations that the choices keep, each on its own
import { assert } from "../base/assert.ts";
import type { Checksum } from "../ports/checksum.ts";
import { FileError } from "../ports/files.ts";
import { Content } from "./content.ts";

/** Disks write this much at once or not at all. */
export const SECTOR_BYTES = 512;

export interface FileNode {
  readonly kind: "file";
  live: Content;
  platter: Content;
  pending: FileOperation[];
  openCount: number;
  linkCount: number;
  /** A failed sync lost bytes that are still visible (D7). */
  isStale: boolean;
  /** What it held before it was cut last: a write that is lost leaves that there (D6). */
  before: Content | undefined;
}

export interface DirectoryNode {
  readonly kind: "directory";
  readonly live: Map<string, Node>;
  readonly platter: Map<string, Node>;
  pending: DirectoryOperation[];
}

export type Node = FileNode | DirectoryNode;

export type FileOperation =
  | {
      readonly kind: "write";
      readonly sequence: number;
      readonly position: number;
      readonly bytes: Uint8Array;
      readonly extends: boolean;
    }
  | { readonly kind: "truncate"; readonly sequence: number; readonly sizeBytes: number };

export interface DirectoryOperation {
  readonly kind: "link" | "unlink" | "rename";
  readonly sequence: number;
  readonly directory: DirectoryNode;
  readonly name: string;
  readonly node: Node;
  readonly toDirectory: DirectoryNode;
  readonly toName: string;
}

export type Fate =
  | { readonly kind: "kept" | "dropped" }
  /** Sectors of the write, by their number in the file, that reached the platter. */
  | { readonly kind: "torn"; readonly keepsSector: (sector: number) => boolean };

/** What a power loss does to each pending operation; asked in the order in which they were made. */
export interface CrashChoices {
  ofWrite(operation: FileOperation & { kind: "write" }): Fate;
  /** Whether the new length of an extending write reached the platter: apart from its bytes. */
  ofExtension(operation: FileOperation & { kind: "write" }): boolean;
  ofTruncate(operation: FileOperation & { kind: "truncate" }): boolean;
  ofDirectory(operation: DirectoryOperation): boolean;
}

export const KEEP_ALL: CrashChoices = {
  ofWrite: () => ({ kind: "kept" }),
  ofExtension: () => true,
  ofTruncate: () => true,
  ofDirectory: () => true,
};
export const DROP_ALL: CrashChoices = {
  ofWrite: () => ({ kind: "dropped" }),
  ofExtension: () => false,
  ofTruncate: () => false,
  ofDirectory: () => false,
};

export type PendingOperation =
  | { readonly file: FileNode; readonly operation: FileOperation }
  | { readonly file: undefined; readonly operation: DirectoryOperation };

function newDirectory(): DirectoryNode {
  return { kind: "directory", live: new Map(), platter: new Map(), pending: [] };
}

function newFile(): FileNode {
  return {
    kind: "file",
    live: new Content(),
    platter: new Content(),
    pending: [],
    openCount: 0,
    linkCount: 1,
    isStale: false,
    before: undefined,
  };
}

/** As on Linux file systems. */
const NAME_LENGTH_MAX = 255;

function partsOf(path: string): string[] {
  return path.split("/").filter((part) => part !== "" && part !== ".");
}

export class DiskImage {
  /** Called after each operation and each sync; not by clone() nor crash(). */
  onChange: () => void = () => undefined;
  #root = newDirectory();
  #sequence = 0;
  #usedBytes = 0;

  /** Bytes of all files that a name or an open handle holds. */
  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** Operations made so far; a sync covers those below the mark at which it was issued. */
  get sequence(): number {
    return this.#sequence;
  }

  find(path: string): Node | undefined {
    let node: Node | undefined = this.#root;
    for (const part of partsOf(path)) {
      if (node?.kind !== "directory") return undefined;
      node = node.live.get(part);
    }
    return node;
  }

  /** The directory of a path and the path's last name in it. */
  parentOf(path: string, operation: string): { directory: DirectoryNode; name: string } {
    const parts = partsOf(path);
    const name = parts.pop();
    const directory = this.find(parts.join("/"));
    if (name === undefined || directory?.kind !== "directory") throw new FileError("not-found", operation, path);
    if (name.length > NAME_LENGTH_MAX) throw new FileError("other", operation, path, new Error("name too long"));
    return { directory, name };
  }

  createFile(path: string): FileNode {
    const { directory, name } = this.parentOf(path, "open");
    if (directory.live.has(name)) throw new FileError("exists", "open", path);
    const file = newFile();
    this.#change("link", { directory, name, node: file });
    return file;
  }

  makeDirectory(path: string): void {
    let directory = this.#root;
    for (const name of partsOf(path)) {
      let next = directory.live.get(name);
      if (next === undefined) {
        next = newDirectory();
        this.#change("link", { directory, name, node: next });
      }
      if (next.kind !== "directory") throw new FileError("exists", "makeDirectory", path);
      directory = next;
    }
  }

  unlink(path: string): void {
    const { directory, name } = this.parentOf(path, "unlink");
    const node = directory.live.get(name);
    if (node === undefined) throw new FileError("not-found", "unlink", path);
    if (node.kind !== "file") throw new FileError("other", "unlink", path);
    this.#change("unlink", { directory, name, node });
    node.linkCount--;
    this.#forgetIfUnused(node);
  }

  removeDirectory(path: string): void {
    const { directory, name } = this.parentOf(path, "removeDirectory");
    const node = directory.live.get(name);
    if (node?.kind !== "directory") throw new FileError("not-found", "removeDirectory", path);
    if (node.live.size > 0) throw new FileError("not-empty", "removeDirectory", path);
    this.#change("unlink", { directory, name, node });
  }

  rename(from: string, to: string): void {
    const source = this.parentOf(from, "rename");
    const node = source.directory.live.get(source.name);
    if (node === undefined) throw new FileError("not-found", "rename", from);
    const target = this.parentOf(to, "rename");
    const replaced = target.directory.live.get(target.name);
    if (replaced === node) return;
    if (replaced?.kind === "directory" && (node.kind === "file" || replaced.live.size > 0))
      throw new FileError("not-empty", "rename", to);
    this.#change("rename", { ...source, node, toDirectory: target.directory, toName: target.name });
    if (replaced?.kind === "file") {
      replaced.linkCount--;
      this.#forgetIfUnused(replaced);
    }
  }

  /** Takes the bytes as they are: the caller has copied them. */
  write(file: FileNode, position: number, bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    const before = file.live.sizeBytes;
    file.live.write(position, bytes);
    this.#usedBytes += file.live.sizeBytes - before;
    file.pending.push({
      kind: "write",
      sequence: this.#sequence++,
      position,
      bytes,
      extends: file.live.sizeBytes > before,
    });
  }

  truncate(file: FileNode, sizeBytes: number): void {
    if (sizeBytes < file.live.sizeBytes) file.before = file.live.share();
    this.#usedBytes += sizeBytes - file.live.sizeBytes;
    file.live.resize(sizeBytes);
    file.pending.push({ kind: "truncate", sequence: this.#sequence++, sizeBytes });
    this.onChange();
  }

  /** Brings every operation of the file made before `sequence` to the platter. */
  sync(file: FileNode, sequence: number): void {
    let count = 0;
    for (const operation of file.pending) {
      if (operation.sequence >= sequence) break;
      applyToPlatter(file, operation, KEEP_ALL);
      count++;
    }
    file.pending.splice(0, count);
    this.onChange();
  }

  syncDirectory(directory: DirectoryNode, sequence: number): void {
    for (const operation of directory.pending.filter((pending) => pending.sequence < sequence)) this.#settle(operation);
    this.onChange();
  }

  /**
   * A sync of the file failed (D7): the kernel marks its dirty pages clean, though only those that the choices keep are on the
   * platter. The others stay visible until they are evicted.
   */
  failSync(file: FileNode, choices: CrashChoices): void {
    for (const operation of file.pending) applyToPlatter(file, operation, choices);
    file.pending = [];
    file.isStale = true;
  }

  /** Drops the page cache of files after a failed sync: their lost bytes read as the platter's from now on. */
  evictStale(): void {
    for (const file of this.#files()) {
      if (!file.isStale) continue;
      const before = file.live.sizeBytes;
      file.live = file.platter.share();
      for (const operation of file.pending) applyTo(file.live, operation);
      this.#usedBytes += file.live.sizeBytes - before;
      file.isStale = false;
    }
  }

  openHandle(file: FileNode): void {
    file.openCount++;
  }

  closeHandle(file: FileNode): void {
    file.openCount--;
    this.#forgetIfUnused(file);
  }

  /** Everything that no sync has covered, oldest first. */
  pendingOperations(): PendingOperation[] {
    const found: PendingOperation[] = [];
    this.#visit(this.#root, new Set(), (node) => {
      if (node.kind === "file") for (const operation of node.pending) found.push({ file: node, operation });
      else
        for (const operation of node.pending)
          if (operation.directory === node) found.push({ file: undefined, operation });
    });
    return found.sort((left, right) => left.operation.sequence - right.operation.sequence);
  }

  /** Power loss: afterwards what is seen and what is on the platter are the same, and nothing is open. */
  crash(choices: CrashChoices): void {
    for (const { file, operation } of this.pendingOperations()) {
      if (file !== undefined) applyToPlatter(file, operation, choices);
      else if (choices.ofDirectory(operation)) applyDirectory(operation, "platter");
    }
    this.#usedBytes = 0;
    this.#root = this.#fromPlatter(this.#root, new Map());
  }

  /** Process death: open handles are gone, completed operations stay. */
  closeAll(): void {
    for (const file of this.#files()) file.openCount = 0;
    this.#usedBytes = 0;
    for (const file of this.#files()) if (file.linkCount > 0) this.#usedBytes += file.live.sizeBytes;
  }

  /** An independent copy; bytes are shared until changed. */
  clone(): DiskImage {
    const copy = new DiskImage();
    copy.#sequence = this.#sequence;
    copy.#usedBytes = this.#usedBytes;
    copy.#root = new Cloner().directory(this.#root);
    return copy;
  }

  /** Paths and sizes of all files below a directory, sorted. */
  filesBelow(path: string): { readonly path: string; readonly sizeBytes: number }[] {
    const found: { path: string; sizeBytes: number }[] = [];
    const walk = (node: Node | undefined, at: string): void => {
      if (node?.kind === "file") found.push({ path: at, sizeBytes: node.live.sizeBytes });
      if (node?.kind !== "directory") return;
      for (const [name, child] of [...node.live].sort(([left], [right]) => (left < right ? -1 : 1)))
        walk(child, `${at}/${name}`);
    };
    walk(this.find(path), path);
    return found;
  }

  /** D5: a bit of a file turns over at rest. */
  flipBit(path: string, position: number, bit: number): void {
    const byte = this.#file(path, "flip").live.view[position];
    if (byte !== undefined) this.corrupt(path, position, new Uint8Array([byte ^ (1 << bit)]));
  }

  /** D5, D6: other bytes are there at rest: what is seen and what is on the platter alike, as far as each goes. */
  corrupt(path: string, position: number, bytes: Uint8Array): void {
    const file = this.#file(path, "corrupt");
    for (const content of [file.live, file.platter]) {
      const within = Math.min(bytes.length, content.sizeBytes - position);
      if (within > 0) content.write(position, bytes.slice(0, within));
    }
  }

  /** D5: the end of a file is gone at rest. */
  cutOff(path: string, sizeBytes: number): void {
    const file = this.#file(path, "cut off");
    this.#usedBytes -= Math.max(0, file.live.sizeBytes - sizeBytes);
    for (const content of [file.live, file.platter]) content.resize(Math.min(content.sizeBytes, sizeBytes));
  }

  /** D11: a file is missing at rest. Whoever has it open goes on with what it has. False: its name is not on the platter yet. */
  vanish(path: string): boolean {
    const { directory, name } = this.parentOf(path, "vanish");
    const node = this.#file(path, "vanish");
    const isSettled = directory.platter.get(name) === node && directory.pending.every((each) => each.node !== node);
    if (!isSettled) return false;
    directory.live.delete(name);
    directory.platter.delete(name);
    node.linkCount--;
    this.#forgetIfUnused(node);
    return true;
  }

  #file(path: string, operation: string): FileNode {
    const node = this.find(path);
    if (node?.kind !== "file") throw new FileError("not-found", operation, path);
    return node;
  }

  /** Names, sizes and bytes of all that is seen: equal for equal disks. */
  fingerprint(checksum: Checksum): string {
    const lines: string[] = [];
    const walk = (directory: DirectoryNode, path: string): void => {
      for (const [name, node] of [...directory.live].sort(([left], [right]) => (left < right ? -1 : 1))) {
        if (node.kind === "directory") {
          lines.push(`${path}${name}/`);
          walk(node, `${path}${name}/`);
        } else lines.push(`${path}${name} ${node.live.sizeBytes} ${checksum.crc32c(node.live.view)}`);
      }
    };
    walk(this.#root, "");
    return lines.join("\n");
  }

  #change(
    kind: DirectoryOperation["kind"],
    change: Partial<DirectoryOperation> & Pick<DirectoryOperation, "directory" | "name" | "node">,
  ): void {
    const operation: DirectoryOperation = {
      toDirectory: change.directory,
      toName: change.name,
      ...change,
      kind,
      sequence: this.#sequence++,
    };
    applyDirectory(operation, "live");
    operation.directory.pending.push(operation);
    if (operation.toDirectory !== operation.directory) operation.toDirectory.pending.push(operation);
    this.onChange();
  }

  #settle(operation: DirectoryOperation): void {
    applyDirectory(operation, "platter");
    for (const directory of new Set([operation.directory, operation.toDirectory]))
      directory.pending = directory.pending.filter((pending) => pending !== operation);
  }

  #forgetIfUnused(file: FileNode): void {
    assert(file.openCount >= 0, "a handle was closed twice");
    if (file.linkCount === 0 && file.openCount === 0) this.#usedBytes -= file.live.sizeBytes;
  }

  #files(): FileNode[] {
    const files: FileNode[] = [];
    this.#visit(this.#root, new Set(), (node) => {
      if (node.kind === "file") files.push(node);
    });
    return files;
  }

  /** Every node that is seen or on the platter or in a pending operation. */
  #visit(node: Node, seen: Set<Node>, visit: (node: Node) => void): void {
    if (seen.has(node)) return;
    seen.add(node);
    visit(node);
    if (node.kind === "file") return;
    for (const child of node.platter.values()) this.#visit(child, seen, visit);
    for (const child of node.live.values()) this.#visit(child, seen, visit);
    for (const operation of node.pending) this.#visit(operation.node, seen, visit);
  }

  #fromPlatter(directory: DirectoryNode, made: Map<Node, Node>): DirectoryNode {
    const fresh = newDirectory();
    made.set(directory, fresh);
    for (const [name, node] of directory.platter) {
      let child = made.get(node);
      if (child === undefined) {
        child = node.kind === "directory" ? this.#fromPlatter(node, made) : this.#recovered(node);
        made.set(node, child);
      } else if (child.kind === "file") child.linkCount++;
      fresh.live.set(name, child);
      fresh.platter.set(name, child);
    }
    return fresh;
  }

  #recovered(file: FileNode): FileNode {
    const fresh = newFile();
    fresh.platter = file.platter.share();
    fresh.live = file.platter.share();
    this.#usedBytes += fresh.live.sizeBytes;
    return fresh;
  }
}

function applyDirectory(operation: DirectoryOperation, side: "live" | "platter"): void {
  const from = operation.directory[side];
  const to = operation.toDirectory[side];
  switch (operation.kind) {
    case "link":
      from.set(operation.name, operation.node);
      return;
    case "unlink":
      if (from.get(operation.name) === operation.node) from.delete(operation.name);
      return;
    case "rename":
      // On the platter an earlier rename may be missing: the node goes away under whatever name it has there.
      for (const [name, node] of from) if (node === operation.node) from.delete(name);
      to.set(operation.toName, operation.node);
      return;
  }
}

function applyTo(content: Content, operation: FileOperation): void {
  if (operation.kind === "write") content.write(operation.position, operation.bytes);
  else content.resize(operation.sizeBytes);
}

/** Bytes beyond a length that did not reach the platter are lost; a length without its bytes reads as zeros. */
function applyToPlatter(file: FileNode, operation: FileOperation, choices: CrashChoices): void {
  const platter = file.platter;
  if (operation.kind === "truncate") {
    if (choices.ofTruncate(operation)) platter.resize(operation.sizeBytes);
    return;
  }
  const end = operation.position + operation.bytes.length;
  const fate = choices.ofWrite(operation);
  const before = platter.sizeBytes;
  const keepsLength = end <= before || choices.ofExtension(operation);
  if (fate.kind === "kept") platter.write(operation.position, operation.bytes);
  else if (fate.kind === "torn") writeSectors(platter, operation, fate.keepsSector);
  if (!keepsLength) platter.resize(Math.min(platter.sizeBytes, before));
  else if (platter.sizeBytes < end) platter.resize(end);
}

function writeSectors(
  content: Content,
  write: { readonly position: number; readonly bytes: Uint8Array },
  keepsSector: (sector: number) => boolean,
): void {
  const end = write.position + write.bytes.length;
  for (let at = write.position; at < end; ) {
    const sector = Math.floor(at / SECTOR_BYTES);
    const next = Math.min(end, (sector + 1) * SECTOR_BYTES);
    if (keepsSector(sector)) content.write(at, write.bytes.subarray(at - write.position, next - write.position));
    at = next;
  }
}

class Cloner {
  readonly #made = new Map<Node, Node>();
  readonly #operations = new Map<DirectoryOperation, DirectoryOperation>();
  readonly #directories: { readonly original: DirectoryNode; readonly copy: DirectoryNode }[] = [];

  directory(directory: DirectoryNode): DirectoryNode {
    const copy = this.#node(directory) as DirectoryNode;
    // The list grows while pending operations name nodes that nothing else holds.
    for (let at = 0; at < this.#directories.length; at++) {
      const pair = this.#directories[at];
      for (const operation of pair?.original.pending ?? []) pair?.copy.pending.push(this.#operation(operation));
    }
    return copy;
  }

  #node(node: Node): Node {
    return this.#made.get(node) ?? (node.kind === "file" ? this.#file(node) : this.#directory(node));
  }

  #file(file: FileNode): FileNode {
    const copy: FileNode = {
      ...file,
      live: file.live.share(),
      platter: file.platter.share(),
      pending: [...file.pending],
    };
    this.#made.set(file, copy);
    return copy;
  }

  #directory(original: DirectoryNode): DirectoryNode {
    const copy = newDirectory();
    this.#made.set(original, copy);
    this.#directories.push({ original, copy });
    for (const [name, node] of original.live) copy.live.set(name, this.#node(node));
    for (const [name, node] of original.platter) copy.platter.set(name, this.#node(node));
    return copy;
  }

  /** A rename between two directories is pending in both: it stays one object. */
  #operation(operation: DirectoryOperation): DirectoryOperation {
    const made = this.#operations.get(operation);
    if (made !== undefined) return made;
    const copy: DirectoryOperation = {
      ...operation,
      directory: this.#node(operation.directory) as DirectoryNode,
      toDirectory: this.#node(operation.toDirectory) as DirectoryNode,
      node: this.#node(operation.node),
    };
    this.#operations.set(operation, copy);
    return copy;
  }
}
