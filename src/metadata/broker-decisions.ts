// Decisions about the cluster and its brokers: its first record, its version, who is registered, fenced and unfenced.
import { addressFault } from "../model/address.ts";
import type { ClusterId, DirectoryId, IncarnationId, NodeId } from "../model/ids.ts";
import { type Decision, accepted, refused } from "./decision.ts";
import type { BrokerImage, MetadataImage } from "./image.ts";
import { SUPPORTED_METADATA_VERSIONS } from "./records.ts";
import type { FenceReason, MetadataRecord, RestartClaim, VersionRange } from "./records.ts";

/** The first record of a new cluster (D-20). None when there is one: another leader may have been first. */
export function decideCluster(
  image: MetadataImage,
  wish: { readonly clusterId: ClusterId; readonly metadataVersion: number; readonly nowMs: number },
): Decision {
  const { clusterId, metadataVersion, nowMs } = wish;
  const known = image.cluster?.clusterId;
  if (known !== undefined && known !== clusterId)
    return refused("INCONSISTENT_CLUSTER_ID", `this is cluster ${known}, not ${clusterId}`);
  if (known !== undefined) return accepted();
  return accepted({ type: "cluster", version: 1, clusterId, metadataVersion, timestampMs: nowMs });
}

export interface MetadataVersionWish {
  readonly version: number;
  /** Of the controller's build. */
  readonly supported?: VersionRange;
  /** Voters and learners. One that never registered as a broker has told nobody what it knows. */
  readonly members?: readonly NodeId[];
}

/** Raises metadata.version, when this build and every registered broker, fenced ones too, support it (D-31). It never goes down. */
export function decideMetadataVersion(image: MetadataImage, wish: MetadataVersionWish): Decision {
  const { version, supported = SUPPORTED_METADATA_VERSIONS, members = [] } = wish;
  const present = image.metadataVersion;
  if (image.cluster === undefined) return refused("BROKER_NOT_AVAILABLE", "there is no cluster yet");
  if (version === present) return accepted();
  if (!Number.isSafeInteger(version) || version < present)
    return refused("INVALID_UPDATE_VERSION", `metadata.version is ${present} and never goes down, not to ${version}`);
  if (version > supported.max)
    return refused("UNSUPPORTED_VERSION", `metadata.version ${version}: the controller knows up to ${supported.max}`);
  const behind = byNodeId(image.brokers).find(({ metadataVersions }) => !includes(metadataVersions, version));
  if (behind !== undefined) {
    const { min, max } = behind.metadataVersions;
    return refused(
      "UNSUPPORTED_VERSION",
      `metadata.version ${version}: node ${behind.nodeId} knows ${min} to ${max}; upgrade it first`,
    );
  }
  const unknown = members.toSorted((one, other) => one - other).find((nodeId) => image.broker(nodeId) === undefined);
  if (unknown !== undefined) {
    return refused(
      "UNSUPPORTED_VERSION",
      `metadata.version ${version}: node ${unknown} votes and never registered, so what it knows is not known; start it first, or remove it from the quorum`,
    );
  }
  return accepted({ type: "metadata-version", version: 1, metadataVersion: version });
}

/** Bound of registered brokers, fenced ones too: one metadata answer lists them all. */
export const BROKERS_MAX = 1_000;

export interface RegistrationWish {
  readonly clusterId: ClusterId;
  readonly nodeId: NodeId;
  readonly directoryId: DirectoryId;
  readonly incarnationId: IncarnationId;
  readonly restart: RestartClaim;
  readonly address: string;
  readonly metadataVersions: VersionRange;
  /** The broker epoch on its disk; null when there is none. */
  readonly storedBrokerEpoch: number | null;
  /** The session of the node's registered incarnation has not ended: `Sessions.isLive`. */
  readonly hasLiveSession: boolean;
  readonly nowMs: number;
}

/**
 * A broker's registration. The same incarnation is amended and keeps its epoch. A new incarnation on the same disk replaces the old
 * one at once: the lock of the disk proves that one dead (D-1). Another disk, or an older copy of the disk, is let in only when the session of the
 * registered incarnation has ended, and then leaves every ISR (D-6).
 */
