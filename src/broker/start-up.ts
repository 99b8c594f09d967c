// From a data directory to a broker that may serve: storage, metadata, a new incarnation, its leaderships (D-1, D-6, D-20).
import { present } from "../base/assert.ts";
import { OttlaError } from "../model/errors.ts";
import { UUID_BYTES, toNodeId, toPartitionIndex, uuidFromBytes, uuidToBytes } from "../model/ids.ts";
import type { ClusterId, IncarnationId, TopicId, Uuid } from "../model/ids.ts";
import type { BrokerConfig } from "../model/config.ts";
import { type Decision, decideCluster, decideRegistration, decideUnfence } from "../metadata/controller.ts";
import type { MetadataImage } from "../metadata/image.ts";
import { SUPPORTED_METADATA_VERSIONS } from "../metadata/records.ts";
import { openLaneLog } from "../storage/lane-log.ts";
import { openLogStore } from "../storage/log-store.ts";
import type { LogStore, StorageConfig, StorageDeps } from "../storage/types.ts";
import { MetadataLog } from "./metadata-log.ts";
import type { BrokerDeps } from "./types.ts";

const METADATA_SEGMENT_BYTES = 64 * 1024 * 1024;

export function storageDepsOf(deps: BrokerDeps): StorageDeps {
  const { files, clock, timers, checksum, codecs, entropy, logger, metrics, bootId } = deps;
  return {
    files,
    clock,
    timers,
    checksum,
    codecs,
    entropy,
    metrics,
    bootId,
    logger: logger.child({ component: "log" }),
  };
}

export function storageConfigOf(config: BrokerConfig): StorageConfig {
  const clusterId = config["cluster.id"];
  if (clusterId !== undefined && uuidToBytes(clusterId) === undefined) {
    throw new OttlaError("CONFIG_UNREADABLE", `cluster.id: takes 22 characters of base64url, not ${clusterId}`);
  }
  return {
    directory: config["data.dir"],
    nodeId: toNodeId(config["node.id"]),
    clusterId: clusterId as ClusterId | undefined,
    segmentBytes: config["segment.bytes"],
    indexIntervalBytes: config["index.interval.bytes"],
    journalBytes: config["journal.bytes"],
    checkpointIntervalMs: config["checkpoint.interval.ms"],
    journalPinnedBytes: config["journal.pinned.bytes"],
    tailCacheBytes: config["tail.cache.bytes"],
    diskLowSpaceBytes: config["disk.low.space.bytes"],
    diskReserveBytes: config["disk.reserve.bytes"],
    openFilesMax: config["open.files.max"],
  };
}

export async function openStore(deps: BrokerDeps, config: BrokerConfig): Promise<LogStore> {
  const storageConfig = storageConfigOf(config);
  const store = await openLogStore(storageDepsOf(deps), storageConfig);
  try {
    if (store.identity.clusterId === null) await store.adoptCluster(storageConfig.clusterId ?? newUuid(deps));
  } catch (thrown) {
    await store.close();
    throw thrown;
  }
  return store;
}

function newUuid(deps: BrokerDeps): Uuid {
  const bytes = new Uint8Array(UUID_BYTES);
  deps.entropy.fill(bytes);
  return uuidFromBytes(bytes);
}

export async function openMetadata(
  deps: BrokerDeps,
  config: BrokerConfig,
  onFailed: (error: OttlaError) => void,
): Promise<MetadataLog> {
  const directory = `${config["data.dir"]}/metadata`;
  const lane = await openLaneLog(storageDepsOf(deps), { directory, segmentBytes: METADATA_SEGMENT_BYTES });
  try {
    return await MetadataLog.open(lane, deps.clock, onFailed);
  } catch (thrown) {
    await lane.close();
    throw thrown;
  }
}

/** Writes what a start has to write: record 0 on the first one, the new incarnation, its elections. */
export async function joinCluster(
  parts: { readonly deps: BrokerDeps; readonly store: LogStore; readonly metadata: MetadataLog },
  config: BrokerConfig,
  address: string,
): Promise<void> {
  const { deps, store, metadata } = parts;
  const { directoryId } = store.identity;
  const clusterId = present(store.identity.clusterId, "cluster id");
  const nodeId = toNodeId(config["node.id"]);
  if (metadata.image.endOffset === 0) {
    assertNothingLost(store);
    const wish = { clusterId, metadataVersion: 1, nowMs: deps.clock.wallMs() };
    await accept(metadata, (image) => decideCluster(image, wish));
  }
  assertSameCluster(metadata.image, store);
  const incarnationId = newUuid(deps) as IncarnationId;
  const { restart } = store;
  const identity = { clusterId, nodeId, directoryId, incarnationId, restart, address };
  const wish = { ...identity, metadataVersions: SUPPORTED_METADATA_VERSIONS, nowMs: deps.clock.wallMs() };
  await accept(metadata, (image) => {
    const storedBrokerEpoch = image.broker(nodeId)?.brokerEpoch ?? null;
    return decideRegistration(image, { ...wish, storedBrokerEpoch, hasLiveSession: false });
  });
  const isWhole = (topicId: TopicId, partition: number): boolean =>
    store.find(topicId, toPartitionIndex(partition))?.damage === undefined;
  for (let changes = 1; changes > 0; ) {
    changes = await accept(metadata, (image) => {
      const brokerEpoch = image.broker(nodeId)?.brokerEpoch ?? -1;
      return decideUnfence(image, { nodeId, brokerEpoch, isConfirmed: true, appliedEnd: image.endOffset, isWhole });
    });
  }
}

/** D-20: an empty metadata log beside replica logs is a lost one, and never begins a new cluster. */
function assertNothingLost(store: LogStore): void {
  for (const log of store.logs) {
    throw new OttlaError(
      "DATA_DAMAGED",
      `the metadata log is empty, but there is a log of ${log.topic}-${log.partition}`,
    );
  }
}

function assertSameCluster(image: MetadataImage, store: LogStore): void {
  const known = image.cluster?.clusterId;
  const { clusterId } = store.identity;
  if (known !== clusterId)
    throw new OttlaError("DATA_DIR_FOREIGN", `the metadata log is of cluster ${known}, the directory of ${clusterId}`);
}

/** How many records were written. */
async function accept(metadata: MetadataLog, decide: (image: MetadataImage) => Decision): Promise<number> {
  const decision = await metadata.propose(decide);
  if (decision.kind === "refused") throw new OttlaError(decision.error, decision.message);
  return decision.records.length;
}
