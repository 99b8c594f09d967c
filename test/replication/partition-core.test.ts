// The leader's partition core: transcripts of the rules, and random histories against a naive twin.
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import type { LeaderEpoch, NodeId, Offset } from "../../src/model/ids.ts";
import { nextHighWatermark } from "../../src/replication/high-watermark.ts";
import { PartitionCore } from "../../src/replication/partition-core.ts";
import type { PartitionEffect, RequiredAcks, WaitingProduce } from "../../src/replication/types.ts";

const SELF = 1 as NodeId;
const OTHER = 2 as NodeId;

interface LeadOptions {
  readonly epoch?: number;
  readonly end?: number;
  readonly isr?: readonly NodeId[];
  readonly minIsr?: number;
}

function lead(core: PartitionCore<string>, options: LeadOptions = {}): PartitionEffect<string>[] {
  const end = (options.end ?? 0) as Offset;
  return core.step({
    kind: "lead",
    leaderEpoch: (options.epoch ?? 0) as LeaderEpoch,
    isr: options.isr ?? [SELF],
    minIsr: options.minIsr ?? 1,
    ends: { endOffset: end, writtenEnd: end, durableEnd: end, truncations: 0 },
  });
}

function leader(options: LeadOptions = {}): PartitionCore<string> {
  const core = new PartitionCore<string>(SELF);
  lead(core, options);
  return core;
}

function produce(
  core: PartitionCore<string>,
  token: string,
  acks: RequiredAcks,
  recordCount = 1,
): PartitionEffect<string>[] {
  return core.step({ kind: "produce", token, recordCount, acks, leaderEpoch: -1 });
}

const written = (core: PartitionCore<string>, end: number, truncations = 0) =>
  core.step({ kind: "written", endOffset: end as Offset, truncations });
const durable = (core: PartitionCore<string>, end: number, truncations = 0) =>
  core.step({ kind: "durable", endOffset: end as Offset, truncations });

/** Effects as short lines. */
function lines(effects: readonly PartitionEffect<string>[]): string[] {
  return effects.map((effect) => {
    switch (effect.kind) {
      case "append":
        return `append ${effect.token} [${effect.baseOffset}, ${effect.lastOffset}] epoch ${effect.leaderEpoch}`;
      case "answer":
        return `answer ${effect.token} ${effect.error} ${effect.outcome} ${effect.baseOffset ?? "-"}`;
      case "high-watermark":
        return `hw ${effect.highWatermark}`;
    }
  });
}

afterEach(() => activateMutants([]));

