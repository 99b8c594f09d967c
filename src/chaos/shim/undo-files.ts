// The undo journal as the preload shim writes it: one file `j-<inode>` for each file and directory that was changed since its last
// sync, `starts` with the sequence number at which each process began, and `attic/` with links to what was removed.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Checksum } from "../../ports/checksum.ts";

/** A change of a file's bytes or length, or of a directory's names, the oldest first. */
export type UndoOperation = FileOperation | NameOperation;

interface Operation {
  readonly sequence: number;
  /** A sync covered it: it is on the platter. */
  isSettled: boolean;
  /** False: the process was killed in it, and it may not have been made. */
  isCertain: boolean;
}

export interface WriteOperation extends Operation {
  readonly kind: "write";
  readonly position: number;
  /** Bytes written; fewer than asked for after a short write. */
  sizeBytes: number;
  readonly oldSizeBytes: number;
  /** What was overwritten; empty: zeros. */
  readonly old: Uint8Array;
  /** CRC-32C of the bytes written; undefined: unknown (fewer were written). */
  crc: number | undefined;
}

export interface ResizeOperation extends Operation {
  readonly kind: "resize";
  readonly sizeBytes: number;
  readonly oldSizeBytes: number;
  /** What was cut off, without zeros. */
  readonly cut: readonly { readonly position: number; readonly bytes: Uint8Array }[];
}

export type FileOperation = WriteOperation | ResizeOperation;

export type NameOperation = Operation & { readonly directory: number } & (
    | {
        readonly kind: "link" | "makeDirectory" | "unlink" | "removeDirectory";
        readonly name: string;
        readonly inode: number;
      }
    | {
        readonly kind: "rename";
        readonly name: string;
        readonly inode: number;
        readonly toName: string;
        /** Undefined: nothing was replaced. */
        readonly replaced: number | undefined;
      }
  );

/** Links to removed files, by the sequence number of the removal. */
export const ATTIC = "attic";
const STARTS = "starts";
const JOURNAL_NAME = /^j-(\d+)$/;

const RECORD_BYTES = 64;
const RECORD_MAGIC = 0x4f444e55;
const CHECK_AT = 60;
/** As in preload.c. */
const RECORD = {
  WRITE: 1,
  CUT: 2,
  RESIZE: 3,
  SYNC: 4,
  FAILED: 5,
  ABORT: 6,
  CREATE: 7,
  MKDIR: 8,
  UNLINK: 9,
  RMDIR: 10,
  RENAME: 11,
} as const;

interface UndoRecord {
  readonly kind: number;
  readonly sequence: number;
  readonly a: number;
  readonly b: number;
  readonly c: number;
  readonly crc: number;
  readonly body: Uint8Array;
}

/** All that is on the disk counts as synced from here on. */
export function forgetUndo(undoDir: string): void {
  rmSync(undoDir, { recursive: true, force: true });
  mkdirSync(join(undoDir, ATTIC), { recursive: true });
}

export interface UndoJournal {
  readonly names: readonly NameOperation[];
  /** Files with operations, by inode. */
  readonly files: ReadonlySet<number>;
  /** Their operations: read when asked for, since one file's may be 256 MiB. */
  operationsOf(inode: number): readonly FileOperation[];
}

export function readUndo(undoDir: string, checksum: Checksum): UndoJournal {
  const inodes = readdirSync(undoDir).flatMap((name) => {
    const [, inode] = JOURNAL_NAME.exec(name) ?? [];
    return inode === undefined ? [] : [Number(inode)];
  });
  const read = (inode: number) => readRecords(readFileSync(join(undoDir, `j-${inode}`)), checksum);
  const names: NameOperation[] = [];
  const files = new Set<number>();
  const uncertain = new Uncertain(readStarts(undoDir));
  for (const inode of inodes) {
    const records = read(inode);
    for (const record of records) uncertain.add(record.sequence);
    for (const operation of operationsFrom(records, inode)) {
      if (isNameOperation(operation)) names.push(operation);
      else files.add(inode);
    }
  }
  uncertain.mark(names);
  return {
    names: names.sort((left, right) => left.sequence - right.sequence),
    files,
    operationsOf(inode) {
      const operations = operationsFrom(read(inode), inode).filter((each) => !isNameOperation(each));
      uncertain.mark(operations);
      return operations as FileOperation[];
    },
  };
}

export function isNameOperation(operation: UndoOperation): operation is NameOperation {
  return operation.kind !== "write" && operation.kind !== "resize";
}

function readStarts(undoDir: string): number[] {
  const path = join(undoDir, STARTS);
  if (!existsSync(path)) return [];
  const bytes = readFileSync(path);
  return Array.from({ length: Math.floor(bytes.length / 8) }, (_, index) => Number(bytes.readBigUInt64LE(index * 8)));
}

