// Producers of a partition: what is new, what is a duplicate, what is refused; taken back, as bytes, and bounded.
import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import {
  PRODUCER_UNDO_MAX,
  PRODUCERS_MAX,
  ProducerTable,
  type SequencedBatch,
  type SequenceVerdict,
} from "../../src/model/producer-table.ts";
import { naiveCheck, naiveProducers, naiveState } from "./naive-producers.ts";

afterEach(() => activateMutants([]));

/** Of a producer that does as it should: the same numbers are the same records. */
const contentOf = (producerId: number, producerEpoch: number, baseSequence: number): number =>
  (producerId * 31 + producerEpoch * 7 + baseSequence) | 0;

/** A log that is appended to. */
class Written {
  readonly log: SequencedBatch[] = [];
  table: ProducerTable;

  constructor(most = PRODUCERS_MAX) {
    this.table = new ProducerTable(0, most);
  }

  check(
    producerId: number,
    producerEpoch: number,
    baseSequence: number,
    recordCount: number,
    crc = contentOf(producerId, producerEpoch, baseSequence),
  ): SequenceVerdict {
    return this.table.check({ producerId, producerEpoch, baseSequence, recordCount, crc, isResent: false });
  }

  /** Of one record. */
  checkAgain(producerId: number, producerEpoch: number, baseSequence: number): SequenceVerdict {
    const crc = contentOf(producerId, producerEpoch, baseSequence);
    return this.table.check({ producerId, producerEpoch, baseSequence, recordCount: 1, crc, isResent: true });
  }

  append(producerId: number, producerEpoch: number, baseSequence: number, recordCount = 1): void {
    const baseOffset = this.table.endOffset;
    const crc = contentOf(producerId, producerEpoch, baseSequence);
    const lastOffset = baseOffset + recordCount - 1;
    const batch = { producerId, producerEpoch, baseSequence, baseOffset, lastOffset, crc };
    this.log.push(batch);
    this.table.observe(batch);
  }

  cut(toOffset: number): boolean {
    if (!this.table.truncate(toOffset)) return false;
    while ((this.log.at(-1)?.lastOffset ?? -1) >= toOffset) this.log.pop();
    return true;
  }
}

const NEW = { kind: "new" };
const refusal = (error: string) => ({ kind: "refused", error });
const OUT_OF_ORDER = refusal("OUT_OF_ORDER_SEQUENCE_NUMBER");
const TAKEN = refusal("SEQUENCE_NUMBER_TAKEN");
const UNKNOWN = refusal("UNKNOWN_PRODUCER_ID");

