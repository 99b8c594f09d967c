// Looks at the images of a log's producers from outside: whether they are whole, and whether they are what the log says.
import { crcAt, leaderEpochAt, recordCountAt } from "../model/record-batch.ts";
import { type ProducerView, ProducerTable } from "../model/producer-table.ts";
import type { ScannedBatch } from "./batch-scan.ts";
import type { Fault, InspectDeps, Remark } from "./inspect-types.ts";
import { readWhole, withFile } from "./file-work.ts";
import { join, producersEndOf, producersName, SNAPSHOT_SUFFIX } from "./paths.ts";
import { type LoadedProducers, loadProducerImage, type ProducerImage } from "./producer-image.ts";
import { decodeSnapshot, snapshotEntries } from "./producer-snapshot.ts";
import { observeBatch } from "./producer-replay.ts";

/** What one such file holds. */
export interface ProducersFile {
  readonly image: Pick<ProducerImage, "logId" | "endOffset" | "epoch" | "batchCrc">;
  /** -1: nobody was. */
  readonly forgottenMaxId: number;
  readonly producers: readonly ProducerView[];
}

/** Producers by their id; a fault when the file is damaged. */
export async function readProducersFile(deps: InspectDeps, path: string): Promise<ProducersFile | Fault> {
  const endOffset = producersEndOf(path.slice(path.lastIndexOf("/") + 1));
  const loaded = await loadProducerImage(deps, { path, logId: undefined, endOffset });
  if (typeof loaded === "string") return { file: path, position: undefined, offset: undefined, reason: loaded };
  const { logId, epoch, batchCrc } = loaded.image;
  const { forgottenMaxId } = loaded.table;
  const image = { logId, endOffset: loaded.image.endOffset, epoch, batchCrc };
  return { image, forgottenMaxId, producers: loaded.table.view() };
}

interface Loaded {
  readonly path: string;
  readonly loaded: LoadedProducers;
}

/** Follows the batches of a log from its first file on, and holds each image against them where it ends. */
export class ProducersCheck {
  readonly faults: Fault[] = [];
  /** A start passes over these. */
  readonly remarks: Remark[] = [];
  readonly #waiting = new Map<number, Loaded>();
  #table: ProducerTable | undefined;
  /** The table is of everything that was ever in the log: else the images may know producers whose batches are gone. */
  #isWhole = false;

  /** `named`: those that a checkpoint speaks of; undefined: all that are there. */
  static async of(
    deps: InspectDeps,
    directory: string,
    names: { readonly found: readonly string[]; readonly named: readonly number[] | undefined },
  ): Promise<ProducersCheck> {
    const check = new ProducersCheck();
    for (const endOffset of names.named ?? names.found.flatMap((name) => producersEndOf(name) ?? [])) {
      const path = join(directory, producersName(endOffset));
      const loaded = await loadProducerImage(deps, { path, logId: undefined, endOffset });
      if (typeof loaded === "string") check.#remark(path, loaded);
      else check.#waiting.set(endOffset, { path, loaded });
    }
    for (const name of names.found)
      if (producersEndOf(name, SNAPSHOT_SUFFIX) !== undefined) await check.#checkSnapshot(deps, directory, name);
    return check;
  }

  /** Nothing of ours reads it, and it is not synced: that it is not what the image beside it says is remarked. */
  async #checkSnapshot(deps: InspectDeps, directory: string, name: string): Promise<void> {
    const path = join(directory, name);
    const found = decodeSnapshot(await withFile(deps.files, { path, mode: "read" }, readWhole), deps.checksum);
    if (typeof found === "string") return this.#remark(path, found);
    const image = this.#waiting.get(producersEndOf(name, SNAPSHOT_SUFFIX) ?? -1);
    if (image === undefined) return;
    const expected = snapshotEntries(image.loaded.table.view());
    if (JSON.stringify(found) !== JSON.stringify(expected))
      this.#remark(path, "the producers in it are not those of the image beside it");
  }

  visit(batch: ScannedBatch): void {
    if (this.#waiting.size === 0) return;
    if (this.#table === undefined) {
      this.#table = new ProducerTable(batch.base);
      this.#isWhole = batch.base === 0;
    }
    const table = this.#table;
    // Whoever checks the files tells of a gap.
    if (batch.base !== table.endOffset) return;
    // Compaction keeps what is in a window now, not what was in one when an image was made.
    if (recordCountAt(batch.bytes, batch.at) !== batch.last - batch.base + 1) this.#isWhole = false;
    observeBatch(table, batch.bytes, batch.at);
    table.settle(table.endOffset);
    const waiting = this.#waiting.get(table.endOffset);
    if (waiting === undefined) return;
    this.#waiting.delete(table.endOffset);
    this.#compare(waiting, batch, table);
  }

  #compare({ path, loaded }: Loaded, { bytes, at }: ScannedBatch, table: ProducerTable): void {
    const { image } = loaded;
    const { endOffset: offset } = table;
    if (leaderEpochAt(bytes, at) !== image.epoch || crcAt(bytes, at) !== image.batchCrc)
      return this.#remark(path, `the log has another batch before offset ${offset}`);
    if (!this.#isWhole || loaded.table.equals(table)) return;
    const reason = `the producers in it are not those of the log up to offset ${offset}`;
    this.faults.push({ file: path, position: undefined, offset: undefined, reason });
  }

  /** All batches were visited. */
  finish(): void {
    for (const [endOffset, { path }] of this.#waiting)
      this.#remark(path, `the log has no batch that ends at offset ${endOffset}`);
  }

  #remark(file: string, reason: string): void {
    this.remarks.push({ file, position: 0, reason });
  }
}
