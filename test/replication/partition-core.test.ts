// One replica alone: who is answered when, what a full disk takes back, and random histories against a naive twin.
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import type { RequiredAcks } from "../../src/replication/types.ts";
import { endsAt, epochsOf, follower, leader, recordOf, Bench } from "./harness.ts";

afterEach(() => activateMutants([]));

describe("producers", () => {
  test("offsets end at 2^53 - 1: what would pass it is refused and changes nothing", () => {
    const bench = leader({ end: Number.MAX_SAFE_INTEGER - 3 });
    expect(bench.produce("fits", 1, 3)).toHaveLength(1);
    expect(bench.produce("no", 1)).toEqual(["answer no INVALID_RECORD not appended -"]);
    expect(bench.core.endOffset).toBe(Number.MAX_SAFE_INTEGER);
  });

  test("D-36, R-38: acks 1 answers when written, acks all when the high watermark passed it, acks 0 never", () => {
    const bench = leader({ epoch: 3, end: 10 });
    expect(bench.core.highWatermark).toBe(10);
    expect(bench.produce("all", -1, 5)).toEqual(["append all [10, 14] epoch 3"]);
    expect(bench.produce("one", 1)).toEqual(["append one [15, 15] epoch 3"]);
    expect(bench.produce("zero", 0)).toEqual(["append zero [16, 16] epoch 3"]);
    expect(bench.written(17)).toEqual(["answer one NONE appended 15"]);
    expect(bench.durable(15)).toEqual(["hw 15", "answer all NONE appended 10"]);
    expect(bench.durable(17)).toEqual(["hw 17"]);
    expect(bench.core.waitingCount).toBe(0);
  });

  test("D-36: the planted bug answers acks 1 before it is written", () => {
    activateMutants(["D-36"]);
    expect(leader().produce("one", 1)).toEqual(["append one [0, 0] epoch 1", "answer one NONE appended 0"]);
  });

  test("M1: the planted bug answers acks all before it is durable", () => {
    activateMutants(["M1"]);
    const bench = leader();
    bench.produce("a", -1);
    expect(bench.written(1)).toEqual(["answer a NONE appended 0"]);
  });

  test("D-35: what is only written never moves the high watermark", () => {
    const bench = leader();
    bench.produce("a", -1);
    expect(bench.written(1)).toEqual([]);
    expect(bench.core.highWatermark).toBe(0);
  });

  test("STORAGE_FULL: everything from the refused offset on was not appended, what is below waits on", () => {
    const bench = leader();
    bench.produce("a", -1, 2);
    bench.produce("b", 1, 2);
    bench.produce("c", -1, 2);
    bench.written(2);
    expect(bench.refused(2)).toEqual(["answer b STORAGE_FULL not appended -", "answer c STORAGE_FULL not appended -"]);
    expect(bench.core.endOffset).toBe(2);
    expect(bench.produce("d", -1)).toEqual(["append d [2, 2] epoch 1"]);
    bench.written(3);
    expect(bench.durable(3)).toEqual(["hw 3", "answer a NONE appended 0", "answer d NONE appended 2"]);
  });

  test("R-41: a deadline answers REQUEST_TIMED_OUT with an unknown outcome, once; the data stays", () => {
    const bench = leader();
    bench.produce("a", -1);
    expect(bench.deadline("a")).toEqual(["answer a REQUEST_TIMED_OUT unknown -"]);
    bench.written(1);
    expect(bench.durable(1)).toEqual(["hw 1"]);
    expect(bench.deadline("a")).toEqual([]);
  });

  test("R-42: standing by answers what waits with an unknown outcome and refuses the rest", () => {
    const bench = leader();
    bench.produce("a", -1);
    expect(bench.step({ kind: "stand-by", error: "UNKNOWN_TOPIC_OR_PARTITION" })).toEqual([
      "answer a UNKNOWN_TOPIC_OR_PARTITION unknown -",
    ]);
    expect(bench.produce("b", -1)).toEqual(["answer b NOT_LEADER_OR_FOLLOWER not appended -"]);
    expect(bench.durable(1)).toEqual([]);
    expect(bench.core.highWatermark).toBe(0);
  });

  test("R-43: a batch that waited in one leader epoch is never answered by the high watermark of another", () => {
    const bench = leader({ epoch: 4 });
    bench.produce("a", -1);
    expect(bench.follow({ epoch: 6 })[0]).toBe("answer a NOT_LEADER_OR_FOLLOWER unknown -");
    bench.lead({ epoch: 7 });
    expect(bench.durable(1)).toEqual(["hw 1"]);
  });

  test("B-17 row 4, R-21: an older leader epoch is fenced, a newer one unknown", () => {
    const { core } = leader({ epoch: 4 });
    expect(core.refusalOf(3)).toBe("FENCED_LEADER_EPOCH");
    expect(core.refusalOf(5)).toBe("UNKNOWN_LEADER_EPOCH");
    expect(core.refusalOf(4)).toBeUndefined();
    expect(core.refusalOf(-1)).toBeUndefined();
    const following = follower({ epoch: 4 }).core;
    expect(following.refusalOf(4)).toBe("NOT_LEADER_OR_FOLLOWER");
    expect(following.produceRefusalOf(4)).toBe("NOT_LEADER_OR_FOLLOWER");
  });

  test("D-29, R-3: below min ISR nothing is appended with any acks and the high watermark stands still", () => {
    const bench = leader({ end: 5, minIsr: 2 });
    expect(bench.core.highWatermark).toBe(0);
    for (const acks of [-1, 0, 1] as const)
      expect(bench.produce("a", acks)).toEqual(["answer a NOT_ENOUGH_REPLICAS not appended -"]);
  });

  test("D-29: where the topic allows it by name, acks 0 and 1 are taken below min ISR and stay invisible; acks all is refused", () => {
    const bench = leader({ end: 5, minIsr: 2 });
    expect(bench.produce("one", 1, 1, true)).toEqual(["append one [5, 5] epoch 1"]);
    expect(bench.produce("zero", 0, 1, true)).toEqual(["append zero [6, 6] epoch 1"]);
    expect(bench.produce("all", -1, 1, true)).toEqual(["answer all NOT_ENOUGH_REPLICAS not appended -"]);
    expect(bench.durable(7)).toEqual(["answer one NONE appended 5"]);
    expect(bench.core.highWatermark).toBe(0);
  });

  test("D-29: the planted bug takes acks 1 below min ISR without being told", () => {
    activateMutants(["D-29"]);
    expect(leader({ minIsr: 2 }).produce("one", 1)).toEqual(["append one [0, 0] epoch 1"]);
  });
});

