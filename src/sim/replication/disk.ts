// The disk of one simulated broker: what is on the platter, what the kernel holds, and what a power loss makes of that.
import type { Rng } from "../../base/rng.ts";
import { mutant } from "../../base/mutant.ts";
import type { LeaderEpoch, Offset } from "../../model/ids.ts";
import type { EpochStart } from "../../replication/types.ts";
import { placeOf, type SimBatch } from "./batch.ts";

/** A record of the journal, shared by all logs of the disk (D-2). */
export type LogOp =
  | { readonly kind: "append"; readonly batch: SimBatch; readonly before: SimBatch | undefined }
  | { readonly kind: "epoch"; readonly epoch: number }
  | { readonly kind: "truncate"; readonly toOffset: number }
  /** S-30: the log starts there. */
  | { readonly kind: "start"; readonly toOffset: number }
  /** The log is dropped and begins anew, empty (D-17). */
  | { readonly kind: "reset"; readonly fromOffset: number };

/**
 * One log as its records make it. Shape: batches are contiguous, the first holds `startOffset` or lies below it (whole segments go, and none goes
 * here); epochs rise in both columns.
 */
export class LogState {
  startOffset = 0;
  readonly batches: SimBatch[] = [];
  readonly epochs: EpochStart[] = [];

  get endOffset(): number {
    return this.batches.at(-1)?.endOffset ?? this.startOffset;
  }
  get lastEpoch(): number {
    return this.epochs.at(-1)?.epoch ?? -1;
  }

  apply(op: LogOp): void {
    switch (op.kind) {
      case "append": {
        const { batch } = op;
        if (batch.baseOffset !== this.endOffset)
          throw new RangeError(`batch ${batch.baseOffset} written to a log that ends at ${this.endOffset}`);
        this.#assign(batch.epoch, batch.baseOffset);
        this.batches.push(batch);
        return;
      }
      case "epoch":
        return this.#assign(op.epoch, this.endOffset);
      case "truncate":
        return this.cut(op.toOffset);
      case "start":
        return this.#raiseStart(op.toOffset);
      case "reset":
        this.batches.length = 0;
        this.epochs.length = 0;
        this.startOffset = op.fromOffset;
        return;
    }
  }

  /** epochs that begin at the new end or above go even when no record does. A batch that is cut through goes whole. */
  cut(toOffset: number): void {
    this.batches.length = placeOf(this.batches, toOffset);
    const end = Math.min(toOffset, this.endOffset);
    while ((this.epochs.at(-1)?.startOffset ?? -1) >= end) this.epochs.pop();
  }

  epochAt(offset: number): number | undefined {
    return this.batches[placeOf(this.batches, offset)]?.epoch;
  }

  copy(): LogState {
    const copy = new LogState();
    copy.startOffset = this.startOffset;
    for (const batch of this.batches) copy.batches.push(batch);
    for (const epoch of this.epochs) copy.epochs.push(epoch);
    return copy;
  }

  #raiseStart(toOffset: number): void {
    if (toOffset <= this.startOffset) return;
    this.startOffset = toOffset;
    this.batches.splice(0, placeOf(this.batches, toOffset));
    let dropped: EpochStart | undefined;
    while ((this.epochs[0]?.startOffset ?? toOffset) < toOffset) dropped = this.epochs.shift();
    if (dropped === undefined || this.epochs[0]?.startOffset === toOffset) return;
    this.epochs.unshift({ epoch: dropped.epoch, startOffset: toOffset as Offset });
  }

  #assign(epoch: number, startOffset: number): void {
    const last = this.epochs.at(-1);
    if (last?.epoch === epoch && startOffset >= last.startOffset) return;
    for (
      let at = last;
      at !== undefined && (at.epoch >= epoch || at.startOffset >= startOffset);
      at = this.epochs.at(-1)
    )
      this.epochs.pop();
    this.epochs.push({ epoch: epoch as LeaderEpoch, startOffset: startOffset as Offset });
  }
}

export interface ProducerImage {
  readonly bytes: Uint8Array;
  readonly endOffset: number;
  readonly last: SimBatch;
}

