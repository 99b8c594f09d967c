// Every deadline on one timer.
import { describe, expect, test } from "vitest";
import { Deadlines } from "../../src/base/deadlines.ts";
import type { Timers } from "../../src/ports/timers.ts";

/** A clock and timers that move by hand; a poll turn is run by hand too. */
class Hand {
  nowMs = 0;
  readonly #timers: { atMs: number; run: () => void; isOver: boolean }[] = [];
  readonly #deferred: (() => void)[] = [];
  set = 0;

  readonly deadlines: Deadlines;

  constructor() {
    const timers: Timers = {
      after: (delayMs, run) => {
        this.set++;
        const timer = { atMs: this.nowMs + delayMs, run, isOver: false };
        this.#timers.push(timer);
        return {
          cancel: () => {
            timer.isOver = true;
          },
        };
      },
      defer: (run) => void this.#deferred.push(run),
    };
    this.deadlines = new Deadlines({ clock: { monoMs: () => this.nowMs }, timers });
  }

  get armed(): number {
    return this.#timers.filter((timer) => !timer.isOver).length;
  }

  /** Jumps to a time at once, as a loop does that was blocked. */
  jump(toMs: number): void {
    this.nowMs = toMs;
    for (;;) {
      const due = this.#timers.find((timer) => !timer.isOver && timer.atMs <= this.nowMs);
      if (due === undefined) return;
      due.isOver = true;
      due.run();
    }
  }

  /** Lets time pass without a gap. */
  walk(toMs: number): void {
    while (this.nowMs < toMs) this.jump(this.nowMs + 1);
  }

  turn(): void {
    for (const run of this.#deferred.splice(0)) run();
  }
}

describe("deadlines", () => {
  test("fire in order, at their time or up to a tick later, on one timer", () => {
    const hand = new Hand();
    const fired: [string, number][] = [];
    for (const [name, durationMs] of [
      ["b", 100],
      ["a", 50],
      ["c", 101],
    ] as const) {
      hand.deadlines.add(durationMs, () => fired.push([name, hand.nowMs]));
      expect(hand.armed).toBe(1);
    }
    hand.walk(49);
    expect(fired).toEqual([]);
    hand.walk(200);
    hand.turn();
    expect(fired.map(([name]) => name)).toEqual(["a", "b", "c"]);
    const dues = { a: 50, b: 100, c: 101 } as Record<string, number>;
    for (const [name, atMs] of fired) expect(atMs - (dues[name] ?? 0)).toBeGreaterThanOrEqual(0);
    for (const [name, atMs] of fired) expect(atMs - (dues[name] ?? 0)).toBeLessThanOrEqual(4);
    expect(hand.armed).toBe(0);
  });

  test("a cancelled one never fires and leaves the others in its bucket alone", () => {
    const hand = new Hand();
    const fired: number[] = [];
    const all = Array.from({ length: 50 }, (_, index) => hand.deadlines.add(20, () => fired.push(index)));
    for (const index of [0, 7, 49, 8, 7]) all[index]?.cancel();
    hand.walk(30);
    expect([...fired].sort((left, right) => left - right)).toEqual(
      Array.from({ length: 50 }, (_, index) => index).filter((index) => ![0, 7, 8, 49].includes(index)),
    );
  });

  test("many deadlines of one tick share its timer", () => {
    const hand = new Hand();
    for (let index = 0; index < 10_000; index++) hand.deadlines.add(30_000, () => undefined).cancel();
    expect(hand.set).toBe(1);
  });

  test("D-22: an expiry that comes late because the loop was late gets one full poll turn more, once", () => {
    const hand = new Hand();
    const fired: string[] = [];
    const saved = hand.deadlines.add(100, () => fired.push("saved"));
    hand.deadlines.add(100, () => fired.push("expired"));
    hand.deadlines.add(1_000, () => fired.push("in time"));
    hand.jump(1_001);
    // The loop was 900 ms late for the first two: what they wait for may be ready, and is for one of them.
    expect(fired).toEqual(["in time"]);
    saved.cancel();
    hand.turn();
    expect(fired).toEqual(["in time", "expired"]);
  });

  test("nothing fires after a stop", () => {
    const hand = new Hand();
    hand.deadlines.add(10, () => expect.unreachable());
    hand.deadlines.stop();
    hand.walk(100);
    hand.turn();
    expect(hand.armed).toBe(0);
  });
});