describe("roles and the log", () => {
  test("S-25, invariant 10: while the high watermark is below the epoch's start, latest is not known", () => {
    expect(leader({ end: 5, minIsr: 2 }).core.knowsLatest).toBe(false);
    expect(leader({ end: 5 }).core.knowsLatest).toBe(true);
    expect(follower({ end: 5 }).core.knowsLatest).toBe(false);
    activateMutants(["M30"]);
    expect(leader({ end: 5, minIsr: 2 }).core.knowsLatest).toBe(true);
  });

  test("D-1: leading again in the same epoch is a defect", () => {
    const bench = leader({ epoch: 2 });
    const record = recordOf({ epoch: 2 });
    expect(() => bench.step({ kind: "lead", record, eligible: bench.eligible, nowMs: 0 })).toThrow(/D-1/);
  });

  test("R-9: leading in an epoch that the log has not opened is a defect", () => {
    const bench = new Bench();
    bench.load();
    const record = recordOf({ epoch: 2 });
    expect(() => bench.step({ kind: "lead", record, eligible: bench.eligible, nowMs: 0 })).toThrow(/R-9/);
  });

  test("R-12: an epoch that was opened and never led in is part of the history", () => {
    const bench = new Bench();
    bench.load({ end: 5, epochs: epochsOf([1, 0]) });
    bench.step({ kind: "epoch-opened", leaderEpoch: recordOf({ epoch: 3 }).leaderEpoch });
    expect(bench.follow({ epoch: 4 })).toEqual(["fetch 5 last 3 of node 2 epoch 4 first"]);
  });

  test("D-34: a completion that carries an older truncation count is void", () => {
    const bench = leader();
    bench.produce("a", 1);
    bench.refused(0, 1);
    bench.produce("b", 1);
    expect(bench.written(1, 0)).toEqual([]);
    expect(bench.written(1, 1)).toEqual(["answer b NONE appended 0"]);
  });

  test("a completion above what was accepted is a defect", () => {
    expect(() => leader().written(1)).toThrow(/accepted/);
  });

  test("D-7: a stored high watermark above what is durable, or below the log start, proves nothing", () => {
    const bench = new Bench();
    bench.load({ ends: { ...endsAt(9), durableEnd: endsAt(4).endOffset }, highWatermark: 7 });
    expect(bench.core.highWatermark).toBe(4);
    bench.load({ end: 9, start: 5, highWatermark: 0 });
    expect(bench.core.highWatermark).toBe(5);
  });

  test("describe: a follower knows only itself", () => {
    const bench = follower({ end: 5 });
    const own = { nodeId: 1, endOffset: 5, durableEnd: 5, caughtUpMsAgo: -1, isInSync: true };
    expect(bench.core.describe(0)).toMatchObject({ leaderEpoch: 3, endOffset: 5, replicas: [own] });
  });
});

