// A compaction of one log of a storage trace: the pass that the store's cleaner makes, at a moment that the trace chooses.
import { CLEANUP } from "../model/config-values.ts";
import { compact } from "../storage/compaction/pass.ts";
import { cleanableOf } from "../storage/compaction/plan.ts";
import { UNCONFIGURED_LOG } from "../storage/log-settings.ts";
import type { ReplicaLogImpl } from "../storage/replica-log.ts";
import type { LogSettings, StorageConfig, StorageDeps } from "../storage/types.ts";

const DEDUPE_BYTES = 64 * 1024;
/** No tombstone's time comes in a trace. */
const DELETE_RETENTION_MS = 3_600_000;

export function compactedSettings({ segmentBytes, indexIntervalBytes }: StorageConfig): LogSettings {
  const policy = { cleanupPolicy: CLEANUP.COMPACT, deleteRetentionMs: DELETE_RETENTION_MS };
  return {
    ...UNCONFIGURED_LOG,
    ...policy,
    minCleanableDirtyRatio: 0,
    minCompactionLagMs: 0,
    segmentBytes,
    indexIntervalBytes,
  };
}

/** Resolves when its files have taken their places, or were given up. */
export async function cleanLog(log: ReplicaLogImpl, deps: StorageDeps): Promise<void> {
  if (!log.segments.cleanedNames.areFree) return;
  const { startOffset, highWatermark, cleanedTo } = log;
  const { settings } = log.segments;
  const looked = { segments: log.segmentViews(), startOffset, highWatermark, cleanedTo, settings };
  const cleanable = cleanableOf(looked, deps.clock.wallMs());
  if (cleanable === undefined) return;
  const unhurried = { pace: () => Promise.resolve(), breathe: () => Promise.resolve() };
  const { isDone } = await compact(log, cleanable, { deps, dedupeBytes: DEDUPE_BYTES, ...unhurried });
  await isDone;
}
