// Producers outlive the batches that told of them (D-15, invariant 25): what a leader writes of them, as bytes, and what whoever reads later makes of it.
import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import { type CarryQuestion, nextToTell } from "../../src/model/producer-carry.ts";
import { buildToldProducers, TOLD_PRODUCERS_MAX, toldProducersAt } from "../../src/model/producer-records.ts";
import {
  CONTENT_UNKNOWN,
  concernsProducersAt,
  contentAt,
  ProducerTable,
  sequencedAt,
} from "../../src/model/producer-table.ts";
import {
  assignOffsets,
  baseOffsetAt,
  BATCH_HEADER_BYTES,
  batchSizeAt,
  DELETE_HORIZON_BIT,
  lastOffsetAt,
  LOG_APPEND_TIME_BIT,
  sealBatch,
  setAttributes,
  setProducer,
} from "../../src/model/record-batch.ts";
import { buildControlBatch } from "../../src/model/records.ts";
import { ascii, build, checksum, decode } from "./batches.ts";

afterEach(() => activateMutants([]));

const DAY_MS = 86_400_000;

function produced(producerId: number, producerEpoch: number, baseSequence: number, recordCount = 1): Uint8Array {
  const value = ascii(`${producerId}:${producerEpoch}:${baseSequence}`);
  const batch = build(Array.from({ length: recordCount }, () => ({ key: null, value, headers: [], timestamp: 7 })));
  setProducer(batch, { producerId, producerEpoch, baseSequence });
  sealBatch(batch, checksum);
  return batch;
}

function observe(table: ProducerTable, batch: Uint8Array): void {
  if (concernsProducersAt(batch, 0)) table.observe(sequencedAt(batch, 0));
  else table.advance(lastOffsetAt(batch, 0) + 1);
}

/** A log with a start, as bytes, and the table of whoever was there all the time. */
class Log {
  batches: Uint8Array[] = [];
  startOffset = 0;
  table: ProducerTable;
  readonly most: number;

  constructor(most = 10_000) {
    this.most = most;
    this.table = new ProducerTable(0, most);
  }

  append(batch: Uint8Array): void {
    assignOffsets(batch, this.table.endOffset, 1);
    this.batches.push(batch);
    observe(this.table, batch);
  }

  produce(producerId: number, recordCount = 1, epochs = 0): void {
    const { producerEpoch, baseSequence } = this.table.nextOf(producerId) ?? { producerEpoch: 0, baseSequence: 0 };
    this.append(produced(producerId, producerEpoch + epochs, epochs > 0 ? 0 : baseSequence, recordCount));
  }

  /** What a leader does before the log begins at `startOffset`. */
  raise(startOffset: number, question: Partial<CarryQuestion> = {}): string[] {
    const asked = { startOffset, nowMs: 1_000, expirationMs: DAY_MS, mayExpire: true, ...question };
    const told: string[] = [];
    for (let next = nextToTell(this.table, asked); next !== undefined; next = nextToTell(this.table, asked)) {
      told.push(`${next.kind} ${next.producers.map((each) => each.producerId).join(" ")}`);
      this.append(buildToldProducers(next, asked.nowMs, checksum));
    }
    this.startOffset = Math.max(this.startOffset, startOffset);
    return told;
  }

  cut(toOffset: number): void {
    if (!this.table.truncate(toOffset)) return;
    this.batches = this.batches.filter((batch) => lastOffsetAt(batch, 0) < toOffset);
  }

  /** Of a replica that begins where the log does. */
  fresh(): ProducerTable {
    const kept = this.batches.filter((batch) => lastOffsetAt(batch, 0) >= this.startOffset);
    // A batch that holds the start comes whole.
    const first = kept[0] === undefined ? this.startOffset : baseOffsetAt(kept[0], 0);
    const table = new ProducerTable(first, this.most);
    for (const batch of kept) observe(table, batch);
    table.advance(this.table.endOffset);
    return table;
  }
}

