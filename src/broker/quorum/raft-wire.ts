// Raft messages between the core and the wire. What arrives is checked; what does not hold together is dropped.
import { decodeCommand } from "../../metadata/codec.ts";
import { asOttlaError } from "../../model/errors.ts";
import type { ClusterId } from "../../model/ids.ts";
import type { Entry, Message, ReplicaId, SnapshotMeta, Term } from "../../raft/types.ts";
import type { QuorumConfiguration, RaftMessage, RaftRequest } from "../../wire/native/quorum-apis.ts";
import { bytesOfEntry, entryOf, isReplicaId, owned } from "./codec.ts";

export interface WireMessage {
  readonly request: RaftRequest;
  readonly bodies: readonly Uint8Array[];
}

export function wireMessageOf(
  message: Message,
  { clusterId, boots }: { readonly clusterId: ClusterId; readonly boots: number },
): WireMessage {
  const { from, to } = message;
  return { request: { clusterId, from, to, boots, message: wired(message) }, bodies: bodiesOf(message, clusterId) };
}

function wired(message: Message): RaftMessage {
  switch (message.kind) {
    case "append": {
      const { kind, term, start, prevTerm, commitEnd } = message;
      const entries = message.entries.map((entry) => ({ term: entry.term, kind: entry.kind }));
      return { kind, term, start, prevTerm, entries, commitEnd };
    }
    case "snapshotChunk": {
      const { kind, term, snapshot, position } = message;
      return { kind, term, snapshot, position };
    }
    default:
      return message;
  }
}

function bodiesOf(message: Message, clusterId: ClusterId): readonly Uint8Array[] {
  if (message.kind === "append") return message.entries.map((entry) => bytesOfEntry(entry, clusterId));
  return message.kind === "snapshotChunk" ? [message.bytes] : [];
}

/** Undefined: no message that this build would have sent. */
export function messageOf({ from, to, message }: RaftRequest, bodies: readonly Uint8Array[]): Message | undefined {
  if (!isReplicaId(from) || !isReplicaId(to)) return undefined;
  try {
    return withBodies({ from, to, term: message.term as Term }, message, bodies);
  } catch {
    return undefined;
  }
}

type Envelope = { readonly from: ReplicaId; readonly to: ReplicaId; readonly term: Term };

function withBodies(envelope: Envelope, message: RaftMessage, bodies: readonly Uint8Array[]): Message | undefined {
  switch (message.kind) {
    case "append": {
      const { start, commitEnd } = message;
      const prevTerm = message.prevTerm as Term;
      let last: number = prevTerm;
      for (const { term } of message.entries) {
        if (term < last || term > message.term) return undefined;
        last = term;
      }
      const entries = message.entries.map(({ term, kind }, at) =>
        entryOf({ index: start + at, term, kind, bytes: owned(bodies[at] ?? new Uint8Array(0)) }),
      );
      return { ...envelope, kind: "append", start, prevTerm, entries, commitEnd };
    }
    case "snapshotChunk": {
      const { position } = message;
      const [bytes = new Uint8Array(0)] = bodies;
      const snapshot = metaOf(message.snapshot);
      if (snapshot === undefined) return undefined;
      return { ...envelope, kind: "snapshotChunk", snapshot, position, sizeBytes: bytes.length, bytes };
    }
    case "voteRequest":
      return { ...message, ...envelope, lastTerm: message.lastTerm as Term };
    case "appendRefused":
      return { ...message, ...envelope, hintTerm: message.hintTerm as Term };
    case "voteResponse":
    case "appendMatched":
    case "heartbeat":
    case "heartbeatResponse":
    case "snapshotResponse":
    case "timeoutNow":
      return { ...message, ...envelope };
  }
}

/** What is no command would stop this node when it is committed, and at each start. One of a newer build may: it is told by its name then (D-31). */
export function isApplicable(message: Message): boolean {
  return message.kind !== "append" || message.entries.every(isReadable);
}

function isReadable(entry: Entry): boolean {
  if (entry.kind !== "command") return true;
  try {
    decodeCommand(entry.bytes, entry.index);
    return true;
  } catch (thrown) {
    return asOttlaError(thrown).code !== "DATA_DAMAGED";
  }
}

function metaOf(name: {
  readonly end: number;
  readonly lastTerm: number;
  readonly sizeBytes: number;
  readonly configuration: QuorumConfiguration;
}): SnapshotMeta | undefined {
  const { end, lastTerm, sizeBytes } = name;
  const { voters, learners } = name.configuration;
  if (end === 0 || sizeBytes === 0 || !voters.every(isReplicaId) || !learners.every(isReplicaId)) return undefined;
  return { end, lastTerm: lastTerm as Term, sizeBytes, configuration: { voters, learners } };
}