describe("what a producer may append", () => {
  it("P-2: the same first and last sequence is a duplicate of one of the last five batches, and of no other", () => {
    const written = new Written();
    for (let at = 0; at < 6; at++) written.append(7, 0, at * 3, 3);
    for (let at = 1; at < 6; at++)
      expect(written.check(7, 0, at * 3, 3)).toEqual({ kind: "duplicate", baseOffset: at * 3, endOffset: at * 3 + 3 });
    expect(written.check(7, 0, 0, 3)).toEqual(OUT_OF_ORDER);
    expect(written.check(7, 0, 15, 2)).toEqual(OUT_OF_ORDER);
    expect(written.check(7, 0, 16, 2)).toEqual(OUT_OF_ORDER);
    expect(written.check(7, 0, 18, 4)).toEqual(NEW);
    expect(written.check(7, 0, 19, 1)).toEqual(OUT_OF_ORDER);
  });

  it("the same numbers with other records are taken, by whichever of the five; never a duplicate, never new", () => {
    const written = new Written();
    for (let at = 0; at < 5; at++) written.append(7, 0, at * 3, 3);
    for (let at = 0; at < 5; at++) expect(written.check(7, 0, at * 3, 3, 99)).toEqual(TAKEN);
    expect(written.check(7, 0, 15, 3, 99)).toEqual(NEW);
    expect(written.check(7, 1, 0, 3, 99)).toEqual(NEW);
    const again = ProducerTable.decode(written.table.encode(), 15);
    expect(
      again?.check({ producerId: 7, producerEpoch: 0, baseSequence: 3, recordCount: 3, crc: -1, isResent: true }),
    ).toEqual(TAKEN);
    expect(again?.equals(written.table)).toBe(true);
  });

  it("D-15c: the planted bug takes other records for a duplicate", () => {
    activateMutants(["D-15c"]);
    const written = new Written();
    written.append(7, 0, 0);
    expect(written.check(7, 0, 0, 1, 99)).toEqual({ kind: "duplicate", baseOffset: 0, endOffset: 1 });
  });

  it("a checksum is kept as it is, whatever its highest bit", () => {
    for (const crc of [0, 1, -1, 2 ** 31 - 1, -(2 ** 31)]) {
      const table = new ProducerTable();
      table.observe({ producerId: 1, producerEpoch: 0, baseSequence: 0, baseOffset: 0, lastOffset: 0, crc });
      expect(ProducerTable.decode(table.encode(), 1)?.view()[0]?.batches[0]?.crc).toBe(crc);
    }
  });

  it("P-3: after 2^31 - 1 comes 0, also within a batch", () => {
    const written = new Written();
    written.append(7, 0, 0x7fffffff, 1);
    expect(written.check(7, 0, 0, 1)).toEqual(NEW);
    expect(written.check(7, 0, 1, 1)).toEqual(OUT_OF_ORDER);
    written.append(7, 0, 0x7ffffffe, 5);
    expect(written.check(7, 0, 3, 1)).toEqual(NEW);
    expect(written.check(7, 0, 0x7ffffffe, 5)).toEqual({ kind: "duplicate", baseOffset: 1, endOffset: 6 });
  });

  it("P-4: a higher epoch begins at 0 and makes the older one invalid; an unknown producer begins at 0, in any epoch", () => {
    const written = new Written();
    expect(written.check(7, 4, 0, 1)).toEqual(NEW);
    expect(written.check(7, 4, 1, 1)).toEqual(refusal("UNKNOWN_PRODUCER_ID"));
    written.append(7, 4, 0, 2);
    expect(written.check(7, 3, 2, 1)).toEqual(refusal("INVALID_PRODUCER_EPOCH"));
    expect(written.check(7, 5, 2, 1)).toEqual(OUT_OF_ORDER);
    expect(written.check(7, 5, 0, 2)).toEqual(NEW);
    written.append(7, 5, 0, 1);
    expect(written.check(7, 4, 0, 2)).toEqual(refusal("INVALID_PRODUCER_EPOCH"));
    expect(written.check(7, 5, 1, 1)).toEqual(NEW);
  });

  it("P-7: what was appended is never questioned", () => {
    const written = new Written();
    written.append(7, 4, 10);
    written.append(7, 4, 3);
    written.append(7, 2, 8);
    expect(written.table.view()).toEqual([
      {
        producerId: 7,
        producerEpoch: 2,
        batches: [{ baseSequence: 8, baseOffset: 2, lastOffset: 2, crc: contentOf(7, 2, 8) }],
        carriedOffset: -1,
        carriedMs: -1,
      },
    ]);
  });

  it("M23w: the planted window of one forgets what is resent", () => {
    activateMutants(["M23w"]);
    const written = new Written();
    for (let at = 0; at < 3; at++) written.append(7, 0, at);
    expect(written.check(7, 0, 1, 1)).toEqual(OUT_OF_ORDER);
  });
});

describe("bounds", () => {
  it(`remembers ${PRODUCERS_MAX} producers; a new one takes the place of the one that has not written for longest`, () => {
    const written = new Written();
    for (let id = 0; id < PRODUCERS_MAX; id++) written.append(id, 0, 0);
    written.append(0, 0, 1);
    written.append(PRODUCERS_MAX, 0, 0);
    expect(written.table.size).toBe(PRODUCERS_MAX);
    expect(written.check(1, 0, 1, 1)).toEqual(refusal("UNKNOWN_PRODUCER_ID"));
    expect(written.check(0, 0, 2, 1)).toEqual(NEW);
    expect(written.check(2, 0, 1, 1)).toEqual(NEW);
    written.cut(PRODUCERS_MAX + 1);
    expect(written.check(1, 0, 1, 1)).toEqual(NEW);
    written.cut(PRODUCERS_MAX);
    written.append(-5, -1, -1);
    written.append(PRODUCERS_MAX + 1, 0, 0);
    expect(written.check(0, 0, 1, 1)).toEqual(refusal("UNKNOWN_PRODUCER_ID"));
    expect(written.check(1, 0, 1, 1)).toEqual(NEW);
  });

  it("a first batch that was sent before is believed unless an id as high was ever forgotten", () => {
    const written = new Written(2);
    for (const id of [5, 9, 7]) written.append(id, 0, 0);
    expect(written.table.forgottenMaxId).toBe(5);
    expect(written.checkAgain(5, 0, 0)).toEqual(UNKNOWN);
    expect(written.checkAgain(5, 1, 0)).toEqual(UNKNOWN);
    expect(written.checkAgain(4, 0, 0)).toEqual(UNKNOWN);
    expect(written.checkAgain(6, 0, 0)).toEqual(NEW);
    expect(written.check(5, 1, 0, 1)).toEqual(NEW);
    written.append(5, 1, 0);
    expect(written.table.forgottenMaxId).toBe(9);
    expect(written.checkAgain(5, 1, 0)).toEqual({ kind: "duplicate", baseOffset: 3, endOffset: 4 });
    written.cut(3);
    expect(written.table.forgottenMaxId).toBe(5);
    written.cut(2);
    expect(written.table.forgottenMaxId).toBe(-1);
    expect(written.checkAgain(6, 0, 0)).toEqual(NEW);
  });

  it("D-15f: the planted bug believes it", () => {
    activateMutants(["D-15f"]);
    const written = new Written(2);
    for (const id of [5, 9, 7]) written.append(id, 0, 0);
    expect(written.checkAgain(5, 0, 0)).toEqual(NEW);
  });

  it(`takes ${PRODUCER_UNDO_MAX} batches back and no more`, () => {
    const written = new Written();
    for (let at = 0; at < PRODUCER_UNDO_MAX + 10; at++) written.append(at % 3, 0, at);
    expect(written.table.floor).toBe(10);
    const before = written.table.view();
    expect(written.table.truncate(9)).toBe(false);
    expect(written.table.view()).toEqual(before);
    expect(written.cut(10)).toBe(true);
    expect(written.table.view()).toEqual(naiveProducers(written.log));
  });

  it("keeps nothing to take back below the high watermark, whether it is told before or after", () => {
    const written = new Written();
    for (let at = 0; at < 10; at++) written.append(1, 0, at);
    written.table.settle(6);
    expect(written.table.floor).toBe(6);
    written.table.settle(3);
    written.table.settle(20);
    expect(written.table.floor).toBe(10);
    for (let at = 10; at < 25; at++) written.append(1, 0, at);
    expect(written.table.floor).toBe(20);
    expect(written.cut(19)).toBe(false);
    expect(written.cut(20)).toBe(true);
    expect(written.table.view()).toEqual(naiveProducers(written.log));
  });
});

