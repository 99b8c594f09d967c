// `quorum-state`: everything small that a voter must not forget (D-19, D-20). It is the first file of a metadata directory and says in
// which format the others are.
import { assert } from "../base/assert.ts";
import type { Checksum } from "../ports/checksum.ts";
import { ByteReader, ByteWriter, MAGIC } from "./format.ts";
import type { PeerMark, StoredHardState, StoredLogStart } from "./raft-types.ts";
import { newestSlot, type SlotFormat } from "./slot-file.ts";

export const QUORUM_STATE = "quorum-state";
/** Holds the marks of 64 peers. */
export const QUORUM_STATE_FORMAT: SlotFormat = { magic: MAGIC.QUORUM_STATE, slotBytes: 8192 };
const PEERS_MAX = 64;
const TEXT_BYTES_MAX = 64;

export interface QuorumState {
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

export const EMPTY_QUORUM_STATE: QuorumState = {
  boots: 0,
  hardState: { term: 0, votedFor: null },
  logStart: { start: 0, startTerm: 0 },
  provenEnd: 0,
  isResetting: false,
  marks: new Map(),
};

export function encodeQuorumState(state: QuorumState): Uint8Array {
  const { hardState, logStart, marks } = state;
  assert(marks.size <= PEERS_MAX, `marks of ${marks.size} peers`);
  const writer = new ByteWriter();
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

function writeId(writer: ByteWriter, replica: string): void {
  assert(replica.length <= TEXT_BYTES_MAX, `a replica id of ${replica.length} characters`);
  writer.text(replica);
}

/** Its CRC was checked. */
export function decodeQuorumState(payload: Uint8Array): QuorumState {
  const reader = new ByteReader(payload);
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
  return { boots, hardState: { term, votedFor: hasVoted ? votedFor : null }, logStart, provenEnd, isResetting, marks };
}

/** Throws DATA_DIR_NEWER, DATA_DAMAGED. */
export function readQuorumState(bytes: Uint8Array, path: string, checksum: Checksum): QuorumState {
  return decodeQuorumState(newestSlot(bytes, path, QUORUM_STATE_FORMAT, checksum).payload);
}