/** The same rules with no cleverness: one list, looked through every time. */
class Twin {
  end = 0;
  writtenEnd = 0;
  durableEnd = 0;
  hw = 0;
  waiting: { token: string; acks: RequiredAcks; base: number; end: number }[] = [];
  readonly answers: string[] = [];

  produce(token: string, acks: RequiredAcks, count: number): void {
    this.waiting.push({ token, acks, base: this.end, end: this.end + count });
    this.end += count;
  }
  #answerWhere(is: (item: Twin["waiting"][number]) => boolean, text: (item: Twin["waiting"][number]) => string): void {
    for (const item of this.waiting.filter((one) => one.acks !== 0 && is(one)))
      this.answers.push(`${item.token} ${text(item)}`);
    this.waiting = this.waiting.filter((one) => !is(one));
  }
  written(end: number): void {
    this.writtenEnd = end;
    this.#answerWhere(
      (item) => item.acks === 1 && item.end <= end,
      (item) => `NONE ${item.base}`,
    );
  }
  durable(end: number): void {
    this.durableEnd = end;
    this.hw = end;
    this.#answerWhere(
      (item) => item.acks === -1 && item.end <= end,
      (item) => `NONE ${item.base}`,
    );
  }
  refused(from: number): void {
    this.end = from;
    this.#answerWhere(
      (item) => item.end > from,
      () => "STORAGE_FULL -",
    );
  }
  deadline(token: string): void {
    this.#answerWhere(
      (item) => item.token === token,
      () => "REQUEST_TIMED_OUT -",
    );
  }
}

type Command =
  | { readonly kind: "produce"; readonly acks: RequiredAcks; readonly count: number }
  | { readonly kind: "written" | "durable" | "refused" | "deadline"; readonly part: number };

const part = fc.double({ min: 0, max: 1, noNaN: true });
const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("produce" as const),
      acks: fc.constantFrom(-1 as const, 0 as const, 1 as const),
      count: fc.integer({ min: 1, max: 4 }),
    }),
  },
  { weight: 5, arbitrary: fc.record({ kind: fc.constantFrom("written" as const, "durable" as const), part }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom("refused" as const, "deadline" as const), part }) },
);

describe("random histories", () => {
  test("D-34: ends, high watermark and every answer equal those of a naive twin", () => {
    fc.assert(
      fc.property(fc.array(command, { maxLength: 60 }), (commands) => {
        const bench = leader();
        const { core } = bench;
        const twin = new Twin();
        const answers: string[] = [];
        const carryOut = (lines: readonly string[]) => {
          for (const line of lines) {
            const [kind, token = "", error = ""] = line.split(" ");
            if (kind !== "answer") continue;
            answers.push(`${token} ${error} ${line.split(" ").at(-1) ?? ""}`);
            bench.waiting.delete(token);
          }
        };
        commands.forEach((one, index) => {
          const between = (low: number, high: number) =>
            one.kind === "produce" ? low : low + Math.floor(one.part * (high - low + 1 - 1e-9));
          switch (one.kind) {
            case "produce":
              carryOut(bench.produce(`p${index}`, one.acks, one.count));
              return twin.produce(`p${index}`, one.acks, one.count);
            case "written": {
              const end = between(twin.writtenEnd, twin.end);
              carryOut(bench.written(end));
              return twin.written(end);
            }
            case "durable": {
              const end = between(twin.durableEnd, twin.writtenEnd);
              carryOut(bench.durable(end));
              return twin.durable(end);
            }
            case "refused": {
              // Storage refuses at batch boundaries only.
              const bases = twin.waiting.map((item) => item.base).filter((base) => base >= twin.writtenEnd);
              const from = bases[between(0, bases.length - 1)];
              if (from === undefined) return;
              carryOut(bench.refused(from));
              return twin.refused(from);
            }
            case "deadline": {
              const tokens = [...bench.waiting.keys()];
              const token = tokens[between(0, tokens.length - 1)];
              if (token === undefined) return;
              carryOut(bench.deadline(token));
              return twin.deadline(token);
            }
          }
        });
        expect([core.endOffset, core.writtenEnd, core.durableEnd, core.highWatermark]).toEqual([
          twin.end,
          twin.writtenEnd,
          twin.durableEnd,
          twin.hw,
        ]);
        expect([...answers].sort()).toEqual([...twin.answers].sort());
      }),
      { numRuns: 500 },
    );
  });
});
