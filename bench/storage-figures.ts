// The storage of one broker against bare files (issue: "Figures"): how soon 200 partitions have an answer, what is written for each acknowledged byte
// over checkpoints and segments, and how fast a log is read from its disk. `npm run bench -- storage`.
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { filesOfPartitions, plainReads } from "./bare-files.ts";
import {
  type BoundedSummary,
  comparedRows,
  dropPageCache,
  interleave,
  ratios,
  type Summary,
  summarise,
  withTemporaryDirectory,
} from "./harness.ts";
import { makeDeps, MiB, storageConfig } from "./storage-deps.ts";
import { burst } from "./storage-burst.ts";
import { StoreFeeder } from "./store-feeder.ts";

const PARTITIONS = 200;
const BATCH_BYTES = 16 * 1024;
/** For what a burst leaves to be done behind its answers: bursts without it are a load of a gigabyte per second. */
const REST_MS = 20;
const SUSTAINED_MS = 20_000;
/** Batches on each partition that are given to be acknowledged before the next. */
const SUSTAINED_BURST = 1;
const READ_BYTES = 1 * MiB;
const COLD_BYTES = 512 * MiB;
/** One takes a fifth of a second: alone, a hiccup of the machine would be the figure, and the first is that of code that was never run before. */
const COLD_PASSES = 5;
const JOURNAL = { journalBytes: 256 * MiB, checkpointIntervalMs: 60_000, journalPinnedBytes: 64 * MiB };
/** Small enough that twenty seconds see several checkpoints and many segments. */
const SUSTAINED_JOURNAL = { journalBytes: 128 * MiB, checkpointIntervalMs: 5_000, journalPinnedBytes: 64 * MiB };
const SUSTAINED_SEGMENT_BYTES = 8 * MiB;

const LATENCY_OVER_JOURNAL_MOST = 1.5;
const FILES_OVER_LATENCY_FLOOR = 4;
const SUSTAINED_FLOOR = 2;
const WRITTEN_MOST = 2.2;
const COLD_FLOOR = 0.7;

const chunksOf = (count: number): Uint8Array[] =>
  Array.from({ length: count }, () => new Uint8Array(BATCH_BYTES).fill(7));

/** What this process gave to its disk so far, as the kernel counts it. */
function writtenBytes(): number {
  return Number(/^write_bytes: (\d+)$/m.exec(readFileSync("/proc/self/io", "utf8"))?.[1] ?? Number.NaN);
}

interface Sustained {
  /** Megabytes (10^6) per second. */
  readonly rate: number;
  readonly writtenPerByte: number;
}

async function sustain(append: () => Promise<void>, burstBytes: number): Promise<Sustained> {
  const before = writtenBytes();
  const startedAt = performance.now();
  let bytes = 0;
  while (performance.now() - startedAt < SUSTAINED_MS) {
    await append();
    bytes += burstBytes;
  }
  const rate = bytes / 1000 / (performance.now() - startedAt);
  dropPageCache();
  return { rate, writtenPerByte: (writtenBytes() - before) / bytes };
}

function sustainedStore(): Promise<Sustained> {
  return withTemporaryDirectory(async (directory) => {
    const load = { partitions: PARTITIONS, batchBytes: BATCH_BYTES, waitsFor: "durable" } as const;
    const config = {
      ...storageConfig(join(directory, "data"), SUSTAINED_JOURNAL),
      segmentBytes: SUSTAINED_SEGMENT_BYTES,
    };
    const feeder = await StoreFeeder.open(await makeDeps(), config, load);
    const burstBytes = PARTITIONS * SUSTAINED_BURST * feeder.batchBytes;
    const figure = await sustain(() => feeder.run(SUSTAINED_BURST, SUSTAINED_BURST), burstBytes);
    await feeder.store.close();
    return figure;
  });
}

function sustainedFiles(): Promise<Sustained> {
  return withTemporaryDirectory((directory) => {
    const files = filesOfPartitions(directory, PARTITIONS);
    // Memory of its own for each, as for the storage.
    const append = async () => void (await Promise.all(files.map((file) => file.append(chunksOf(SUSTAINED_BURST)))));
    return sustain(append, PARTITIONS * SUSTAINED_BURST * BATCH_BYTES).finally(() => {
      for (const file of files) file.close();
    });
  });
}