describe("as bytes", () => {
  it("P-9: all five batches of each come back, and nothing below the end can be taken back", () => {
    const written = new Written();
    for (let at = 0; at < 20; at++) written.append(2 ** 52 + (at % 3), 32_767, 0x7fffffff - at, 1 + at);
    const { endOffset } = written.table;
    const read = ProducerTable.decode(written.table.encode(), endOffset);
    expect(read?.view()).toEqual(written.table.view());
    expect(read?.equals(written.table)).toBe(true);
    expect(read?.floor).toBe(endOffset);
    expect(read?.truncate(endOffset - 1)).toBe(false);
  });

  it("who was forgotten comes back, too", () => {
    const written = new Written(1);
    written.append(2 ** 52, 0, 0);
    written.append(3, 0, 0);
    const read = ProducerTable.decode(written.table.encode(), 2, 1);
    expect(read?.forgottenMaxId).toBe(2 ** 52);
    expect(read?.equals(written.table)).toBe(true);
    const other = new ProducerTable(1, 1);
    other.observe({ producerId: 3, producerEpoch: 0, baseSequence: 0, baseOffset: 1, lastOffset: 1, crc: 0 });
    expect(other.equals(written.table)).toBe(false);
    expect(ProducerTable.decode(new Written(3).table.encode(), 2, 1)).toBeDefined();
    written.table = new ProducerTable(2);
    for (const id of [1, 2]) written.append(id, 0, 0);
    expect(ProducerTable.decode(written.table.encode(), 4, 1)).toBeUndefined();
  });

  it("garbage is no table: cut short, longer, of another log, of too many", () => {
    const written = new Written();
    for (let at = 0; at < 8; at++) written.append(at % 2, 0, at);
    const bytes = written.table.encode();
    expect(ProducerTable.decode(bytes, 7)).toBeUndefined();
    expect(ProducerTable.decode(bytes, 9)).toBeDefined();
    for (let length = 0; length < bytes.length; length++)
      expect(ProducerTable.decode(bytes.subarray(0, length), 8)).toBeUndefined();
    expect(ProducerTable.decode(new Uint8Array([...bytes, 0]), 8)).toBeUndefined();
    const changed = (at: number, values: readonly number[]) => {
      const copy = new Uint8Array(bytes);
      copy.set(values, at);
      return ProducerTable.decode(copy, 8);
    };
    // Of too many; with a forgotten id below -1, or beyond what a number can hold; told nowhere.
    expect(changed(16, [0xff])).toBeUndefined();
    expect(changed(8, [0xfe])).toBeUndefined();
    expect(changed(7, [0xfe])).toBeUndefined();
    expect(changed(0, [0x7f])).toBeUndefined();
  });

  it("no bytes make it throw, and what it takes it gives back", () => {
    const bytes = fc.oneof(fc.uint8Array({ maxLength: 200 }), damagedTables());
    fc.assert(
      fc.property(bytes, (given) => {
        const table = ProducerTable.decode(given, 1_000);
        if (table !== undefined) expect(table.encode()).toEqual(given);
      }),
    );
  });
});

