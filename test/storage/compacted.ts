// A log of few keys, some of them deleted, after a pass of the cleaner: batches without records, merged ones, tombstones that wait for their horizon.
import { CLEANUP } from "../../src/model/config-values.ts";
import type { LeaderEpoch, Offset } from "../../src/model/ids.ts";
import { assignOffsets } from "../../src/model/record-batch.ts";
import { RecordBatchBuilder } from "../../src/model/records.ts";
import type { Codecs } from "../../src/ports/codecs.ts";
import type { Files } from "../../src/ports/files.ts";
import { compact } from "../../src/storage/compaction/pass.ts";
import { cleanableOf } from "../../src/storage/compaction/plan.ts";
import type { ReplicaLogImpl } from "../../src/storage/replica-log.ts";
import type { LogStoreImpl } from "../../src/storage/store.ts";
import { checksum, makeDeps, openStore, Recorder, specOf } from "./support.ts";

const NOW_MS = 1_800_000_000_000;
const FIRST_MS = 1_700_000_000_000;
const BATCHES = 400;
const nothing = (): Promise<void> => Promise.resolve();

function batchOf(place: number, base: number, codecs: Codecs): Uint8Array {
  const builder = new RecordBatchBuilder({ limitBytes: 1 << 20 });
  for (let index = 0; index < 3; index++)
    builder.tryAppend({
      key: new Uint8Array([(place * 7 + index * 3) % (place < BATCHES / 2 ? 90 : 5)]),
      value: (place + index) % 13 === 0 ? null : new Uint8Array(60).fill(place),
      headers: [],
      timestamp: FIRST_MS + place * 10 - (place % 3) * 40,
    });
  const batch = builder.build({ compression: place % 4 === 0 ? "zstd" : "none", codecs, checksum });
  assignOffsets(batch, base, 0);
  return batch;
}

/** Records of FIRST_MS to four seconds later. */
export async function compactedLog(
  files: Files,
  { directory, codecs }: { readonly directory: string; readonly codecs: Codecs },
): Promise<{ readonly store: LogStoreImpl; readonly log: ReplicaLogImpl; readonly firstMs: number }> {
  const deps = { ...makeDeps(files), codecs, clock: { monoMs: () => 0, wallMs: () => NOW_MS } };
  const store = await openStore(files, { directory, segmentBytes: 10_000, indexIntervalBytes: 500 }, deps);
  const recorder = new Recorder();
  store.listen(recorder);
  const log = (await store.createLog(specOf("c"))) as ReplicaLogImpl;
  const { settings } = log.segments;
  const own = {
    cleanupPolicy: CLEANUP.COMPACT,
    deleteRetentionMs: 1e9,
    minCompactionLagMs: 0,
    minCleanableDirtyRatio: 0,
  };
  log.configure({ ...settings, ...own });
  for (let place = 0; place < BATCHES; place++) {
    log.append(batchOf(place, log.endOffset, codecs), (log.endOffset + 2) as Offset, 0 as LeaderEpoch);
    log.producers.advance(log.endOffset);
    if (place % 50 === 49) await recorder.until(() => log.durableEnd === log.endOffset);
  }
  await store.checkpoint();
  log.noteHighWatermark(log.endOffset);
  const { startOffset, highWatermark, cleanedTo } = log;
  const looked = {
    segments: log.segmentViews(),
    startOffset,
    highWatermark,
    cleanedTo,
    settings: log.segments.settings,
  };
  const cleanable = cleanableOf(looked, NOW_MS);
  if (cleanable === undefined) throw new Error("nothing to compact");
  const result = await compact(log, cleanable, { deps, dedupeBytes: 1 << 20, pace: nothing, breathe: nothing });
  await store.checkpoint();
  if (!(await result.isDone)) throw new Error("the compaction did not take its place");
  return { store, log, firstMs: FIRST_MS };
}
