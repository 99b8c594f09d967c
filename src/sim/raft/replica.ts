// One simulated node around the Raft core: carries out the host's duties on a disk that answers late and forgets in a crash.
import { AssertionFailure, assert, present } from "../../base/assert.ts";
import type { Rng } from "../../base/rng.ts";
import { RaftNode } from "../../raft/raft-node.ts";
import { TICK_MS } from "../../raft/settings.ts";
import {
  type Entry,
  type Message,
  nodeIdOf,
  type ReadResult,
  type ReplicaId,
  type SnapshotMeta,
  type SnapshotWrite,
  type WriteBatch,
} from "../../raft/types.ts";
import { entryHash, mix, RaftBroken, type Watched } from "./checker.ts";
import type { RaftDisk, StoredSnapshot } from "./disk.ts";
import type { RaftWorld } from "./world.ts";

export class RaftReplica implements Watched {
  readonly id: ReplicaId;
  readonly chain: number[] = [];
  readonly entries: Entry[] = [];
  logEnd = 0;
  disk: RaftDisk;
  core: RaftNode | null = null;
  /** Raised at each crash: what an earlier life waits for never happens. */
  life = 0;
  pausedUntilMs = 0;
  isDiskFailing = false;
  /** Gone for ever, disk and all. */
  isWiped = false;
  syncFactor = 1;
  readonly #world: RaftWorld;
  readonly #rng: Rng;
  readonly #tickMs: number;
  #pending: WriteBatch[] = [];
  #isSyncing = false;
  #arriving: { readonly meta: SnapshotMeta; readonly bytes: Uint8Array } | null = null;
  #isSavingSnapshot = false;
  #diskFailures = 0;
  #isCampaigning = false;
  #state = 0;
  #stateEnd = 0;
  #leaderTerm = 0;
  #seenCommitEnd = 0;
  readonly #reads = new Map<number, number>();
  #nextToken = 1;

  constructor(
    world: RaftWorld,
    { id, disk, rng }: { readonly id: ReplicaId; readonly disk: RaftDisk; readonly rng: Rng },
  ) {
    this.#world = world;
    this.id = id;
    this.disk = disk;
    this.#rng = rng;
    const { driftMax } = world.swarm;
    this.#tickMs = TICK_MS * (1 + driftMax * ((2 * rng.below(1000)) / 1000 - 1));
  }

  get isUp(): boolean {
    return this.core !== null;
  }
  get appliedEnd(): number {
    return this.#stateEnd;
  }

  // --- life and death

  start(): void {
    assert(this.core === null && !this.isWiped, `${this.id} cannot start`);
    const { restored } = this.disk;
    this.life++;
    const { settings } = this.#world.swarm;
    try {
      this.core = new RaftNode(
        { rng: this.#rng.fork(`core ${this.life}`) },
        { self: this.id, settings: settings, restored },
      );
    } catch (error) {
      if (!(error instanceof AssertionFailure)) throw error;
      throw new RaftBroken(39, `${this.id} cannot start from its disk: ${error.message}`);
    }
    this.#leaderTerm = 0;
    this.#seenCommitEnd = 0;
    this.#remember(restored.log.start);
    for (const entry of restored.log.entries) this.#world.checker.appended(this, entry);
    if (this.disk.snapshot !== null) this.#load(this.disk.snapshot);
    else {
      this.#state = 0;
      this.#stateEnd = 0;
    }
    this.#world.mark("start");
    this.#scheduleTick(this.#rng.below(TICK_MS));
    this.drain();
  }

  /** The log begins at a committed place: what lies below is what all agreed on. */
  #remember(start: number): void {
    this.logEnd = start;
    if (start > 0)
      this.chain[start - 1] = present(this.#world.checker.committedHash(start - 1), `committed entry ${start - 1}`);
  }

  /** `isAllLost`: nothing that was not synced survives; otherwise chance decides. */
  crash({ isAllLost = false }: { readonly isAllLost?: boolean } = {}): void {
    if (this.core === null) return;
    if (!isAllLost) this.disk.crash(this.#pending, this.#rng);
    this.core = null;
    this.life++;
    this.#pending = [];
    this.#isSyncing = false;
    this.#isSavingSnapshot = false;
    this.#arriving = null;
    this.#reads.clear();
    this.isDiskFailing = false;
    this.pausedUntilMs = 0;
  }

  #scheduleTick(delayMs: number): void {
    const { life } = this;
    this.#world.at(delayMs, () => {
      if (this.life !== life) return;
      if (this.pausedUntilMs > this.#world.timeMs) {
        this.#scheduleTick(this.pausedUntilMs - this.#world.timeMs);
        return;
      }
      if (!this.#rng.chance(this.#world.swarm.tickSkipChance)) this.input((core) => core.tick());
      this.#scheduleTick(this.#tickMs);
    });
  }