describe("shape 4: content that is not the produced one", () => {
  const numbers = { producerId: 3, producerEpoch: 0, baseSequence: 0 };
  const check = (table: ProducerTable, crc: number, recordCount = 2) =>
    table.check({ ...numbers, recordCount, crc, isResent: true }).kind;

  it("B-10: of a batch that lost records the sequence decides; of a whole one its checksum, too", () => {
    const batch = produced(3, 0, 0, 2);
    const whole = new ProducerTable();
    whole.observe(sequencedAt(batch, 0));
    expect(check(whole, contentAt(batch, 0))).toBe("duplicate");
    expect(check(whole, 99)).toBe("refused");
    // What compaction leaves of it: the header, with both ends.
    const emptied = batch.slice(0, BATCH_HEADER_BYTES);
    new DataView(emptied.buffer).setInt32(8, BATCH_HEADER_BYTES - 12);
    new DataView(emptied.buffer).setInt32(57, 0);
    sealBatch(emptied, checksum);
    expect(batchSizeAt(emptied, 0)).toBe(BATCH_HEADER_BYTES);
    expect(contentAt(emptied, 0)).toBe(CONTENT_UNKNOWN);
    const table = new ProducerTable();
    table.observe(sequencedAt(emptied, 0));
    expect(check(table, 99)).toBe("duplicate");
    expect(check(table, 99, 1)).toBe("refused");
    expect(table.nextOf(3)).toEqual({ producerEpoch: 0, baseSequence: 2 });
    expect(table.equals(whole)).toBe(true);
    expect(whole.equals(table)).toBe(true);
  });

  it("S-37, B-13: nor is the checksum the producer's where a horizon or the leader's time was written into it", () => {
    for (const bit of [DELETE_HORIZON_BIT, LOG_APPEND_TIME_BIT]) {
      const batch = produced(3, 0, 0, 2);
      setAttributes(batch, bit);
      sealBatch(batch, checksum);
      expect(contentAt(batch, 0)).toBe(CONTENT_UNKNOWN);
    }
  });

  it("B-10c: the planted bug takes a retry of a compacted batch for another one", () => {
    activateMutants(["B-10c"]);
    const batch = produced(3, 0, 0, 2);
    setAttributes(batch, DELETE_HORIZON_BIT);
    sealBatch(batch, checksum);
    const table = new ProducerTable();
    table.observe(sequencedAt(batch, 0));
    expect(check(table, 99)).toBe("refused");
  });
});

describe("D-15: control batches that speak of producers", () => {
  it("come back as they were written, and applications see nothing of them (D-33, B-9)", () => {
    const log = new Log();
    log.produce(2 ** 52, 3);
    log.produce(1);
    log.raise(4);
    const batch = log.batches.at(-1) as Uint8Array;
    expect(toldProducersAt(batch, 0)).toEqual({
      kind: "carried",
      producers: log.table.view().toReversed(),
      forgottenMaxId: -1,
      rememberedFrom: 2,
    });
    const decoded = decode(batch);
    expect([decoded.isControl, [...decoded]]).toEqual([true, []]);
    log.raise(5, { nowMs: 1_001 + DAY_MS });
    expect(toldProducersAt(log.batches.at(-2) as Uint8Array, 0)).toEqual({
      kind: "expired",
      producers: [
        { producerId: 2 ** 52, producerEpoch: 0 },
        { producerId: 1, producerEpoch: 0 },
      ],
    });
  });

  it("other control batches, other batches and damaged ones say nothing", () => {
    expect(toldProducersAt(produced(1, 0, 0), 0)).toBeUndefined();
    expect(concernsProducersAt(build([{ key: null, value: null, headers: [], timestamp: 1 }]), 0)).toBe(false);
    const control = (type: "COMMIT" | "PRODUCERS_CARRIED" | "PRODUCERS_EXPIRED", value: Uint8Array | null) =>
      buildControlBatch({ type, value, timestamp: 1, checksum });
    expect(toldProducersAt(control("COMMIT", ascii("0000000000")), 0)).toBeUndefined();
    expect(toldProducersAt(control("PRODUCERS_CARRIED", null), 0)).toBeUndefined();
    expect(toldProducersAt(control("PRODUCERS_EXPIRED", new Uint8Array(5)), 0)).toBeUndefined();
    const log = new Log();
    log.produce(1);
    log.produce(2);
    log.raise(2);
    const good = log.batches.at(-1) as Uint8Array;
    fc.assert(
      fc.property(fc.nat(good.length - 1), fc.nat(255), fc.nat(1), (at, value, cut) => {
        const batch = good.slice(0, good.length - cut);
        batch[Math.max(at, 57)] = value;
        // Whatever it says: it does not throw, and what it takes has windows.
        const told = toldProducersAt(batch, 0);
        if (told?.kind === "carried")
          for (const { batches } of told.producers) expect(batches.length).toBeGreaterThan(0);
      }),
    );
  });

  it("a newer version of the value is read as far as it is known (B-9)", () => {
    const log = new Log();
    log.produce(7);
    log.raise(1, { nowMs: 5 });
    log.raise(2, { nowMs: 6 + DAY_MS });
    const value = new Uint8Array(20);
    new DataView(value.buffer).setInt16(0, 3);
    new DataView(value.buffer).setInt32(2, 1);
    new DataView(value.buffer).setBigInt64(6, 9n);
    const batch = buildControlBatch({ type: "PRODUCERS_EXPIRED", value, timestamp: 1, checksum });
    expect(toldProducersAt(batch, 0)).toEqual({ kind: "expired", producers: [{ producerId: 9, producerEpoch: 0 }] });
  });
});

