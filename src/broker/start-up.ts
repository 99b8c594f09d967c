// From a data directory to the parts of a broker: storage, and the metadata quorum over its own lane (D-19, D-20).
import { SUPPORTED_METADATA_VERSIONS, type VersionRange } from "../metadata/records.ts";
import type { BrokerConfig } from "../model/config.ts";
import { OttlaError } from "../model/errors.ts";
import { type ClusterId, toNodeId, UUID_BYTES, type Uuid, uuidFromBytes, uuidToBytes } from "../model/ids.ts";
import { parseVoters, type VoterAddress } from "../model/quorum-voters.ts";
import type { CoreSettings } from "../replication/types.ts";
import { openLogStore } from "../storage/log-store.ts";
import { openRaftStore } from "../storage/raft-store.ts";
import type { RaftStore } from "../storage/raft-types.ts";
import type { LogStore, StorageConfig, StorageDeps } from "../storage/types.ts";
import { openQuorum } from "./quorum/quorum.ts";
import type { HostedQuorum } from "./quorum/types.ts";
import { type BrokerDeps, SOFTWARE } from "./types.ts";

/** Only whole files below a snapshot go; the rest is read at each start. */
export const METADATA_SEGMENT_BYTES = 8 * 1024 * 1024;

export const metadataVersionsOf = (deps: BrokerDeps): VersionRange =>
  deps.metadataVersions ?? SUPPORTED_METADATA_VERSIONS;

export function newUuid({ entropy }: Pick<BrokerDeps, "entropy">): Uuid {
  const bytes = new Uint8Array(UUID_BYTES);
  entropy.fill(bytes);
  return uuidFromBytes(bytes);
}

/** Throws CONFIG_UNREADABLE. */
export function votersOf(config: BrokerConfig): readonly VoterAddress[] {
  const text = config["controller.quorum.voters"];
  return text === undefined ? [] : parseVoters(text);
}

/** Throws CONFIG_UNREADABLE. */
function clusterIdOf(config: BrokerConfig): ClusterId | undefined {
  const clusterId = config["cluster.id"];
  if (clusterId !== undefined && uuidToBytes(clusterId) === undefined)
    throw new OttlaError("CONFIG_UNREADABLE", `cluster.id: takes 22 characters of base64url, not ${clusterId}`);
  return clusterId as ClusterId | undefined;
}

export function storageDepsOf(deps: BrokerDeps): StorageDeps {
  const { files, clock, timers, checksum, codecs, entropy, logger, metrics, bootId } = deps;
  const log = logger.child({ component: "log" });
  return { files, clock, timers, checksum, codecs, entropy, metrics, bootId, logger: log };
}

export function storageConfigOf(config: BrokerConfig): StorageConfig {
  return {
    directory: config["data.dir"],
    nodeId: toNodeId(config["node.id"]),
    clusterId: clusterIdOf(config),
    segmentBytes: config["segment.bytes"],
    indexIntervalBytes: config["index.interval.bytes"],
    journalBytes: config["journal.bytes"],
    checkpointIntervalMs: config["checkpoint.interval.ms"],
    journalPinnedBytes: config["journal.pinned.bytes"],
    tailCacheBytes: config["tail.cache.bytes"],
    diskLowSpaceBytes: config["disk.low.space.bytes"],
    diskReserveBytes: config["disk.reserve.bytes"],
    openFilesMax: config["open.files.max"],
    maintenance: {
      cleanerBackoffMs: config["log.cleaner.backoff.ms"],
      cleanerDedupeBytes: config["log.cleaner.dedupe.buffer.size"],
      cleanerBytesPerSecond: config["log.cleaner.io.max.bytes.per.second"],
      scrubPeriodMs: config["log.scrub.period.ms"],
      scrubBytesPerSecond: config["log.scrub.io.max.bytes.per.second"],
    },
  };
}

export function coreSettingsOf(config: BrokerConfig): CoreSettings {
  return {
    self: toNodeId(config["node.id"]),
    lagMaxMs: config["replica.lag.time.max.ms"],
    backoffMs: config["replica.fetch.backoff.ms"],
    producerExpirationMs: config["producer.id.expiration.ms"],
  };
}

export function openStore(deps: BrokerDeps, config: BrokerConfig): Promise<LogStore> {
  return openLogStore(storageDepsOf(deps), storageConfigOf(config));
}

/** Resolves when it is read, long before it may be a quorum: its apis are served from then on. */
export async function openHostedQuorum(
  deps: BrokerDeps,
  config: BrokerConfig,
  own: {
    readonly store: LogStore;
    readonly address: string;
    /** A quorum that is closed may have been given up before its store was: the lock of the directory has to outlast that. */
    readonly onOpened: (store: RaftStore) => void;
  },
): Promise<HostedQuorum> {
  const directory = `${config["data.dir"]}/metadata`;
  const { nodeId, directoryId } = own.store.identity;
  const raftStore = await openRaftStore(storageDepsOf(deps), {
    directory,
    segmentBytes: METADATA_SEGMENT_BYTES,
    owner: { nodeId, directoryId },
  });
  own.onOpened(raftStore);
  const { clock, timers, entropy, rng, transport, probe, raftSettings } = deps;
  const clusterId = clusterIdOf(config);
  const opening = openQuorum(
    {
      clock,
      timers,
      entropy,
      rng: rng.fork("quorum"),
      transport,
      probe,
      logger: deps.logger.child({ component: "quorum" }),
      identity: identityOf(own.store),
      address: own.address,
      store: raftStore,
      software: SOFTWARE,
      metadataVersions: metadataVersionsOf(deps),
    },
    {
      voters: votersOf(config),
      snapshotBytes: config["metadata.log.max.record.bytes.between.snapshots"],
      proposalsMax: config["controller.proposals.max"],
      ...(clusterId === undefined ? {} : { clusterId }),
      ...(raftSettings === undefined ? {} : { raft: raftSettings }),
    },
  );
  try {
    return await opening;
  } catch (thrown) {
    await raftStore.close();
    throw thrown;
  }
}

function identityOf(store: LogStore) {
  const { nodeId, directoryId, clusterId } = store.identity;
  return { nodeId, directoryId, clusterId, adoptCluster: (id: ClusterId) => store.adoptCluster(id) };
}
