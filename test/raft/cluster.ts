// A handful of Raft nodes driven by hand: nothing happens but what a test says, one command a line.
import { assert, present } from "../../src/base/assert.ts";
import { createRng } from "../../src/base/rng.ts";
import { describeConfiguration, describeEntry, describeMessage } from "../../src/raft/describe.ts";
import { foundingState, RaftNode } from "../../src/raft/raft-node.ts";
import { DEFAULT_SETTINGS, type RaftSettings } from "../../src/raft/settings.ts";
import type { Entry, Message, ReadResult, Ready, ReplicaId, SnapshotMeta, WriteBatch } from "../../src/raft/types.ts";
import { RaftDisk, type StoredSnapshot } from "../../src/sim/raft/disk.ts";

export const id = (text: string): ReplicaId => (text.includes(":") ? text : `${text}:a`) as ReplicaId;

export class HandNode {
  readonly id: ReplicaId;
  readonly disk: RaftDisk;
  core: RaftNode | null = null;
  pending: WriteBatch[] = [];
  /** Commands applied, the state machine. */
  applied: string[] = [];
  appliedEnd = 0;
  reads: ReadResult[] = [];
  arriving: StoredSnapshot | null = null;
  readonly #settings: RaftSettings;
  #life = 0;

  constructor(name: ReplicaId, disk: RaftDisk, settings: RaftSettings) {
    this.id = name;
    this.disk = disk;
    this.#settings = settings;
    this.start();
  }

  get node(): RaftNode {
    return present(this.core, `node ${this.id}`);
  }