export function decideRegistration(image: MetadataImage, wish: RegistrationWish): Decision {
  const { nodeId, directoryId, incarnationId } = wish;
  const fault = registrationFault(image, wish);
  if (fault !== undefined) return fault;
  const known = image.broker(nodeId);
  if (known !== undefined && known.incarnationId === incarnationId) return amended(known, wish);
  const isDiskChanged = known !== undefined && hasOtherDisk(known, wish);
  if (isDiskChanged && wish.hasLiveSession) {
    return refused(
      "DUPLICATE_BROKER_REGISTRATION",
      `node ${nodeId} lives with directory ${known.directoryId} in broker epoch ${known.brokerEpoch}; ` +
        `directory ${directoryId} in broker epoch ${wish.storedBrokerEpoch ?? "none"} has to wait until its session ends`,
    );
  }
  return accepted(registration(wish, isDiskChanged ? "changed-disk" : wish.restart));
}

function registrationFault(image: MetadataImage, wish: RegistrationWish): Decision | undefined {
  const { clusterId, nodeId, directoryId, metadataVersions } = wish;
  if (image.cluster === undefined) return refused("BROKER_NOT_AVAILABLE", "there is no cluster yet");
  if (image.cluster.clusterId !== clusterId)
    return refused("INCONSISTENT_CLUSTER_ID", `this is cluster ${image.cluster.clusterId}, not ${clusterId}`);
  const { min, max } = metadataVersions;
  if (min < 0 || max < min)
    return refused("INVALID_REGISTRATION", `node ${nodeId}: metadata versions ${min} to ${max} are none`);
  if (!includes(metadataVersions, image.metadataVersion)) {
    return refused(
      "UNSUPPORTED_VERSION",
      `metadata.version is ${image.metadataVersion}, node ${nodeId} knows ${min} to ${max}`,
    );
  }
  const badAddress = addressFault(wish.address);
  if (badAddress !== undefined) return refused("INVALID_REGISTRATION", `node ${nodeId}: ${badAddress}`);
  const holder = image.brokerOfDirectory(directoryId);
  if (holder !== undefined && holder.nodeId !== nodeId)
    return refused("DATA_DIR_FOREIGN", `directory ${directoryId} is of node ${holder.nodeId}, not of node ${nodeId}`);
  if (image.broker(nodeId) === undefined && image.brokerCount >= BROKERS_MAX)
    return refused(
      "INVALID_REGISTRATION",
      `${image.brokerCount} brokers are registered, and no more than ${BROKERS_MAX} can be`,
    );
  return undefined;
}

/** An epoch that was confirmed was stored first: a disk that holds a lower one, or none, is an older copy (D-6). */
function hasOtherDisk(known: BrokerImage, { directoryId, storedBrokerEpoch }: RegistrationWish): boolean {
  if (known.directoryId !== directoryId) return true;
  return known.confirmedEpoch !== null && (storedBrokerEpoch ?? -1) < known.confirmedEpoch;
}

function amended(known: BrokerImage, wish: RegistrationWish): Decision {
  const { nodeId, directoryId, address, metadataVersions } = wish;
  if (known.directoryId !== directoryId)
    return refused("DUPLICATE_BROKER_REGISTRATION", `node ${nodeId} began with directory ${known.directoryId}`);
  const { min, max } = known.metadataVersions;
  const isSame = known.address === address && min === metadataVersions.min && max === metadataVersions.max;
  return isSame ? accepted() : accepted(registration(wish, wish.restart));
}

function registration(wish: RegistrationWish, restart: RestartClaim | "changed-disk"): MetadataRecord {
  const { nodeId, directoryId, incarnationId, address, nowMs } = wish;
  const { min, max } = wish.metadataVersions;
  const identity = { nodeId, directoryId, incarnationId, restart, address };
  return { type: "register-broker", version: 1, ...identity, metadataVersions: { min, max }, timestampMs: nowMs };
}

export interface FenceWish {
  readonly nodeId: NodeId;
  /** The epoch that the reason is about: a broker that has registered again is left alone. */
  readonly brokerEpoch: number;
  readonly reason: FenceReason;
}