function damagedTables(): fc.Arbitrary<Uint8Array> {
  const spot = fc.tuple(fc.nat(300), fc.nat(255));
  return fc.tuple(fc.nat(12), fc.array(spot, { maxLength: 3 })).map(([count, spots]) => {
    const written = new Written();
    for (let at = 0; at < count; at++) written.append(at % 4, 0, at);
    const bytes = written.table.encode();
    for (const [at, value] of spots) bytes[at % bytes.length] = value;
    return bytes;
  });
}

type Act =
  | { readonly kind: "append"; readonly producerId: number; readonly epochs: number; readonly records: number }
  | { readonly kind: "odd"; readonly producerId: number; readonly epoch: number; readonly sequence: number }
  | { readonly kind: "cut" | "settle" | "advance"; readonly part: number }
  | { readonly kind: "image" };

const producerId = fc.nat(4).map((id) => id - 1);
const act: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant("append" as const),
      producerId,
      epochs: fc.oneof({ weight: 9, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.constant(1) }),
      records: fc.integer({ min: 1, max: 4 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("odd" as const),
      producerId,
      epoch: fc.nat(3),
      sequence: fc.oneof(fc.nat(5), fc.constant(0x7fffffff)),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constantFrom("cut" as const, "settle" as const, "advance" as const),
      part: fc.double({ min: 0, max: 1, noNaN: true }),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: "image" as const }) },
);

/** As a client does it: the next sequence, or 0 in a new epoch. */
function appendNext(written: Written, { producerId: id, epochs, records }: Extract<Act, { kind: "append" }>): void {
  const known = naiveProducers(written.log).find((producer) => producer.producerId === id);
  const last = known?.batches.at(-1);
  const epoch = (known?.producerEpoch ?? 0) + epochs;
  const sequence = last === undefined || epochs > 0 ? 0 : last.baseSequence + last.lastOffset - last.baseOffset + 1;
  written.append(id, epoch, sequence % 2 ** 31, records);
}

function play(written: Written, one: Act, most: number): void {
  const { table } = written;
  switch (one.kind) {
    case "append":
      return appendNext(written, one);
    case "odd":
      return written.append(one.producerId, one.epoch, one.sequence);
    case "cut": {
      // Where a batch begins, as logs are cut.
      const { floor, endOffset } = table;
      const wanted = Math.round(one.part * endOffset);
      const place = written.log.find(({ lastOffset }) => lastOffset >= wanted)?.baseOffset ?? endOffset;
      expect(written.cut(place)).toBe(place >= floor);
      return undefined;
    }
    case "settle":
      return table.settle(Math.round(one.part * (table.endOffset + 3)));
    case "advance":
      return written.append(-1, -1, -1, 1 + Math.round(one.part * 3));
    case "image": {
      const read = ProducerTable.decode(table.encode(), table.endOffset, most);
      expect(read?.equals(table)).toBe(true);
      if (read !== undefined) written.table = read;
      return undefined;
    }
  }
}

describe("invariant 25: whatever happens to a log, the table is what the log makes of it", () => {
  const check = fc.record({
    producerId: fc.nat(3),
    producerEpoch: fc.nat(3),
    baseSequence: fc.nat(12),
    recordCount: fc.integer({ min: 1, max: 4 }),
    crc: fc.nat(3),
    isResent: fc.boolean(),
  });
  const mosts = fc.constantFrom(1, 2, 3, PRODUCERS_MAX);

  it("equals a replay after each step, and decides as a replay does", () => {
    fc.assert(
      fc.property(fc.array(act, { maxLength: 60 }), fc.array(check, { maxLength: 10 }), mosts, (acts, checks, most) => {
        const written = new Written(most);
        for (const one of acts) {
          play(written, one, most);
          const { producers, forgottenMaxId } = naiveState(written.log, { most });
          expect(written.table.view()).toEqual(producers);
          expect(written.table.forgottenMaxId).toBe(forgottenMaxId);
        }
        const replayed = new ProducerTable(0, most);
        for (const batch of written.log) replayed.observe(batch);
        replayed.advance(written.table.endOffset);
        expect(written.table.equals(replayed)).toBe(true);
        const resent = written.log.map(({ lastOffset, ...batch }) => ({
          ...batch,
          recordCount: lastOffset - batch.baseOffset + 1,
          isResent: true,
        }));
        for (const asked of [...checks, ...resent])
          if (asked.producerId >= 0)
            expect(written.table.check(asked)).toEqual(naiveCheck(written.log, asked, { most }));
      }),
      { numRuns: 500 },
    );
  });

  it("D-15b: the planted bug does not take back", () => {
    activateMutants(["D-15b"]);
    const written = new Written();
    written.append(1, 0, 0);
    written.append(1, 0, 1);
    written.cut(1);
    expect(written.table.view()).not.toEqual(naiveProducers(written.log));
  });
});
