// What the quorum writes into its log besides commands: configurations as bytes, and entries between the core, the disk and the wire.
import { EMPTY_BYTES, utf8Decode, utf8Encode } from "../../base/bytes.ts";
import { OttlaError } from "../../model/errors.ts";
import { type ClusterId, uuidToBytes } from "../../model/ids.ts";
import type {
  Configuration,
  Entry,
  ReplicaId,
  RestoredState,
  SnapshotMeta,
  Term,
  WriteBatch,
} from "../../raft/types.ts";
import type { RaftWrite, RestoredRaft, StoredEntry, StoredSnapshotMeta } from "../../storage/raft-types.ts";

const VERSION = 1;

/** The cluster's id stands beside every configuration: a log always says whose it is, whatever a crash took from the superblock. */
export interface StoredConfiguration extends Configuration {
  readonly clusterId: ClusterId;
}

export function encodeConfiguration({ voters, learners }: Configuration, clusterId: ClusterId): Uint8Array {
  return utf8Encode(JSON.stringify({ version: VERSION, clusterId, voters, learners }));
}

/** Throws DATA_DAMAGED, or DATA_DIR_NEWER for a version that this build does not know. */
export function decodeConfiguration(bytes: Uint8Array, where: string): StoredConfiguration {
  const value = parse(bytes, where);
  const { version, clusterId, voters, learners } = value;
  if (typeof version === "number" && version > VERSION)
    throw new OttlaError("DATA_DIR_NEWER", `${where}: a quorum configuration of version ${version}`);
  const isWhole = version === VERSION && typeof clusterId === "string" && uuidToBytes(clusterId) !== undefined;
  if (!isWhole || !areReplicas(voters) || !areReplicas(learners)) throw damaged(where);
  return { clusterId: clusterId as ClusterId, voters, learners };
}

function parse(bytes: Uint8Array, where: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(utf8Decode(bytes));
    if (typeof value === "object" && value !== null) return value as Readonly<Record<string, unknown>>;
  } catch {
    // Said below.
  }
  throw damaged(where);
}

const damaged = (where: string): OttlaError =>
  new OttlaError("DATA_DAMAGED", `${where}: what stands there is no quorum configuration`);

/** `<node id>:<directory id>`. */
export function isReplicaId(value: unknown): value is ReplicaId {
  return typeof value === "string" && /^\d{1,10}:[A-Za-z0-9_-]{22}$/.test(value);
}

const areReplicas = (value: unknown): value is readonly ReplicaId[] =>
  Array.isArray(value) && value.every((item) => isReplicaId(item));

/** An entry's bytes as disk and wire carry them. */
export function bytesOfEntry(entry: Entry, clusterId: ClusterId): Uint8Array {
  switch (entry.kind) {
    case "command":
      return entry.bytes;
    case "leaderStart":
      return EMPTY_BYTES;
    case "configuration":
      return encodeConfiguration(entry.configuration, clusterId);
  }
}

export function entryOf({ index, term, kind, bytes }: StoredEntry): Entry {
  const at = { index, term: term as Term };
  switch (kind) {
    case "command":
      return { kind, ...at, bytes };
    case "leaderStart":
      return { kind, ...at };
    case "configuration": {
      const { voters, learners } = decodeConfiguration(bytes, `metadata entry ${index}`);
      return { kind, ...at, configuration: { voters, learners } };
    }
  }
}

export function storedWriteOf(batch: WriteBatch, clusterId: ClusterId): RaftWrite {
  const { hardState, resetLogTo, cutSuffixTo, cutPrefixTo } = batch;
  const entries = batch.entries.map((entry) => {
    const { index, term, kind } = entry;
    return { index, term, kind, bytes: bytesOfEntry(entry, clusterId) };
  });
  return { hardState, resetLogTo, cutSuffixTo, entries, cutPrefixTo };
}

export function storedMetaOf(meta: SnapshotMeta, clusterId: ClusterId): StoredSnapshotMeta {
  const { end, lastTerm, sizeBytes } = meta;
  return { end, lastTerm, sizeBytes, configuration: encodeConfiguration(meta.configuration, clusterId) };
}

function metaOf({ end, lastTerm, sizeBytes, configuration }: StoredSnapshotMeta): SnapshotMeta {
  const { voters, learners } = decodeConfiguration(configuration, `metadata snapshot ${end}`);
  return { end, lastTerm: lastTerm as Term, sizeBytes, configuration: { voters, learners } };
}

export function restoredStateOf({ hardState, snapshot, log }: RestoredRaft): RestoredState {
  return {
    hardState: { term: hardState.term as Term, votedFor: hardState.votedFor as ReplicaId | null },
    snapshot: snapshot === null ? null : metaOf(snapshot),
    log: { start: log.start, startTerm: log.startTerm as Term, entries: log.entries.map((entry) => entryOf(entry)) },
  };
}

/** Whose log it is; undefined for one without a configuration, which is an empty one. */
export function clusterOf({ snapshot, log }: RestoredRaft): ClusterId | undefined {
  const entry = log.entries.find(({ kind }) => kind === "configuration");
  const bytes = snapshot?.configuration ?? entry?.bytes;
  return bytes === undefined ? undefined : decodeConfiguration(bytes, "metadata log").clusterId;
}

/** D-26: a view of a much larger store is copied before it is kept. */
export function owned(bytes: Uint8Array): Uint8Array {
  return bytes.length * 2 < bytes.buffer.byteLength ? bytes.slice() : bytes;
}