describe("P-5, P-8: who is carried on, and who expires", () => {
  it("only those of whom a batch of the window would be gone, once", () => {
    const log = new Log();
    log.produce(1);
    log.produce(2);
    for (let at = 0; at < 6; at++) log.produce(1);
    expect(log.raise(1)).toEqual([]);
    expect(log.raise(2)).toEqual(["carried 2"]);
    expect(log.raise(2)).toEqual([]);
    expect(log.raise(4)).toEqual(["carried 1"]);
    expect(log.raise(8)).toEqual([]);
    // What told of 2 would be gone, and of 1.
    expect(log.raise(9)).toEqual(["carried 2"]);
    expect(log.raise(10)).toEqual(["carried 1"]);
  });

  it("expires when it has written nothing for longer than that since it was first carried on, and comes back as a new one only", () => {
    const log = new Log();
    log.produce(5);
    expect(log.raise(1, { nowMs: 1_000 })).toEqual(["carried 5"]);
    expect(log.raise(2, { nowMs: 1_000 + DAY_MS })).toEqual(["carried 5"]);
    expect(log.raise(3, { nowMs: 1_001 + DAY_MS, mayExpire: false })).toEqual(["carried 5"]);
    expect(log.raise(4, { nowMs: 1_001 + DAY_MS })).toEqual(["expired 5", "carried "]);
    expect(log.table.size).toBe(0);
    const asked = { producerId: 5, producerEpoch: 0, crc: 1, recordCount: 1 };
    const verdict = (baseSequence: number, isResent: boolean) =>
      log.table.check({ ...asked, baseSequence, isResent }).kind;
    expect([verdict(1, false), verdict(0, true), verdict(0, false)]).toEqual(["refused", "refused", "new"]);
  });

  it("who was forgotten is told again, as long as the log has anything else (D-15f)", () => {
    const log = new Log(1);
    log.produce(9);
    log.produce(5);
    expect(log.table.toldFrom).toBe(2);
    expect(log.raise(1)).toEqual(["carried "]);
    expect(log.fresh().forgottenMaxId).toBe(9);
    expect(log.raise(1)).toEqual([]);
    expect(log.table.toldFrom).toBe(2);
    log.produce(5);
    expect(log.table.toldFrom).toBe(4);
    expect(log.raise(3)).toEqual(["carried 5"]);
    expect(log.fresh().forgottenMaxId).toBe(9);
    log.cut(3);
    expect(log.table.toldFrom).toBe(3);
  });

  it("a batch since then starts its time anew", () => {
    const log = new Log();
    log.produce(5);
    log.raise(1, { nowMs: 1_000 });
    log.produce(5);
    expect(log.raise(3, { nowMs: 2_000 + DAY_MS })).toEqual(["carried 5"]);
    expect(log.raise(4, { nowMs: 2_000 + 2 * DAY_MS })).toEqual(["carried 5"]);
    expect(log.raise(5, { nowMs: 2_001 + 2 * DAY_MS })).toEqual(["expired 5", "carried "]);
  });

  it("a retry of what is gone is answered with the original offset, by whoever begins where the log does (23)", () => {
    const log = new Log();
    for (let at = 0; at < 3; at++) log.produce(5, 2);
    log.raise(6);
    const fresh = log.fresh();
    const asked = { producerId: 5, producerEpoch: 0, recordCount: 2, isResent: true };
    const crc = contentAt(log.batches[1] as Uint8Array, 0);
    expect(fresh.check({ ...asked, baseSequence: 2, crc })).toEqual({ kind: "duplicate", baseOffset: 2, endOffset: 4 });
    expect(fresh.check({ ...asked, baseSequence: 6, crc })).toEqual({ kind: "new" });
  });

  it("M24: the planted bug loses them with their batches", () => {
    activateMutants(["M24"]);
    const log = new Log();
    log.produce(5);
    expect(log.raise(1)).toEqual([]);
    expect(log.fresh().equals(log.table)).toBe(false);
  });

  it(`a whole table is told in batches of ${TOLD_PRODUCERS_MAX}, each below 64 KiB`, () => {
    const log = new Log();
    for (let id = 0; id < 2 * TOLD_PRODUCERS_MAX + 1; id++) log.produce(id);
    for (let at = 0; at < 4; at++) for (let id = 0; id < TOLD_PRODUCERS_MAX; id++) log.produce(id);
    const { length } = log.batches;
    expect(log.raise(log.table.endOffset)).toHaveLength(3);
    for (const batch of log.batches.slice(length)) expect(batch.length).toBeLessThan(65_536);
    expect(log.fresh().equals(log.table)).toBe(true);
  });
});

