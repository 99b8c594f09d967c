// Drives one Raft core: carries out what raft-node.ts lays on its host, over the store of the metadata log, and feeds the state machine.
import { assert } from "../../base/assert.ts";
import { mutant } from "../../base/mutant.ts";
import type { Rng } from "../../base/rng.ts";
import { asOttlaError, type OttlaError } from "../../model/errors.ts";
import type { ClusterId } from "../../model/ids.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Logger } from "../../ports/logger.ts";
import type { TimerHandle, Timers } from "../../ports/timers.ts";
import { RaftNode } from "../../raft/raft-node.ts";
import { type RaftSettings, TICK_MS } from "../../raft/settings.ts";
import type {
  Configuration,
  Entry,
  Message,
  ReadResult,
  Ready,
  ReplicaId,
  RestoredState,
  SnapshotMeta,
} from "../../raft/types.ts";
import type { RaftStore } from "../../storage/raft-types.ts";
import { storedWriteOf } from "./codec.ts";
import type { QuorumProbe } from "./probe.ts";
import { SnapshotKeeper } from "./snapshot-keeper.ts";
import type { StateMachine } from "./state-machine.ts";
import { WriteLane } from "./write-lane.ts";

/** Work of one turn; what is left waits until everything else that is ready has had its turn. */
const TURN_MS = 10;
/** After a snapshot that the disk did not take. */
const SNAPSHOT_RETRY_MS = 5_000;

export interface RaftHostParts {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly rng: Rng;
  readonly logger: Logger;
  readonly probe: QuorumProbe | undefined;
  readonly store: RaftStore;
  readonly machine: StateMachine;
  readonly clusterId: ClusterId;
  readonly snapshotBytes: number;
  /** Hands a message to its peer's connection, or drops it. */
  send(message: Message): void;
  /** An entry that the log says is committed, after it was applied. */
  onCommitted(entry: Entry): void;
  onRead(result: ReadResult): void;
  /** Anything may have changed. Called at the end of a turn's work. */
  onProgress(): void;
  onFailed(error: OttlaError): void;
  /** Ends of the snapshots that somebody reads besides the core's peers. */
  snapshotsInUse(): readonly number[];
}

export class RaftHost {
  readonly core: RaftNode;
  readonly #parts: RaftHostParts;
  readonly #lane: WriteLane;
  readonly #snapshots: SnapshotKeeper;
  /** The term that is on the disk: the only one that may be told as this disk's. */
  #durableTerm: number;
  /** Entry 0 as it was at the start: before anything is known to be committed. */
  readonly #founding: Entry | undefined;
  #isDraining = false;
  #isDeferred = false;
  #isStopped = false;
  #timer: TimerHandle | undefined;
  #lastTickMs: number;
  #snapshotNotBeforeMs = 0;
  /** A removed voter does not campaign, whatever its own log still says. */
  isTicking = true;

  constructor(
    parts: RaftHostParts,
    options: { readonly self: ReplicaId; readonly settings: RaftSettings; readonly restored: RestoredState },
  ) {
    this.#parts = parts;
    const restored = startOf(options.restored, options.self);
    this.core = new RaftNode({ rng: parts.rng }, { ...options, restored });
    this.#durableTerm = restored.hardState.term;
    this.#founding = restored.log.start === 0 ? restored.log.entries[0] : undefined;
    this.#lastTickMs = parts.clock.monoMs();
    this.#lane = this.#makeLane();
    this.#snapshots = this.#makeKeeper();
    parts.probe?.onRaftStarted(this.core, restored);
  }

  get durableTerm(): number {
    return this.#durableTerm;
  }
  /** D-20: entry 0, while the log still begins with it: what the founders wrote. */
  get foundingConfiguration(): Configuration | undefined {
    if (this.core.log.start > 0 || this.core.log.end === 0) return undefined;
    const [first] = this.core.committedFrom(0, { entriesMax: 1, bytesMax: 1 }) ?? [];
    const entry = first ?? this.#founding;
    return entry?.kind === "configuration" ? entry.configuration : undefined;
  }
  /** Why the disk takes no writes now. */
  get diskTrouble(): OttlaError | null {
    return this.#lane.trouble;
  }

  start(): void {
    this.#schedule();
    const { voters } = this.core.configuration;
    // Nobody else could be asked, so there is nothing to wait for.
    this.input((core) => {
      if (voters.length === 1 && voters[0] === core.self) core.campaign();
    });
  }