  start(): void {
    this.#life++;
    const rng = createRng(Number.parseInt(this.id, 10)).fork(`life ${this.#life}`);
    this.core = new RaftNode({ rng }, { self: this.id, settings: this.#settings, restored: this.disk.restored });
    this.load(this.disk.snapshot);
  }

  load(snapshot: StoredSnapshot | null): void {
    this.applied = snapshot === null ? [] : JSON.parse(new TextDecoder().decode(snapshot.bytes));
    this.appliedEnd = snapshot?.meta.end ?? 0;
  }

  /** What was not synced is gone. */
  crash(): void {
    this.core = null;
    this.pending = [];
    this.arriving = null;
  }

  apply(entry: Entry): void {
    assert(entry.index === this.appliedEnd, `${entry.index} applied at ${this.appliedEnd}`);
    this.appliedEnd++;
    if (entry.kind === "command") this.applied.push(new TextDecoder().decode(entry.bytes));
  }
}

export class Cluster {
  readonly nodes = new Map<ReplicaId, HandNode>();
  /** Sent and not delivered yet, oldest first. */
  network: Message[] = [];
  /** Everything that was ever sent, with whether it had to wait for a sync. */
  readonly sent: Message[] = [];
  readonly #settings: RaftSettings;

  constructor(voters: number, settings: Partial<RaftSettings> = {}) {
    this.#settings = { ...DEFAULT_SETTINGS, ...settings };
    const ids = Array.from({ length: voters }, (_, at) => id(`${at + 1}`));
    for (const name of ids) this.add(name, new RaftDisk(foundingState({ voters: ids, learners: [] })));
  }

  add(name: ReplicaId, disk = new RaftDisk()): HandNode {
    const node = new HandNode(name, disk, this.#settings);
    this.nodes.set(name, node);
    return node;
  }

  node(name: string): HandNode {
    return present(this.nodes.get(id(name)), `node ${name}`);
  }

  core(name: string): RaftNode {
    return this.node(name).node;
  }

  get up(): HandNode[] {
    return [...this.nodes.values()].filter(({ core }) => core !== null);
  }

  // --- what a host does

  /** Takes one ready; the write waits for sync(). */
  take(name: string): Ready | null {
    const node = this.node(name);
    const ready = node.node.ready();
    if (ready === null) return null;
    if (ready.write !== null) node.pending.push(ready.write);
    for (const message of ready.messages) this.#send(node, message);
    for (const { snapshot, position, bytes, isLast } of ready.snapshotWrites) {
      if (position === 0) node.arriving = { meta: snapshot, bytes: new Uint8Array(snapshot.sizeBytes) };
      present(node.arriving, "snapshot").bytes.set(bytes, position);
      if (isLast) this.arrived.push(node.id);
    }
    if (ready.loadSnapshot !== null) node.load(node.disk.snapshot);
    for (const entry of ready.committed) node.apply(entry);
    if (ready.committed.length > 0) node.node.applied(node.appliedEnd);
    node.reads.push(...ready.reads);
    return ready;
  }

  /** Nodes with a whole snapshot that is not durable yet. */
  readonly arrived: ReplicaId[] = [];

  keepArrived(name: string): SnapshotMeta {
    const node = this.node(name);
    const stored = present(node.arriving, "snapshot");
    assert(this.arrived.includes(node.id), `the snapshot has not wholly arrived at ${name}`);
    this.arrived.splice(this.arrived.indexOf(node.id), 1);
    node.disk.snapshot = stored;
    node.node.snapshotDurable(stored.meta);
    return stored.meta;
  }

  /** The disk of `name` has done all that it was asked to. */
  sync(name: string): WriteBatch[] {
    const node = this.node(name);
    const batches = node.pending;
    node.pending = [];
    for (const batch of batches) {
      node.disk.write(batch);
      for (const message of batch.messagesAfterSync) this.#send(node, message);
      node.node.advance({ id: batch.id, stage: "durable" });
    }
    return batches;
  }

  snapshot(name: string): SnapshotMeta | undefined {
    const node = this.node(name);
    const named = node.node.beginSnapshot();
    if (named === undefined) return undefined;
    const bytes = new TextEncoder().encode(JSON.stringify(node.applied));
    const meta = { ...named, sizeBytes: bytes.length };
    node.disk.snapshot = { meta, bytes };
    node.node.snapshotDurable(meta);
    return meta;
  }

  #send(node: HandNode, message: Message): void {
    const { snapshot } = node.disk;
    const whole =
      message.kind === "snapshotChunk" && snapshot !== null
        ? { ...message, bytes: snapshot.bytes.slice(message.position, message.position + message.sizeBytes) }
        : message;
    this.network.push(whole);
    this.sent.push(whole);
  }

  /** Delivers what is on its way now, and not what that brings about. Returns what arrived. */
  deliver(isWanted: (message: Message) => boolean = () => true): Message[] {
    const wanted = this.network.filter(isWanted);
    this.network = this.network.filter((message) => !wanted.includes(message));
    for (const message of wanted) this.nodes.get(message.to)?.core?.step(message);
    return wanted;
  }

  drop(isUnwanted: (message: Message) => boolean = () => true): Message[] {
    const unwanted = this.network.filter(isUnwanted);
    this.network = this.network.filter((message) => !unwanted.includes(message));
    return unwanted;
  }

  /** Until nothing happens any more among these nodes (all by default); what goes to others is lost. */
  stabilize(names: readonly string[] = this.up.map((node) => node.id)): Message[] {
    const inside = new Set(names.map(id));
    const delivered: Message[] = [];
    for (let round = 0; round < 1000; round++) {
      let isQuiet = true;
      for (const name of inside) {
        if (this.node(name).core === null) continue;
        while (this.take(name) !== null) isQuiet = false;
        if (this.sync(name).length > 0) isQuiet = false;
        if (this.arrived.includes(name)) this.keepArrived(name);
      }
      this.drop((message) => !inside.has(message.to) || !inside.has(message.from));
      const arrived = this.deliver();
      delivered.push(...arrived);
      if (isQuiet && arrived.length === 0) return delivered;
    }
    throw new Error("never quiet");
  }

  /** A leader, with everything that it has agreed on by all these nodes. */
  elect(name: string, among: readonly string[] = this.up.map((node) => node.id)): void {
    // Whoever still believes in another leader hears that nobody listens there.
    for (const one of among) {
      const { leader } = this.core(one);
      if (leader !== null && leader !== id(name)) this.core(one).peerUnreachable(leader);
    }
    this.core(name).campaign();
    this.stabilize(among);
    assert(this.core(name).role === "leader", `${name} is ${this.core(name).role}`);
  }

  propose(name: string, text: string): void {
    const result = this.core(name).propose({ bytes: new TextEncoder().encode(text) });
    assert(result.kind === "accepted", `${text}: ${JSON.stringify(result)}`);
  }

  tick(name: string, count = 1): void {
    for (let at = 0; at < count; at++) this.core(name).tick();
  }

  /** A message as if `from` had sent it. */
  step(message: Message): void {
    this.core(message.to).step(message);
  }

  /** Takes and syncs until `name` has nothing to do; what it sent stays in the network. */
  settle(name: string): void {
    while (this.take(name) !== null || this.sync(name).length > 0);
  }

  /** What `name` sent since the last call, by kind. */
  sentBy(name: string): Message[] {
    const sent = this.network.filter(({ from }) => from === id(name));
    this.network = this.network.filter(({ from }) => from !== id(name));
    return sent;
  }

  crash(name: string): void {
    this.node(name).crash();
  }

  restart(name: string): void {
    this.node(name).start();
  }

  /** `index:term` of each entry in memory, e.g. "0:1 1:2". */
  logOnDisk(name: string): string {
    return this.node(name)
      .disk.entries.map(({ index, term }) => `${index}:${term}`)
      .join(" ");
  }

  describe(name: string): string {
    const node = this.node(name);
    if (node.core === null) return `${node.id} is down`;
    const { role, term, leader, log, configuration } = node.core;
    const { start, end, durableEnd, commitEnd, appliedEnd } = log;
    const peers = [...node.core.peers()].map(
      ([peer, { kind, matchEnd, nextIndex, inFlightCount }]) =>
        `\n  ${peer} ${kind}, match ${matchEnd}, next ${nextIndex}, in flight ${inFlightCount}`,
    );
    return (
      `${node.id} ${role}, term ${term}, vote ${node.core.hardState.votedFor ?? "none"}, leader ${leader ?? "none"}, ` +
      `log ${start}..${end}, durable ${durableEnd}, commit ${commitEnd}, applied ${appliedEnd}, ` +
      `${describeConfiguration(configuration)}${peers.join("")}`
    );
  }
}

export { describeEntry, describeMessage };
