// Bringing the producers of one log back beside its replay (D-15): from the newest image that the log agrees with, and from every batch behind it.
import { present } from "../base/assert.ts";
import { mutant } from "../base/mutant.ts";
import { crcAt, lastOffsetAt, leaderEpochAt } from "../model/record-batch.ts";
import { concernsProducersAt, ProducerTable, sequencedAt } from "../model/producer-table.ts";
import { forEachBatch } from "../model/records.ts";
import { isUnreadable, storageError } from "./faults.ts";
import type { LogImage } from "./image.ts";
import { join, producersName } from "./paths.ts";
import type { ScannedBatch } from "./batch-scan.ts";
import { type LoadedProducers, loadProducerImage, type LogTail } from "./producer-image.ts";
import type { ReplicaLogImpl } from "./replica-log.ts";
import type { Damage, StorageDeps } from "./types.ts";

export class ProducerReplay {
  readonly #deps: StorageDeps;
  readonly #log: ReplicaLogImpl;
  readonly #image: LogImage;
  /** The journal cuts the log here, below the end that the checkpoint proves: its segments hold anything behind that. */
  readonly #cutTo: number | undefined;
  /** Of the log as far as it has been replayed; undefined: it is read from the segments in the end. */
  #table: ProducerTable | undefined;
  /** Images that may be used; one that cannot is forgotten, and its file goes. */
  #ends: readonly number[];
  /** End of the image that was used. */
  #usedEnd = 0;
  #readBytes = 0;

  constructor(
    deps: StorageDeps,
    options: { readonly log: ReplicaLogImpl; readonly image: LogImage; readonly cutTo: number | undefined },
  ) {
    this.#deps = deps;
    this.#log = options.log;
    this.#image = options.image;
    this.#cutTo = options.cutTo;
    this.#ends = options.image.producerImages;
  }