  /** The only way to the core: what it wants done is done at once. Undefined when the host has stopped. */
  input<T>(act: (core: RaftNode) => T): T | undefined {
    if (this.#isStopped) return undefined;
    try {
      const result = act(this.core);
      this.drain();
      return result;
    } catch (thrown) {
      this.#fail(asOttlaError(thrown));
      return undefined;
    }
  }

  /** Nothing is done any more; resolves when what was under way at the disk is over. */
  async stop(): Promise<void> {
    this.#halt();
    await this.#snapshots.settled();
  }

  #halt(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
    this.#lane.close();
  }

  #fail(error: OttlaError): void {
    if (this.#isStopped) return;
    this.#halt();
    this.#parts.onFailed(error);
  }

  // --- time

  #schedule(): void {
    this.#timer = this.#parts.timers.after(TICK_MS, () => {
      if (this.#isStopped) return;
      this.#schedule();
      const nowMs = this.#parts.clock.monoMs();
      // D-22: ticks that a late loop missed are lost. The leader's words of that time wait in the sockets, unread.
      const ticks = mutant("D22t") ? Math.max(1, Math.round((nowMs - this.#lastTickMs) / TICK_MS)) : 1;
      this.#lastTickMs = nowMs;
      if (!this.isTicking || this.#isCampaignUnwritten) return;
      this.input((core) => {
        for (let count = 0; count < ticks; count++) core.tick();
      });
    });
  }

  /** Nothing of the campaign has left the node yet: to give it up for another one would go on for ever on a slow disk. */
  get #isCampaignUnwritten(): boolean {
    return this.core.role === "candidate" && this.core.term > this.#durableTerm;
  }

  // --- the host's duties

  /** Safe to call from anything that the drain itself calls. */
  drain(): void {
    if (this.#isDraining || this.#isStopped) return;
    this.#isDraining = true;
    try {
      const isDone = this.#work();
      if (isDone) this.#snapshots.dropUpTo(this.core.log.commitEnd);
      else this.#drainLater();
    } finally {
      this.#isDraining = false;
    }
    if (!this.#isStopped) this.#parts.onProgress();
  }

  /** False: the turn is over, and something is left. */
  #work(): boolean {
    const untilMs = this.#parts.clock.monoMs() + TURN_MS;
    for (let ready = this.core.ready(); ready !== null; ready = this.core.ready()) {
      this.#parts.probe?.onReady(this.core, ready);
      this.#carryOut(ready);
      if (this.#isStopped) return true;
      if (this.#parts.clock.monoMs() >= untilMs) return false;
    }
    return true;
  }

  #drainLater(): void {
    if (this.#isDeferred) return;
    this.#isDeferred = true;
    this.#parts.timers.defer(() => {
      this.#isDeferred = false;
      this.input(() => undefined);
    });
  }

  #carryOut({ messages, snapshotWrites, write, loadSnapshot, committed, reads }: Ready): void {
    for (const message of messages) this.#send(message);
    for (const piece of snapshotWrites) this.#snapshots.take(piece);
    if (write !== null) this.#lane.push(write);
    if (loadSnapshot !== null) this.#load(loadSnapshot);
    for (const entry of committed) this.#apply(entry);
    const last = committed.at(-1);
    if (last !== undefined) {
      this.core.applied(last.index + 1);
      this.#maybeSnapshot();
    }
    for (const read of reads) this.#parts.onRead(read);
  }

  #apply(entry: Entry): void {
    this.#parts.machine.apply(entry);
    this.#parts.onCommitted(entry);
  }

  #send(message: Message): void {
    if (message.kind !== "snapshotChunk") {
      this.#parts.send(message);
      return;
    }
    const { snapshot, position, sizeBytes, to } = message;
    const bytes =
      sizeBytes === 0
        ? Promise.resolve(new Uint8Array(0))
        : this.#parts.store.readSnapshot(snapshot.end, position, sizeBytes);
    bytes.then(
      (read) => {
        if (this.#isStopped) return;
        if (read !== undefined && read.length === sizeBytes) return this.#parts.send({ ...message, bytes: read });
        this.input((core) => core.snapshotGone(to));
        this.retake(snapshot.end);
      },
      // It passes, and the peer is asked again how far it is.
      (thrown: unknown) => this.#parts.logger.warn("snapshot_unreadable", { end: snapshot.end, err: thrown }),
    );
  }

  #makeLane(): WriteLane {
    const { store, clusterId, timers, logger } = this.#parts;
    const hardTerms = new Map<number, number>();
    return new WriteLane(timers, {
      write: (batch) => {
        if (batch.hardState !== null) hardTerms.set(batch.id, batch.hardState.term);
        const write = storedWriteOf(batch, clusterId);
        // a vote that a crash takes back is given twice.
        return store.write(mutant("D19h") ? { ...write, hardState: null } : write);
      },
      send: (message) => this.#send(message),
      onDurable: (id) => {
        this.#durableTerm = Math.max(this.#durableTerm, hardTerms.get(id) ?? 0);
        hardTerms.delete(id);
        this.input((core) => core.advance({ id, stage: "durable" }));
      },
      onStalled: (error) => {
        hardTerms.clear();
        logger.error("metadata_log_not_writable", { code: error.code, message: error.message });
        this.input((core) => core.storageFailed());
      },
      onRetry: () => this.input((core) => this.#recover(core)),
      onFailed: (error) => this.#fail(error),
    });
  }

