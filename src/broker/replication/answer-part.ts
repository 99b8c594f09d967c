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
const ROW_FIELDS_MAX = FIELD_LIMITS.REPLICA_ROWS * REPLICA_ROW.WIDTH;
const UNKNOWN_REPLICA = { leaderEpoch: -1, logStartOffset: -1 } as const;

export class AnswerPart {
  readonly rows: number[] = [];
  readonly bodies: Uint8Array[] = [];
  sizeBytes = 0;

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

  addBatches(slot: Slot, replica: Replica, { chunks, sizeBytes }: ReadResult): void {
    const [first] = chunks;
    if (first === undefined) return this.addMark(slot, replica);
    this.#push(slot, replica, this.bodies.length);
    this.bodies.push(chunks.length === 1 ? first : concatBytes(chunks));
    this.sizeBytes += sizeBytes;
  }

  #push(slot: Slot, replica: Replica, body: number): void {
    const { leaderEpoch, highWatermark } = replica.core;
    slot.sentHighWatermark = highWatermark;
    slot.mustAnswer = false;
    this.rows.push(slot.id, 0, leaderEpoch, highWatermark, replica.log.startOffset, -1, -1, body);
  }
}

function placesOf(replica: Replica): { readonly leaderEpoch: number; readonly logStartOffset: number } {
  return { leaderEpoch: replica.core.leaderEpoch, logStartOffset: replica.log.startOffset };
}
