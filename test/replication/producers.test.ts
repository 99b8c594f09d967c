// Producers with an id: what is appended, what is answered with the offset of the original and when, what is refused; and that the table follows the
// log through everything that happens to it (invariant 25).
import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import { PRODUCER_UNDO_MAX, ProducerTable } from "../../src/model/producer-table.ts";
import { naiveProducers } from "../model/naive-producers.ts";
import {
  Bench,
  endsAt,
  epochsOf,
  fetchedBatch,
  follower,
  leader,
  producersAt,
  type Sequence,
  sequencedBatch,
} from "./harness.ts";

afterEach(() => activateMutants([]));

const PAIR = { isr: [1, 2], minIsr: 2 };
const A = 7;

/** Led in epoch 3, [0, 10) committed; then a: 2 records, b: 3 records of producer 7, on this disk only. */
function withTwo(): Bench {
  const bench = leader({ ...PAIR, epoch: 3, end: 10 });
  bench.holds(2, 10);
  bench.send("a", 2, [A, 0, 0]);
  bench.send("b", 3, [A, 0, 2]);
  bench.durable(15);
  return bench;
}

const answersIn = (lines: readonly string[]) => lines.filter((line) => line.startsWith("answer"));

describe("a batch that is sent again", () => {
  test("P-2: is answered with the offset of the original at once, when that is committed", () => {
    const bench = withTwo();
    bench.holds(2, 15);
    expect(bench.send("a2", 2, [A, 0, 0])).toEqual(["duplicate a2 of what is committed", "answer a2 NONE appended 10"]);
    expect(bench.send("b2", 3, [A, 0, 2])).toEqual(["duplicate b2 of what is committed", "answer b2 NONE appended 12"]);
    expect(bench.core.endOffset).toBe(15);
    expect(bench.core.waitingCount).toBe(0);
  });

  test("P-15: waits for the original, and not for what came after it", () => {
    const bench = withTwo();
    bench.send("c", 1, [A, 0, 5]);
    expect(bench.send("b2", 3, [A, 0, 2])).toEqual(["duplicate b2 of 12"]);
    expect(bench.send("a2", 2, [A, 0, 0])).toEqual(["duplicate a2 of 10"]);
    expect(bench.core.waitingCount).toBe(5);
    expect(bench.holds(2, 12)).toContain("answer a2 NONE appended 10");
    expect(answersIn(bench.holds(2, 15))).toEqual(["answer b NONE appended 12", "answer b2 NONE appended 12"]);
    expect(bench.core.waitingCount).toBe(1);
  });

  test("R-40, R-41: is timed out as any other", () => {
    const bench = withTwo();
    bench.send("a2", 2, [A, 0, 0]);
    expect(bench.deadline("a2")).toEqual(["answer a2 REQUEST_TIMED_OUT unknown -"]);
    expect(answersIn(bench.holds(2, 15))).toEqual(["answer a NONE appended 10", "answer b NONE appended 12"]);
    expect(bench.deadline("a2")).toEqual([]);
  });

  test("R-42: and nobody knows of it when the role ends", () => {
    const bench = withTwo();
    bench.send("a2", 2, [A, 0, 0]);
    const told = bench.step({ kind: "stand-by", error: "NOT_LEADER_OR_FOLLOWER" });
    expect(told).toContain("answer a2 NOT_LEADER_OR_FOLLOWER unknown -");
    expect(bench.core.waitingCount).toBe(0);
  });

  test("is answered by the high watermark of the next leader, or with unknown where the original is cut", () => {
    const bench = withTwo();
    bench.send("b2", 3, [A, 0, 2]);
    bench.send("a2", 2, [A, 0, 0]);
    bench.follow({ ...PAIR, epoch: 4 });
    expect(answersIn(bench.fetched({ epoch: 4, diverging: [3, 12] }))).toEqual([
      "answer b NOT_LEADER_OR_FOLLOWER unknown -",
      "answer b2 NOT_LEADER_OR_FOLLOWER unknown -",
    ]);
    bench.truncated(12, 1, epochsOf([3, 0]));
    expect(answersIn(bench.fetched({ epoch: 4, hw: 12 }))).toEqual([
      "answer a NONE appended 10",
      "answer a2 NONE appended 10",
    ]);
  });

  test("STORAGE_FULL: goes with its original, whose sequence may then be sent again", () => {
    const bench = leader({ end: 10 });
    bench.send("a", 2, [A, 0, 0]);
    bench.send("a2", 2, [A, 0, 0]);
    expect(answersIn(bench.refused(10))).toEqual([
      "answer a STORAGE_FULL not appended -",
      "answer a2 STORAGE_FULL not appended -",
    ]);
    expect(bench.send("a3", 2, [A, 0, 0])).toEqual(["append a3 [10, 11] epoch 1"]);
  });

  test("with other records is refused, and nothing of it is appended; what is next goes on", () => {
    const bench = withTwo();
    expect(bench.send("x", 2, [A, 0, 0, 99])).toEqual(["answer x SEQUENCE_NUMBER_TAKEN not appended -"]);
    expect(bench.send("y", 3, [A, 0, 2, 99], -1, true)).toEqual(["answer y SEQUENCE_NUMBER_TAKEN not appended -"]);
    expect(bench.core.endOffset).toBe(15);
    expect(bench.send("c", 1, [A, 0, 5, 99])).toEqual(["append c [15, 15] epoch 3"]);
  });

  test("D-15c: the planted bug answers it with the offset of the others", () => {
    activateMutants(["D-15c"]);
    expect(withTwo().send("x", 2, [A, 0, 0, 99])).toEqual(["duplicate x of 10"]);
  });

  test("below min ISR: is never said not to be appended, what is new is", () => {
    const bench = withTwo();
    bench.holds(2, 12);
    bench.record({ ...PAIR, isr: [1], epoch: 3, partitionEpoch: 1, replicas: [1, 2] });
    expect(bench.send("a2", 2, [A, 0, 0])).toEqual(["duplicate a2 of what is committed", "answer a2 NONE appended 10"]);
    expect(bench.send("b2", 3, [A, 0, 2])).toEqual(["duplicate b2 of 12"]);
    expect(bench.send("c", 1, [A, 0, 5])).toEqual(["answer c NOT_ENOUGH_REPLICAS not appended -"]);
    expect(bench.send("d", 1, [A, 0, 9])).toEqual(["answer d NOT_ENOUGH_REPLICAS not appended -"]);
    expect(bench.deadline("b2")).toEqual(["answer b2 NOT_ENOUGH_REPLICAS_AFTER_APPEND unknown -"]);
  });

  test("D-34: a cut that the log could not make leaves its table as it was: another core begins again from both", () => {
    const batches = [fetchedBatch(10, 11, 3, [A, 0, 0]), fetchedBatch(12, 14, 3, [A, 0, 2])];
    const producers = producersAt(10, 0);
    const bench = follower({ end: 10, epochs: epochsOf([3, 0]), producers });
    bench.fetched({ hw: 10, batches });
    expect(bench.follow({ epoch: 4 })).toEqual(["fetch 15 last 3 of node 2 epoch 4 first"]);
    expect(bench.fetched({ epoch: 4, diverging: [3, 12] })).toEqual(["truncate 12"]);
    expect(producers.endOffset).toBe(15);
    const again = follower({ end: 15, epochs: epochsOf([3, 0]), producers, highWatermark: 10 });
    again.lead({ ...PAIR, epoch: 5 });
    expect(again.send("b2", 3, [A, 0, 2])).toEqual(["duplicate b2 of 12"]);
  });

  test("P-9: is known to a leader that had it from another one, and to one that has been restarted", () => {
    const batches = [fetchedBatch(10, 11, 3, [A, 0, 0]), fetchedBatch(12, 14, 3, [A, 0, 2])];
    const bench = follower({ end: 10, epochs: epochsOf([3, 0]) });
    bench.fetched({ hw: 10, batches });
    bench.durable(15);
    bench.lead({ ...PAIR, epoch: 4 });
    expect(bench.send("b2", 3, [A, 0, 2])).toEqual(["duplicate b2 of 12"]);
    const producers = producersAt(15, 0);
    expect(producers.equals(bench.core.producers)).toBe(false);
    const again = new Bench();
    const image = ProducerTable.decode(bench.core.producers.encode(), 15) as ProducerTable;
    again.load({ end: 15, epochs: epochsOf([3, 0]), highWatermark: 15, producers: image });
    again.lead({ epoch: 5 });
    expect(again.send("a2", 2, [A, 0, 0])).toEqual(["duplicate a2 of what is committed", "answer a2 NONE appended 10"]);
  });

  test("P-15: is appended once more after its original was cut", () => {
    const bench = withTwo();
    bench.follow({ ...PAIR, epoch: 4 });
    bench.fetched({ epoch: 4, diverging: [3, 12] });
    bench.truncated(12, 1, epochsOf([3, 0]));
    bench.lead({ epoch: 5 });
    expect(bench.send("b2", 3, [A, 0, 2])).toEqual(["append b2 [12, 14] epoch 5"]);
  });
});