/** Both ways of reading the same log, in turn; its pages are in memory, so that the processor decides. */
async function coldReads(rounds: number): Promise<Map<string, number[]>> {
  return withTemporaryDirectory(async (root) => {
    const directory = join(root, "data");
    mkdirSync(directory, { recursive: true });
    const config = { ...storageConfig(directory, JOURNAL), tailCacheBytes: 0, segmentBytes: 128 * MiB };
    const load = { partitions: 1, batchBytes: 64 * 1024, waitsFor: "durable" } as const;
    const feeder = await StoreFeeder.open(await makeDeps(), config, load);
    await feeder.run(Math.ceil(COLD_BYTES / feeder.batchBytes), 50);
    const [log] = feeder.logs;
    if (log === undefined) throw new Error("no log");
    const folder = join(directory, "bench-0");
    const paths = readdirSync(folder)
      .filter((name) => name.endsWith(".log"))
      .map((name) => join(folder, name));
    const plain = { name: PLAIN, run: async () => plainReads(paths.toSorted(), READ_BYTES) };
    const own = {
      name: OWN,
      run: async () => {
        const startedAt = performance.now();
        let bytes = 0;
        for (let offset = log.startOffset; offset < log.endOffset; ) {
          const options = { limitOffset: log.endOffset, maxBytes: READ_BYTES, atLeastOne: true };
          const read = await log.read(offset, options);
          bytes += read.sizeBytes;
          offset = read.nextOffset;
          // As the broker does once the answer is in the socket.
          read.release?.();
        }
        return bytes / 1000 / (performance.now() - startedAt);
      },
    };
    const samples = await interleave([plain, own], rounds * COLD_PASSES);
    await feeder.store.close();
    return samples;
  });
}

const PLAIN = "plain reads of 1 MiB and a pass of CRC-32C";
const OWN = "a log read from its segments";

async function burstRows(rounds: number): Promise<(Summary | BoundedSummary)[]> {
  const figures = {
    journal: "bare journal",
    "journal-and-files": "and files behind it",
    files: "a sync per file",
    store: "storage, durable",
  } as const;
  const rests = [
    { rest: "back to back", restMs: 0 },
    { rest: `${REST_MS} ms apart`, restMs: REST_MS },
  ];
  const nameOf = (kind: keyof typeof figures, rest: string) => `${PARTITIONS} x 16 KiB ${rest}: ${figures[kind]}`;
  const variants = rests.flatMap(({ rest, restMs }) =>
    (["journal", "journal-and-files", "files", "store"] as const).map((kind) => ({
      name: nameOf(kind, rest),
      run: () => burst(kind, restMs),
    })),
  );
  const samples = await interleave(variants, rounds);
  const of = (name: string) => samples.get(name) ?? [];
  return rests.flatMap(({ rest }) => {
    const [journal, both] = [nameOf("journal", rest), nameOf("journal-and-files", rest)];
    const [files, store] = [nameOf("files", rest), nameOf("store", rest)];
    return [
      ...[journal, both, files, store].map((name) => summarise(name, "ms", of(name))),
      {
        ...summarise("  storage over bare journal", "ratio", ratios(of(store), of(journal))),
        baseline: journal,
        most: LATENCY_OVER_JOURNAL_MOST,
      },
      summarise("  storage over bare journal and files", "ratio", ratios(of(store), of(both))),
      {
        ...summarise("  a sync per file over storage", "ratio", ratios(of(files), of(store))),
        baseline: store,
        floor: FILES_OVER_LATENCY_FLOOR,
      },
    ];
  });
}

async function sustainedRows(rounds: number): Promise<(Summary | BoundedSummary)[]> {
  const written: number[] = [];
  const store = "sustained 20 s: storage with segments";
  const files = "sustained 20 s: a sync per file";
  const samples = await interleave(
    [
      { name: files, run: async () => (await sustainedFiles()).rate },
      {
        name: store,
        run: async () => {
          const { rate, writtenPerByte } = await sustainedStore();
          written.push(writtenPerByte);
          return rate;
        },
      },
    ],
    rounds,
  );
  const ratio = "  over a sync per file";
  return [
    ...comparedRows(samples, {
      baseline: files,
      judged: store,
      unit: "MB/s",
      ratio,
      bound: { floor: SUSTAINED_FLOOR },
    }),
    { ...summarise("  written per acknowledged byte", "ratio", written), most: WRITTEN_MOST },
  ];
}

export async function benchStorage(rounds: number): Promise<(Summary | BoundedSummary)[]> {
  const bursts = await burstRows(rounds);
  const sustained = await sustainedRows(Math.min(rounds, 3));
  const cold = await coldReads(rounds);
  const ratio = "  over plain reads";
  return [
    ...bursts,
    ...sustained,
    ...comparedRows(cold, { baseline: PLAIN, judged: OWN, unit: "MB/s", ratio, bound: { floor: COLD_FLOOR } }),
  ];
}
