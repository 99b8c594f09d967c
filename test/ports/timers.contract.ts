// What Clock, Timers and Entropy promise, as cases for every adapter.
import { expect } from "vitest";
import type { Clock } from "../../src/ports/clock.ts";
import type { Entropy } from "../../src/ports/entropy.ts";
import type { Timers } from "../../src/ports/timers.ts";
import type { ContractCase } from "./contract.ts";

export interface TimersSubject {
  readonly timers: Timers;
  readonly clock: Clock;
  readonly entropy: Entropy;
}

export const timersContract: readonly ContractCase<TimersSubject>[] = [
  {
    name: "a timer fires once, not before its time and not inside the call that set it",
    async run({ timers, clock }) {
      const startMs = clock.monoMs();
      let fired = 0;
      await new Promise<void>((resolve) => {
        timers.after(20.5, () => {
          fired++;
          resolve();
        });
        expect(fired).toBe(0);
      });
      expect(clock.monoMs() - startMs).toBeGreaterThan(19);
      await new Promise<void>((resolve) => void timers.after(10, resolve));
      expect(fired).toBe(1);
    },
  },
  {
    name: "timers fire in the order of their times",
    async run({ timers }) {
      const order: string[] = [];
      timers.after(30, () => void order.push("late"));
      timers.after(0, () => void order.push("now"));
      timers.after(10, () => void order.push("soon"));
      await new Promise<void>((resolve) => void timers.after(60, resolve));
      expect(order).toEqual(["now", "soon", "late"]);
    },
  },
  {
    name: "a cancelled timer does not fire, and cancelling late is harmless",
    async run({ timers }) {
      let fired = 0;
      const timer = timers.after(5, () => void fired++);
      timer.cancel();
      timer.cancel();
      await new Promise<void>((resolve) => {
        const last = timers.after(20, () => {
          last.cancel();
          resolve();
        });
      });
      expect(fired).toBe(0);
    },
  },
  {
    name: "a deferred call runs later, but before a timer of some time",
    async run({ timers }) {
      const order: string[] = [];
      await new Promise<void>((resolve) => {
        timers.after(500, () => {
          order.push("timer");
          resolve();
        });
        timers.defer(() => void order.push("deferred"));
        order.push("call");
      });
      expect(order).toEqual(["call", "deferred", "timer"]);
    },
  },
  {
    name: "the clocks: one never goes back, the other is whole milliseconds since 1970",
    async run({ timers, clock }) {
      const before = clock.monoMs();
      const wall = clock.wallMs();
      expect(Number.isInteger(wall)).toBe(true);
      expect(wall).toBeGreaterThan(1_600_000_000_000);
      await new Promise<void>((resolve) => void timers.after(5, resolve));
      expect(clock.monoMs()).toBeGreaterThan(before);
    },
  },
  {
    name: "entropy fills every byte, with other bytes each time",
    async run({ entropy }) {
      const first = new Uint8Array(33);
      const second = new Uint8Array(33);
      entropy.fill(first);
      entropy.fill(second);
      expect([...first]).not.toEqual([...second]);
      expect(new Set(first).size).toBeGreaterThan(8);
      entropy.fill(new Uint8Array(0));
    },
  },
];