/** Fences many brokers in one command; each of them leaves every ISR in it, and what it led others lead. Those that are fenced already are left out. */
export function decideFence(image: MetadataImage, wishes: readonly FenceWish[]): Decision {
  const records: MetadataRecord[] = [];
  const seen = new Set<NodeId>();
  for (const { nodeId, brokerEpoch, reason } of wishes) {
    const broker = image.broker(nodeId);
    if (broker === undefined || broker.isFenced || broker.brokerEpoch !== brokerEpoch || seen.has(nodeId)) continue;
    seen.add(nodeId);
    const identity = { nodeId, brokerEpoch: broker.brokerEpoch };
    records.push(
      image.metadataVersion >= 2
        ? { type: "fence-broker", version: 2, ...identity, reason }
        : { type: "fence-broker", version: 1, ...identity },
    );
  }
  return accepted(...records);
}

export interface UnregisterWish {
  readonly nodeId: NodeId;
  /** Voters and learners. */
  readonly members: readonly NodeId[];
  /** `Sessions.isLive`: it is heard of, or a new controller has not yet waited long enough to know better. */
  readonly hasLiveSession: boolean;
  /** Give up what it holds. */
  readonly isForced: boolean;
}

/**
 * Takes a broker off the list for good: one that is fenced, not heard of, and no member of the quorum. One with replicas only when forced: what
 * only it has is given up.
 */
export function decideUnregistration(image: MetadataImage, wish: UnregisterWish): Decision {
  const { nodeId, members, hasLiveSession, isForced } = wish;
  const broker = image.broker(nodeId);
  if (broker === undefined) return refused("BROKER_ID_NOT_REGISTERED", `no broker ${nodeId} is registered`);
  if (!broker.isFenced) return refused("INVALID_REQUEST", `broker ${nodeId} is not fenced: stop it first`);
  if (members.includes(nodeId))
    return refused("INVALID_REQUEST", `node ${nodeId} is in the quorum: ottla quorum remove ${nodeId} takes it out`);
  if (hasLiveSession)
    return refused(
      "INVALID_REQUEST",
      `broker ${nodeId} may be alive: stop it, and ask again when its session has ended`,
    );
  const fault = isForced ? undefined : heldFault(image, nodeId);
  if (fault !== undefined) return refused("INVALID_REQUEST", fault);
  return accepted({ type: "unregister-broker", version: 1, nodeId, brokerEpoch: broker.brokerEpoch });
}

function heldFault(image: MetadataImage, nodeId: NodeId): string | undefined {
  const held = [...image.partitionsOn(nodeId)];
  const sole = held.filter(({ partition: { isr, elr } }) => isr.length === 0 && elr.length === 1 && elr[0] === nodeId);
  const example = sole[0] ?? held[0];
  if (example === undefined) return undefined;
  const name = `${example.topic.name}-${example.partition.index}`;
  return (
    `broker ${nodeId} holds ${held.length} partitions, ${sole.length} of which nobody else has whole (one is ${name}): ` +
    "start it again, delete their topics, or give up what it holds by force"
  );
}

export interface UnfenceWish {
  readonly nodeId: NodeId;
  /** The epoch that the broker's heartbeat carries. */
  readonly brokerEpoch: number;
  /** The heartbeat says that this epoch is durable on the broker's disk (D-6). */
  readonly isConfirmed: boolean;
  /** The broker has applied every entry below this. */
  readonly appliedEnd: number;
}

/**
 * What a heartbeat of a broker that wants to serve asks for: unfences it once it holds its present epoch durably and has applied its own
 * registration. Elections follow when that is applied. No records: not yet, or nothing is left to do.
 */
export function decideUnfence(image: MetadataImage, wish: UnfenceWish): Decision {
  const { nodeId } = wish;
  const broker = image.broker(nodeId);
  if (broker?.brokerEpoch !== wish.brokerEpoch) {
    const present = broker === undefined ? "not registered" : `in broker epoch ${broker.brokerEpoch}`;
    return refused("STALE_BROKER_EPOCH", `node ${nodeId} is ${present}, not in ${wish.brokerEpoch}`);
  }
  const { brokerEpoch } = broker;
  if (!broker.isFenced || !wish.isConfirmed || wish.appliedEnd <= brokerEpoch) return accepted();
  return accepted({ type: "unfence-broker", version: 1, nodeId, brokerEpoch });
}

const includes = ({ min, max }: VersionRange, version: number): boolean => min <= version && version <= max;

export function byNodeId(brokers: Iterable<BrokerImage>): BrokerImage[] {
  return [...brokers].sort((left, right) => left.nodeId - right.nodeId);
}
