// Looks at what is on a disk: recovers a copy of it in a world of its own, and tells where each log ends, or all that it holds.
import { concatBytes } from "../base/bytes.ts";
import type { Codecs } from "../ports/codecs.ts";
import type { TopicId } from "../model/ids.ts";
import type { ProducerTable } from "../model/producer-table.ts";
import { openLogStore } from "../storage/log-store.ts";
import type { LogStore, ReplicaLog, StorageConfig, StorageDeps } from "../storage/types.ts";
import { type PartitionName, partitionName } from "../checkers/history.ts";
import { SimDisk } from "./disk.ts";
import type { DiskImage } from "./disk-image.ts";
import { createSimLogger, SimMetrics } from "./sim-ports.ts";
import {
  createSimClock,
  createSimEntropy,
  createSimTimers,
  type Incarnation,
  SimWorld,
  type WorldHost,
} from "./world.ts";

export interface PlatterEnd {
  readonly topicId: TopicId;
  readonly topic: string;
  readonly partition: number;
  readonly endOffset: number;
}

const FAST = { readMs: 0.001, writeMs: 0.001, syncMs: 0.001, directoryMs: 0.001 };

export function storageDepsIn(
  world: SimWorld,
  owner: Incarnation,
  options: { disk: SimDisk; codecs: Codecs; bootId: string },
): StorageDeps {
  return {
    files: options.disk.files(owner),
    clock: createSimClock(world, owner),
    timers: createSimTimers(world, owner),
    checksum: world.checksum,
    codecs: options.codecs,
    entropy: createSimEntropy(world, owner),
    logger: createSimLogger(world, owner.node),
    metrics: new SimMetrics(),
    bootId: options.bootId,
  };
}

export interface CopyOptions {
  readonly seed: number;
  readonly host: WorldHost;
  readonly codecs: Codecs;
  readonly config: StorageConfig;
}

/** Rejects when the store refuses the disk. The image given is not touched. */
export async function recoverCopy(image: DiskImage, options: CopyOptions): Promise<readonly PlatterEnd[]> {
  const { store } = await openCopy(image, options);
  return [...store.logs].map((log) => ({
    topicId: log.topicId,
    topic: log.topic,
    partition: log.partition,
    endOffset: log.damage === undefined ? log.durableEnd : (log.damage.fromOffset ?? 0),
  }));
}

/** What one log on a disk holds, whole. */
export interface LogContent {
  readonly topicId: TopicId;
  readonly topic: string;
  readonly partition: number;
  readonly startOffset: number;
  readonly highWatermark: number;
  readonly bytes: Uint8Array;
  /** As the start of a broker finds them. */
  readonly producers: ProducerTable;
}

/** Every intact log of a disk; rejects as `recoverCopy`, and where a log cannot be read. */
export async function readCopy(
  image: DiskImage,
  options: CopyOptions & { readonly isSkipped: (partition: PartitionName) => boolean },
): Promise<readonly LogContent[]> {
  const { store, world } = await openCopy(image, options);
  const found: LogContent[] = [];
  for (const log of store.logs) {
    if (log.damage !== undefined || options.isSkipped(partitionName(log))) continue;
    const { topicId, topic, partition, startOffset, highWatermark, producers } = log;
    const bytes = concatBytes(await world.settle(chunksOf(log)));
    found.push({ topicId, topic, partition, startOffset, highWatermark, bytes, producers });
  }
  return found;
}

async function chunksOf(log: ReplicaLog): Promise<readonly Uint8Array[]> {
  const chunks: Uint8Array[] = [];
  for (let offset = log.startOffset; offset < log.endOffset; ) {
    const options = { limitOffset: log.endOffset, maxBytes: 1 << 20, atLeastOne: true };
    const result = await log.read(offset, options);
    chunks.push(...result.chunks);
    offset = result.nextOffset;
  }
  return chunks;
}

async function openCopy(
  image: DiskImage,
  options: CopyOptions,
): Promise<{ readonly store: LogStore; readonly world: SimWorld }> {
  const world = new SimWorld({ seed: options.seed, host: options.host });
  const disk = new SimDisk(world, "copy", { latencies: FAST, capacityBytes: 2 ** 40 }, image.clone());
  const owner = world.startIncarnation("probe");
  const deps = storageDepsIn(world, owner, { disk, codecs: options.codecs, bootId: "another" });
  return { store: await world.settle(openLogStore(deps, options.config)), world };
}
