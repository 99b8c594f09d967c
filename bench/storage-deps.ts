// The storage on the real host, for benchmarks of it alone: no metrics, and only errors are logged.
import type { NodeId } from "../src/model/ids.ts";
import { createChecksum } from "../src/platform/checksum.ts";
import { createClock } from "../src/platform/clock.ts";
import { loadCodecs } from "../src/platform/codecs.ts";
import { createEntropy } from "../src/platform/entropy.ts";
import { createFiles } from "../src/platform/files.ts";
import { readBootId } from "../src/platform/host.ts";
import { createTimers } from "../src/platform/timers.ts";
import type { Logger } from "../src/ports/logger.ts";
import type { Metrics } from "../src/ports/metrics.ts";
import type { StorageConfig, StorageDeps } from "../src/storage/types.ts";

export const MiB = 1024 * 1024;

const quiet: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: (event, fields) => process.stderr.write(`${event} ${JSON.stringify(fields)}\n`),
  child: () => quiet,
};
const noMetrics: Metrics = {
  counter: () => ({ add: () => undefined }),
  gauge: () => ({ set: () => undefined }),
  histogram: () => ({ observe: () => undefined }),
};

export async function makeDeps(): Promise<StorageDeps> {
  return {
    files: createFiles(),
    clock: createClock(),
    timers: createTimers(),
    checksum: createChecksum(),
    codecs: await loadCodecs(),
    entropy: createEntropy(),
    logger: quiet,
    metrics: noMetrics,
    bootId: readBootId(),
  };
}

export function storageConfig(
  directory: string,
  journal: Pick<StorageConfig, "journalBytes" | "checkpointIntervalMs" | "journalPinnedBytes">,
): StorageConfig {
  return {
    directory,
    nodeId: 1 as NodeId,
    clusterId: undefined,
    segmentBytes: 1024 * MiB,
    indexIntervalBytes: 4096,
    ...journal,
    tailCacheBytes: 64 * MiB,
    diskLowSpaceBytes: 0,
    diskReserveBytes: 0,
    openFilesMax: 1024,
  };
}
