// Raft hosts over a store whose syncs happen when the test says so, with messages that are delivered when it says so.
import { createRng } from "../../../src/base/rng.ts";
import { restoredStateOf } from "../../../src/broker/quorum/codec.ts";
import { writeFounding } from "../../../src/broker/quorum/formation.ts";
import { RaftHost } from "../../../src/broker/quorum/raft-host.ts";
import { StateMachine } from "../../../src/broker/quorum/state-machine.ts";
import { OttlaError } from "../../../src/model/errors.ts";
import { DEFAULT_SETTINGS } from "../../../src/raft/settings.ts";
import type { Configuration, Entry, Message, ReadResult, ReplicaId } from "../../../src/raft/types.ts";
import type { RaftStore, RaftWrite, StoredEntry, StoredHardState } from "../../../src/storage/raft-types.ts";
import { idOf } from "./support.ts";

export const CLUSTER = idOf(90);
export const replica = (id: number): ReplicaId => `${id}:${idOf(id)}` as ReplicaId;

interface Pending {
  readonly write: RaftWrite;
  readonly resolve: () => void;
  readonly reject: (error: OttlaError) => void;
}

/** What is durable, and what waits for a sync. */
export class HandStore {
  hardState: StoredHardState = { term: 0, votedFor: null };
  entries: StoredEntry[] = [];
  pending: Pending[] = [];

  write(write: RaftWrite): Promise<void> {
    return new Promise((resolve, reject) => void this.pending.push({ write, resolve, reject }));
  }

  /** All that waits becomes durable, in order. */
  async sync(): Promise<void> {
    const batch = this.pending;
    this.pending = [];
    for (const { write } of batch) {
      if (write.hardState !== null) this.hardState = write.hardState;
      const cut = write.cutSuffixTo;
      if (cut !== null) this.entries = this.entries.filter(({ index }) => index < cut);
      this.entries.push(...write.entries);
    }
    for (const { resolve } of batch) resolve();
    await settled();
  }

  async fail(code: "STORAGE_FULL" | "DISK_FAILED"): Promise<void> {
    const batch = this.pending;
    this.pending = [];
    for (const { reject } of batch) reject(new OttlaError(code));
    await settled();
  }

  get restored(): RaftStore["restored"] {
    const { hardState, entries } = this;
    return { hardState, snapshot: null, log: { start: 0, startTerm: 0, entries: [...entries] } };
  }
}

/** All microtasks that are ready have run. */
export const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

export class HandNode {
  readonly id: ReplicaId;
  readonly store = new HandStore();
  host!: RaftHost;
  machine!: StateMachine;
  outbox: Message[] = [];
  committed: Entry[] = [];
  reads: ReadResult[] = [];
  failure: OttlaError | undefined;
  nowMs = 0;
  timers: { atMs: number; run: () => void }[] = [];
  onCommitted: (entry: Entry) => void = () => undefined;
  #lives = 0;

  constructor(id: number) {
    this.id = replica(id);
  }

  start(): void {
    this.committed = [];
    this.outbox = [];
    this.timers = [];
    this.machine = new StateMachine({ versions: { min: 1, max: 2 }, probe: undefined, onApplied: () => undefined });
    const logger = { debug: nothing, info: nothing, warn: nothing, error: nothing, child: () => logger };
    const after = (delayMs: number, run: () => void) => {
      const timer = { atMs: this.nowMs + delayMs, run };
      this.timers.push(timer);
      return { cancel: () => void (this.timers = this.timers.filter((other) => other !== timer)) };
    };
    this.host = new RaftHost(
      {
        clock: { monoMs: () => this.nowMs, wallMs: () => 0 },
        timers: { after, defer: (run) => void after(0, run) },
        rng: createRng(Number.parseInt(this.id, 10)).fork(`life ${++this.#lives}`),
        logger,
        probe: undefined,
        store: this.store as unknown as RaftStore,
        machine: this.machine,
        clusterId: CLUSTER,
        snapshotBytes: 2 ** 40,
        send: (message) => void this.outbox.push(message),
        onCommitted: (entry) => {
          this.committed.push(entry);
          this.onCommitted(entry);
        },
        onRead: (result) => void this.reads.push(result),
        onProgress: nothing,
        onFailed: (error) => {
          this.failure = error;
        },
        snapshotsInUse: () => [],
      },
      { self: this.id, settings: DEFAULT_SETTINGS, restored: restoredStateOf(this.store.restored) },
    );
    this.host.start();
  }

  /** The power goes: what was not synced is gone. */
  crash(): void {
    void this.host.stop();
    this.store.pending = [];
  }

  /** Time passes with the loop running: each timer in its turn. */
  pass(ms: number): void {
    const untilMs = this.nowMs + ms;
    for (;;) {
      const next = this.timers.toSorted((one, other) => one.atMs - other.atMs)[0];
      if (next === undefined || next.atMs > untilMs) break;
      this.nowMs = Math.max(this.nowMs, next.atMs);
      this.timers = this.timers.filter((timer) => timer !== next);
      next.run();
    }
    this.nowMs = untilMs;
  }

  campaign(): void {
    this.host.input((core) => core.campaign());
  }
}

const nothing = (): void => undefined;

export class HandQuorum {
  readonly nodes: readonly HandNode[];

  private constructor(nodes: readonly HandNode[]) {
    this.nodes = nodes;
  }

  /** Founded and started. */
  static async of(...ids: number[]): Promise<HandQuorum> {
    const nodes = ids.map((id) => new HandNode(id));
    const configuration: Configuration = { voters: nodes.map(({ id }) => id), learners: [] };
    for (const node of nodes) {
      const written = writeFounding(node.store, configuration, CLUSTER);
      await node.store.sync();
      await written;
      node.start();
    }
    return new HandQuorum(nodes);
  }

  node(id: number): HandNode {
    return this.nodes.find((node) => node.id === replica(id)) as HandNode;
  }

  /** What `from` has for `to` arrives; returns it. */
  deliver(from: number, to: number): Message[] {
    const sender = this.node(from);
    const messages = sender.outbox.filter((message) => message.to === replica(to));
    sender.outbox = sender.outbox.filter((message) => message.to !== replica(to));
    for (const message of messages) this.node(to).host.input((core) => core.step(message));
    return messages;
  }

  /** Syncs and delivers among these until nothing happens any more. */
  async run(...ids: number[]): Promise<void> {
    for (let isBusy = true; isBusy; ) {
      isBusy = false;
      for (const id of ids) {
        if (this.node(id).store.pending.length > 0) isBusy = true;
        await this.node(id).store.sync();
        for (const other of ids) if (other !== id && this.deliver(id, other).length > 0) isBusy = true;
      }
    }
  }
}
