// How a log lives as long as nobody has told it what its topic says.
import { CLEANUP } from "../model/config-values.ts";
import { INDEX_BYTES_MAX } from "./offset-index.ts";
import type { LogSettings } from "./types.ts";

/** Nothing is deleted, nothing compacted. */
export const UNCONFIGURED_LOG: Omit<LogSettings, "segmentBytes" | "indexIntervalBytes"> = {
  segmentMs: Number.MAX_SAFE_INTEGER,
  segmentJitterMs: 0,
  segmentIndexBytes: INDEX_BYTES_MAX,
  cleanupPolicy: CLEANUP.DELETE,
  deleteRetentionMs: Number.MAX_SAFE_INTEGER,
  minCleanableDirtyRatio: 1,
  minCompactionLagMs: Number.MAX_SAFE_INTEGER,
  maxCompactionLagMs: Number.MAX_SAFE_INTEGER,
};