  // --- inputs

  receive(message: Message): void {
    this.#whenRunning(() => this.input((core) => core.step(message)));
  }

  /** Now, or when a paused process goes on; never in another life. */
  #whenRunning(act: () => void): void {
    const { life } = this;
    const waitMs = this.pausedUntilMs - this.#world.timeMs;
    if (waitMs <= 0) act();
    else
      this.#world.at(waitMs, () => {
        if (this.life === life) this.#whenRunning(act);
      });
  }

  input(act: (core: RaftNode) => void): void {
    if (this.core === null || this.pausedUntilMs > this.#world.timeMs) return;
    act(this.core);
    this.drain();
  }

  read(): void {
    const { core } = this;
    if (core === null) return;
    const token = this.#nextToken++;
    // Whatever any node knows to be committed may have been answered to somebody.
    if (core.readIndex(token).kind === "started") this.#reads.set(token, this.#world.checker.committedEnd);
    this.drain();
  }

  failDisk(): void {
    if (this.core === null || this.isDiskFailing || this.pausedUntilMs > this.#world.timeMs) return;
    this.isDiskFailing = true;
    this.#diskFailures++;
    this.disk.crash(this.#pending, this.#rng);
    this.#pending = [];
    this.#whenRunning(() => this.input((core) => core.storageFailed()));
  }

  repairDisk(): void {
    if (!this.isDiskFailing) return;
    this.isDiskFailing = false;
    this.#whenRunning(() => this.input((core) => core.storageRecovered()));
  }

  // --- the host's duties

  drain(): void {
    const core = this.core;
    if (core === null) return;
    for (;;) {
      this.#observe(core);
      const ready = core.ready();
      const write = ready?.write ?? null;
      if (write !== null) this.#accept(core, write);
      this.#observeCommit(core);
      if (ready === null) return;
      for (const message of ready.messages) this.#send(message);
      for (const write of ready.snapshotWrites) this.#takeChunk(write);
      if (ready.loadSnapshot !== null) this.#load(this.#storedAt(ready.loadSnapshot.end));
      for (const entry of ready.committed) this.#apply(entry);
      if (ready.committed.length > 0) {
        core.applied(this.#stateEnd);
        this.#maybeSnapshot(core);
      }
      for (const read of ready.reads) this.#answer(read);
    }
  }

  #observe(core: RaftNode): void {
    const { checker } = this.#world;
    if (core.role === "preCandidate" && !this.#isCampaigning) this.#world.onCampaign?.(this);
    this.#isCampaigning = core.role === "preCandidate";
    if (core.role === "leader" && core.term !== this.#leaderTerm) {
      this.#leaderTerm = core.term;
      checker.becameLeader(this, core.term);
      this.#world.mark("leader elected");
      this.#world.onDelicate?.(this, "lead");
    }
    const { commitEnd } = core.log;
    if (commitEnd < this.#seenCommitEnd)
      throw new RaftBroken(37, `commit end of ${this.id} falls from ${this.#seenCommitEnd} to ${commitEnd}`);
  }

  /** Committed entries are looked at once the mirror of the log holds them. */
  #observeCommit(core: RaftNode): void {
    const { commitEnd } = core.log;
    if (commitEnd === this.#seenCommitEnd) return;
    const from = Math.max(this.#seenCommitEnd, this.disk.snapshot?.meta.end ?? 0, core.log.start);
    this.#world.checker.committed(this, { from, end: commitEnd, term: core.term });
    this.#seenCommitEnd = commitEnd;
  }

  #accept(core: RaftNode, write: WriteBatch): void {
    const isLeader = core.role === "leader";
    if (isLeader && (write.cutSuffixTo !== null || write.resetLogTo !== null))
      throw new RaftBroken(
        37,
        `leader append-only: ${this.id} cuts its log to ${write.cutSuffixTo} in term ${core.term}`,
      );
    if (write.resetLogTo !== null) {
      this.#remember(write.resetLogTo.start);
      this.#world.mark("log replaced by a snapshot");
    }
    if (write.cutSuffixTo !== null && write.cutSuffixTo < this.logEnd) {
      this.logEnd = write.cutSuffixTo;
      this.#world.mark("suffix cut");
    }
    for (const entry of write.entries) {
      this.#world.checker.appended(this, entry);
      if (isLeader && entry.kind === "configuration")
        this.#world.checker.configured(this, core.term, entry.configuration);
    }
    this.#pending.push(write);
    this.#sync();
  }

  /** One sync covers the batches that were there when it began. */
  #sync(): void {
    if (this.#isSyncing || this.#pending.length === 0 || this.isDiskFailing) return;
    this.#isSyncing = true;
    const { life } = this;
    const batches = this.#pending.slice();
    const last = present(batches.at(-1), "batch");
    this.core?.advance({ id: last.id, stage: "written" });
    this.#world.at(this.#syncMs(), () => {
      if (this.life !== life) return;
      this.#isSyncing = false;
      // Failed meanwhile: of those nothing is known.
      if (this.#pending[0] !== batches[0]) return this.#sync();
      this.#pending = this.#pending.slice(batches.length);
      for (const batch of batches) this.disk.write(batch);
      this.#whenRunning(() => this.#synced(batches));
    });
  }

  #synced(batches: readonly WriteBatch[]): void {
    // Of what was under way when the disk failed the core wants to hear nothing.
    if (this.isDiskFailing) return;
    for (const batch of batches) for (const message of batch.messagesAfterSync) this.#send(message);
    this.core?.advance({ id: present(batches.at(-1), "batch").id, stage: "durable" });
    this.drain();
    this.#sync();
  }

  #syncMs(): number {
    const { syncMsMean, slowSyncChance } = this.#world.swarm;
    if (this.#world.isCalm) return this.#world.exponential(this.#rng, Math.min(3, syncMsMean));
    const base = this.#world.exponential(this.#rng, syncMsMean) * this.syncFactor;
    return this.#rng.chance(slowSyncChance) ? base + this.#rng.below(400) : base;
  }

  #send(message: Message): void {
    this.#world.checker.sent(message);
    this.#checkClaim(message);
    if (message.kind === "snapshotChunk") {
      const stored = this.#find(message.snapshot.end);
      if (stored === undefined) {
        this.core?.snapshotGone(message.to);
        return;
      }
      const { position, sizeBytes } = message;
      this.#world.send({ ...message, bytes: stored.bytes.slice(position, position + sizeBytes) });
      return;
    }
    this.#world.send(message);
    if (message.kind === "voteResponse" && message.isGranted && !message.isPreVote)
      this.#world.onDelicate?.(this, "vote");
  }

  /**
   * 16: what is acknowledged is durable. One sync may end a batch together with a later one that cut its entries again, for a
   * leader of a later term: then the answer to the earlier leader is late, and can make no majority. Whoever voted for the
   * later one did so with the entries in its log, and that leader would have them, or before it, and refused them.
   */
  #checkClaim(message: Message): void {
    if (message.kind !== "appendMatched" || message.term < this.disk.hardState.term) return;
    const durableEnd = Math.max(this.disk.end, this.disk.snapshot?.meta.end ?? 0);
    if (message.end > durableEnd)
      throw new RaftBroken(16, `${this.id} acknowledges ${message.end}, durable is ${durableEnd}`);
  }

  // --- the state machine: a hash of everything applied

  #apply(entry: Entry): void {
    assert(entry.index === this.#stateEnd, `${entry.index} applied at ${this.#stateEnd}`);
    this.#state = mix(this.#state, entryHash(entry));
    this.#stateEnd = entry.index + 1;
    this.#world.checker.applied(this.id, this.#stateEnd, this.#state);
    this.#world.applied(this.#stateEnd);
  }

  #answer(read: ReadResult): void {
    const asked = this.#reads.get(read.token);
    this.#reads.delete(read.token);
    if (read.kind === "failed" || asked === undefined) return;
    this.#world.mark("read answered");
    if (read.end < asked)
      throw new RaftBroken(38, `${this.id} reads at ${read.end}, committed was ${asked} when it asked`);
  }

  // --- snapshots

  #storedAt(end: number): StoredSnapshot {
    const stored = this.#find(end) ?? this.#arriving;
    if (stored === null) throw new RaftBroken(39, `${this.id} has no snapshot that ends at ${end}`);
    return stored;
  }

  #find(end: number): StoredSnapshot | undefined {
    return this.disk.snapshot?.meta.end === end ? this.disk.snapshot : this.disk.older.get(end);
  }

  #maybeSnapshot(core: RaftNode): void {
    const { snapshotEvery, snapshotBytes } = this.#world.swarm;
    if (this.#isSavingSnapshot || this.#stateEnd - (core.snapshot?.end ?? 0) < snapshotEvery) return;
    const named = core.beginSnapshot();
    if (named === undefined) return;
    const meta = { ...named, sizeBytes: snapshotBytes };
    this.#save({ meta, bytes: snapshotContent(this.#state, { salt: nodeIdOf(this.id), sizeBytes: snapshotBytes }) });
  }

  #takeChunk({ snapshot, position, bytes, isLast }: SnapshotWrite): void {
    if (position === 0) this.#arriving = { meta: snapshot, bytes: new Uint8Array(snapshot.sizeBytes) };
    const arriving = this.#arriving;
    if (arriving === null || arriving.meta.end !== snapshot.end)
      throw new RaftBroken(39, `${this.id} gets a chunk at ${position} of a snapshot that it has not begun`);
    arriving.bytes.set(bytes, position);
    if (!isLast) return;
    this.#save(arriving);
    this.#world.onDelicate?.(this, "install");
  }

  /** Temporary file, sync, rename, sync of the directory: durable after two syncs, or not at all. */
  #save(stored: StoredSnapshot): void {
    const { life } = this;
    const failures = this.#diskFailures;
    this.#isSavingSnapshot = true;
    this.#world.at(this.#syncMs() * 2 + this.#rng.below(20), () => {
      if (this.life !== life) return;
      this.#isSavingSnapshot = false;
      const { snapshot, older } = this.disk;
      if (failures !== this.#diskFailures || (snapshot !== null && snapshot.meta.end >= stored.meta.end)) return;
      if (snapshot !== null) older.set(snapshot.meta.end, snapshot);
      this.disk.snapshot = stored;
      this.#world.mark("snapshot durable");
      this.#whenRunning(() => {
        this.input((core) => core.snapshotDurable(stored.meta));
        // Only what the core knows to be replaced may go.
        const inUse = this.core?.snapshotsInUse ?? [];
        for (const end of [...older.keys()]) if (!inUse.includes(end)) older.delete(end);
      });
    });
  }

  #load({ meta, bytes }: StoredSnapshot): void {
    const state = snapshotState(bytes);
    if (state === undefined) throw new RaftBroken(39, `${this.id} loads a mixed snapshot that ends at ${meta.end}`);
    this.#state = state;
    this.#stateEnd = meta.end;
    this.#seenCommitEnd = Math.max(this.#seenCommitEnd, meta.end);
    this.#world.checker.applied(this.id, meta.end, state);
  }
}

/** The state, a salt that differs from node to node, and bytes that both decide: pieces of two snapshots do not fit together. */
function snapshotContent(
  state: number,
  { salt, sizeBytes }: { readonly salt: number; readonly sizeBytes: number },
): Uint8Array {
  const bytes = new Uint8Array(sizeBytes);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, state);
  view.setUint32(4, salt);
  for (let at = 8; at < sizeBytes; at++) bytes[at] = mix(mix(state, salt), at);
  return bytes;
}

function snapshotState(bytes: Uint8Array): number | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const state = view.getUint32(0);
  const expected = snapshotContent(state, { salt: view.getUint32(4), sizeBytes: bytes.length });
  return bytes.every((byte, at) => byte === expected[at]) ? state : undefined;
}
