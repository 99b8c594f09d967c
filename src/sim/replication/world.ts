// A cluster of partition cores alone: one queue of events in virtual time, brokers with disks, a controller, the links between them.
import { crc32cJs } from "../../base/crc32c.ts";
import { Heap } from "../../base/heap.ts";
import { createRng, type Rng } from "../../base/rng.ts";
import type { NodeId } from "../../model/ids.ts";
import { RunHash } from "../run-hash.ts";
import { ReplicationChecker } from "./checker.ts";
import { SimController } from "./controller.ts";
import { SimNode } from "./node.ts";
import type { SimReplica } from "./replica.ts";
import { CONTROLLER } from "./place.ts";
import type { ReplicationSwarm } from "./swarm.ts";

interface Event {
  readonly timeMs: number;
  readonly sequence: number;
  readonly run: () => void;
}

export type Moment = "lead" | "truncate" | "report";

export class ReplicationWorld {
  readonly swarm: ReplicationSwarm;
  readonly hash = new RunHash({ crc32c: crc32cJs });
  readonly checker: ReplicationChecker;
  readonly controller: SimController;
  readonly nodes: readonly SimNode[];
  readonly marks = new Map<string, number>();
  readonly network: Rng;
  timeMs = 0;
  events = 0;
  /** The faults are over. */
  isCalm = false;
  /** Nothing is produced any more. */
  isQuiet = false;
  /** Called at a moment at which a crash is worth more than at another one. */
  onDelicate: ((replica: SimReplica, moment: Moment) => void) | undefined;
  onTrace: ((line: string) => void) | undefined;
  readonly #queue = new Heap<Event>((left, right) =>
    left.timeMs === right.timeMs ? left.sequence < right.sequence : left.timeMs < right.timeMs,
  );
  readonly #cuts = new Set<number>();
  readonly #held = new Map<number, (() => void)[]>();
  #sequence = 0;
  #sessions = 0;
  #batches = 0;

  constructor(seed: number, swarm: ReplicationSwarm) {
    this.swarm = swarm;
    const rng = createRng(seed);
    this.network = rng.fork("network");
    this.checker = new ReplicationChecker(this);
    this.nodes = Array.from(
      { length: swarm.nodes },
      (_, at) => new SimNode(this, (at + 1) as NodeId, rng.fork(`node ${at + 1}`)),
    );
    this.controller = new SimController(this, rng.fork("controller"));
  }

  node(nodeId: number): SimNode {
    const node = this.nodes[nodeId - 1];
    if (node === undefined) throw new RangeError(`no node ${nodeId}`);
    return node;
  }

  mark(name: string): void {
    this.marks.set(name, (this.marks.get(name) ?? 0) + 1);
  }

  trace(line: () => string): void {
    this.onTrace?.(`${this.timeMs.toFixed(3).padStart(11)} ${line()}`);
  }

  nextSession(): number {
    return ++this.#sessions;
  }

  nextBatch(): number {
    return ++this.#batches;
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

  mend(from: number, to: number): void {
    this.#cuts.delete(from * 1024 + to);
  }

  heal(): void {
    this.#cuts.clear();
  }

  isCut(from: number, to: number): boolean {
    return this.#cuts.size > 0 && this.#cuts.has(from * 1024 + to);
  }

  /** Wishes for other ISRs stay on their way to the controller. */
  holdsProposals = false;
  #proposals: (() => void)[] = [];

  propose(from: number, act: () => void): void {
    if (this.holdsProposals) this.#proposals.push(act);
    else this.control(from, CONTROLLER, act);
  }

  letProposalsGo(): void {
    this.holdsProposals = false;
    for (const act of this.#proposals.splice(0)) act();
  }

  /** What goes this way on bulk connections stays where it is, until it is let go. */
  hold(from: number, to: number): void {
    this.#held.set(from * 1024 + to, this.#held.get(from * 1024 + to) ?? []);
  }

  letGo(from: number, to: number): void {
    const acts = this.#held.get(from * 1024 + to) ?? [];
    this.#held.delete(from * 1024 + to);
    for (const act of acts) act();
  }

  /** False: it is not held, and has arrived. */
  keep(from: number, to: number, act: () => void): boolean {
    const acts = this.#held.size === 0 ? undefined : this.#held.get(from * 1024 + to);
    acts?.push(act);
    return acts !== undefined;
  }

  delayMs(meanMs: number): number {
    return 0.05 + this.exponential(this.network, this.isCalm ? Math.min(1, meanMs) : meanMs);
  }

  /** A request or an answer of the control connections: may be lost, late, and overtaken. */
  control(from: number, to: number, act: () => void): void {
    const { controlDelayMsMean, controlLossChance, controlLateChance } = this.swarm;
    if (!this.isCalm && this.network.chance(controlLossChance)) return;
    const delayMs = this.delayMs(controlDelayMsMean);
    const isLate = !this.isCalm && this.network.chance(controlLateChance);
    this.at(isLate ? delayMs + this.network.below(3000) : delayMs, () => {
      if (!this.isCut(from, to)) act();
    });
  }
}