describe("a first batch that is sent again", () => {
  const filled = (ids: readonly number[]) => {
    const producers = new ProducerTable(0, 2);
    for (const [at, producerId] of ids.entries())
      producers.observe({ producerId, producerEpoch: 0, baseSequence: 0, baseOffset: at, lastOffset: at, crc: 0 });
    const bench = new Bench();
    bench.load({ end: ids.length, epochs: epochsOf([3, 0]), highWatermark: ids.length, producers });
    bench.lead({ epoch: 4 });
    return bench;
  };

  test("is appended where nobody was forgotten that its producer could be", () => {
    expect(filled([]).send("a2", 1, [A, 0, 0], -1, true)).toEqual(["append a2 [0, 0] epoch 4"]);
    expect(filled([A - 1, 20, 21]).send("a2", 1, [A, 0, 0], -1, true)).toEqual(["append a2 [3, 3] epoch 4"]);
  });

  test("is refused where its producer may have been forgotten, in any epoch; but not when it is sent for the first time", () => {
    const refused = ["answer a2 UNKNOWN_PRODUCER_ID not appended -"];
    expect(filled([A, 20, 21]).send("a2", 1, [A, 0, 0], -1, true)).toEqual(refused);
    expect(filled([A, 20, 21]).send("a2", 1, [A, 1, 0], -1, true)).toEqual(refused);
    expect(filled([A + 1, 20, 21]).send("a2", 1, [A, 0, 0], -1, true)).toEqual(refused);
    expect(filled([A, 20, 21]).send("a", 1, [A, 1, 0])).toEqual(["append a [3, 3] epoch 4"]);
  });

  test("D-15f: the planted bug appends it once more", () => {
    activateMutants(["D-15f"]);
    expect(filled([A, 20, 21]).send("a2", 1, [A, 0, 0], -1, true)).toEqual(["append a2 [3, 3] epoch 4"]);
  });
});

