// What the same bytes cost without Ottla: one file that gets everything and a sync, a file and a sync for each partition, plain reads and a pass of
// CRC-32C. The storage's figures are ratios to these, taken in the same round.
import { closeSync, fdatasync, fdatasyncSync, openSync, readSync, rmSync, writev, writeSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { createChecksum } from "../src/platform/checksum.ts";

const MiB = 1024 * 1024;
/** IOV_MAX */
const CHUNKS_MAX = 1024;
const writeAll = promisify(writev);
const datasync = promisify(fdatasync);

/** A file that is appended to. */
export class BareFile {
  readonly #file: number;
  #position = 0;

  /** Preallocated as a journal is: its bytes are there and synced. */
  constructor(path: string, preallocatedBytes: number) {
    this.#file = openSync(path, "wx");
    const zeros = Buffer.alloc(MiB);
    for (let at = 0; at < preallocatedBytes; at += MiB) writeSync(this.#file, zeros, 0, MiB, at);
    if (preallocatedBytes > 0) fdatasyncSync(this.#file);
  }

  /** One write, one fdatasync. */
  async append(chunks: readonly Uint8Array[]): Promise<void> {
    await this.write(chunks);
    await datasync(this.#file);
  }

  async write(chunks: readonly Uint8Array[]): Promise<void> {
    for (let at = 0; at < chunks.length; at += CHUNKS_MAX) {
      const { bytesWritten } = await writeAll(this.#file, chunks.slice(at, at + CHUNKS_MAX), this.#position);
      this.#position += bytesWritten;
    }
  }

  close(): void {
    closeSync(this.#file);
  }
}

/** A file for each partition. */
export function filesOfPartitions(directory: string, count: number): BareFile[] {
  return Array.from({ length: count }, (_, partition) => new BareFile(join(directory, `bare-${partition}`), 0));
}

/** Megabytes (10^6) per second: reads of `chunkBytes` from the start to the end of each file, all of it through CRC-32C. */
export function plainReads(paths: readonly string[], chunkBytes: number): number {
  const checksum = createChecksum();
  let readBytes = 0;
  const startedAt = performance.now();
  for (const path of paths) {
    const file = openSync(path, "r");
    for (let position = 0; ; ) {
      // A fresh one each time, as whoever hands its bytes on needs it.
      const buffer = new Uint8Array(chunkBytes);
      const length = readSync(file, buffer, 0, chunkBytes, position);
      if (length === 0) break;
      checksum.crc32c(buffer.subarray(0, length));
      position += length;
      readBytes += length;
    }
    closeSync(file);
  }
  return readBytes / 1000 / (performance.now() - startedAt);
}

/** Seconds: the same, its bytes written to `count` new files in turn, which are synced (D-13) and removed then, out of the time. */
export async function plainReplay(
  paths: readonly string[],
  chunkBytes: number,
  place: { directory: string; count: number },
): Promise<number> {
  const names = Array.from({ length: place.count }, (_, number) => join(place.directory, `replayed-${number}`));
  const checksum = createChecksum();
  const startedAt = performance.now();
  const targets = names.map((name) => openSync(name, "wx"));
  const buffer = new Uint8Array(chunkBytes);
  let chunk = 0;
  for (const path of paths) {
    const file = openSync(path, "r");
    for (let length = readSync(file, buffer); length > 0; length = readSync(file, buffer)) {
      const read = buffer.subarray(0, length);
      checksum.crc32c(read);
      writeSync(targets[chunk++ % targets.length] as number, read);
    }
    closeSync(file);
  }
  await Promise.all(targets.map((target) => datasync(target)));
  const seconds = (performance.now() - startedAt) / 1000;
  for (const target of targets) closeSync(target);
  for (const name of names) rmSync(name);
  return seconds;
}
