// Looks at what a power loss left on a disk: recovers a copy of it in a world of its own, and tells where each log ends.
import type { Codecs } from "../ports/codecs.ts";
import { openLogStore } from "../storage/log-store.ts";
import type { StorageConfig, StorageDeps } from "../storage/types.ts";
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

/** Rejects when the store refuses the disk. The image given is not touched. */
export async function recoverCopy(
  image: DiskImage,
  options: { seed: number; host: WorldHost; codecs: Codecs; config: StorageConfig },
): Promise<readonly PlatterEnd[]> {
  const world = new SimWorld({ seed: options.seed, host: options.host });
  const disk = new SimDisk(world, "copy", { latencies: FAST, capacityBytes: 2 ** 40 }, image.clone());
  const owner = world.startIncarnation("probe");
  const store = await world.settle(
    openLogStore(storageDepsIn(world, owner, { disk, codecs: options.codecs, bootId: "another" }), options.config),
  );
  return [...store.logs].map((log) => ({
    topic: log.topic,
    partition: log.partition,
    endOffset: log.damage === undefined ? log.durableEnd : (log.damage.fromOffset ?? 0),
  }));
}
