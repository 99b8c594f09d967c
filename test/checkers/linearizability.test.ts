// The checker of linearizability: known histories, a naive twin that tries every order, and the time that it takes.
import { describe, expect, it } from "vitest";
import { createRng, type Rng } from "../../src/base/rng.ts";
import { checkLinearizability, type Model, type Operation } from "../../src/checkers/linearizability.ts";
import { processorMs, slowness } from "../speed.ts";

type Op =
  | { readonly kind: "read" }
  | { readonly kind: "write"; readonly value: number }
  | { readonly kind: "cas"; readonly from: number; readonly to: number };
/** What a read saw, what a compare-and-set did. */
type Result = number | boolean;
type RegisterOperation = Operation<Op, Result>;

const REGISTER: Model<number, Op, Result> = {
  initial: 0,
  step: (state, op, result) => {
    switch (op.kind) {
      case "read":
        return result === undefined || result === state ? state : null;
      case "write":
        return op.value;
      case "cas":
        if (result === false) return state === op.from ? null : state;
        if (state === op.from) return op.to;
        return result === undefined ? state : null;
    }
  },
  keyOf: String,
  isRead: (op, result) => op.kind === "read" || result === false,
  effectOf: (op) => JSON.stringify(op),
};

const ok = (invoked: number, ended: number, op: Op, result: Result = true): RegisterOperation => ({
  outcome: "ok",
  op,
  invoked,
  ended,
  result,
});
const lost = (invoked: number, op: Op): RegisterOperation => ({ outcome: "unknown", op, invoked });
const read: Op = { kind: "read" };
const write = (value: number): Op => ({ kind: "write", value });
const cas = (from: number, to: number): Op => ({ kind: "cas", from, to });

const verdictOf = (...operations: readonly RegisterOperation[]) => checkLinearizability(REGISTER, operations).kind;

describe("known histories", () => {
  it("are linearizable when each read sees the last write, or one under way", () => {
    expect(verdictOf()).toBe("linearizable");
    expect(verdictOf(ok(0, 1, write(1)), ok(2, 3, read, 1))).toBe("linearizable");
    expect(verdictOf(ok(0, 5, write(1)), ok(1, 2, read, 0), ok(3, 4, read, 1))).toBe("linearizable");
    expect(verdictOf(ok(0, 3, write(1)), ok(1, 4, write(2)), ok(5, 6, read, 1))).toBe("linearizable");
  });

  it("are not when a read goes back", () => {
    expect(verdictOf(ok(0, 5, write(1)), ok(1, 2, read, 1), ok(3, 4, read, 0))).toBe("not linearizable");
    expect(verdictOf(ok(0, 1, write(1)), ok(2, 3, read, 0))).toBe("not linearizable");
    expect(verdictOf(ok(0, 1, write(1)), ok(2, 3, write(2)), ok(4, 5, read, 1))).toBe("not linearizable");
  });

  it("are not when two readers see two writes in two orders", () => {
    const writes = [ok(0, 9, write(1)), ok(0, 9, write(2))];
    const one = [ok(1, 2, read, 1), ok(3, 4, read, 2)];
    expect(verdictOf(...writes, ...one, ok(5, 6, read, 2))).toBe("linearizable");
    expect(verdictOf(...writes, ...one, ok(5, 6, read, 1))).toBe("not linearizable");
  });

  it("count what ends at the moment at which another begins as concurrent", () => {
    expect(verdictOf(ok(0, 2, write(1)), ok(2, 3, read, 0))).toBe("linearizable");
  });

  it("allow an operation of unknown outcome once, late, or never", () => {
    expect(verdictOf(lost(0, write(1)), ok(1, 2, read, 0))).toBe("linearizable");
    expect(verdictOf(lost(0, write(1)), ok(1, 2, read, 0), ok(3, 4, read, 1))).toBe("linearizable");
    expect(verdictOf(lost(0, write(1)), ok(1, 2, read, 1), ok(3, 4, read, 0))).toBe("not linearizable");
    expect(verdictOf(ok(1, 2, read, 1), lost(3, write(1)))).toBe("not linearizable");
    const twice = [ok(1, 2, read, 1), ok(3, 4, write(2)), ok(5, 6, read, 1)];
    expect(verdictOf(lost(0, write(1)), ...twice)).toBe("not linearizable");
    expect(verdictOf(lost(0, write(1)), lost(0, write(1)), ...twice)).toBe("linearizable");
  });

  it("allow nothing of what failed for sure", () => {
    expect(verdictOf({ outcome: "failed" }, ok(1, 2, read, 1))).toBe("not linearizable");
  });

  it("let one of two compare-and-sets win", () => {
    expect(verdictOf(ok(0, 2, cas(0, 1)), ok(1, 3, cas(0, 2), false))).toBe("linearizable");
    expect(verdictOf(ok(0, 2, cas(0, 1)), ok(1, 3, cas(0, 2)))).toBe("not linearizable");
    // Refused because the value was another one, which it never was.
    expect(verdictOf(ok(0, 2, cas(0, 0)), ok(1, 3, cas(0, 2), false))).toBe("not linearizable");
  });

  it("keep a write that changes nothing now for when it does", () => {
    const back = [ok(0, 9, write(0)), ok(1, 2, write(3)), ok(3, 4, read, 3), ok(5, 6, read, 0)];
    expect(verdictOf(...back)).toBe("linearizable");
  });
});

