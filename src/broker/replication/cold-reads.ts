// Reads from disk for one follower, beside its answers: what memory holds never waits for a disk. A few at once; one that takes long stops counting,
// so that a dying page of one partition does not hold up the others.
//
// Bound: READS_MAX results or reads, of at most `bytesMax` (or one larger batch) each, on the connection's account of answers.
import { Ring } from "../../base/ring.ts";
import type { Deadline, Deadlines } from "../../base/deadlines.ts";
import { asOttlaError, type ErrorName } from "../../model/errors.ts";
import type { ReadResult } from "../../storage/types.ts";
import type { AnswerRoom } from "../answer-room.ts";
import type { Slot } from "./slot.ts";

/** At once, as long as none is slow. */
const LANES = 4;
const SLOW_MS = 40;
const READS_MAX = 16;

export interface ColdReadsDeps {
  readonly clock: { monoMs(): number };
  readonly deadlines: Deadlines;
  readonly answers: AnswerRoom;
  readonly bytesMax: number;
  readonly guard: (work: () => void) => void;
  /** The slot has a result, or could not be read. */
  onRead(slot: Slot, error: ErrorName | undefined): void;
}

interface Reading {
  readonly slot: Slot;
  readonly startedMs: number;
  /** On the account: the most that it can be, then what it is. */
  heldBytes: number;
}

export class ColdReads {
  readonly #deps: ColdReadsDeps;
  readonly #queue = new Ring<Slot>();
  readonly #readings = new Map<Slot, Reading>();
  #look: Deadline | undefined;
  #isClosed = false;

  constructor(deps: ColdReadsDeps) {
    this.#deps = deps;
  }

  /** Its `cold` is set later, and `onRead` called. */
  add(slot: Slot): void {
    if (slot.isCold) return;
    slot.isCold = true;
    this.#queue.push(slot);
    this.#pump();
  }

  /** A read that was begun already. */
  await(slot: Slot, result: Promise<ReadResult>): void {
    slot.isCold = true;
    this.#follow(slot, result);
  }

  /** The result has gone into an answer, or nobody wants it. */
  release(slot: Slot): void {
    slot.cold = undefined;
    const reading = this.#readings.get(slot);
    // While the disk still works on it, it counts.
    if (reading === undefined || slot.isCold) return;
    this.#drop(reading);
    this.#pump();
  }

  close(): void {
    this.#isClosed = true;
    this.#look?.cancel();
    this.#queue.clear();
    for (const reading of [...this.#readings.values()]) this.#drop(reading);
  }

  #drop(reading: Reading): void {
    this.#readings.delete(reading.slot);
    this.#deps.answers.adjust(-reading.heldBytes);
  }

  #pump(): void {
    while (!this.#isClosed && this.#queue.length > 0) {
      if (!this.#hasLane()) return this.#lookLater();
      const slot = this.#queue.shift();
      if (slot !== undefined) this.#begin(slot);
    }
  }

  #hasLane(): boolean {
    if (this.#readings.size >= READS_MAX) return false;
    const slowSinceMs = this.#deps.clock.monoMs() - SLOW_MS;
    let count = 0;
    for (const { slot, startedMs } of this.#readings.values()) if (!slot.isCold || startedMs > slowSinceMs) count++;
    return count < LANES;
  }

  #lookLater(): void {
    this.#look ??= this.#deps.deadlines.add(SLOW_MS, () => {
      this.#look = undefined;
      this.#deps.guard(() => this.#pump());
    });
  }

  #begin(slot: Slot): void {
    const { replica, fromOffset } = slot;
    if (replica === undefined || slot.state !== "active" || !slot.isReadable) {
      slot.isCold = false;
      return;
    }
    const { bytesMax: maxBytes } = this.#deps;
    const options = { limitOffset: replica.core.writtenEnd, maxBytes, atLeastOne: true, isFollowing: true };
    this.#follow(slot, Promise.resolve(replica.log.read(fromOffset, options)));
  }

  #follow(slot: Slot, read: Promise<ReadResult>): void {
    const { bytesMax, clock, answers } = this.#deps;
    const { fromOffset } = slot;
    const reading = { slot, startedMs: clock.monoMs(), heldBytes: bytesMax };
    this.#readings.set(slot, reading);
    answers.adjust(bytesMax);
    read.then(
      (result) => this.#ended(reading, { fromOffset, result }),
      (thrown: unknown) => this.#ended(reading, { fromOffset, error: asOttlaError(thrown).code }),
    );
  }

  #ended(
    reading: Reading,
    outcome: { readonly fromOffset: number; readonly result?: ReadResult; readonly error?: ErrorName },
  ): void {
    if (this.#isClosed) return;
    const { slot } = reading;
    const { fromOffset, result, error } = outcome;
    slot.isCold = false;
    const isWanted = slot.state === "active" && slot.fromOffset === fromOffset;
    if (isWanted && result !== undefined && result.sizeBytes > 0) {
      this.#deps.answers.adjust(result.sizeBytes - reading.heldBytes);
      reading.heldBytes = result.sizeBytes;
      slot.cold = { fromOffset, result };
    } else {
      result?.release?.();
      this.#drop(reading);
    }
    this.#deps.guard(() => {
      this.#deps.onRead(slot, isWanted ? error : undefined);
      this.#pump();
    });
  }
}
