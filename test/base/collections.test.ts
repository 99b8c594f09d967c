import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Heap } from "../../src/base/heap.ts";
import { Ring } from "../../src/base/ring.ts";

/** A push of this number, or undefined: take one out; negative: take the youngest out. */
const moves = fc.array(fc.option(fc.integer({ min: -15, max: 30 }), { nil: undefined, freq: 3 }), { maxLength: 200 });
/** A push of this number, or undefined: take one out. */
const steps = fc.array(fc.option(fc.integer({ min: 0, max: 30 }), { nil: undefined, freq: 3 }), { maxLength: 200 });

describe("Ring", () => {
  it("is a queue: agrees with an array under any mix of push, shift and pop", () => {
    fc.assert(
      fc.property(moves, fc.nat(40), (given, looked) => {
        const ring = new Ring<number>();
        const twin: number[] = [];
        for (const move of given) {
          if (move === undefined) expect(ring.shift()).toBe(twin.shift());
          else if (move < 0) expect(ring.pop()).toBe(twin.pop());
          else {
            ring.push(move);
            twin.push(move);
          }
          expect(ring.length).toBe(twin.length);
          expect(ring.peek()).toBe(twin[0]);
          expect(ring.at(looked)).toBe(twin[looked]);
        }
        expect([...ring]).toEqual(twin);
      }),
      { numRuns: 300 },
    );
  });

  it("grows while its content is wrapped round the end, and starts afresh when cleared", () => {
    const ring = new Ring<number>();
    for (let item = 0; item < 16; item++) ring.push(item);
    for (let item = 0; item < 9; item++) expect(ring.shift()).toBe(item);
    for (let item = 16; item < 60; item++) ring.push(item);
    expect([...ring]).toEqual(Array.from({ length: 51 }, (_, index) => index + 9));
    ring.clear();
    expect([ring.length, ring.peek(), ring.shift()]).toEqual([0, undefined, undefined]);
    ring.push(7);
    expect([...ring]).toEqual([7]);
  });

  it("takes 200,000 items in and out at once without slowing down with its length", () => {
    const ring = new Ring<number>();
    for (let item = 0; item < 200_000; item++) ring.push(item);
    let sum = 0;
    for (let item = ring.shift(); item !== undefined; item = ring.shift()) sum += item;
    expect(sum).toBe((200_000 * 199_999) / 2);
  });
});

describe("Heap", () => {
  it("gives the smallest first: agrees with a sorted array under any mix of push and pop", () => {
    fc.assert(
      fc.property(steps, (moves) => {
        const heap = new Heap<number>((left, right) => left < right);
        const twin: number[] = [];
        for (const move of moves) {
          if (move === undefined) expect(heap.pop()).toBe(twin.shift());
          else {
            heap.push(move);
            twin.push(move);
            twin.sort((left, right) => left - right);
          }
          expect(heap.peek()).toBe(twin[0]);
          expect(heap.length).toBe(twin.length);
        }
      }),
      { numRuns: 300 },
    );
  });

  it("with a tie-breaker keeps the order of arrival among equals", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(3), { maxLength: 60 }), (times) => {
        const heap = new Heap<readonly [time: number, order: number]>(
          (left, right) => left[0] < right[0] || (left[0] === right[0] && left[1] < right[1]),
        );
        for (const [order, time] of times.entries()) heap.push([time, order]);
        const out: (readonly [number, number])[] = [];
        for (let top = heap.pop(); top !== undefined; top = heap.pop()) out.push(top);
        const sorted = times
          .map((time, order) => [time, order])
          .sort((left, right) => (left[0] ?? 0) - (right[0] ?? 0) || (left[1] ?? 0) - (right[1] ?? 0));
        expect(out).toEqual(sorted);
      }),
    );
  });
});