describe("what is refused", () => {
  test.each<readonly [string, Sequence, string]>([
    ["P-3: a gap", [A, 0, 6], "OUT_OF_ORDER_SEQUENCE_NUMBER"],
    ["P-4: an epoch that does not begin at 0", [A, 1, 5], "OUT_OF_ORDER_SEQUENCE_NUMBER"],
    ["a producer that nothing is known of, with something before this", [8, 0, 5], "UNKNOWN_PRODUCER_ID"],
  ])("%s", (_, sequence, error) => {
    const bench = withTwo();
    expect(bench.send("x", 1, sequence)).toEqual([`answer x ${error} not appended -`]);
    expect(bench.core.endOffset).toBe(15);
  });

  test("P-4: an older epoch", () => {
    const bench = withTwo();
    bench.send("c", 1, [A, 1, 0]);
    expect(bench.send("x", 1, [A, 0, 5])).toEqual(["answer x INVALID_PRODUCER_EPOCH not appended -"]);
  });

  test.each([0, 1] as const)("D-28: a sequence with acks %i", (acks) => {
    const bench = leader();
    expect(bench.send("x", 1, [A, 0, 0], acks)).toEqual(["answer x INVALID_REQUEST not appended -"]);
    expect(bench.core.producers.size).toBe(0);
  });

  test("a leader that is none says so, whatever the sequence is", () => {
    const bench = follower({ end: 10, epochs: epochsOf([0, 0]) });
    expect(bench.send("x", 1, [A, 0, 9])).toEqual(["answer x NOT_LEADER_OR_FOLLOWER not appended -"]);
  });

  test("acks 0 and 1 have no sequence, and are appended whatever producers do", () => {
    const bench = withTwo();
    expect(bench.produce("one", 1)).toEqual(["append one [15, 15] epoch 3"]);
    expect(bench.produce("zero", 0)).toEqual(["append zero [16, 16] epoch 3"]);
    expect(bench.send("c", 1, [A, 0, 5])).toEqual(["append c [17, 17] epoch 3"]);
  });
});

describe("a table that cannot go back any more", () => {
  test("D-9: a log that is to be cut below where its image ends is damaged", () => {
    const producers = new ProducerTable(8);
    producers.advance(10);
    const bench = follower({ end: 10, epochs: epochsOf([0, 0], [2, 7]), highWatermark: 5, producers });
    expect(bench.fetched({ diverging: [0, 7] })).toEqual([
      "damaged: leader epoch 3 asks to cut at 7, what its producers were is known from 8 on",
    ]);
    expect(bench.core.role).toBe("stand-by");
  });

  test("and a full disk that takes back more than the table can makes it damaged", () => {
    const bench = leader({ end: 10 });
    for (let at = 0; at < PRODUCER_UNDO_MAX + 2; at++) bench.core.step(produceOf(at));
    const told = bench.refused(10);
    expect(told.at(-1)).toBe("damaged: what its producers were at 10 is not known any more");
    expect(answersIn(told)).toHaveLength(PRODUCER_UNDO_MAX + 2);
    expect(bench.core.role).toBe("stand-by");
    expect(bench.core.producers.size).toBe(0);
  });
});

