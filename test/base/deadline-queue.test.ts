import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DeadlineQueue } from "../../src/base/deadline-queue.ts";

describe("DeadlineQueue", () => {
  it("gives what is due, earliest first, ties in the order they came", () => {
    const queue = new DeadlineQueue<string>();
    for (const [timeMs, item] of [
      [3, "c"],
      [1, "a"],
      [3, "d"],
      [2, "b"],
    ] as const)
      queue.add(timeMs, item);
    expect(queue.nextMs).toBe(1);
    expect([queue.takeDue(3), queue.takeDue(3), queue.takeDue(3), queue.takeDue(3)]).toEqual(["a", "b", "c", "d"]);
    expect(queue.takeDue(3)).toBeUndefined();
    expect(queue.nextMs).toBeUndefined();
  });

  it("behaves as a sorted list under any mix of adding, cancelling and taking", () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constant("add" as const), timeMs: fc.nat(50) }),
      fc.record({ kind: fc.constant("cancel" as const), which: fc.nat(1_000) }),
      fc.record({ kind: fc.constant("take" as const), nowMs: fc.nat(50) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
        const queue = new DeadlineQueue<number>();
        const handles: ReturnType<typeof queue.add>[] = [];
        let twin: { timeMs: number; id: number }[] = [];
        for (const each of steps) {
          if (each.kind === "add") {
            twin.push({ timeMs: each.timeMs, id: handles.length });
            handles.push(queue.add(each.timeMs, handles.length));
          } else if (each.kind === "cancel" && handles.length > 0) {
            const id = each.which % handles.length;
            queue.cancel(handles[id] as (typeof handles)[number]);
            twin = twin.filter((entry) => entry.id !== id);
          } else if (each.kind === "take") {
            const first = twin.toSorted((left, right) => left.timeMs - right.timeMs || left.id - right.id)[0];
            const expected = first !== undefined && first.timeMs <= each.nowMs ? first.id : undefined;
            expect(queue.takeDue(each.nowMs)).toBe(expected);
            twin = twin.filter((entry) => entry.id !== expected);
          }
          expect(queue.length).toBe(twin.length);
        }
      }),
    );
  });

  it("does not grow with what is cancelled", () => {
    const queue = new DeadlineQueue<object>();
    const kept = queue.add(1, { kept: true });
    for (let count = 0; count < 100_000; count++) queue.cancel(queue.add(2 + count, {}));
    expect(queue.length).toBe(1);
    expect(queue.nextMs).toBe(1);
    expect(queue.takeDue(1)).toEqual({ kept: true });
    expect(kept.item).toBeUndefined();
  });
});
