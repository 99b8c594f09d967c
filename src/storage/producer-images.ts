// Images of the producers of a log, made at checkpoints (D-15): a start reads the newest that the log agrees with, and of the log only what came since.
//
// A table is captured before the checkpoint ends the journal, so the image's end is never above the checkpoint's, and written once all of it is
// durable and committed: no truncation reaches below an image (D-9), and a table that was read from one can be taken back as far as is ever needed.
import { mutant } from "../base/mutant.ts";
import { toOffset } from "../model/ids.ts";
import { ProducerTable } from "../model/producer-table.ts";
import { crcAt, leaderEpochAt } from "../model/record-batch.ts";
import type { Timers } from "../ports/timers.ts";
import type { CheckpointDeps } from "./checkpoint-files.ts";
import { datasync, isPassing, runLimited, syncDirectory } from "./faults.ts";
import { unlinkIfThere, withFile } from "./file-work.ts";
import { join, producersName, snapshotName } from "./paths.ts";
import { encodeProducerImage, type LogTail } from "./producer-image.ts";
import { encodeSnapshot, snapshotEntries } from "./producer-snapshot.ts";
import type { ReplicaLogImpl } from "./replica-log.ts";

/**
 * A log that has grown by less since its last image gets no new one: to read this much again at a start costs no more than one read, while a file and
 * two syncs for each of a thousand slow partitions cost seconds of every checkpoint.
 */
const IMAGE_BYTES = 256 * 1024;
/** Small segments are for a disk on which everything is small. */
const IMAGES_PER_SEGMENT = 4;
/** The one before the newest is for a newest that rots. */
const IMAGES_KEPT = 2;
/** Tables are made into bytes in one go of about so many; then others get their turn. */
const CAPTURE_BYTES_MAX = 64 * 1024;

interface Capture {
  readonly endOffset: number;
  readonly table: Uint8Array;
  /** Undefined while it is being read. */
  tail: LogTail | undefined;
}

/** What one log has of images. */
export class ProducerImages {
  /** Ends of the files, newest first. */
  #ends: readonly number[];
  /** Ends of files that say nothing any more. */
  #stale: readonly number[] = [];
  #grownBytes = 0;
  #held: Capture | undefined;

  constructor(ends: readonly number[]) {
    this.#ends = ends;
  }

  get ends(): readonly number[] {
    return this.#ends;
  }

  /** After a start: these files are good, and so much of the log came after the newest. */
  found(ends: readonly number[], grownBytes: number): void {
    this.#ends = ends;
    this.#grownBytes = grownBytes;
  }

  grew(sizeBytes: number): void {
    this.#grownBytes += sizeBytes;
  }

