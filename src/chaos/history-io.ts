// History files on disk: written line by line, so that what a killed process had told is kept, and read in pieces.
import { closeSync, openSync, readSync, writeSync } from "node:fs";
import { StringDecoder } from "node:string_decoder";
import type { Unstamped } from "../checkers/history.ts";
import { historyLine, type HistorySource } from "../checkers/history-file.ts";
import { machineMs } from "./machine-clock.ts";

const CHUNK_BYTES = 64 * 1024;

/** One life of one process. An event is with the kernel when record() returns: a SIGKILL after it takes nothing back. */
export class HistoryWriter {
  readonly path: string;
  readonly #file: number;

  /** The file must not exist. */
  constructor(path: string) {
    this.path = path;
    this.#file = openSync(path, "wx");
  }

  record(event: Unstamped): number {
    const timeMs = machineMs();
    const bytes = Buffer.from(historyLine({ ...event, timeMs }));
    for (let written = 0; written < bytes.length; )
      written += writeSync(this.#file, bytes, written, bytes.length - written);
    return timeMs;
  }

  close(): void {
    closeSync(this.#file);
  }
}

/** Read anew by each pass over its chunks. */
export function historyFile(path: string): HistorySource {
  return { name: path, chunks: { [Symbol.iterator]: () => chunksOf(path) } };
}

function* chunksOf(path: string): Generator<string> {
  const file = openSync(path, "r");
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
  const decoder = new StringDecoder("utf8");
  try {
    for (;;) {
      const sizeBytes = readSync(file, buffer, 0, CHUNK_BYTES, null);
      if (sizeBytes === 0) return;
      yield decoder.write(buffer.subarray(0, sizeBytes));
    }
  } finally {
    closeSync(file);
  }
}
