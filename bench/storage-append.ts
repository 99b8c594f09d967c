// Appends of 64 KiB batches through the storage alone, 50 in flight, against `writeSync` of the same bytes: what the journal, its
// syncs and the second write into segments cost. `npx tsx bench/storage-append.ts [megabytes] [rounds]`.
import { join } from "node:path";
import type { LeaderEpoch, Offset, PartitionIndex, TopicId } from "../src/model/ids.ts";
import { uuidFromBytes } from "../src/model/ids.ts";
import { assignOffsets, recordCountAt } from "../src/model/record-batch.ts";
import { RecordBatchBuilder } from "../src/model/records.ts";
import { openLogStore } from "../src/storage/log-store.ts";
import type { ReplicaLog, StorageDeps, StoreListener } from "../src/storage/types.ts";
import { median } from "../src/bench/median.ts";
import { interleave, ratios, withTemporaryDirectory } from "./harness.ts";
import { makeDeps, MiB, storageConfig } from "./storage-deps.ts";
import { rawAppend } from "./raw-append.ts";

const IN_FLIGHT = 50;
const BATCH_BYTES = 64 * 1024;
const JOURNAL = { journalBytes: 256 * MiB, checkpointIntervalMs: 60_000, journalPinnedBytes: 64 * MiB };

function makeBatch(deps: StorageDeps): Uint8Array {
  const builder = new RecordBatchBuilder({ limitBytes: BATCH_BYTES });
  const value = new Uint8Array(100).fill(7);
  while (builder.tryAppend({ key: null, value, headers: [], timestamp: 1000 }));
  return builder.build({ compression: "none", codecs: deps.codecs, checksum: deps.checksum });
}

/** Keeps a window of appends in flight until all bytes are written or durable. */
class Feeder implements StoreListener {
  readonly #log: ReplicaLog;
  readonly #batch: Uint8Array;
  readonly #total: number;
  readonly #waitsFor: "written" | "durable";
  readonly #hasRoom: () => boolean;
  #sent = 0;
  #acknowledged = 0;
  #done: () => void = () => undefined;

  constructor(
    log: ReplicaLog,
    options: { batch: Uint8Array; total: number; waitsFor: "written" | "durable"; hasRoom: () => boolean },
  ) {
    this.#log = log;
    this.#batch = options.batch;
    this.#total = options.total;
    this.#waitsFor = options.waitsFor;
    this.#hasRoom = options.hasRoom;
  }

  run(): Promise<void> {
    return new Promise((resolve) => {
      this.#done = resolve;
      this.#feed();
    });
  }

  #feed(): void {
    const count = recordCountAt(this.#batch, 0);
    while (this.#sent < this.#total && this.#sent - this.#acknowledged < IN_FLIGHT && this.#hasRoom()) {
      const batch = this.#batch.slice();
      assignOffsets(batch, this.#log.endOffset, 0);
      this.#log.append(batch, (this.#log.endOffset + count - 1) as Offset, 0 as LeaderEpoch);
      this.#sent++;
    }
    if (this.#acknowledged >= this.#total) this.#done();
  }

  #acknowledge(endOffset: number): void {
    this.#acknowledged = endOffset / recordCountAt(this.#batch, 0);
    this.#feed();
  }

  onWritten(_log: ReplicaLog, endOffset: Offset): void {
    if (this.#waitsFor === "written") this.#acknowledge(endOffset);
  }

  onDurable(_log: ReplicaLog, endOffset: Offset): void {
    if (this.#waitsFor === "durable") this.#acknowledge(endOffset);
  }

  onRoomChanged(): void {
    this.#feed();
  }

  onDamaged(log: ReplicaLog): void {
    throw new Error(log.damage?.reason);
  }

  onRefused(): void {
    throw new Error("the disk is full");
  }

  onDiskFailed(error: Error): void {
    throw error;
  }
}

/** Megabytes (10^6) per second, the close not counted. */
async function storageAppend(directory: string, waitsFor: "written" | "durable", totalBytes: number): Promise<number> {
  const deps = await makeDeps();
  const store = await openLogStore(deps, storageConfig(join(directory, `${waitsFor}-${performance.now()}`), JOURNAL));
  const listener: { feeder: StoreListener | undefined } = { feeder: undefined };
  store.listen({
    onWritten: (...event) => listener.feeder?.onWritten(...event),
    onDurable: (...event) => listener.feeder?.onDurable(...event),
    onRefused: (...event) => listener.feeder?.onRefused(...event),
    onDamaged: (log) => listener.feeder?.onDamaged(log),
    onRoomChanged: () => listener.feeder?.onRoomChanged(),
    onDiskFailed: (error) => listener.feeder?.onDiskFailed(error),
  });
  const topicId: TopicId = uuidFromBytes(new Uint8Array(16).fill(1));
  const log = await store.createLog({ topicId, topic: "bench", partition: 0 as PartitionIndex });
  const batch = makeBatch(deps);
  const feeder = new Feeder(log, {
    batch,
    total: Math.ceil(totalBytes / batch.length),
    waitsFor,
    hasRoom: () => store.hasRoom,
  });
  listener.feeder = feeder;
  const startedAt = performance.now();
  await feeder.run();
  const figure = totalBytes / 1000 / (performance.now() - startedAt);
  await store.close();
  return figure;
}

const [megabytes = 1000, rounds = 3] = process.argv.slice(2).map(Number);
const totalBytes = megabytes * 1e6;
await withTemporaryDirectory(async (directory) => {
  const samples = await interleave(
    [
      { name: "writeSync 64 KiB", run: async () => rawAppend(directory, totalBytes) },
      { name: "storage, written (acks=1)", run: () => storageAppend(directory, "written", totalBytes) },
      { name: "storage, durable (acks=all)", run: () => storageAppend(directory, "durable", totalBytes) },
    ],
    rounds,
  );
  const baseline = samples.get("writeSync 64 KiB") ?? [];
  for (const [name, figures] of samples) {
    process.stdout.write(
      `${name.padEnd(30)} ${median(figures).toFixed(0).padStart(6)} MB/s  x ${median(ratios(figures, baseline)).toFixed(2)}\n`,
    );
  }
});