describe("what is told", () => {
  it("names the operation that no order explains, and the states it met", () => {
    const bad = ok(4, 5, read, 7);
    const verdict = checkLinearizability(REGISTER, [ok(0, 1, write(1)), lost(2, write(2)), bad, ok(6, 7, read, 1)]);
    expect(verdict).toEqual({ kind: "not linearizable", at: bad, states: ["1", "2"] });
  });

  it("is undecided when a bound is met, never a yes or a no", () => {
    const history = randomHistory(createRng(5), { operations: 300, clients: 8, lostShare: 0.3, values: 3 });
    const bad = [...history, ok(10_000, 10_001, read, 99)];
    expect(checkLinearizability(REGISTER, bad, { workMax: 50 }).kind).toBe("undecided");
    expect(checkLinearizability(REGISTER, bad, { placesMax: 50 }).kind).toBe("undecided");
    const crowd = Array.from({ length: 40 }, (_, value) => ok(0, 9, write(value)));
    expect(verdictOf(...crowd)).toBe("undecided");
  });
});

// --- histories as a register makes them

interface Shape {
  readonly operations: number;
  readonly clients: number;
  readonly lostShare: number;
  readonly values: number;
}

function randomOp(rng: Rng, values: number): Op {
  const value = 1 + rng.below(values);
  const kind = rng.below(5);
  if (kind < 3) return read;
  return kind === 3 ? write(value) : cas(rng.below(values + 1), value);
}

/** Clients one operation after the other; each takes effect at some moment in between; some never tell. */
function randomHistory(rng: Rng, { operations, clients, lostShare, values }: Shape): RegisterOperation[] {
  const free = Array.from({ length: clients }, () => 0);
  const planned = Array.from({ length: operations }, () => {
    const client = rng.below(clients);
    const invoked = (free[client] ?? 0) + 1 + rng.below(3);
    const effect = invoked + rng.below(10);
    const ended = effect + rng.below(10);
    free[client] = ended + 1;
    return { op: randomOp(rng, values), invoked, effect, ended, tie: rng.u32(), isLost: rng.chance(lostShare) };
  });
  let state = 0;
  return planned
    .toSorted((left, right) => left.effect - right.effect || left.tie - right.tie)
    .map(({ op, invoked, ended, isLost }): RegisterOperation => {
      if (isLost && rng.chance(0.5)) return lost(invoked, op);
      const before = state;
      if (op.kind === "write") state = op.value;
      if (op.kind === "cas" && state === op.from) state = op.to;
      if (isLost) return lost(invoked, op);
      if (op.kind === "read") return ok(invoked, ended, op, before);
      return ok(invoked, ended, op, op.kind === "write" || before === op.from);
    });
}

/** Another result in one place: mostly, but not always, no longer linearizable. */
function spoilt(rng: Rng, history: readonly RegisterOperation[], values: number): RegisterOperation[] {
  const reads = history.flatMap((each, index) => (each.outcome === "ok" && each.op.kind === "read" ? [index] : []));
  if (reads.length === 0) return [...history];
  const at = rng.pick(reads);
  return history.map((each, index) =>
    index === at && each.outcome === "ok" ? { ...each, result: rng.below(values + 1) } : each,
  );
}

// --- the twin: every order of every choice of lost operations

function naive(operations: readonly RegisterOperation[]): boolean {
  const search = (left: readonly RegisterOperation[], state: number): boolean => {
    if (left.every((each) => each.outcome !== "ok")) return true;
    const firstEnd = Math.min(...left.map((each) => (each.outcome === "ok" ? each.ended : Infinity)));
    return left.some((each, index) => {
      if (each.outcome === "failed" || each.invoked > firstEnd) return false;
      const after = REGISTER.step(state, each.op, each.outcome === "ok" ? each.result : undefined);
      return after !== null && search(left.toSpliced(index, 1), after);
    });
  };
  return search(operations, REGISTER.initial);
}

describe("its naive twin", () => {
  it("agrees on 12,000 small histories", () => {
    const rng = createRng(1);
    const counts = { linearizable: 0, not: 0 };
    for (let round = 0; round < 12_000; round++) {
      const shape = { operations: 1 + rng.below(7), clients: 1 + rng.below(4), lostShare: rng.pick([0, 0.2, 0.5]) };
      const sound = randomHistory(rng, { ...shape, values: 2 });
      const history = rng.chance(0.3) ? sound : spoilt(rng, sound, 2);
      const expected = naive(history);
      if (expected) counts.linearizable++;
      else counts.not++;
      const found = checkLinearizability(REGISTER, history).kind;
      if ((found === "linearizable") !== expected || found === "undecided")
        expect.fail(`round ${round}: ${found}, the twin says ${expected}: ${JSON.stringify(history)}`);
    }
    expect(Math.min(counts.linearizable, counts.not)).toBeGreaterThan(2000);
  });
});

describe("1,000 operations of 8 clients, one in ten of unknown outcome", () => {
  const shape = { operations: 1000, clients: 8, lostShare: 0.1 };
  for (const values of [3, 1000]) {
    it(`are decided within a second of computing, sound or spoilt, with ${values} values`, () => {
      const rng = createRng(values);
      let slowestMs = 0;
      let spoiltFound = 0;
      for (let round = 0; round < 10; round++) {
        const sound = randomHistory(rng, { ...shape, values });
        const isSpoilt = round % 2 === 1;
        const history = isSpoilt ? spoilt(rng, sound, values) : sound;
        let kind = "";
        const tookMs = processorMs(() => {
          ({ kind } = checkLinearizability(REGISTER, history));
        });
        slowestMs = Math.max(slowestMs, tookMs);
        expect(kind).not.toBe("undecided");
        if (!isSpoilt) expect(kind).toBe("linearizable");
        if (kind === "not linearizable") spoiltFound++;
      }
      console.log(`${values} values: slowest ${slowestMs.toFixed(0)} ms, ${spoiltFound} of 5 spoilt ones found`);
      expect(slowestMs / slowness()).toBeLessThan(1000);
    });
  }
});
