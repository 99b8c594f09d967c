// What a disk says its node is, and the writes that make it something (D-20). Order: the raft store first, then the superblock's cluster id.
import { assertVersionKnown, decodeCommand } from "../../metadata/codec.ts";
import type { VersionRange } from "../../metadata/records.ts";
import { utf8Decode } from "../../base/bytes.ts";
import { OttlaError } from "../../model/errors.ts";
import type { ClusterId, NodeId } from "../../model/ids.ts";
import { emptyState, foundingState } from "../../raft/raft-node.ts";
import type { Configuration, Entry, ReplicaId, RestoredState } from "../../raft/types.ts";
import type { RaftStore } from "../../storage/raft-types.ts";
import { bytesOfEntry, clusterOf, restoredStateOf } from "./codec.ts";
import type { QuorumIdentity } from "./types.ts";
import { writeOf } from "./write-lane.ts";

export type DiskState =
  | { readonly kind: "empty" }
  /** It has a log, as a voter, a learner, or one that was removed. */
  | { readonly kind: "log"; readonly clusterId: ClusterId; readonly restored: RestoredState }
  /** Of a cluster, without a log of its own. */
  | { readonly kind: "observer"; readonly clusterId: ClusterId; readonly restored: RestoredState };

export interface DiskOwner {
  readonly identity: Pick<QuorumIdentity, "clusterId">;
  readonly wanted: ClusterId | undefined;
  readonly versions: VersionRange;
}

/**
 * Throws DATA_DAMAGED for a lost metadata log, DATA_DIR_FOREIGN for the disk of another cluster, DATA_DIR_NEWER for a log in which metadata.version
 * was raised beyond what this build knows (D-31): it must not vote, let alone lead, with what it cannot apply.
 */
export function lookAtDisk(store: Pick<RaftStore, "restored">, { identity, wanted, versions }: DiskOwner): DiskState {
  for (const { kind, bytes, index } of store.restored.log.entries)
    if (kind === "command") assertVersionKnown(bytes, index, versions);
  const clusterId = clusterOf(store.restored);
  const known = identity.clusterId;
  if (clusterId !== undefined) {
    for (const other of [known, wanted])
      if (other !== null && other !== undefined && other !== clusterId)
        throw new OttlaError("DATA_DIR_FOREIGN", `the metadata log is of cluster ${clusterId}, not of ${other}`);
    return { kind: "log", clusterId, restored: restoredStateOf(store.restored) };
  }
  if (known === null) return { kind: "empty" };
  if (wanted !== undefined && wanted !== known)
    throw new OttlaError("DATA_DIR_FOREIGN", `the data directory is of cluster ${known}, not of ${wanted}`);
  const restored = restoredStateOf(store.restored);
  const { term, votedFor } = restored.hardState;
  // Whoever was told of a cluster left a mark: an empty store beside a cluster id is one that lost its log.
  if (term === 0 && votedFor === null)
    throw new OttlaError("DATA_DAMAGED", `the metadata log of cluster ${known} is gone from this data directory`);
  return { kind: "observer", clusterId: known, restored };
}

/** Where brokers registered last, whether that is known to be committed or not: without a quorum nothing is applied, and without addresses there is none. */
export function addressesIn(
  entries: readonly Entry[],
  versions: VersionRange,
): { readonly nodeId: NodeId; readonly address: string }[] {
  const found = new Map<NodeId, string>();
  for (const entry of entries) {
    if (entry.kind !== "command" || !utf8Decode(entry.bytes).includes('"register-broker"')) continue;
    try {
      for (const record of decodeCommand(entry.bytes, entry.index, versions))
        if (record.type === "register-broker") found.set(record.nodeId, record.address);
    } catch {
      // What cannot be read matters when it is applied, if it ever is.
    }
  }
  return [...found].map(([nodeId, address]) => ({ nodeId, address }));
}

export async function writeFounding(
  store: Pick<RaftStore, "write">,
  configuration: Configuration,
  clusterId: ClusterId,
): Promise<RestoredState> {
  const state = foundingState(configuration);
  const entries = state.log.entries.map((entry) => {
    const { index, term, kind } = entry;
    return { index, term, kind, bytes: bytesOfEntry(entry, clusterId) };
  });
  await store.write(writeOf({ hardState: state.hardState, entries }));
  return state;
}

/** A vote for itself in the term before all terms: no other node can count it, and it tells an observer's store from a lost one. */
export async function writeObserverMark(store: Pick<RaftStore, "write">, self: ReplicaId): Promise<RestoredState> {
  const state = emptyState();
  const hardState = { ...state.hardState, votedFor: self };
  await store.write(writeOf({ hardState }));
  return { ...state, hardState };
}
