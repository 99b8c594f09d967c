// Snapshots on the disk: those of this node's own image, those that a leader sends, and the pieces that are read for others.
import { concatBytes } from "../../base/bytes.ts";
import { mutant } from "../../base/mutant.ts";
import { asOttlaError, OttlaError } from "../../model/errors.ts";
import type { ClusterId } from "../../model/ids.ts";
import type { SnapshotMeta, SnapshotWrite } from "../../raft/types.ts";
import type { RaftStore, SnapshotSink } from "../../storage/raft-types.ts";
import { owned, storedMetaOf } from "./codec.ts";
import { isPassing } from "./write-lane.ts";

const PIECE_BYTES = 256 * 1024;

export interface SnapshotKeeperHost {
  readonly store: RaftStore;
  clusterId(): ClusterId;
  /** Throws DATA_DAMAGED when what arrived is no snapshot of this, before it takes the place of the log. Throws else what ends this node. */
  check(meta: SnapshotMeta, bytes: Uint8Array): void;
  onDurable(meta: SnapshotMeta): void;
  /** What was arriving could not be kept. */
  onSpoilt(): void;
  onFailed(error: OttlaError): void;
}

interface Arriving {
  readonly meta: SnapshotMeta;
  readonly pieces: Uint8Array[];
  /** Undefined once it could not be written. */
  sink: SnapshotSink | undefined;
}

/** What arrived is no snapshot: nothing of this disk is damaged. */
class Unusable extends OttlaError {}

/** Bound: one snapshot under way at a time, and one that arrived and is not loaded yet; these are held in memory. */
export class SnapshotKeeper {
  readonly #host: SnapshotKeeperHost;
  #arriving: Arriving | null = null;
  /** Durable: another leader may have begun to send its own while it was synced. */
  #arrived: Arriving | null = null;
  #isSaving = false;
  #last: Promise<void> = Promise.resolve();

  constructor(host: SnapshotKeeperHost) {
    this.#host = host;
  }

  get isBusy(): boolean {
    return this.#isSaving || this.#arriving !== null || this.#arrived !== null;
  }

  /** Resolves when nothing is being written; for an ordered end. */
  settled(): Promise<void> {
    return this.#last;
  }

  /** The whole of the snapshot that arrived last; undefined when it is another one. */
  takeArrived(end: number): Uint8Array | undefined {
    // of what still arrives the core knows nothing yet.
    const arrived = mutant("Q15a") ? (this.#arriving ?? this.#arrived) : this.#arrived;
    if (arrived?.meta.end !== end) return undefined;
    this.#arrived = null;
    return concatBytes(arrived.pieces);
  }

  /** Loaded, or overtaken by entries: what arrives, or stopped arriving, is of no use any more. */
  dropUpTo(commitEnd: number): void {
    if (this.#arrived !== null && this.#arrived.meta.end <= commitEnd) this.#arrived = null;
    const arriving = this.#arriving;
    if (arriving === null || arriving.meta.end > commitEnd) return;
    this.#arriving = null;
    this.#enqueue(async () => {
      const { sink } = arriving;
      arriving.sink = undefined;
      await sink?.abandon();
    });
  }

  /** A piece of a leader's snapshot, in order; position 0 begins a new one. */
  take({ snapshot, position, bytes, isLast }: SnapshotWrite): void {
    if (position === 0) this.#begin(snapshot);
    const arriving = this.#arriving;
    if (arriving === null || arriving.meta.end !== snapshot.end) return;
    const piece = owned(bytes);
    arriving.pieces.push(piece);
    this.#enqueue(async () => {
      if (arriving.sink === undefined) return;
      try {
        await arriving.sink.write(position, piece);
        if (!isLast) return;
        if (!mutant("Q15c")) this.#check(arriving);
        await arriving.sink.finish();
        arriving.sink = undefined;
        if (this.#arriving === arriving) this.#arriving = null;
        this.#arrived = arriving;
        this.#host.onDurable(arriving.meta);
      } catch (thrown) {
        await this.#spoil(arriving, asOttlaError(thrown));
      }
    });
  }

  #check({ meta, pieces }: Arriving): void {
    const whole = concatBytes(pieces);
    pieces.splice(0, pieces.length, whole);
    try {
      this.#host.check(meta, whole);
    } catch (thrown) {
      const error = asOttlaError(thrown);
      throw error.code === "DATA_DAMAGED" ? new Unusable(error.code, error.message) : error;
    }
  }

  #begin(meta: SnapshotMeta): void {
    const before = this.#arriving;
    const arriving: Arriving = { meta, pieces: [], sink: undefined };
    this.#arriving = arriving;
    this.#enqueue(async () => {
      await before?.sink?.abandon();
      try {
        arriving.sink = await this.#host.store.beginSnapshot(storedMetaOf(meta, this.#host.clusterId()));
      } catch (thrown) {
        await this.#spoil(arriving, asOttlaError(thrown));
      }
    });
  }

  async #spoil(arriving: Arriving, error: OttlaError): Promise<void> {
    const { sink } = arriving;
    arriving.sink = undefined;
    await sink?.abandon();
    if (!isPassing(error) && !(error instanceof Unusable)) {
      this.#host.onFailed(error);
      return;
    }
    if (this.#arriving !== arriving) return;
    this.#arriving = null;
    this.#host.onSpoilt();
  }

  /** This node's own image. Resolves to false when it could not be written now. */
  save(meta: SnapshotMeta, bytes: Uint8Array): Promise<boolean> {
    this.#isSaving = true;
    return new Promise((resolve) => {
      this.#enqueue(async () => {
        const isDone = await this.#write(meta, bytes);
        this.#isSaving = false;
        resolve(isDone);
        if (isDone) this.#host.onDurable(meta);
      });
    });
  }

  async #write(meta: SnapshotMeta, bytes: Uint8Array): Promise<boolean> {
    let sink: SnapshotSink | undefined;
    try {
      sink = await this.#host.store.beginSnapshot(storedMetaOf(meta, this.#host.clusterId()));
      for (let at = 0; at < bytes.length; at += PIECE_BYTES) await sink.write(at, bytes.subarray(at, at + PIECE_BYTES));
      await sink.finish();
      return true;
    } catch (thrown) {
      await sink?.abandon();
      const error = asOttlaError(thrown);
      if (!isPassing(error)) this.#host.onFailed(error);
      return false;
    }
  }

  #enqueue(work: () => Promise<void>): void {
    this.#last = this.#last.then(work).catch((thrown: unknown) => this.#host.onFailed(asOttlaError(thrown)));
  }
}

/** All of a stored snapshot; undefined when it is not there, or not whole. */
export async function readWholeSnapshot(
  store: RaftStore,
  { end, sizeBytes }: { readonly end: number; readonly sizeBytes: number },
): Promise<Uint8Array | undefined> {
  const pieces: Uint8Array[] = [];
  for (let at = 0; at < sizeBytes; ) {
    const piece = await store.readSnapshot(end, at, Math.min(PIECE_BYTES, sizeBytes - at));
    if (piece === undefined || piece.length === 0) return undefined;
    pieces.push(piece);
    at += piece.length;
  }
  return concatBytes(pieces);
}
