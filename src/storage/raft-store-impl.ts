// The running store of the quorum: a queue of writes carried out one after another. Those that wait share the sync of the log (group commit).
import { failpoint } from "../base/failpoint.ts";
import { AssertionFailure } from "../base/assert.ts";
import { asOttlaError, OttlaError } from "../model/errors.ts";
import type { TimerHandle } from "../ports/timers.ts";
import { diskFailed, isNoSpace, isPassing, storageError, storageFull } from "./faults.ts";
import { encodeQuorumState, type QuorumState } from "./quorum-state.ts";
import type { RaftLane } from "./raft-lane.ts";
import type { RaftReserve } from "./raft-reserve.ts";
import type { RaftSnapshots } from "./raft-snapshots.ts";
import type {
  PeerMark,
  RaftStore,
  RaftWrite,
  RestoredRaft,
  SnapshotSink,
  StoredEntry,
  StoredLogStart,
  StoredSnapshotMeta,
} from "./raft-types.ts";
import type { SlotFile } from "./slot-file.ts";
import type { StorageDeps } from "./types.ts";

/** Entries that share a sync at most: the first of them waits for the last. */
const GROUP_BYTES_MAX = 4 * 1024 * 1024;
/** After this long without a write it is noted how far the log was synced, so that even its end cannot be lost unnoticed (D-11). */
const NOTE_AFTER_IDLE_MS = 50;

type Work =
  | { readonly kind: "write"; readonly batch: RaftWrite }
  | { readonly kind: "marks"; readonly marks: ReadonlyMap<string, PeerMark> }
  | { readonly kind: "note" };
type Job = Work & { resolve(): void; reject(error: Error): void };

export interface OpenedRaft {
  readonly restored: RestoredRaft;
  readonly state: QuorumState;
  readonly stateFile: SlotFile;
  readonly lane: RaftLane;
  readonly snapshots: RaftSnapshots;
  readonly reserve: RaftReserve;
}

const bytesOf = (job: Job): number =>
  job.kind === "write" ? job.batch.entries.reduce((sum, entry) => sum + entry.bytes.length, 0) : 0;

const passing = (thrown: unknown): OttlaError =>
  isNoSpace(thrown)
    ? storageFull(thrown)
    : storageError(`the metadata log cannot be written: ${String(thrown)}`, thrown);

export class RaftStoreImpl implements RaftStore {
  #restored: RestoredRaft;
  readonly isEmpty: boolean;
  readonly boots: number;
  readonly marks: ReadonlyMap<string, PeerMark>;
  readonly #deps: StorageDeps;
  readonly #stateFile: SlotFile;
  readonly #lane: RaftLane;
  readonly #snapshots: RaftSnapshots;
  readonly #reserve: RaftReserve;
  /** As it is on the disk. */
  #state: QuorumState;
  /** Bound: what the Raft core hands out before it waits; the core's own bound of entries not yet durable. */
  #queue: Job[] = [];
  #running: Promise<void> | undefined;
  #noteTimer: TimerHandle | undefined;
  /** Set while those whose writes were refused have not heard of it. */
  #refusal: OttlaError | undefined;
  #failure: Error | undefined;
  #onFailed: (error: OttlaError) => void = () => undefined;
  #closed: Promise<void> | undefined;

  constructor(deps: StorageDeps, opened: OpenedRaft) {
    this.#deps = deps;
    this.#restored = opened.restored;
    const { snapshot, log } = opened.restored;
    this.isEmpty = snapshot === null && log.start === 0 && log.entries.length === 0;
    this.#state = opened.state;
    this.boots = opened.state.boots;
    this.marks = opened.state.marks;
    this.#stateFile = opened.stateFile;
    this.#lane = opened.lane;
    this.#snapshots = opened.snapshots;
    this.#snapshots.onFailed = (error) => this.#fail(error, []);
    this.#reserve = opened.reserve;
  }

  get restored(): RestoredRaft {
    return this.#restored;
  }

  write(batch: RaftWrite): Promise<void> {
    return this.#push({ kind: "write", batch });
  }