/** One log on the platter: synced, whatever happens to the power. */
export class PlatterLog {
  readonly state = new LogState();
  /** D-7: with the epoch of the batch that ends there. */
  storedHighWatermark: { readonly offset: number; readonly epoch: number } | undefined;
  isDamaged = false;
  /** D-15: what the producers were below `endOffset`, and the batch that ends there. */
  image: ProducerImage | undefined;
  /** The checker's: below it what was committed is known to be here, or let go. */
  matchedEnd = 0;

  apply(op: LogOp): void {
    this.state.apply(op);
    if (op.kind === "truncate") this.matchedEnd = Math.min(this.matchedEnd, this.state.endOffset);
    if (op.kind !== "reset") return;
    this.matchedEnd = 0;
    this.isDamaged = false;
    if (!mutant("D-7")) this.storedHighWatermark = undefined;
    if (!mutant("D-15")) this.image = undefined;
  }

  noteHighWatermark(offset: number): void {
    const { state } = this;
    const capped = Math.min(offset, state.endOffset);
    const epoch = capped === 0 ? undefined : state.epochAt(capped - 1);
    if (epoch !== undefined) this.storedHighWatermark = { offset: capped, epoch };
  }

  /** D-15: used only where the log has the batch that it was taken after. */
  get usableImage(): ProducerImage | undefined {
    const { state, image } = this;
    if (image === undefined) return undefined;
    const { endOffset, last } = image;
    const isThere = state.batches[placeOf(state.batches, endOffset - 1)] === last;
    return isThere || (mutant("D-15") && endOffset <= state.endOffset) ? image : undefined;
  }

  /** D-7: dropped where the recovered log has another epoch there. */
  get loadedHighWatermark(): number {
    const { state, storedHighWatermark: stored } = this;
    const least = Math.max(this.usableImage?.endOffset ?? 0, state.startOffset);
    if (stored === undefined || stored.offset > state.endOffset) return least;
    const isSame = state.epochAt(stored.offset - 1) === stored.epoch || mutant("D-7");
    return isSame ? Math.max(least, stored.offset) : least;
  }
}

/** Named by its place: the log's index on the disk, and what it was told. */
export interface JournalRecord {
  readonly log: number;
  readonly op: LogOp;
}

/** Survives the process. Shape: `kernel` holds, in order, what was written and is not synced. */
export class SimDisk {
  /** Changes when the disk is another one. */
  directory: number;
  readonly logs: PlatterLog[];
  readonly kernel: JournalRecord[] = [];
  brokerEpoch: number | undefined;
  /** the broker epoch of an ordered stop. */
  cleanMarker: number | undefined;
  /** What the next start may claim: only the power makes that false. */
  hadPowerLoss = false;

  constructor(directory: number, logCount: number) {
    this.directory = directory;
    this.logs = Array.from({ length: logCount }, () => new PlatterLog());
  }

  /** The log as its records make it, synced or not. */
  written(log: number): LogState {
    const state = (this.logs[log] as PlatterLog).state.copy();
    for (const record of this.kernel) if (record.log === log) state.apply(record.op);
    return state;
  }

  sync(count: number): void {
    for (const { log, op } of this.kernel.splice(0, count)) (this.logs[log] as PlatterLog).apply(op);
  }

  /** `kept`: so many records of what was not synced chain; the first that does not ends the replay (D-11). */
  losePower(rng: Rng, kept = rng.pick([0, rng.below(this.kernel.length + 1), this.kernel.length])): void {
    this.sync(kept);
    this.kernel.length = 0;
    this.hadPowerLoss = true;
  }

  /** As it is now, for a disk that goes back in time. */
  copy(): SimDisk {
    const copy = new SimDisk(this.directory, 0);
    for (const { state, storedHighWatermark, image, isDamaged } of this.logs) {
      const log = new PlatterLog();
      log.state.startOffset = state.startOffset;
      for (const batch of state.batches) log.state.batches.push(batch);
      for (const epoch of state.epochs) log.state.epochs.push(epoch);
      log.storedHighWatermark = storedHighWatermark;
      log.image = image;
      log.isDamaged = isDamaged;
      copy.logs.push(log);
    }
    copy.brokerEpoch = this.brokerEpoch;
    return copy;
  }
}