  /** The log ends at `end` now: what reaches further is of another log. */
  cut(end: number): void {
    if (mutant("D-15")) return;
    if (this.#held !== undefined && this.#held.endOffset > end) this.#drop();
    if (this.#ends.every((each) => each <= end)) return;
    this.#stale = [...this.#stale, ...this.#ends.filter((each) => each > end)];
    this.#ends = this.#ends.filter((each) => each <= end);
    this.#grownBytes = IMAGE_BYTES;
  }

  /** The batches of this range are not as they were: an image that ends with one of them proves nothing any more. */
  replaced({ fromBase, endOffset }: { readonly fromBase: number; readonly endOffset: number }): void {
    const isIn = (end: number): boolean => end > fromBase && end <= endOffset;
    if (this.#held !== undefined && isIn(this.#held.endOffset)) this.#drop();
    if (!this.#ends.some(isIn)) return;
    this.#stale = [...this.#stale, ...this.#ends.filter(isIn)];
    this.#ends = this.#ends.filter((end) => !isIn(end));
    this.#grownBytes = IMAGE_BYTES;
  }

  #drop(): void {
    this.#held = undefined;
    this.#grownBytes = IMAGE_BYTES;
  }

  /** One that waits to be written is not replaced: it can be written sooner than a younger one. */
  isWanted(log: ReplicaLogImpl): boolean {
    const { producers, segments } = log;
    const neededBytes = Math.min(IMAGE_BYTES, segments.segmentBytes / IMAGES_PER_SEGMENT);
    if (this.#held !== undefined || this.#grownBytes < neededBytes) return false;
    return !producers.isBlank && producers.endOffset === log.endOffset && log.damage === undefined && !log.isDeleted;
  }

  /** Gives the bytes it took. */
  async capture(log: ReplicaLogImpl): Promise<number> {
    const held: Capture = { endOffset: log.endOffset, table: log.producers.encode(), tail: undefined };
    this.#held = held;
    this.#grownBytes = 0;
    held.tail = await tailOf(log);
    if (held.tail === undefined && this.#held === held) this.#drop();
    return held.table.length;
  }

  /** What is held may be written: all of it is durable and committed. */
  isReady(log: ReplicaLogImpl): boolean {
    const held = this.#held;
    if (held?.tail === undefined || log.isDeleted || log.damage !== undefined) return false;
    if (mutant("D-15")) return true;
    return held.endOffset <= Math.min(log.durableEnd, log.highWatermark);
  }

  async write(deps: CheckpointDeps, log: ReplicaLogImpl): Promise<void> {
    const held = this.#held;
    if (held?.tail === undefined) return;
    const { table, tail } = held;
    const { directory } = log.segments;
    const path = join(directory, producersName(tail.endOffset));
    const bytes = encodeProducerImage({ ...tail, logId: log.logId, table }, deps.checksum);
    // Torn by a crash it does not match its checksum, and the one before is used.
    await withFile(deps.files, { path, mode: "open-or-create" }, async (handle) => {
      await handle.truncate(0);
      await handle.write(0, [bytes]);
      await datasync(handle);
    });
    await writeSnapshot(deps, log, held);
    await syncDirectory(deps.files, directory);
    if (this.#held !== held) return void (this.#stale = [...this.#stale, tail.endOffset]);
    this.#held = undefined;
    const ends = [tail.endOffset, ...this.#ends.filter((end) => end !== tail.endOffset)];
    this.#ends = ends.slice(0, IMAGES_KEPT);
    this.#stale = [...this.#stale, ...ends.slice(IMAGES_KEPT)].filter((end) => !this.#ends.includes(end));
  }

  get hasStale(): boolean {
    return this.#stale.length > 0;
  }

  /** Only once no checkpoint speaks of them any more. */
  async removeStale(deps: CheckpointDeps, log: ReplicaLogImpl): Promise<void> {
    const stale = this.#stale;
    this.#stale = [];
    if (log.isDeleted) return;
    for (const end of stale)
      for (const name of [producersName(end), snapshotName(end)])
        await unlinkIfThere(deps.files, join(log.segments.directory, name));
  }
}

/** For Kafka's tools only, so it costs no sync; a crash may tear it. */
async function writeSnapshot(deps: CheckpointDeps, log: ReplicaLogImpl, { endOffset, table }: Capture): Promise<void> {
  const producers = ProducerTable.decode(table, endOffset)?.view() ?? [];
  const bytes = encodeSnapshot(snapshotEntries(producers), deps.checksum);
  const path = join(log.segments.directory, snapshotName(endOffset));
  await withFile(deps.files, { path, mode: "open-or-create" }, async (handle) => {
    await handle.write(0, [bytes]);
    await handle.truncate(bytes.length);
  });
}

/** Undefined: the log is empty, was cut meanwhile, or cannot be read there. Works also while the store is being closed. */
async function tailOf(log: ReplicaLogImpl): Promise<LogTail | undefined> {
  const { endOffset, startOffset, epochs, held, segments } = log;
  if (endOffset <= startOffset) return undefined;
  const last = toOffset(endOffset - 1);
  const options = { limitOffset: endOffset, maxBytes: 1, atLeastOne: true, epochs };
  try {
    const { chunks, release } = held.holdsFrom(last) ? held.read(last, options) : await segments.read(last, options);
    const batch = chunks[0];
    const tail = batch && { endOffset, epoch: leaderEpochAt(batch, 0), batchCrc: crcAt(batch, 0) };
    release?.();
    return tail;
  } catch {
    return undefined;
  }
}

/** Before the checkpoint ends the journal. */
export async function captureProducers(logs: readonly ReplicaLogImpl[], timers: Timers): Promise<void> {
  let sizeBytes = 0;
  for (const log of logs) {
    if (!log.images.isWanted(log)) continue;
    sizeBytes += await log.images.capture(log);
    if (sizeBytes < CAPTURE_BYTES_MAX) continue;
    sizeBytes = 0;
    await new Promise<void>((resolve) => timers.defer(resolve));
  }
}

/** Writes those that are ready, before the checkpoint that will name them. Without one a start reads more of the log: a full disk is no failure. */
export async function writeProducerImages(
  deps: CheckpointDeps,
  logs: readonly ReplicaLogImpl[],
  atOnceMax: number,
): Promise<void> {
  const ready = logs.filter((log) => log.images.isReady(log));
  await runLimited(ready, atOnceMax, async (log) => {
    try {
      await log.images.write(deps, log);
    } catch (thrown) {
      if (!isPassing(thrown) && !log.isDeleted) throw thrown;
    }
  });
}

/** After the superblock. */
export async function removeStaleProducers(deps: CheckpointDeps, logs: readonly ReplicaLogImpl[]): Promise<void> {
  for (const log of logs) if (log.images.hasStale) await log.images.removeStale(deps, log);
}