describe("transcripts", () => {
  test("offsets end at 2^53 - 1: what would pass it is refused and changes nothing", () => {
    const core = leader({ end: Number.MAX_SAFE_INTEGER - 3 });
    expect(lines(produce(core, "fits", 1, 3))).toHaveLength(1);
    expect(lines(produce(core, "no", 1, 1))).toEqual(["answer no INVALID_RECORD not appended -"]);
    expect(core.endOffset).toBe(Number.MAX_SAFE_INTEGER);
  });

  test("D-36: acks 1 answers when written, acks all when the high watermark passed it, acks 0 never", () => {
    const core = leader({ epoch: 3, end: 10 });
    expect(core.highWatermark).toBe(10);
    expect(lines(produce(core, "all", -1, 5))).toEqual(["append all [10, 14] epoch 3"]);
    expect(lines(produce(core, "one", 1))).toEqual(["append one [15, 15] epoch 3"]);
    expect(lines(produce(core, "zero", 0))).toEqual(["append zero [16, 16] epoch 3"]);
    expect(lines(written(core, 17))).toEqual(["answer one NONE appended 15"]);
    expect(lines(durable(core, 15))).toEqual(["hw 15", "answer all NONE appended 10"]);
    expect(lines(durable(core, 17))).toEqual(["hw 17"]);
    expect(core.waitingCount).toBe(0);
  });

  test("D-35: what is only written never moves the high watermark", () => {
    const core = leader();
    produce(core, "a", -1);
    expect(lines(written(core, 1))).toEqual([]);
    expect(core.highWatermark).toBe(0);
  });

  test("STORAGE_FULL: everything from the refused offset on was not appended, what is below waits on", () => {
    const core = leader();
    produce(core, "a", -1, 2);
    produce(core, "b", 1, 2);
    produce(core, "c", -1, 2);
    written(core, 2);
    const effects = core.step({ kind: "refused", fromOffset: 2 as Offset, truncations: 0 });
    expect(lines(effects)).toEqual(["answer b STORAGE_FULL not appended -", "answer c STORAGE_FULL not appended -"]);
    expect(core.endOffset).toBe(2);
    expect(lines(produce(core, "d", -1))).toEqual(["append d [2, 2] epoch 0"]);
    written(core, 3);
    expect(lines(durable(core, 3))).toEqual(["hw 3", "answer a NONE appended 0", "answer d NONE appended 2"]);
  });

  test("a deadline answers REQUEST_TIMED_OUT with an unknown outcome, once", () => {
    const core = leader();
    const [append] = produce(core, "a", -1);
    const waiting = (append as Extract<PartitionEffect<string>, { kind: "append" }>).waiting as WaitingProduce<string>;
    expect(lines(core.step({ kind: "deadline", waiting }))).toEqual(["answer a REQUEST_TIMED_OUT unknown -"]);
    written(core, 1);
    expect(lines(durable(core, 1))).toEqual(["hw 1"]);
    expect(lines(core.step({ kind: "deadline", waiting }))).toEqual([]);
  });

  test("resigning answers what waits with an unknown outcome and refuses the rest", () => {
    const core = leader();
    produce(core, "a", -1);
    expect(lines(core.step({ kind: "resign", error: "UNKNOWN_TOPIC_OR_PARTITION" }))).toEqual([
      "answer a UNKNOWN_TOPIC_OR_PARTITION unknown -",
    ]);
    expect(lines(produce(core, "b", -1))).toEqual(["answer b NOT_LEADER_OR_FOLLOWER not appended -"]);
  });

  test("B-17 row 4: an older leader epoch is fenced, a newer one unknown", () => {
    const core = leader({ epoch: 4 });
    expect(core.refusalOf(3)).toBe("FENCED_LEADER_EPOCH");
    expect(core.refusalOf(5)).toBe("UNKNOWN_LEADER_EPOCH");
    expect(core.refusalOf(4)).toBeUndefined();
    expect(core.refusalOf(-1)).toBeUndefined();
  });

  test("D-29, R-3: below min ISR nothing is appended with any acks and the high watermark stands still", () => {
    const core = leader({ end: 5, minIsr: 2 });
    expect(core.highWatermark).toBe(0);
    for (const acks of [-1, 0, 1] as const) {
      expect(lines(produce(core, "a", acks))).toEqual(["answer a NOT_ENOUGH_REPLICAS not appended -"]);
    }
  });

  test("D-3: a member of the ISR whose durable end was never validated holds the high watermark", () => {
    const core = leader({ isr: [SELF, OTHER], minIsr: 2 });
    produce(core, "a", -1);
    written(core, 1);
    expect(lines(durable(core, 1))).toEqual([]);
    expect(core.highWatermark).toBe(0);
  });

  test("S-25: while the high watermark is below the epoch's start, latest is not known", () => {
    expect(leader({ end: 5, minIsr: 2 }).knowsLatest).toBe(false);
    expect(leader({ end: 5 }).knowsLatest).toBe(true);
  });

  test("D-1: leading again in the same epoch is a defect", () => {
    const core = leader({ epoch: 2 });
    expect(() => lead(core, { epoch: 2 })).toThrow(/D-1/);
  });

  test("D-34: a completion that carries an older truncation count is void", () => {
    const core = leader();
    produce(core, "a", 1);
    core.step({ kind: "refused", fromOffset: 0 as Offset, truncations: 1 });
    produce(core, "b", 1);
    expect(lines(written(core, 1, 0))).toEqual([]);
    expect(lines(written(core, 1, 1))).toEqual(["answer b NONE appended 0"]);
  });

  test("M1: the planted bug answers acks all before it is durable", () => {
    activateMutants(["M1"]);
    const core = leader();
    produce(core, "a", -1);
    expect(lines(written(core, 1))).toEqual(["answer a NONE appended 0"]);
  });

  test("a completion above what was accepted is a defect", () => {
    expect(() => written(leader(), 1)).toThrow(/accepted/);
  });
});

describe("nextHighWatermark", () => {
  test("D-35: the smallest durable end over the ISR, never falling, only with min ISR", () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(20), { maxLength: 5 }),
        fc.integer({ min: 1, max: 3 }),
        fc.nat(20),
        (durableEnds, minIsr, current) => {
          const next = nextHighWatermark(current, { durableEnds, minIsr });
          const smallest = [...durableEnds].sort((left, right) => left - right)[0] ?? -1;
          const expected = durableEnds.length >= minIsr && smallest > current ? smallest : current;
          expect(next).toBe(expected);
        },
      ),
    );
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
        const core = leader();
        const twin = new Twin();
        const answers: string[] = [];
        const pending = new Map<string, WaitingProduce<string>>();
        const carryOut = (effects: readonly PartitionEffect<string>[]) => {
          for (const effect of effects) {
            if (effect.kind === "append" && effect.waiting !== undefined) pending.set(effect.token, effect.waiting);
            if (effect.kind === "answer") {
              answers.push(`${effect.token} ${effect.error} ${effect.baseOffset ?? "-"}`);
              pending.delete(effect.token);
            }
          }
        };
        commands.forEach((one, index) => {
          const between = (low: number, high: number) =>
            one.kind === "produce" ? low : low + Math.floor(one.part * (high - low + 1 - 1e-9));
          switch (one.kind) {
            case "produce":
              carryOut(produce(core, `p${index}`, one.acks, one.count));
              return twin.produce(`p${index}`, one.acks, one.count);
            case "written": {
              const end = between(twin.writtenEnd, twin.end);
              carryOut(written(core, end));
              return twin.written(end);
            }
            case "durable": {
              const end = between(twin.durableEnd, twin.writtenEnd);
              carryOut(durable(core, end));
              return twin.durable(end);
            }
            case "refused": {
              // Storage refuses at batch boundaries only.
              const bases = twin.waiting.map((item) => item.base).filter((base) => base >= twin.writtenEnd);
              const from = bases[between(0, bases.length - 1)];
              if (from === undefined) return;
              carryOut(core.step({ kind: "refused", fromOffset: from as Offset, truncations: 0 }));
              return twin.refused(from);
            }
            case "deadline": {
              const tokens = [...pending.keys()];
              const token = tokens[between(0, tokens.length - 1)];
              if (token === undefined) return;
              carryOut(core.step({ kind: "deadline", waiting: pending.get(token) as WaitingProduce<string> }));
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
