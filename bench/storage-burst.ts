// How soon a batch on each of 200 partitions is durable: in the storage, in one bare file, in one with a file for each partition written behind it, and
// in a bare file for each. In a process of its own, with the
// heap that a broker's has: with that of a benchmark the collector would look for batches several times as often.
import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { median } from "../src/bench/median.ts";
import { NODE_HEAP } from "../src/cli/node-child.ts";
import { BareFile, filesOfPartitions } from "./bare-files.ts";
import { withTemporaryDirectory } from "./harness.ts";
import { makeDeps, MiB, storageConfig } from "./storage-deps.ts";
import { StoreFeeder } from "./store-feeder.ts";

export type BurstKind = "journal" | "journal-and-files" | "files" | "store";

const PARTITIONS = 200;
const BATCH_BYTES = 16 * 1024;
const BURSTS = 60;
/** The storage has written to each segment once by then: its indexes are in memory. */
const WARM_UP = 30;
/** Room for all bursts: a checkpoint is not what is measured here. */
const JOURNAL = { journalBytes: 512 * MiB, checkpointIntervalMs: 60_000, journalPinnedBytes: 64 * MiB };

/** Milliseconds: the median of bursts, each from the first append to the last answer. They begin `restMs` after the one before has its answers. */
export async function burst(kind: BurstKind, restMs: number): Promise<number> {
  const execArgv = ["--import", "tsx", ...NODE_HEAP];
  const child = fork(import.meta.filename, [kind, String(restMs)], { execArgv });
  const died = once(child, "exit").then(([code]) => Promise.reject(new Error(`the bursts ended with ${code}`)));
  died.catch(() => undefined);
  const [figure] = (await Promise.race([once(child, "message"), died])) as [number];
  return figure;
}

/** What comes before is not counted. */
async function burstMs(
  restMs: number,
  append: () => Promise<void>,
  prepare: () => unknown = () => undefined,
): Promise<number> {
  const samples: number[] = [];
  for (let done = 0; done < WARM_UP + BURSTS; done++) {
    prepare();
    if (restMs > 0) await new Promise((resolve) => setTimeout(resolve, restMs));
    const startedAt = performance.now();
    await append();
    if (done >= WARM_UP) samples.push(performance.now() - startedAt);
  }
  return median(samples);
}

/** Writes what was appended to a file for each partition, without a sync: all that waits once it is half of what may, two files at a time. */
class FilesBehind {
  readonly #files: readonly BareFile[];
  readonly #waiting: Uint8Array[][];
  #waitingBytes = 0;
  #writing: Promise<unknown> | undefined;

  constructor(directory: string) {
    this.#files = filesOfPartitions(directory, PARTITIONS);
    this.#waiting = this.#files.map(() => []);
  }

  /** There is room. */
  async room(): Promise<void> {
    while (this.#waitingBytes >= JOURNAL.journalPinnedBytes) await this.#writing;
  }

  take(chunks: readonly Uint8Array[]): void {
    for (const [place, chunk] of chunks.entries()) this.#waiting[place]?.push(chunk);
    this.#waitingBytes += PARTITIONS * BATCH_BYTES;
    if (this.#waitingBytes * 2 >= JOURNAL.journalPinnedBytes) this.#writing ??= this.#write();
  }

  async #write(): Promise<void> {
    const places = this.#files.entries();
    const writeSome = async (): Promise<void> => {
      for (const [place, file] of places) {
        const chunks = this.#waiting[place]?.splice(0) ?? [];
        await file.write(chunks);
        this.#waitingBytes -= chunks.length * BATCH_BYTES;
      }
    };
    await Promise.all([writeSome(), writeSome()]);
    this.#writing = undefined;
  }

  async close(): Promise<void> {
    await this.#writing;
    for (const file of this.#files) file.close();
  }
}

const chunksOf = (count: number): Uint8Array[] =>
  Array.from({ length: count }, () => new Uint8Array(BATCH_BYTES).fill(7));

const BURSTS_OF: Readonly<Record<BurstKind, (directory: string, restMs: number) => Promise<number>>> = {
  async journal(directory, restMs) {
    const preallocatedBytes = (WARM_UP + BURSTS) * PARTITIONS * BATCH_BYTES;
    const file = new BareFile(join(directory, "bare"), preallocatedBytes);
    let chunks: Uint8Array[] = [];
    // Bytes that no cache of the processor holds any more, as those of the storage are.
    const figure = await burstMs(
      restMs,
      () => file.append(chunks),
      () => (chunks = chunksOf(PARTITIONS)),
    );
    file.close();
    return figure;
  },

  async "journal-and-files"(directory, restMs) {
    const file = new BareFile(join(directory, "bare-journal"), (WARM_UP + BURSTS) * PARTITIONS * BATCH_BYTES);
    const behind = new FilesBehind(directory);
    let chunks: Uint8Array[] = [];
    const append = async () => {
      await behind.room();
      await file.append(chunks);
      behind.take(chunks);
    };
    // What is still to be written must stay as it is.
    const figure = await burstMs(restMs, append, () => (chunks = chunksOf(PARTITIONS)));
    await behind.close();
    file.close();
    return figure;
  },

  async files(directory, restMs) {
    const files = filesOfPartitions(directory, PARTITIONS);
    const chunks = chunksOf(1);
    const appendAll = async () => void (await Promise.all(files.map((file) => file.append(chunks))));
    const figure = await burstMs(restMs, appendAll);
    for (const file of files) file.close();
    return figure;
  },

  /** Its journal is one that was used before, as all are but the first two of a directory. */
  async store(directory, restMs) {
    const load = { partitions: PARTITIONS, batchBytes: BATCH_BYTES, waitsFor: "durable" } as const;
    const open = async () => StoreFeeder.open(await makeDeps(), storageConfig(join(directory, "data"), JOURNAL), load);
    const first = await open();
    await first.run(WARM_UP + BURSTS, 1);
    await first.store.close();
    const feeder = await open();
    const figure = await burstMs(
      restMs,
      () => feeder.run(1, 1),
      () => feeder.makeReady(1),
    );
    await feeder.store.close();
    return figure;
  },
};

if (process.send !== undefined && process.argv[1] === import.meta.filename) {
  const figure = await withTemporaryDirectory((directory) =>
    BURSTS_OF[process.argv[2] as BurstKind](directory, Number(process.argv[3])),
  );
  process.send(figure, () => process.disconnect());
}
