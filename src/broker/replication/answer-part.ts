// One part of an answer to a follower while it is put together (D-24): rows, and bodies of at most 1 MiB, or a single longer one.
import { concatBytes } from "../../base/bytes.ts";
import { ERRORS } from "../../model/errors.ts";
import type { ReadResult } from "../../storage/types.ts";
import { FIELD_LIMITS } from "../../wire/native/layout.ts";
import { LIMITS } from "../../wire/native/protocol.ts";
import { REPLICA_ROW } from "../../wire/native/replication-apis.ts";
import type { Replica } from "../replica.ts";
import type { Notice, Slot } from "./slot.ts";

const NO_BODY = -1;
/** A message of its own costs about as much as copying so many bytes. */
const LONG_CHUNK_BYTES = 16 * 1024;
const ROW_FIELDS_MAX = FIELD_LIMITS.REPLICA_ROWS * REPLICA_ROW.WIDTH;
const UNKNOWN_REPLICA = { leaderEpoch: -1, logStartOffset: -1 } as const;

export class AnswerPart {
  readonly rows: number[] = [];
  readonly bodies: Uint8Array[] = [];
  sizeBytes = 0;
  readonly #releases: (() => void)[] = [];

  get isFull(): boolean {
    return this.rows.length >= ROW_FIELDS_MAX || this.bodies.length >= LIMITS.BODIES;
  }

  get isEmpty(): boolean {
    return this.rows.length === 0;
  }

  /** For bodies. */
  get leftBytes(): number {
    return Math.max(0, LIMITS.LOGICAL_MESSAGE_BODY_BYTES - this.sizeBytes);
  }

  /** A divergence or an error says nothing of the high watermark. */
  addNotice(slotId: number, notice: Notice, replica: Replica | undefined): void {
    const { leaderEpoch, logStartOffset } = replica === undefined ? UNKNOWN_REPLICA : placesOf(replica);
    const { code } = ERRORS[notice.error];
    this.rows.push(slotId, code, leaderEpoch, -1, logStartOffset, notice.divergingEpoch, notice.divergingEnd, NO_BODY);
  }

  addMark(slot: Slot, replica: Replica): void {
    this.#push(slot, replica, NO_BODY);
  }

  /** Long chunks go as they are, each in a row of its own: what memory holds is copied by nobody but the socket. */
  addBatches(slot: Slot, replica: Replica, { chunks, sizeBytes, release }: ReadResult): void {
    this.sizeBytes += sizeBytes;
    if (release !== undefined) this.#releases.push(release);
    const areLong = sizeBytes >= chunks.length * LONG_CHUNK_BYTES;
    const isRoomy =
      this.bodies.length + chunks.length <= LIMITS.BODIES &&
      this.rows.length + chunks.length * REPLICA_ROW.WIDTH <= ROW_FIELDS_MAX;
    const bodies = chunks.length > 1 && !(areLong && isRoomy) ? [concatBytes(chunks)] : chunks;
    for (const body of bodies) {
      this.#push(slot, replica, this.bodies.length);
      this.bodies.push(body);
    }
  }

  /** The socket has taken the bodies. */
  release(): void {
    for (const release of this.#releases) release();
  }

  #push(slot: Slot, replica: Replica, body: number): void {
    const { leaderEpoch, highWatermark, startOffset } = replica.core;
    slot.sentHighWatermark = highWatermark;
    slot.sentStartOffset = startOffset;
    slot.mustAnswer = false;
    this.rows.push(slot.id, 0, leaderEpoch, highWatermark, startOffset, -1, -1, body);
  }
}

function placesOf(replica: Replica): { readonly leaderEpoch: number; readonly logStartOffset: number } {
  return { leaderEpoch: replica.core.leaderEpoch, logStartOffset: replica.core.startOffset };
}
