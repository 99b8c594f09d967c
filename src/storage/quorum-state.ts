// `quorum-state`: everything small that a voter must not forget (D-19, D-20). It is the first file of a metadata directory and says in
// which format the others are.
import { assert } from "../base/assert.ts";
import { type DirectoryId, toNodeId } from "../model/ids.ts";
import { OttlaError } from "../model/errors.ts";
import type { Checksum } from "../ports/checksum.ts";
import { ByteReader, ByteWriter, MAGIC, type PassedOver, readChecked } from "./format.ts";
import type { PeerMark, RaftOwner, StoredHardState, StoredLogStart } from "./raft-types.ts";
import { newestSlot, type SlotFormat } from "./slot-file.ts";

export const QUORUM_STATE = "quorum-state";
/** Holds the marks of 64 peers. */
export const QUORUM_STATE_FORMAT: SlotFormat = { magic: MAGIC.QUORUM_STATE, version: 4, slotBytes: 8192 };
const PEERS_MAX = 64;
const TEXT_BYTES_MAX = 64;

export interface QuorumState {
  /** Whose term, vote and log this is: a vote is of one disk, and never to be found on another. */
  readonly owner: RaftOwner;
  /** Starts of this disk. */
  readonly boots: number;
  readonly hardState: StoredHardState;
  readonly logStart: StoredLogStart;
  /** A sync of the log up to here had succeeded when this was written: a log that ends before has lost something. */
  readonly provenEnd: number;
  /** The log is being replaced: no segment file that is found holds anything of it. */
  readonly isResetting: boolean;
  readonly marks: ReadonlyMap<string, PeerMark>;
}

export const emptyQuorumState = (owner: RaftOwner): QuorumState => ({
  owner,
  boots: 0,
  hardState: { term: 0, votedFor: null },
  logStart: { start: 0, startTerm: 0 },
  provenEnd: 0,
  isResetting: false,
  marks: new Map(),
});

export function encodeQuorumState(state: QuorumState): Uint8Array {
  const { hardState, logStart, marks } = state;
  assert(marks.size <= PEERS_MAX, `marks of ${marks.size} peers`);
  const writer = new ByteWriter();
  writeOwner(writer, state.owner);
  writer.i64(state.boots);
  writer.i64(hardState.term);
  writer.u8(hardState.votedFor === null ? 0 : 1);
  writeId(writer, hardState.votedFor ?? "");
  writer.i64(logStart.start);
  writer.i64(logStart.startTerm);
  writer.i64(state.provenEnd);
  writer.u8(state.isResetting ? 1 : 0);
  writer.u32(marks.size);
  for (const [replica, mark] of marks) {
    writeId(writer, replica);
    writer.i64(mark.boots);
    writer.i64(mark.term);
    writer.i64(mark.end);
  }
  return writer.bytes();
}

export function writeOwner(writer: ByteWriter, { nodeId, directoryId }: RaftOwner): void {
  writer.i64(nodeId);
  writer.text(directoryId);
}

export function readOwner(reader: ByteReader): RaftOwner {
  return { nodeId: toNodeId(reader.i64()), directoryId: reader.text() as DirectoryId };
}

/** Throws DATA_DIR_FOREIGN for a file of another disk. */
export function checkOwner(path: string, found: RaftOwner, own: RaftOwner): void {
  if (found.nodeId === own.nodeId && found.directoryId === own.directoryId) return;
  const text = ({ nodeId, directoryId }: RaftOwner) => `node ${nodeId} (directory ${directoryId})`;
  throw new OttlaError("DATA_DIR_FOREIGN", `${path} belongs to ${text(found)}, this is ${text(own)}`);
}

function writeId(writer: ByteWriter, replica: string): void {
  assert(replica.length <= TEXT_BYTES_MAX, `a replica id of ${replica.length} characters`);
  writer.text(replica);
}

/** Its CRC was checked. Throws DATA_DAMAGED. */
export const decodeQuorumState = (payload: Uint8Array): QuorumState =>
  readChecked(QUORUM_STATE, () => readState(new ByteReader(payload)));

function readState(reader: ByteReader): QuorumState {
  const owner = readOwner(reader);
  const boots = reader.i64();
  const term = reader.i64();
  const hasVoted = reader.u8() === 1;
  const votedFor = reader.text();
  const logStart = { start: reader.i64(), startTerm: reader.i64() };
  const provenEnd = reader.i64();
  const isResetting = reader.u8() === 1;
  const marks = new Map<string, PeerMark>();
  for (let left = reader.u32(); left > 0; left--)
    marks.set(reader.text(), { boots: reader.i64(), term: reader.i64(), end: reader.i64() });
  const hardState = { term, votedFor: hasVoted ? votedFor : null };
  return { owner, boots, hardState, logStart, provenEnd, isResetting, marks };
}

/** Throws DATA_DIR_NEWER, DATA_DIR_FOREIGN, DATA_DAMAGED. */
export function readQuorumState(
  bytes: Uint8Array,
  path: string,
  checksum: Checksum,
): { readonly state: QuorumState; readonly passedOver: PassedOver | undefined } {
  const { payload, passedOver } = newestSlot(bytes, path, QUORUM_STATE_FORMAT, checksum);
  return { state: decodeQuorumState(payload), passedOver };
}
