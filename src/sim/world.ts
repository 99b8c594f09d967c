// The simulated world: one queue of events in virtual time, from one seed.
//
// Events at the same time run in an order drawn from the seed. After each event all microtasks are drained, so a broker's code
// only ever continues from an event: a process is stopped between any two awaits by letting its events die (an incarnation ends).
import { assert } from "../base/assert.ts";
import { Heap } from "../base/heap.ts";
import { createRng, type Rng } from "../base/rng.ts";
import type { Checksum } from "../ports/checksum.ts";
import type { Clock } from "../ports/clock.ts";
import type { Entropy } from "../ports/entropy.ts";
import type { TimerHandle, Timers } from "../ports/timers.ts";
import { Machine } from "./machine.ts";
import { RunHash } from "./run-hash.ts";

/** What the composition root lends to a world: the way to let microtasks run, and the real checksum. */
export interface WorldHost {
  /** Calls `step` until it returns false. Before each call, and before it resolves, all microtasks that are ready have run. */
  readonly pump: (step: () => boolean) => Promise<void>;
  readonly checksum: Checksum;
}

export interface TraceEvent {
  readonly timeMs: number;
  readonly node: string;
  readonly kind: string;
  /** Bytes that the event carries; 0 when none. */
  readonly sizeBytes: number;
  readonly detail: string;
}

export interface WorldOptions {
  readonly seed: number;
  readonly host: WorldHost;
  readonly onTrace?: (event: TraceEvent) => void;
  /** Wall clock at the start. */
  readonly startWallMs?: number;
}

/** One life of one process. When it ends, nothing that it waits for happens any more. */
export class Incarnation {
  readonly node: string;
  readonly machine: Machine;
  readonly number: number;
  readonly startMs: number;
  #isAlive = true;

  constructor(machine: Machine, number: number, startMs: number) {
    this.node = machine.name;
    this.machine = machine;
    this.number = number;
    this.startMs = startMs;
  }

  get isAlive(): boolean {
    return this.#isAlive;
  }

  end(): void {
    this.#isAlive = false;
  }
}

export interface EventSpec {
  readonly delayMs: number;
  readonly kind: string;
  /** Whose event it is: it dies with the incarnation. Undefined: the world's. */
  readonly owner?: Incarnation | undefined;
  readonly payload?: Uint8Array | undefined;
  readonly detail?: string;
}

class QueuedEvent implements TimerHandle {
  timeMs: number;
  /** Orders events of one time. */
  tie: number;
  sequence: number;
  readonly spec: EventSpec;
  run: (() => void) | null;

  constructor(spec: EventSpec, at: { timeMs: number; tie: number; sequence: number }, run: () => void) {
    this.timeMs = at.timeMs;
    this.tie = at.tie;
    this.sequence = at.sequence;
    this.spec = spec;
    this.run = run;
  }

  cancel(): void {
    this.run = null;
  }
}

const DEFER_MS_MAX = 0.02;

export class SimWorld {
  readonly seed: number;
  readonly hash: RunHash;
  readonly startWallMs: number;
  readonly checksum: Checksum;
  readonly #root: Rng;
  readonly #scheduler: Rng;
  readonly #queue = new Heap<QueuedEvent>(isBefore);
  readonly #pump: WorldHost["pump"];
  readonly #onTrace: ((event: TraceEvent) => void) | undefined;
  readonly #faults = new Map<string, number>();
  readonly #marks = new Map<string, number>();
  readonly #machines = new Map<string, Machine>();
  /** What should have happened on a paused machine, in that order. */
  readonly #held = new Map<Machine, QueuedEvent[]>();
  #sequence = 0;
  #nowMs = 0;
  #incarnations = 0;
  #failure: Error | undefined;