  /** Before the journals: the log ends where the checkpoint says. What is not readable is damage of the log. */
  async begin(): Promise<Damage | undefined> {
    const { isPlain, endOffset, highWatermark } = this.#image;
    if (isPlain) {
      this.#table = new ProducerTable(this.#image.startOffset);
      this.#table.advance(Math.min(endOffset, this.#cutTo ?? endOffset));
      return undefined;
    }
    if (this.#cutTo !== undefined) return undefined;
    return this.#load(highWatermark.offset);
  }

  /** An APPEND of the journal. */
  append(run: Uint8Array): void {
    this.#readBytes += run.length;
    if (this.#table !== undefined) observeRun(this.#table, run);
  }

  /** A TRUNCATE of the journal. */
  cut(to: number): void {
    if (this.#table?.truncate(to) === false) this.#table = undefined;
  }

  /** A high watermark of the journal: few logs are ever cut below one, so the steps below it need not be kept. */
  settle(highWatermark: number): void {
    this.#table?.settle(Math.min(highWatermark, this.#table.endOffset));
  }

  /** After the journals, once the high watermark is known. */
  async end(): Promise<Damage | undefined> {
    const log = this.#log;
    if (this.#table === undefined) {
      const damage = await this.#load(log.highWatermark);
      if (damage !== undefined) return damage;
    }
    const table = present(this.#table, "producers");
    if (table.endOffset !== log.endOffset)
      return { reason: `its producers end at ${table.endOffset}, the log at ${log.endOffset}`, fromOffset: undefined };
    // An image was written of what is committed: the log that has the same records knows that, too.
    log.mark.raise(Math.min(this.#usedEnd, log.endOffset));
    table.settle(log.highWatermark);
    log.producers = table;
    log.images.found(this.#ends, this.#readBytes);
    return undefined;
  }

  async #load(settledEnd: number): Promise<Damage | undefined> {
    const { segments, logId, topic, partition } = this.#log;
    try {
      for (const endOffset of this.#ends) {
        const file = join(segments.directory, producersName(endOffset));
        const loaded = await loadProducerImage(this.#deps, { path: file, logId, endOffset });
        const reason = typeof loaded === "string" ? loaded : await this.#readFrom(loaded, settledEnd);
        if (reason === undefined) return undefined;
        this.#deps.logger.warn("producer_image_passed_over", { topic, partition, file, reason });
        this.#ends = this.#ends.filter((end) => end !== endOffset);
      }
      await this.#readFrom(undefined, settledEnd);
      return undefined;
    } catch (thrown) {
      if (!isUnreadable(thrown)) throw thrown;
      const reason = thrown instanceof Error ? thrown.message : String(thrown);
      return { reason, fromOffset: undefined };
    }
  }

  /** Reads every batch behind the image, or all of the log when there is none. The reason why the log does not agree with the image (D-15). */
  async #readFrom(loaded: LoadedProducers | undefined, settledEnd: number): Promise<string | undefined> {
    const { segments, startOffset } = this.#log;
    const reader = new TableReader(loaded, settledEnd);
    const isWithin = loaded === undefined || loaded.image.endOffset <= segments.endOffset;
    if (isWithin) {
      // Without an image all that is there counts, also what is below the log's start in a file that it shares.
      const from = loaded === undefined ? (segments.all[0]?.base ?? startOffset) : loaded.image.endOffset - 1;
      await segments.walk(from, { visit: (batch) => reader.visit(batch) });
    }
    if (!reader.isProven) return reader.fault ?? `the log has nothing before offset ${loaded?.image.endOffset}`;
    if (reader.fault !== undefined) throw storageError(`${segments.directory}: ${reader.fault}`);
    // No batch: the journal's LOG_START gave up all that the checkpoint had.
    this.#table = reader.table ?? new ProducerTable(segments.endOffset);
    this.#readBytes = reader.readBytes;
    this.#usedEnd = loaded?.image.endOffset ?? 0;
    return undefined;
  }
}

/** Takes the batches of a log in their order. */
class TableReader {
  readonly #tail: LogTail | undefined;
  readonly #settledEnd: number;
  table: ProducerTable | undefined;
  /** The log has the batch that the image ends with. */
  isProven: boolean;
  fault: string | undefined;
  readBytes = 0;

  constructor(loaded: LoadedProducers | undefined, settledEnd: number) {
    this.#tail = loaded?.image;
    this.#settledEnd = settledEnd;
    this.isProven = loaded === undefined;
    this.table = loaded?.table;
    this.table?.settle(settledEnd);
  }

  visit(batch: ScannedBatch): boolean {
    if (!this.isProven) return this.#prove(batch);
    if (this.table === undefined) {
      // A batch that holds the log's start is there whole.
      this.table = new ProducerTable(batch.base);
      this.table.settle(this.#settledEnd);
    }
    if (batch.base !== this.table.endOffset) {
      this.fault = `offset ${batch.base} where ${this.table.endOffset} should be`;
      return false;
    }
    observeBatch(this.table, batch.bytes, batch.at);
    this.readBytes += batch.sizeBytes;
    return true;
  }

  #prove({ bytes, at, base, last }: ScannedBatch): boolean {
    const { endOffset, epoch, batchCrc } = this.#tail ?? { endOffset: 0, epoch: 0, batchCrc: 0 };
    const isSame = last + 1 === endOffset && leaderEpochAt(bytes, at) === epoch && crcAt(bytes, at) === batchCrc;
    this.isProven = isSame || mutant("D-15");
    if (!this.isProven) this.fault = `the log has another batch at offset ${base}`;
    return this.isProven;
  }
}

/** The next batch of the log. */
export function observeBatch(table: ProducerTable, bytes: Uint8Array, at: number): void {
  if (!concernsProducersAt(bytes, at) || mutant("M23")) return table.advance(lastOffsetAt(bytes, at) + 1);
  table.observe(sequencedAt(bytes, at));
}

/** A run of batches that the log took. */
function observeRun(table: ProducerTable, run: Uint8Array): void {
  forEachBatch(run, (at) => observeBatch(table, run, at));
}
