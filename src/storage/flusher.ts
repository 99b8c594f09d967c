// Moves durable batches from memory into segments, some logs at a time, and keeps the two memory budgets of the store: pinned
// bytes (not yet in a segment) and the tail cache (in a segment, kept for readers near the tail).
import { Ring } from "../base/ring.ts";
import type { ReplicaLogImpl } from "./replica-log.ts";

/** A log is written out once this much of it waits. */
const FLUSH_BYTES = 256 * 1024;
/** Logs written out at the same time; with the journal's write and sync that fills a thread pool of four. */
const FLUSHES_MAX = 2;
/** Cache entries remembered at most; beyond, the oldest go whatever the bytes are. */
const CACHE_ENTRIES_MAX = 1 << 16;

interface CacheEntry {
  readonly log: ReplicaLogImpl;
  readonly endOffset: number;
}

export interface FlusherBudgets {
  readonly pinnedBytes: number;
  readonly cacheBytes: number;
}

export class Flusher {
  readonly #budgets: FlusherBudgets;
  readonly #onFailure: (log: ReplicaLogImpl, thrown: unknown) => Promise<boolean>;
  readonly #onRoomChanged: () => void;
  readonly #queue = new Ring<ReplicaLogImpl>();
  /** Logs with pinned bytes, the one that has waited longest first. */
  readonly #pinned = new Set<ReplicaLogImpl>();
  readonly #cached = new Ring<CacheEntry>();
  #running = 0;
  #pinnedBytes = 0;
  #cachedBytes = 0;
  #hasRoom = true;

  /** `onFailure` says whether to try again. */
  constructor(
    budgets: FlusherBudgets,
    events: {
      readonly onFailure: (log: ReplicaLogImpl, thrown: unknown) => Promise<boolean>;
      readonly onRoomChanged: () => void;
    },
  ) {
    this.#budgets = budgets;
    this.#onFailure = events.onFailure;
    this.#onRoomChanged = events.onRoomChanged;
  }

  get hasRoom(): boolean {
    return this.#hasRoom;
  }

  get pinnedBytes(): number {
    return this.#pinnedBytes;
  }

  get cachedBytes(): number {
    return this.#cachedBytes;
  }

  onPinned(log: ReplicaLogImpl, sizeBytes: number): void {
    if (log.held.pinnedBytes === sizeBytes) this.#pinned.add(log);
    this.#pinnedBytes += sizeBytes;
    this.#updateRoom();
  }

  onUnpinned(log: ReplicaLogImpl, sizeBytes: number): void {
    this.#pinnedBytes -= sizeBytes;
    if (log.held.pinnedBytes === 0) this.#pinned.delete(log);
    this.#updateRoom();
  }

  #updateRoom(): void {
    const hasRoom = this.#pinnedBytes < this.#budgets.pinnedBytes;
    if (hasRoom === this.#hasRoom) return;
    this.#hasRoom = hasRoom;
    this.#onRoomChanged();
  }

  onCached(log: ReplicaLogImpl, sizeBytes: number): void {
    this.#cachedBytes += sizeBytes;
    if (sizeBytes <= 0) return;
    this.#cached.push({ log, endOffset: log.held.flushedEnd });
    while (this.#cachedBytes > this.#budgets.cacheBytes || this.#cached.length > CACHE_ENTRIES_MAX) {
      const oldest = this.#cached.shift();
      if (oldest === undefined) return;
      oldest.log.held.evictThrough(oldest.endOffset);
    }
  }

  onDurable(log: ReplicaLogImpl): void {
    if (log.held.pinnedBytes >= FLUSH_BYTES) this.request(log);
    // Only when nobody works: a sweep over all logs for each event would be quadratic.
    if (this.#running === 0 && this.#pinnedBytes * 2 > this.#budgets.pinnedBytes)
      for (const each of this.#pinned) this.request(each);
  }

  request(log: ReplicaLogImpl): void {
    if (log.isFlushQueued) return;
    log.isFlushQueued = true;
    this.#queue.push(log);
    if (this.#running < FLUSHES_MAX) void this.#run();
  }

  async #run(): Promise<void> {
    this.#running++;
    // Whatever else this turn makes durable joins the first write.
    await undefined;
    for (let log = this.#queue.shift(); log !== undefined; log = this.#queue.shift()) await this.#flush(log);
    this.#running--;
  }

  async #flush(log: ReplicaLogImpl): Promise<void> {
    log.isFlushQueued = false;
    if (log.flushing !== undefined) {
      log.isFlushWanted = true;
      return;
    }
    log.flushing = this.#flushNow(log);
    await log.flushing;
    log.flushing = undefined;
    if (log.isFlushWanted) this.request(log);
  }

  async #flushNow(log: ReplicaLogImpl): Promise<void> {
    let isWanted: boolean;
    do {
      log.isFlushWanted = false;
      isWanted = await log.flush().then(
        () => log.isFlushWanted,
        (thrown: unknown) => this.#onFailure(log, thrown),
      );
    } while (isWanted);
  }
}