const produceOf = (at: number) =>
  ({
    kind: "produce",
    token: `p${at}`,
    recordCount: 1,
    acks: -1,
    leaderEpoch: -1,
    producerId: A,
    producerEpoch: 0,
    baseSequence: at,
    crc: 0,
    isResent: false,
  }) as const;

type Step =
  | { readonly kind: "send"; readonly producer: number; readonly records: number; readonly back: number }
  | { readonly kind: "plain"; readonly records: number }
  | { readonly kind: "durable" | "refuse" | "cut" | "commit"; readonly part: number }
  | { readonly kind: "fetch"; readonly producer: number; readonly records: number }
  | { readonly kind: "lead" | "follow" | "restart" };

const part = fc.double({ min: 0, max: 1, noNaN: true });
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("send" as const),
      producer: fc.integer({ min: 1, max: 3 }),
      records: fc.integer({ min: 1, max: 3 }),
      // How many batches before the next one: 0 is new.
      back: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, { weight: 2, arbitrary: fc.nat(7) }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("plain" as const), records: fc.integer({ min: 1, max: 3 }) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("fetch" as const),
      producer: fc.nat(3),
      records: fc.integer({ min: 1, max: 3 }),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constantFrom("durable" as const, "refuse" as const, "cut" as const, "commit" as const),
      part,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constantFrom("lead" as const, "follow" as const, "restart" as const) }),
  },
);

/** One replica, its log as a list of batches, and what each producer has sent so far. */
class History {
  bench = new Bench();
  log: ReturnType<typeof sequencedBatch>[] = [];
  #tokens = 0;
  #epoch = 1;
  #truncations = 0;
  /** Base sequence and size of what was sent, by producer. */
  readonly #sent = new Map<number, { readonly sequence: number; readonly records: number }[]>();

  constructor() {
    this.bench.load();
    this.bench.lead({ epoch: 1 });
  }