/** The last record of each process: everything before it in the order of all files was made, since one lock orders them. */
class Uncertain {
  readonly #starts: readonly number[];
  readonly #lastOf = new Map<number, number>();

  constructor(starts: readonly number[]) {
    this.#starts = starts;
  }

  #lifeOf(sequence: number): number {
    return this.#starts.findLastIndex((start) => start <= sequence);
  }

  add(sequence: number): void {
    const life = this.#lifeOf(sequence);
    this.#lastOf.set(life, Math.max(sequence, this.#lastOf.get(life) ?? 0));
  }

  mark(operations: readonly UndoOperation[]): void {
    for (const operation of operations)
      operation.isCertain = this.#lastOf.get(this.#lifeOf(operation.sequence)) !== operation.sequence;
  }
}

/** Up to the first that is not whole: the process was killed while it wrote that one, and never made the change. */
function readRecords(bytes: Buffer, checksum: Checksum): UndoRecord[] {
  const records: UndoRecord[] = [];
  for (let at = 0; at + RECORD_BYTES <= bytes.length; ) {
    const word = (index: number) => Number(bytes.readBigUInt64LE(at + index * 8));
    if (bytes.readUInt32LE(at) !== RECORD_MAGIC) break;
    if (bytes.readUInt32LE(at + CHECK_AT) !== checksum.crc32c(bytes.subarray(at, at + CHECK_AT))) break;
    const next = at + RECORD_BYTES + word(6);
    if (next > bytes.length) break;
    records.push({
      kind: bytes.readUInt32LE(at + 4),
      sequence: word(1),
      a: word(2),
      b: word(3),
      c: word(4),
      crc: bytes.readUInt32LE(at + 40),
      body: bytes.subarray(at + RECORD_BYTES, next),
    });
    at = next;
  }
  return records;
}

function operationsFrom(records: readonly UndoRecord[], inode: number): UndoOperation[] {
  const operations: UndoOperation[] = [];
  /** The failed sync after which a later sync no longer covers an operation. */
  const lostBy = new Map<UndoOperation, number>();
  let cut: { sequence: number; position: number; bytes: Uint8Array }[] = [];
  for (const record of records) {
    switch (record.kind) {
      case RECORD.CUT:
        cut.push({ sequence: record.sequence, position: record.a, bytes: record.body });
        break;
      case RECORD.SYNC:
        for (const operation of operations)
          if (operation.sequence < record.a && record.a < (lostBy.get(operation) ?? Number.POSITIVE_INFINITY))
            operation.isSettled = true;
        break;
      case RECORD.FAILED:
        for (const operation of operations)
          if (operation.sequence < record.a && !operation.isSettled && !lostBy.has(operation))
            lostBy.set(operation, record.a);
        break;
      case RECORD.ABORT:
        abort(operations, record);
        break;
      default:
        // A truncation that was never made may have left pieces before it.
        operations.push(
          operationFrom(
            record,
            inode,
            cut.filter(({ sequence }) => sequence === record.sequence),
          ),
        );
        cut = [];
    }
  }
  return operations;
}

function operationFrom(record: UndoRecord, directory: number, cut: ResizeOperation["cut"]): UndoOperation {
  const { sequence, a, b, c, crc, body } = record;
  const common = { sequence, isSettled: false, isCertain: true };
  const named = { ...common, directory, inode: a, name: Buffer.from(body).toString() };
  switch (record.kind) {
    case RECORD.WRITE:
      return { ...common, kind: "write", position: a, sizeBytes: b, oldSizeBytes: c, crc, old: body };
    case RECORD.RESIZE:
      return { ...common, kind: "resize", sizeBytes: a, oldSizeBytes: c, cut };
    case RECORD.CREATE:
      return { ...named, kind: "link" };
    case RECORD.MKDIR:
      return { ...named, kind: "makeDirectory" };
    case RECORD.UNLINK:
      return { ...named, kind: "unlink" };
    case RECORD.RMDIR:
      return { ...named, kind: "removeDirectory" };
    case RECORD.RENAME: {
      const [name = "", toName = ""] = named.name.split("/");
      return { ...named, kind: "rename", name, toName, replaced: b === 0 ? undefined : b };
    }
    default:
      throw new Error(`undo journal j-${directory}: record of unknown kind ${record.kind}`);
  }
}

function abort(operations: UndoOperation[], { a: sequence, b: doneBytes }: UndoRecord): void {
  const at = operations.findIndex((operation) => operation.sequence === sequence);
  const operation = operations[at];
  if (operation === undefined) return;
  if (operation.kind === "write" && doneBytes > 0) {
    operation.sizeBytes = doneBytes;
    operation.crc = undefined;
  } else operations.splice(at, 1);
}
