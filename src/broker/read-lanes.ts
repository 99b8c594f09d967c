// Reads from disk for consumers, a few at once and first come, first served, so that a crowd of readers leaves threads to the journal. What comes from the
// disk then holds the loop, for its checksums and for its way into the socket: one in every few turns of the loop, or who reads what memory holds would
// wait behind all of them, and more than once: for the word that its record is durable, and for its own answer.
//
// One that takes long stops counting, so that a dying page of one partition does not hold up the others.
//
// Bound: as many wait as there are fetches under way, each with the room for its answer (AnswerRoom).
import type { Deadlines } from "../base/deadlines.ts";
import { mutant } from "../base/mutant.ts";
import { Ring } from "../base/ring.ts";

/** Of four threads (libuv), which the syncs and writes of journal and segments need, too. */
const LANES = 2;
/** For what has come from the disk: one for its checks, one for its way into the socket, one for all others. */
const TURNS_EACH = 3;
const SLOW_MS = 40;
const NEVER = Number.POSITIVE_INFINITY;

interface Reading {
  /** Since when the disk has not answered; NEVER while the loop has not looked at what it answered. */
  sinceMs: number;
}

interface Waiting {
  readonly reading: Reading;
  readonly begin: () => void;
}

interface ReadLanesDeps {
  readonly clock: { monoMs(): number };
  readonly deadlines: Pick<Deadlines, "add">;
  readonly defer: (work: () => void) => void;
}

export class ReadLanes {
  readonly #deps: ReadLanesDeps;
  readonly #waiting = new Ring<Waiting>();
  readonly #running = new Set<Reading>();
  #isLookDue = false;
  /** Read, and not looked at. */
  readonly #arrived = new Ring<() => void>();
  #isTurnDue = false;

  constructor(deps: ReadLanesDeps) {
    this.#deps = deps;
  }

  async run<T>(read: (turn: () => Promise<void> | undefined) => T | Promise<T>): Promise<T> {
    const reading = { sinceMs: this.#deps.clock.monoMs() };
    if (this.#waiting.length === 0 && this.#hasLane()) this.#running.add(reading);
    else await this.#lane(reading);
    try {
      return await read(() => this.#turn(reading));
    } finally {
      this.#running.delete(reading);
      this.#admit();
    }
  }

  /** To be awaited when the disk has answered. Alone: at once. A loop that is slow to look at it is no slow disk. */
  #turn(reading: Reading): Promise<void> | undefined {
    if (this.#running.size < 2 && this.#arrived.length === 0) return undefined;
    if (!mutant("R-lanes-loop")) reading.sinceMs = NEVER;
    return new Promise((resolve) => {
      this.#arrived.push(() => {
        reading.sinceMs = this.#deps.clock.monoMs();
        resolve();
      });
      this.#takeTurn();
    });
  }

  #lane(reading: Reading): Promise<void> {
    return new Promise((begin) => {
      this.#waiting.push({ reading, begin });
      this.#lookLater();
    });
  }

  #hasLane(): boolean {
    const slowSinceMs = this.#deps.clock.monoMs() - SLOW_MS;
    let count = 0;
    for (const { sinceMs } of this.#running) if (sinceMs > slowSinceMs || mutant("R-lanes")) count++;
    return count < LANES;
  }

  #admit(): void {
    while (this.#waiting.length > 0 && this.#hasLane()) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      next.reading.sinceMs = this.#deps.clock.monoMs();
      this.#running.add(next.reading);
      next.begin();
    }
    if (this.#waiting.length > 0) this.#lookLater();
  }

  /** Only while somebody waits. */
  #lookLater(): void {
    if (this.#isLookDue) return;
    this.#isLookDue = true;
    this.#deps.deadlines.add(SLOW_MS, () => {
      this.#isLookDue = false;
      this.#admit();
    });
  }

  #takeTurn(): void {
    if (this.#isTurnDue) return;
    this.#isTurnDue = true;
    this.#afterTurns(mutant("R-turns") ? 1 : TURNS_EACH, () => {
      this.#isTurnDue = false;
      this.#arrived.shift()?.();
      if (this.#arrived.length > 0) this.#takeTurn();
    });
  }

  #afterTurns(turns: number, work: () => void): void {
    this.#deps.defer(turns === 1 ? work : () => this.#afterTurns(turns - 1, work));
  }
}