  play(one: Step): void {
    const { core } = this.bench;
    const between = (low: number, high: number, at: number) => low + Math.floor(at * (high - low + 1 - 1e-9));
    switch (one.kind) {
      case "send":
        return this.#send(one);
      case "plain":
        if (core.isLeader) this.#append(this.bench.produce(`t${this.#tokens++}`, -1, one.records), [-1, -1, -1]);
        return undefined;
      case "durable":
        this.bench.durable(between(core.durableEnd, core.endOffset, one.part), this.#truncations);
        return undefined;
      case "refuse": {
        const places = [...this.log.map(({ baseOffset }) => baseOffset), core.endOffset];
        const from = places.filter((place) => place >= core.writtenEnd)[0] ?? core.endOffset;
        this.bench.refused(from, this.#truncations);
        this.log = this.log.filter(({ lastOffset }) => lastOffset < from);
        return undefined;
      }
      case "cut":
        return this.#cut(one.part);
      case "commit":
        if (core.isFollower) this.bench.fetched({ hw: between(core.highWatermark, core.endOffset, one.part) });
        return undefined;
      case "fetch":
        return this.#fetch(one);
      case "lead":
        this.bench.durable(core.endOffset, this.#truncations);
        this.bench.lead({ epoch: ++this.#epoch });
        return undefined;
      case "follow":
        this.bench.follow({ epoch: ++this.#epoch });
        return undefined;
      case "restart":
        return this.#restart();
    }
  }

  #send({ producer, records, back }: Extract<Step, { kind: "send" }>): void {
    if (!this.bench.core.isLeader) return;
    const sent = this.#sent.get(producer) ?? [];
    this.#sent.set(producer, sent);
    const known = naiveProducers(this.log).find(({ producerId }) => producerId === producer);
    const last = known?.batches.at(-1);
    const next = last === undefined ? 0 : last.baseSequence + last.lastOffset - last.baseOffset + 1;
    const batch = back === 0 ? { sequence: next, records } : (sent.at(-back) ?? { sequence: next, records });
    if (back === 0) sent.push(batch);
    const token = `t${this.#tokens++}`;
    const lines = this.bench.send(token, batch.records, [producer, 0, batch.sequence]);
    const original = known?.batches.find(
      ({ baseSequence, baseOffset, lastOffset }) =>
        baseSequence === batch.sequence && lastOffset - baseOffset + 1 === batch.records,
    );
    if (original !== undefined) {
      const isCommitted = this.bench.core.highWatermark > original.lastOffset;
      expect(lines[0]).toBe(`duplicate ${token} of ${isCommitted ? "what is committed" : original.baseOffset}`);
      if (isCommitted) expect(lines[1]).toBe(`answer ${token} NONE appended ${original.baseOffset}`);
    } else this.#append(lines, [producer, 0, batch.sequence]);
  }

  #append(lines: readonly string[], sequence: Sequence): void {
    const found = /^append \S+ \[(\d+), (\d+)\]/.exec(lines[0] ?? "");
    if (found !== null) this.log.push(sequencedBatch(Number(found[1]), Number(found[2]), sequence));
  }

  #fetch({ producer, records }: Extract<Step, { kind: "fetch" }>): void {
    const { core } = this.bench;
    if (!core.isFollower) return;
    const base = core.endOffset;
    const sequence: Sequence = producer === 0 ? [-1, -1, -1] : [producer, this.#epoch, base];
    const batch = fetchedBatch(base, base + records - 1, core.leaderEpoch, producer === 0 ? undefined : sequence);
    const lines = this.bench.fetched({ batches: [batch] });
    if (lines.some((line) => line.startsWith("append-fetched")))
      this.log.push(sequencedBatch(base, base + records - 1, sequence));
  }

  /** A leader whose history ends at some batch above the high watermark. */
  #cut(at: number): void {
    const { core } = this.bench;
    if (!core.isFollower) return;
    const places = this.log.map(({ baseOffset }) => baseOffset).filter((place) => place >= core.highWatermark);
    const to = places[Math.floor(at * (places.length - 1e-9))];
    const epoch = core.epochs.at(-1)?.epoch ?? -1;
    if (to === undefined || to < (core.epochs.at(-1)?.startOffset ?? 0)) return;
    const lines = this.bench.fetched({ diverging: [epoch, to] });
    if (!lines.includes(`truncate ${to}`)) return;
    // The log's own table: a cut that fails leaves both as they were.
    if (!isDeepStrictEqual(core.producers.view(), naiveProducers(this.log))) throw new Error("taken back too soon");
    this.log = this.log.filter(({ lastOffset }) => lastOffset < to);
    const epochs = core.epochs.filter(({ startOffset }) => startOffset < to);
    this.bench.truncated(to, ++this.#truncations, epochs);
  }

  /** With an image of all that is committed, and a replay of the rest. */
  #restart(): void {
    const { core } = this.bench;
    const end = core.endOffset;
    const below = this.log.filter(({ lastOffset }) => lastOffset < core.highWatermark);
    const seen = new ProducerTable();
    for (const batch of below) seen.observe(batch);
    const producers = ProducerTable.decode(seen.encode(), seen.endOffset) as ProducerTable;
    for (const batch of this.log.slice(below.length)) producers.observe(batch);
    const { highWatermark, epochs } = core;
    this.bench = new Bench();
    this.#truncations = 0;
    this.bench.load({ ends: endsAt(end), epochs: [...epochs], highWatermark, producers });
    this.bench.follow({ epoch: ++this.#epoch });
  }
}

/** False: the table is not what the log makes of it. */
function holds(steps: readonly Step[]): boolean {
  const history = new History();
  for (const one of steps) {
    history.play(one);
    const { core } = history.bench;
    if (core.producers.endOffset !== core.endOffset) return false;
    if (!isDeepStrictEqual(core.producers.view(), naiveProducers(history.log))) return false;
  }
  return true;
}

describe("invariant 25: after each event of a random history the table is what the log makes of it", () => {
  const histories = fc.array(step, { maxLength: 60 });

  test("always", () => {
    fc.assert(fc.property(histories, holds), { numRuns: 500 });
  });

  test.each(["D-15b", "M23w"])("%s: not with the planted bug", (mutant) => {
    const sample = fc.sample(histories, { numRuns: 100, seed: 1 });
    expect(sample.every(holds)).toBe(true);
    activateMutants([mutant]);
    expect(sample.filter((steps) => !isSound(steps)).length).toBeGreaterThan(5);
  });
});

/** Also an expectation that fails on the way. */
function isSound(steps: readonly Step[]): boolean {
  try {
    return holds(steps);
  } catch {
    return false;
  }
}