  constructor(options: WorldOptions) {
    this.seed = options.seed;
    this.startWallMs = options.startWallMs ?? 1_700_000_000_000;
    this.checksum = options.host.checksum;
    const hash = new RunHash(options.host.checksum);
    this.hash = hash;
    this.#root = createRng(options.seed, (value) => hash.u32(value));
    this.#scheduler = this.#root.fork("scheduler");
    this.#pump = options.host.pump;
    this.#onTrace = options.onTrace;
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  /** Faults injected, by name. */
  get faults(): ReadonlyMap<string, number> {
    return this.#faults;
  }

  /** States reached, by name: the guard against a workload that never gets anywhere. */
  get marks(): ReadonlyMap<string, number> {
    return this.#marks;
  }

  get isTraced(): boolean {
    return this.#onTrace !== undefined;
  }

  get failure(): Error | undefined {
    return this.#failure;
  }

  fork(label: string): Rng {
    return this.#root.fork(label);
  }

  countFault(name: string): void {
    this.note("", "fault", name);
    this.#faults.set(name, (this.#faults.get(name) ?? 0) + 1);
  }

  sometimes(name: string): void {
    this.#marks.set(name, (this.#marks.get(name) ?? 0) + 1);
  }

  /** Ends the run with this error at the next event. The first one wins. */
  fail(error: Error): void {
    this.#failure ??= error;
  }

  /** A line of the trace that is no event. */
  note(node: string, kind: string, detail: string): void {
    this.#onTrace?.({ timeMs: this.#nowMs, node, kind, sizeBytes: 0, detail });
  }

  machine(name: string): Machine {
    let machine = this.#machines.get(name);
    if (machine === undefined) {
      machine = new Machine(this, name);
      this.#machines.set(name, machine);
    }
    return machine;
  }

  startIncarnation(node: string): Incarnation {
    return new Incarnation(this.machine(node), ++this.#incarnations, this.#nowMs);
  }

  /** P2: the machine's processes stand still; the world and its clocks go on. */
  pause(machine: Machine): void {
    machine.isPaused = true;
    this.note(machine.name, "pause", "");
  }

  /** What was held happens now, in the order in which it would have happened. */
  resume(machine: Machine): void {
    machine.isPaused = false;
    this.note(machine.name, "resume", "");
    const held = this.#held.get(machine) ?? [];
    this.#held.delete(machine);
    for (const event of held) {
      event.timeMs = this.#nowMs;
      event.tie = -1;
      event.sequence = this.#sequence++;
      this.#queue.push(event);
    }
  }

  #hold(machine: Machine, event: QueuedEvent): void {
    const held = this.#held.get(machine);
    if (held === undefined) this.#held.set(machine, [event]);
    else held.push(event);
  }

  schedule(spec: EventSpec, run: () => void): TimerHandle {
    const timeMs = this.#nowMs + Math.max(0, spec.delayMs);
    const event = new QueuedEvent(spec, { timeMs, tie: this.#scheduler.u32(), sequence: this.#sequence++ }, run);
    this.#queue.push(event);
    return event;
  }

  /** A promise of the world, never settled once its owner has ended. */
  later<T>(spec: EventSpec, produce: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.schedule(spec, () => {
        try {
          resolve(produce());
        } catch (thrown) {
          reject(thrown);
        }
      });
    });
  }

  /** Runs events until the condition holds (true) or virtual time passes `untilMs` or nothing is left to happen (false). */
  async runUntil(condition: () => boolean, untilMs: number): Promise<boolean> {
    let isMet = false;
    await this.#pump(() => {
      if (this.#failure !== undefined) return false;
      isMet = condition();
      return !isMet && this.#fireNext(untilMs);
    });
    if (this.#failure !== undefined) throw this.#failure;
    return isMet;
  }

  /** False when nothing is left to happen until then. */
  #fireNext(untilMs: number): boolean {
    for (;;) {
      const next = this.#queue.peek();
      if (next === undefined || next.timeMs > untilMs) {
        if (Number.isFinite(untilMs)) this.#nowMs = Math.max(this.#nowMs, untilMs);
        return false;
      }
      this.#queue.pop();
      const { owner } = next.spec;
      if (next.run === null || owner?.isAlive === false) continue;
      if (owner?.machine.isPaused === true) {
        this.#hold(owner.machine, next);
        continue;
      }
      this.#fire(next, next.run);
      return true;
    }
  }

  async runFor(durationMs: number): Promise<void> {
    await this.runUntil(() => false, this.#nowMs + durationMs);
  }

  /** Runs the world until a promise settles; fails when it has not within `limitMs` of virtual time. */
  async settle<T>(promise: Promise<T>, limitMs = 600_000): Promise<T> {
    let isSettled = false;
    const watched = promise.finally(() => {
      isSettled = true;
    });
    watched.catch(() => undefined);
    if (!(await this.runUntil(() => isSettled, this.#nowMs + limitMs)))
      throw new Error(`not settled within ${limitMs} simulated ms`);
    return await watched;
  }

  #fire(event: QueuedEvent, run: () => void): void {
    const { owner, kind, payload, detail } = event.spec;
    assert(event.timeMs >= this.#nowMs, "virtual time goes back");
    this.#nowMs = event.timeMs;
    event.run = null;
    const node = owner?.node ?? "";
    const hash = this.hash;
    hash.number(event.timeMs);
    hash.text(node);
    hash.text(kind);
    if (payload !== undefined) hash.bytes(payload);
    hash.endEvent();
    this.#onTrace?.({ timeMs: event.timeMs, node, kind, sizeBytes: payload?.length ?? 0, detail: detail ?? "" });
    run();
  }
}

function isBefore(left: QueuedEvent, right: QueuedEvent): boolean {
  if (left.timeMs !== right.timeMs) return left.timeMs < right.timeMs;
  return left.tie === right.tie ? left.sequence < right.sequence : left.tie < right.tie;
}

export function createSimClock(_world: SimWorld, owner: Incarnation): Clock {
  return owner.machine.clockOf(owner);
}

export function createSimTimers(world: SimWorld, owner: Incarnation): Timers {
  const rng = world.fork(`defer ${owner.node} ${owner.number}`);
  const { machine } = owner;
  return {
    after: (delayMs, callback) =>
      world.schedule({ delayMs: delayMs / machine.monoRate, kind: "timer", owner }, callback),
    defer: (callback) => {
      world.schedule({ delayMs: (rng.u32() / 2 ** 32) * DEFER_MS_MAX, kind: "defer", owner }, callback);
    },
  };
}

export function createSimEntropy(world: SimWorld, owner: Incarnation): Entropy {
  const rng = world.fork(`entropy ${owner.node} ${owner.number}`);
  return { fill: (target) => rng.fill(target) };
}