  #recover(core: RaftNode): void {
    core.storageRecovered();
    const { voters } = core.configuration;
    if (voters.length === 1 && voters[0] === core.self) core.campaign();
  }

  // --- snapshots

  #makeKeeper(): SnapshotKeeper {
    const { store, clusterId } = this.#parts;
    return new SnapshotKeeper({
      store,
      clusterId: () => clusterId,
      check: (meta, bytes) => this.#checkArrived(meta, bytes),
      onDurable: (meta) => {
        this.input((core) => core.snapshotDurable(meta));
        this.#retain();
      },
      onSpoilt: () => this.input((core) => core.snapshotSpoilt()),
      onFailed: (error) => this.#fail(error),
    });
  }

  #checkArrived(meta: SnapshotMeta, bytes: Uint8Array): void {
    try {
      this.#parts.machine.check(meta, bytes);
    } catch (thrown) {
      this.#parts.logger.error("metadata_snapshot_unusable", { end: meta.end, err: thrown });
      throw thrown;
    }
  }

  #load(meta: SnapshotMeta): void {
    const { machine } = this.#parts;
    const bytes = this.#snapshots.takeArrived(meta.end);
    assert(
      bytes !== undefined || machine.end >= meta.end,
      `the snapshot of ${meta.end} is to be loaded, but did not arrive`,
    );
    if (bytes !== undefined) machine.load(meta, bytes);
    this.#parts.logger.info("metadata_snapshot_loaded", { end: meta.end, sizeBytes: meta.sizeBytes });
  }

  /** Due by the bytes applied since the last one. */
  #maybeSnapshot(): void {
    const { machine, snapshotBytes } = this.#parts;
    if (machine.bytesSinceSnapshot < snapshotBytes || !this.#maySnapshot) return;
    const named = this.core.beginSnapshot();
    if (named !== undefined) this.#snapshot(named);
  }

  /** If that is the newest one: it cannot be read any more, and nobody has anything else to begin with; the next one may be days away. */
  retake(end: number): void {
    this.input((core) => {
      const { snapshot, log } = core;
      if (snapshot?.end !== end || !this.#maySnapshot || mutant("Q15r")) return;
      // Nothing was applied since: the same one once more.
      const named = core.beginSnapshot() ?? (log.appliedEnd === end ? snapshot : undefined);
      if (named !== undefined) this.#snapshot(named);
    });
  }

  /** Only when the image is where the core is (an observer's may be ahead for a while). */
  get #maySnapshot(): boolean {
    const isTime = this.#parts.clock.monoMs() >= this.#snapshotNotBeforeMs;
    return isTime && !this.#snapshots.isBusy && this.#parts.machine.end === this.core.log.appliedEnd;
  }

  #snapshot(named: Omit<SnapshotMeta, "sizeBytes">): void {
    const { machine, snapshotBytes, clock } = this.#parts;
    const bytes = machine.image.encode();
    machine.bytesSinceSnapshot = 0;
    const meta: SnapshotMeta = { ...named, sizeBytes: bytes.length };
    void this.#snapshots.save(meta, bytes).then((isDone) => {
      if (isDone) this.#parts.logger.info("metadata_snapshot_taken", { end: meta.end, sizeBytes: meta.sizeBytes });
      else {
        machine.bytesSinceSnapshot += snapshotBytes;
        this.#snapshotNotBeforeMs = clock.monoMs() + SNAPSHOT_RETRY_MS;
      }
    });
  }

  #retain(): void {
    const { store, snapshotsInUse, logger } = this.#parts;
    store.retainSnapshots([...this.core.snapshotsInUse, ...snapshotsInUse()]).catch((thrown: unknown) => {
      const error = asOttlaError(thrown);
      if (error.code === "DISK_FAILED") this.#fail(error);
      else logger.warn("old_snapshots_kept", { err: error });
    });
  }
}

/** D-1, Q-11: a term that this node has led or voted in is spent. */
function startOf(restored: RestoredState, self: ReplicaId): RestoredState {
  const { term, votedFor } = restored.hardState;
  const isOwnTerm = votedFor === self && term > 0;
  if (!mutant("D1r") || !isOwnTerm) return restored;
  const before = (term - 1) as typeof term;
  return { ...restored, hardState: { term: before, votedFor: null } };
}
