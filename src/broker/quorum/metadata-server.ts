// Serves observers (D-21): committed entries from the log of this voter, parked until there are some; a snapshot to those far behind.
import { OttlaError } from "../../model/errors.ts";
import type { ClusterId } from "../../model/ids.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Timers } from "../../ports/timers.ts";
import type { RaftNode } from "../../raft/raft-node.ts";
import { nodeIdOf } from "../../raft/types.ts";
import type { RaftStore } from "../../storage/raft-types.ts";
import type { FetchMetadataRequest } from "../../wire/native/quorum-apis.ts";
import { bytesOfEntry } from "./codec.ts";
import type { Pulled } from "./observer.ts";

const WAIT_MS_MAX = 30_000;
/** D-24: several bodies of one message have at most 1 MiB together. */
const ANSWER_BYTES_MAX = 1024 * 1024;
const ANSWER_ENTRIES_MAX = 512;
const PIECE_BYTES = 256 * 1024;
/** Bound: pulls that wait for something to be committed. */
const PARKED_MAX = 1_024;
/** A snapshot that is being pulled is kept for this long after its last piece. */
const SNAPSHOT_KEPT_MS = 10_000;

export interface MetadataServerParts {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly store: RaftStore;
  readonly core: () => RaftNode | undefined;
  readonly clusterId: () => ClusterId | null;
  /** The newest snapshot, which ends here, cannot be read. */
  readonly onUnreadable: (end: number) => void;
}

interface Parked {
  readonly start: number;
  readonly wake: () => void;
}

export class MetadataServer {
  readonly #parts: MetadataServerParts;
  readonly #parked = new Set<Parked>();
  /** Snapshots being pulled: end -> when the last piece went. */
  readonly #pulled = new Map<number, number>();
  #isClosed = false;

  constructor(parts: MetadataServerParts) {
    this.#parts = parts;
  }

  /** Ends of snapshots that somebody is in the middle of. */
  snapshotsInUse(): number[] {
    const nowMs = this.#parts.clock.monoMs();
    for (const [end, atMs] of this.#pulled) if (nowMs - atMs > SNAPSHOT_KEPT_MS) this.#pulled.delete(end);
    return [...this.#pulled.keys()];
  }

  /** Rejects with an OttlaError that the peer is to be told. */
  async fetch(request: FetchMetadataRequest): Promise<Pulled> {
    this.#check(request);
    const { start } = request;
    if (this.#committedEnd() <= start) await this.#park(request);
    const core = this.#check(request);
    const maxBytes = Math.min(Math.max(request.maxBytes, 1), ANSWER_BYTES_MAX);
    const entries = core.committedFrom(start, { entriesMax: ANSWER_ENTRIES_MAX, bytesMax: maxBytes });
    if (entries === undefined) return this.#piece(core, request, Math.min(maxBytes, PIECE_BYTES));
    const clusterId = this.#parts.clusterId() as ClusterId;
    return {
      response: {
        ...this.#head(core),
        start,
        entries: entries.map(({ term, kind }) => ({ term, kind })),
        snapshot: null,
      },
      // The same bytes for every observer: an entry is encoded once, by whoever proposed it.
      bodies: entries.map((entry) => bytesOfEntry(entry, clusterId)),
    };
  }

  /** Something may have been committed. */
  onProgress(): void {
    if (this.#parked.size === 0) return;
    const end = this.#committedEnd();
    for (const { start, wake } of [...this.#parked]) if (end > start) wake();
  }

  close(): void {
    this.#isClosed = true;
    for (const { wake } of [...this.#parked]) wake();
  }

  #committedEnd(): number {
    const { commitEnd = 0, durableEnd = 0 } = this.#parts.core()?.log ?? {};
    return Math.min(commitEnd, durableEnd);
  }

  #head(core: RaftNode): { readonly leaderId: number; readonly commitEnd: number } {
    const { leader } = core;
    return { leaderId: leader === null ? -1 : nodeIdOf(leader), commitEnd: this.#committedEnd() };
  }

  #check({ clusterId, start, startTerm }: FetchMetadataRequest): RaftNode {
    const core = this.#parts.core();
    const own = this.#parts.clusterId();
    if (this.#isClosed) throw new OttlaError("BROKER_NOT_AVAILABLE", "the broker is stopping");
    if (core === undefined || core.log.end === 0 || own === null)
      throw new OttlaError("BROKER_NOT_AVAILABLE", "this broker has no metadata log");
    if (clusterId !== own) throw new OttlaError("INCONSISTENT_CLUSTER_ID", `this broker belongs to cluster ${own}`);
    if (hasParted(core, { start, startTerm }))
      throw new OttlaError("METADATA_DIVERGED", `entry ${start - 1} of term ${startTerm} is not in the quorum's log`);
    return core;
  }

  #park({ start, maxWaitMs }: FetchMetadataRequest): Promise<void> {
    if (this.#parked.size >= PARKED_MAX) throw new OttlaError("BUSY", `${PARKED_MAX} observers wait`);
    return new Promise((resolve) => {
      const parked: Parked = {
        start,
        wake: () => {
          timer.cancel();
          this.#parked.delete(parked);
          resolve();
        },
      };
      const timer = this.#parts.timers.after(Math.min(Math.max(maxWaitMs, 0), WAIT_MS_MAX), () => parked.wake());
      this.#parked.add(parked);
    });
  }

  async #piece(core: RaftNode, request: FetchMetadataRequest, length: number): Promise<Pulled> {
    const newest = core.snapshot;
    if (newest === null) throw new OttlaError("BROKER_NOT_AVAILABLE", "there is no metadata snapshot");
    // One that was begun is gone on with only while it is the newest: its name must go along with each piece.
    const position = request.snapshotEnd === newest.end ? request.snapshotPosition : 0;
    this.#pulled.set(newest.end, this.#parts.clock.monoMs());
    const bytes = await this.#parts.store.readSnapshot(newest.end, position, length);
    if (bytes === undefined) {
      this.#parts.onUnreadable(newest.end);
      throw new OttlaError("BROKER_NOT_AVAILABLE", "the metadata snapshot is being replaced");
    }
    return {
      response: { ...this.#head(core), start: request.start, entries: [], snapshot: { ...newest, position } },
      bodies: [bytes],
    };
  }
}

/**
 * Only after a recovery by force: what is committed differs nowhere else. A voter that is behind says nothing, nor a leader that does not know
 * yet that there was another one after it; a leader lacks no committed entry of a term up to its own.
 */
function hasParted(
  core: RaftNode,
  { start, startTerm }: { readonly start: number; readonly startTerm: number },
): boolean {
  if (start === 0) return false;
  if (start > core.log.end) return core.isLeaderReady && startTerm <= core.term;
  const [last] = core.committedFrom(start - 1, { entriesMax: 1, bytesMax: 1 }) ?? [];
  return last !== undefined && last.term !== startTerm;
}
