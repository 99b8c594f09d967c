// A cluster of Raft cores alone: one queue of events in virtual time, a network that loses, doubles, delays and cuts.
import { crc32cJs } from "../../base/crc32c.ts";
import { Heap } from "../../base/heap.ts";
import { createRng, type Rng } from "../../base/rng.ts";
import { describeMessage } from "../../raft/describe.ts";
import { foundingState } from "../../raft/raft-node.ts";
import { type Configuration, type Message, nodeIdOf, type ReplicaId } from "../../raft/types.ts";
import { RunHash } from "../run-hash.ts";
import { RaftChecker } from "./checker.ts";
import { RaftDisk } from "./disk.ts";
import { RaftReplica } from "./replica.ts";
import type { RaftSwarm } from "./swarm.ts";

interface Event {
  readonly timeMs: number;
  readonly sequence: number;
  readonly run: () => void;
}

export type Moment = "vote" | "lead" | "install";

export class RaftWorld {
  readonly swarm: RaftSwarm;
  readonly checker = new RaftChecker();
  readonly hash = new RunHash({ crc32c: crc32cJs });
  /** By replica id: of a wiped node the old pair stays here as well, dead. */
  readonly replicas = new Map<ReplicaId, RaftReplica>();
  readonly marks = new Map<string, number>();
  timeMs = 0;
  events = 0;
  appliedEnd = 0;
  onTrace: ((line: string) => void) | undefined;
  /** Called at a moment at which a crash is worth more than at another one. */
  onDelicate: ((replica: RaftReplica, moment: Moment) => void) | undefined;
  /** Called when a node asks for pre-votes. */
  onCampaign: ((replica: RaftReplica) => void) | undefined;
  readonly #queue = new Heap<Event>((left, right) =>
    left.timeMs === right.timeMs ? left.sequence < right.sequence : left.timeMs < right.timeMs,
  );
  readonly #network: Rng;
  readonly #seed: Rng;
  /** Node ids "from to" that do not reach. */
  readonly #cuts = new Set<number>();
  readonly #disks = new Map<number, number>();
  #sequence = 0;
  isCalm = false;

  constructor(seed: number, swarm: RaftSwarm) {
    this.swarm = swarm;
    this.#seed = createRng(seed);
    this.#network = this.#seed.fork("network");
    const founders = Array.from({ length: swarm.founders }, (_, at) => this.newReplicaId(at + 1));
    const configuration: Configuration = { voters: founders, learners: [] };
    for (const id of founders) this.addReplica(id, new RaftDisk(foundingState(configuration)));
    for (let at = 0; at < swarm.spares; at++)
      this.addReplica(this.newReplicaId(swarm.founders + at + 1), new RaftDisk());
  }

  /** The node's next disk: 1:a, then 1:b. */
  newReplicaId(node: number): ReplicaId {
    const disk = this.#disks.get(node) ?? 0;
    this.#disks.set(node, disk + 1);
    return `${node}:${disk < 26 ? String.fromCharCode(97 + disk) : `z${disk}`}` as ReplicaId;
  }

  addReplica(id: ReplicaId, disk: RaftDisk): RaftReplica {
    const replica = new RaftReplica(this, { id, disk, rng: this.#seed.fork(`replica ${id}`) });
    this.replicas.set(id, replica);
    return replica;
  }

  mark(name: string): void {
    this.marks.set(name, (this.marks.get(name) ?? 0) + 1);
  }

  applied(end: number): void {
    this.appliedEnd = Math.max(this.appliedEnd, end);
  }

  trace(line: () => string): void {
    this.onTrace?.(`${this.timeMs.toFixed(3).padStart(11)} ${line()}`);
  }

  // --- time

  at(delayMs: number, run: () => void): void {
    this.#queue.push({ timeMs: this.timeMs + delayMs, sequence: this.#sequence++, run });
  }

  exponential(rng: Rng, mean: number): number {
    return -Math.log(1 - rng.below(1_000_000) / 1_000_000) * mean;
  }

  runUntil(endMs: number): void {
    for (;;) {
      const event = this.#queue.peek();
      if (event === undefined || event.timeMs > endMs) break;
      this.#queue.pop();
      this.timeMs = event.timeMs;
      this.events++;
      this.hash.u32(Math.floor(event.timeMs * 1000));
      event.run();
      this.hash.endEvent();
    }
    this.timeMs = endMs;
  }

  // --- the network

  cut(from: number, to: number): void {
    this.#cuts.add(from * 1024 + to);
  }

  heal(): void {
    this.#cuts.clear();
  }

  isCut(from: number, to: number): boolean {
    return this.#cuts.has(from * 1024 + to);
  }

  send(message: Message): void {
    const { lossChance, duplicateChance } = this.swarm;
    this.hash.u32(message.term);
    this.hash.u32(message.kind.length);
    this.trace(() => `${message.from} -> ${message.to} ${describeMessage(message)}`);
    const isLossy = !this.isCalm;
    if (isLossy && this.#network.chance(lossChance)) return;
    this.#deliver(message);
    if (isLossy && this.#network.chance(duplicateChance)) this.#deliver(message);
  }

  #deliver(message: Message): void {
    const from = nodeIdOf(message.from);
    const to = nodeIdOf(message.to);
    const { delayMsMean, lateChance } = this.swarm;
    const delayMs = 0.1 + this.exponential(this.#network, this.isCalm ? Math.min(1, delayMsMean) : delayMsMean);
    const isLate = !this.isCalm && this.#network.chance(lateChance);
    this.at(isLate ? delayMs * (1 + this.#network.below(100)) : delayMs, () => {
      if (this.isCut(from, to)) return;
      const replica = this.replicas.get(message.to);
      if (replica === undefined || !replica.isUp) return;
      this.hash.u32(to);
      replica.receive(message);
    });
  }
}
