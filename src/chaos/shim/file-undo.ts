// Power loss of one file: everything in its journal is taken back, the newest first, which shows what each operation had written;
// then, the oldest first, what was synced is done again, and of the rest what the choices keep.
import { closeSync, fstatSync, ftruncateSync, openSync, readSync, writeSync } from "node:fs";
import type { Checksum } from "../../ports/checksum.ts";
import type { Choices, Tally } from "./choices.ts";
import type { FileOperation, ResizeOperation, WriteOperation } from "./undo-files.ts";

/** Disks write this much at once or not at all. */
const SECTOR_BYTES = 512;

interface Redo {
  readonly operation: FileOperation;
  /** What a write had written. */
  readonly bytes: Uint8Array;
}

export interface FileUndo {
  readonly path: string;
  readonly operations: readonly FileOperation[];
  readonly choices: Choices;
  readonly checksum: Checksum;
  readonly tally: Tally;
}

export function undoFile(undo: FileUndo): void {
  const file = new OpenFile(undo.path);
  try {
    const redo = undo.operations.toReversed().flatMap((operation) => takeBack(file, operation, undo) ?? []);
    for (const each of redo.reverse()) doAgain(file, each, undo);
  } finally {
    file.close();
  }
}

class OpenFile {
  readonly #fd: number;

  constructor(path: string) {
    this.#fd = openSync(path, "r+");
  }

  get sizeBytes(): number {
    return fstatSync(this.#fd).size;
  }

  resize(sizeBytes: number): void {
    ftruncateSync(this.#fd, sizeBytes);
  }

  read(position: number, sizeBytes: number): Uint8Array {
    const bytes = new Uint8Array(sizeBytes);
    let total = 0;
    while (total < sizeBytes) {
      const count = readSync(this.#fd, bytes, total, sizeBytes - total, position + total);
      if (count === 0) break;
      total += count;
    }
    return bytes.subarray(0, total);
  }

  write(position: number, bytes: Uint8Array): void {
    for (let done = 0; done < bytes.length; )
      done += writeSync(this.#fd, bytes, done, bytes.length - done, position + done);
  }

  close(): void {
    closeSync(this.#fd);
  }
}

/** Undefined: the process was killed before it did what it had written down. */
function takeBack(file: OpenFile, operation: FileOperation, undo: FileUndo): Redo | undefined {
  return operation.kind === "write" ? takeBackWrite(file, operation, undo) : takeBackResize(file, operation, undo);
}

function takeBackWrite(file: OpenFile, operation: WriteOperation, undo: FileUndo): Redo | undefined {
  const { position, sizeBytes, oldSizeBytes, old } = operation;
  const end = position + sizeBytes;
  expectSize(file, operation, Math.max(oldSizeBytes, end), undo);
  const bytes = file.read(position, sizeBytes);
  if (bytes.length === 0 && !operation.isCertain) return undefined;
  if (operation.isCertain && operation.crc !== undefined && operation.crc !== undo.checksum.crc32c(bytes))
    undo.tally.problems.push(`${undo.path}: other bytes than were written at ${position} (${sizeBytes} bytes)`);
  const overwritten = Math.max(0, Math.min(end, oldSizeBytes) - position);
  file.write(position, old.length === 0 ? new Uint8Array(overwritten) : old.subarray(0, overwritten));
  file.resize(oldSizeBytes);
  return { operation, bytes };
}

function takeBackResize(file: OpenFile, operation: ResizeOperation, undo: FileUndo): Redo | undefined {
  if (!operation.isCertain && file.sizeBytes !== operation.sizeBytes) return undefined;
  expectSize(file, operation, operation.sizeBytes, undo);
  file.resize(operation.oldSizeBytes);
  for (const { position, bytes } of operation.cut) file.write(position, bytes);
  return { operation, bytes: new Uint8Array() };
}

function expectSize(file: OpenFile, operation: FileOperation, sizeBytes: number, undo: FileUndo): void {
  const found = file.sizeBytes;
  if (operation.isCertain && found !== sizeBytes)
    undo.tally.problems.push(`${undo.path}: ${found} bytes long, not ${sizeBytes} as after its ${operation.kind}`);
}

function doAgain(file: OpenFile, { operation, bytes }: Redo, undo: FileUndo): void {
  if (operation.kind === "resize") {
    if (operation.isSettled || undo.tally.count(undo.choices.ofTruncate(operation) ? "kept" : "dropped"))
      file.resize(operation.sizeBytes);
  } else if (operation.isSettled) file.write(operation.position, bytes);
  else writePart(file, operation, bytes, undo);
}

/** As on a disk: bytes and new length reach the platter each on their own; a length without its bytes reads as zeros. */
function writePart(file: OpenFile, operation: WriteOperation, bytes: Uint8Array, { choices, tally }: FileUndo): void {
  const { position } = operation;
  const before = file.sizeBytes;
  const end = position + bytes.length;
  const fate = choices.ofWrite(operation);
  const keepsLength = end <= before || choices.ofExtension(operation);
  const isWhole = fate === "kept" && keepsLength;
  tally.count(isWhole ? "kept" : fate === "dropped" ? "dropped" : "torn");
  if (fate === "kept") file.write(position, bytes);
  else if (fate !== "dropped") writeSectors(file, position, bytes, fate);
  if (!keepsLength) file.resize(Math.min(file.sizeBytes, before));
  else if (file.sizeBytes < end) file.resize(end);
}

function writeSectors(file: OpenFile, position: number, bytes: Uint8Array, keeps: (sector: number) => boolean): void {
  const end = position + bytes.length;
  for (let at = position; at < end; ) {
    const sector = Math.floor(at / SECTOR_BYTES);
    const next = Math.min(end, (sector + 1) * SECTOR_BYTES);
    if (keeps(sector)) file.write(at, bytes.subarray(at - position, next - position));
    at = next;
  }
}
