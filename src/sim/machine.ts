// A simulated computer as its processes feel it: its two clocks, whether it stands still (P2), whether it is switched off.
import type { Clock } from "../ports/clock.ts";
import type { Incarnation, SimWorld } from "./world.ts";

export class Machine {
  readonly name: string;
  /** What happens to its processes waits until it goes on. */
  isPaused = false;
  /** Nothing on it answers, not even to say that nobody listens. */
  isOff = false;
  /** Of the monotonic clock and of timers: 1 is right, as is the true time in between two corrections of 1 % (C1). */
  monoRate = 1;
  readonly #world: SimWorld;
  #wallBaseMs: number;
  #wallSinceMs = 0;
  #wallRate = 1;

  constructor(world: SimWorld, name: string) {
    this.name = name;
    this.#world = world;
    this.#wallBaseMs = world.startWallMs;
  }

  get wallMs(): number {
    return Math.floor(this.#wallBaseMs + (this.#world.nowMs - this.#wallSinceMs) * this.#wallRate);
  }

  /** C1: the wall clock jumps by this much and drifts from now on at this rate. Nothing else notices. */
  setWall(jumpMs: number, rate: number): void {
    // 1970 at the earliest: no clock shows less.
    this.#wallBaseMs = Math.max(0, this.wallMs + jumpMs);
    this.#wallSinceMs = this.#world.nowMs;
    this.#wallRate = rate;
  }

  /** The clock of one process: its monotonic origin is its own start. */
  clockOf(owner: Incarnation): Clock {
    return {
      monoMs: () => (this.#world.nowMs - owner.startMs) * this.monoRate,
      wallMs: () => this.wallMs,
    };
  }
}