type Act =
  | { readonly kind: "produce"; readonly producerId: number; readonly epochs: number; readonly records: number }
  | { readonly kind: "plain" | "image" }
  | { readonly kind: "raise"; readonly part: number; readonly hours: number }
  | { readonly kind: "cut" | "settle"; readonly part: number };

const part = fc.double({ min: 0, max: 1, noNaN: true });
const share = fc.oneof(part, fc.constant(1));
const act: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 10,
    arbitrary: fc.record({
      kind: fc.constant("produce" as const),
      producerId: fc.nat(5),
      epochs: fc.oneof({ weight: 9, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.constant(1) }),
      records: fc.integer({ min: 1, max: 3 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom("plain" as const, "image" as const) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("raise" as const), part: share, hours: fc.nat(20) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom("cut" as const, "settle" as const), part }) },
);

describe("invariant 25: whoever begins where the log does knows what whoever was there all the time knows", () => {
  it("after each step, with few places and many, through cuts and images", () => {
    let expired = 0;
    let forgotten = 0;
    fc.assert(
      fc.property(fc.array(act, { maxLength: 60 }), fc.constantFrom(2, 3, 10_000), (acts, most) => {
        const log = new Log(most);
        let nowMs = 1_000;
        for (const one of acts) {
          const { table } = log;
          const place = "part" in one ? placeIn(log, one.part) : 0;
          if (one.kind === "produce") log.produce(one.producerId, one.records, one.epochs);
          if (one.kind === "plain") log.append(build([{ key: null, value: null, headers: [], timestamp: 1 }]));
          if (one.kind === "settle") table.settle(place);
          // Nothing is cut below a log start: what let it rise was committed.
          if (one.kind === "cut" && place > log.startOffset) log.cut(place);
          if (one.kind === "image")
            log.table = ProducerTable.decode(table.encode(), table.endOffset, most) ?? new ProducerTable();
          if (one.kind === "raise") {
            nowMs += one.hours * 3_600_000;
            expired += log
              .raise(place, { nowMs, expirationMs: 10 * 3_600_000 })
              .filter((told) => told.startsWith("expired")).length;
            log.table.settle(log.table.endOffset);
          }
          if (log.table.forgottenMaxId >= 0) forgotten++;
          expect(log.fresh().equals(log.table)).toBe(true);
        }
      }),
      { numRuns: 1_000 },
    );
    // It was looked at what it is for.
    expect(expired).toBeGreaterThan(5); // 20 to 40
    expect(forgotten).toBeGreaterThan(20);
  });
});

/** Where a batch begins, or the end. */
function placeIn({ batches, table, startOffset }: Log, at: number): number {
  const wanted = startOffset + Math.round(at * (table.endOffset - startOffset));
  const found = batches.find((batch) => lastOffsetAt(batch, 0) >= wanted);
  return found === undefined ? table.endOffset : Math.max(startOffset, baseOffsetAt(found, 0));
}