  writeMarks(marks: ReadonlyMap<string, PeerMark>): Promise<void> {
    return this.#push({ kind: "marks", marks: new Map(marks) });
  }

  #push(work: Work): Promise<void> {
    const error = this.#failure ?? this.#refusal;
    if (error !== undefined) return Promise.reject(error);
    this.#noteTimer?.cancel();
    return new Promise((resolve, reject) => {
      this.#queue.push({ ...work, resolve, reject });
      this.#running ??= this.#run();
    });
  }

  // ---- the queue

  async #run(): Promise<void> {
    // Writes of one turn of the host go together.
    await undefined;
    while (this.#queue.length > 0 && this.#failure === undefined) await this.#runGroup(this.#takeGroup());
    this.#running = undefined;
    this.#noteWhenIdle();
  }

  #takeGroup(): Job[] {
    let count = 0;
    for (let sizeBytes = 0; count < this.#queue.length && sizeBytes < GROUP_BYTES_MAX; count++)
      sizeBytes += bytesOf(this.#queue[count] as Job);
    return this.#queue.splice(0, count);
  }

  async #runGroup(jobs: readonly Job[]): Promise<void> {
    let done = 0;
    let refused: unknown;
    try {
      for (; done < jobs.length && refused === undefined; done++) refused = await this.#perform(jobs[done] as Job);
      await this.#lane.sync();
    } catch (thrown) {
      this.#fail(thrown, jobs);
      return;
    }
    const carriedOut = jobs.slice(0, refused === undefined ? done : done - 1);
    for (const job of carriedOut) job.resolve();
    if (refused !== undefined) this.#refuse(refused, jobs.slice(carriedOut.length));
    await this.#tidy(carriedOut);
  }

  /** Gives what a write could not be carried out for, if that passes. Nothing builds on the others. */
  async #perform(job: Job): Promise<unknown> {
    try {
      await this.#carryOut(job);
      return undefined;
    } catch (thrown) {
      if (!isPassing(thrown)) throw thrown;
      if (job.kind === "write") return thrown;
      job.reject(passing(thrown));
      return undefined;
    }
  }

  async #carryOut(job: Job): Promise<void> {
    switch (job.kind) {
      case "write":
        return this.#carryOutWrite(job.batch);
      case "marks":
        return this.#note({ marks: job.marks });
      case "note":
        return this.#note({ provenEnd: this.#lane.syncedEnd });
    }
  }

  /** D-19: each step is durable before the next; the entries become so with the group. */
  async #carryOutWrite({ hardState, resetLogTo, cutSuffixTo, entries }: RaftWrite): Promise<void> {
    if (hardState !== null) {
      await this.#lane.sync();
      await this.#commit({ hardState });
      failpoint("state-committed");
    }
    if (resetLogTo !== null) await this.#reset(resetLogTo);
    if (cutSuffixTo !== null) await this.#cutSuffix(cutSuffixTo);
    if (entries.length > 0) await this.#append(entries);
  }

  /** The mark in between makes the removal of several files one step. */
  async #reset(start: StoredLogStart): Promise<void> {
    const isResetting = !this.#lane.isEmpty || this.#state.isResetting;
    await this.#commit({ logStart: start, provenEnd: start.start, isResetting });
    await this.#lane.reset(start);
    this.#forgetRestored();
    if (isResetting) await this.#commit({ isResetting: false });
  }

  async #cutSuffix(to: number): Promise<void> {
    if (to >= this.#lane.end) return;
    if (to < this.#state.provenEnd) await this.#commit({ provenEnd: to });
    await this.#lane.cutSuffix(to);
  }

  async #append(entries: readonly StoredEntry[]): Promise<void> {
    if (this.#state.isResetting) await this.#commit({ isResetting: false });
    await this.#withReserve(() => this.#lane.append(entries, Math.floor(this.#deps.clock.wallMs())));
  }

  /** Durable in a way that the rot of one slot does not take back. */
  async #commit(change: Partial<QuorumState>): Promise<void> {
    const state = { ...this.#state, ...change };
    await this.#withReserve(() => this.#stateFile.commit(encodeQuorumState(state)));
    this.#state = state;
  }

  async #note(change: Partial<QuorumState>): Promise<void> {
    const state = { ...this.#state, ...change };
    await this.#stateFile.note(encodeQuorumState(state));
    this.#state = state;
  }

  async #withReserve(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (thrown) {
      if (!isNoSpace(thrown) || !(await this.#reserve.giveUp())) throw thrown;
      await work();
    }
  }

  /** What may wait until those that were waiting for the disk have gone on. */
  async #tidy(jobs: readonly Job[]): Promise<void> {
    const cut = Math.max(0, ...jobs.map((job) => (job.kind === "write" ? (job.batch.cutPrefixTo ?? 0) : 0)));
    try {
      await this.#reserve.ensure();
      const start = this.#lane.startFor(cut);
      if (start === undefined) return;
      await this.#commit({ logStart: start });
      await this.#lane.dropPrefix(start);
      this.#forgetRestored();
    } catch (thrown) {
      // Files that could not be dropped go with the next snapshot, or at the next start.
      if (!isPassing(thrown)) this.#fail(thrown, []);
    }
  }

  /** What was found at the start would hold memory for entries that are gone. */
  #forgetRestored(): void {
    const { log } = this.#restored;
    this.#restored = { ...this.#restored, log: { ...log, entries: [] } };
  }

  /** Nothing of these writes is left, and those behind them, which build on them, must not go on alone. */
  #refuse(thrown: unknown, jobs: readonly Job[]): void {
    const error = passing(thrown);
    const refused = [...jobs, ...this.#queue];
    this.#queue = [];
    this.#refusal = error;
    this.#deps.timers.defer(() => {
      this.#refusal = undefined;
    });
    for (const job of refused) job.reject(error);
  }

  #fail(thrown: unknown, jobs: readonly Job[]): void {
    const isFirst = this.#failure === undefined;
    const failure = this.#failure ?? (thrown instanceof AssertionFailure ? thrown : diskFailed(thrown));
    this.#failure = failure;
    const failed = [...jobs, ...this.#queue];
    this.#queue = [];
    for (const job of failed) job.reject(failure);
    if (isFirst) this.#onFailed(asOttlaError(failure));
  }

  onFailed(listener: (error: OttlaError) => void): void {
    this.#onFailed = listener;
    if (this.#failure !== undefined && this.#closed === undefined) listener(asOttlaError(this.#failure));
  }

  #noteWhenIdle(): void {
    if (this.#failure !== undefined || this.#lane.syncedEnd <= this.#state.provenEnd) return;
    this.#noteTimer?.cancel();
    this.#noteTimer = this.#deps.timers.after(NOTE_AFTER_IDLE_MS, () => {
      this.#push({ kind: "note" }).catch((thrown: unknown) =>
        this.#deps.logger.warn("metadata_end_not_noted", { error: String(thrown) }),
      );
    });
  }

  // ---- snapshots

  async beginSnapshot(meta: StoredSnapshotMeta): Promise<SnapshotSink> {
    this.#checkRunning();
    return this.#snapshots.begin(meta);
  }

  async readSnapshot(end: number, position: number, length: number): Promise<Uint8Array | undefined> {
    this.#checkRunning();
    return this.#snapshots.read(end, position, length);
  }

  async retainSnapshots(ends: readonly number[]): Promise<void> {
    this.#checkRunning();
    await this.#snapshots.retain(ends);
  }

  #checkRunning(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  // ---- closing

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    while (this.#running !== undefined) await this.#running;
    this.#noteTimer?.cancel();
    const hasFailed = this.#failure !== undefined;
    this.#failure ??= new OttlaError("CLOSED", "the metadata store is closed");
    try {
      if (!hasFailed && this.#lane.syncedEnd > this.#state.provenEnd)
        await this.#note({ provenEnd: this.#lane.syncedEnd });
    } catch (thrown) {
      this.#deps.logger.warn("metadata_end_not_noted", { error: String(thrown) });
      if (!isPassing(thrown)) this.#onFailed(diskFailed(thrown));
    }
    await this.#lane.close();
    await this.#stateFile.close().catch(() => undefined);
  }
}
