// Appends of 64 KiB batches through the storage alone, 50 in flight, against `writeSync` of the same bytes: what the journal, its
// syncs and the second write into segments cost. `npx tsx bench/storage-append.ts [megabytes] [rounds]`.
import { join } from "node:path";
import { median } from "../src/bench/median.ts";
import { interleave, ratios, withTemporaryDirectory } from "./harness.ts";
import { rawAppend } from "./raw-append.ts";
import { makeDeps, MiB, storageConfig } from "./storage-deps.ts";
import { StoreFeeder, type WaitsFor } from "./store-feeder.ts";

const IN_FLIGHT = 50;
const BATCH_BYTES = 64 * 1024;
const JOURNAL = { journalBytes: 256 * MiB, checkpointIntervalMs: 60_000, journalPinnedBytes: 64 * MiB };

/** Megabytes (10^6) per second, the close not counted. */
async function storageAppend(directory: string, waitsFor: WaitsFor, totalBytes: number): Promise<number> {
  const config = storageConfig(join(directory, `${waitsFor}-${performance.now()}`), JOURNAL);
  const feeder = await StoreFeeder.open(await makeDeps(), config, { partitions: 1, batchBytes: BATCH_BYTES, waitsFor });
  const startedAt = performance.now();
  await feeder.run(Math.ceil(totalBytes / feeder.batchBytes), IN_FLIGHT);
  const figure = totalBytes / 1000 / (performance.now() - startedAt);
  await feeder.store.close();
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
