// Snapshots: sent in chunks to a peer that needs entries which are gone, taken in, made durable, installed. Raft paper 7.
import { assert } from "../base/assert.ts";
import { mutant } from "../base/mutant.ts";
import type { Progress } from "./progress.ts";
import type { LeaderRole, RaftState } from "./raft-state.ts";
import type { ReplicaId, SnapshotChunk, SnapshotMeta, SnapshotResponse } from "./types.ts";

const NO_BYTES = new Uint8Array(0);

// --- the leader

export function startSnapshot(state: RaftState, to: ReplicaId, progress: Progress): void {
  assert(state.snapshot !== null, `the log starts at ${state.log.start}, and there is no snapshot`);
  progress.becomeSnapshot(state.snapshot, state.tick);
  sendSnapshotChunk(state, to, progress);
}

/** At the end of the snapshot this asks, with no bytes, how far the peer is. */
export function sendSnapshotChunk(state: RaftState, to: ReplicaId, { state: sending }: Progress): void {
  assert(sending.kind === "snapshot", `a chunk in state ${sending.kind}`);
  const { snapshot, position } = sending;
  sending.sentTick = state.tick;
  const sizeBytes = Math.min(state.settings.snapshotChunkBytes, snapshot.sizeBytes - position);
  state.send({ kind: "snapshotChunk", to, snapshot, position, sizeBytes, bytes: NO_BYTES });
}

export function handleSnapshotResponse(state: RaftState, role: LeaderRole, response: SnapshotResponse): void {
  const progress = role.peers.get(response.from);
  if (progress === undefined) return;
  progress.contactTick = state.tick;
  const { state: sending } = progress;
  const { snapshotEnd, position } = response;
  if (sending.kind !== "snapshot" || sending.snapshot.end !== snapshotEnd || sending.position === position) return;
  // Further on, or back where the peer lost what it had (a restart): its word decides, and a late one costs a round trip.
  if (position > sending.snapshot.sizeBytes) return;
  sending.position = position;
  if (position < sending.snapshot.sizeBytes) sendSnapshotChunk(state, response.from, progress);
  else sending.sentTick = state.tick;
}

// --- the follower

export function handleSnapshotChunk(state: RaftState, chunk: SnapshotChunk): void {
  state.heardLeader(chunk.from);
  const { snapshot } = chunk;
  if (snapshot.end <= state.log.commitEnd) {
    state.sendAfterSync({ kind: "appendMatched", to: chunk.from, end: state.log.commitEnd });
    return;
  }
  takeChunk(state, chunk);
  const position = state.incoming?.position ?? 0;
  state.sendInTerm({ kind: "snapshotResponse", to: chunk.from, snapshotEnd: snapshot.end, position });
}

function takeChunk(state: RaftState, { from, term, snapshot, position, bytes }: SnapshotChunk): void {
  const isSame =
    state.incoming !== null &&
    state.incoming.from === from &&
    state.incoming.term === term &&
    state.incoming.snapshot.end === snapshot.end;
  if (!isSame) state.incoming = { from, term, snapshot, position: 0 };
  const { incoming } = state;
  const isFresh = incoming !== null && incoming.position === position && position < snapshot.sizeBytes;
  if (!isFresh || bytes.length === 0 || position + bytes.length > snapshot.sizeBytes) return;
  incoming.position += bytes.length;
  const isLast = incoming.position === snapshot.sizeBytes;
  state.snapshotWrites.push({ snapshot, position, bytes, isLast });
  if (isLast && mutant("M19")) install(state, snapshot);
}

// --- both

/** The host has made a snapshot durable: one it took itself, or one that arrived. Only now may the log below it go. */
export function snapshotDurable(state: RaftState, snapshot: SnapshotMeta): void {
  if (state.snapshot !== null && snapshot.end <= state.snapshot.end) return;
  if (snapshot.end > state.log.commitEnd) {
    install(state, snapshot);
    return;
  }
  state.snapshot = snapshot;
  // It may have become committed here by entries before the snapshot was installed: then it is like one of its own.
  if (snapshot.end <= state.log.appliedEnd) cutCoveredPrefix(state);
}

export function cutCoveredPrefix(state: RaftState): void {
  const start = Math.max(0, (state.snapshot?.end ?? 0) - state.settings.retainedEntries);
  state.log.cutPrefix(start);
  state.configurations.cutPrefixTo(state.log.start);
}

function install(state: RaftState, snapshot: SnapshotMeta): void {
  state.snapshot = snapshot;
  const isContinued = state.log.matches(snapshot);
  state.log.install(snapshot);
  if (isContinued) state.configurations.cutPrefixTo(state.log.start);
  else state.configurations.reset(snapshot.configuration);
  state.loadSnapshot = snapshot;
  const to = state.incoming?.from;
  if (to !== undefined && to === state.leader) state.sendAfterSync({ kind: "appendMatched", to, end: snapshot.end });
  state.incoming = null;
}
