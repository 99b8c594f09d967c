import { describe, expect, it } from "vitest";
import { walkRecords } from "../../src/model/record-walk.ts";
import { naiveRecord, type NaiveRecord, naiveVarint } from "./naive-batch.ts";

const RECORD: NaiveRecord = { offsetDelta: 0, timestampDelta: 0, key: null, value: [7], headers: [] };
const bytesOf = (...records: NaiveRecord[]): Uint8Array => Uint8Array.from(records.flatMap(naiveRecord));
const walk = (bytes: Uint8Array, over: Partial<Parameters<typeof walkRecords>[1]> = {}) =>
  walkRecords(bytes, { start: 0, end: bytes.length, recordCount: 1, lastOffsetDelta: 0, isDense: true, ...over });

/** A record of these body bytes after attributes, timestamp and offset delta. */
const raw = (...payload: number[]): Uint8Array =>
  Uint8Array.from([...naiveVarint(payload.length + 3), 0, 0, 0, ...payload]);

describe("walkRecords", () => {
  it("B-4: nothing beyond its end counts, though the array goes on", () => {
    const two = bytesOf(RECORD, { ...RECORD, offsetDelta: 1 });
    const half = two.length / 2;
    expect(walk(two, { end: half }).fault).toBeUndefined();
    for (let end = 0; end < half; end++) expect(walk(two, { end }).fault, `end ${end}`).toBeDefined();
    expect(walk(two, { recordCount: 2, lastOffsetDelta: 1, end: two.length - 1 }).fault).toContain("record 1");
    expect(walk(two).fault).toContain(`${half} bytes are left`);
    expect(walk(two, { start: half }).fault).toContain("offset delta 1");
  });

  it.each<[what: string, payload: number[], fault: string]>([
    ["key of length -2", [3, 1, 0, 0], "its key"],
    ["value of length -2", [1, 3, 9, 0], "its value"],
    ["value past the record", [1, 4, 9, 0], "header count"],
    ["header count past the record", [1, 1, 6, 0, 1], "its header count 3"],
    ["negative header count", [1, 1, 1], "its header count -1"],
    ["null header key", [1, 1, 2, 1, 1], "key of header 0"],
    ["header key past the record", [1, 1, 2, 8, 1], "key of header 0"],
    ["header value of length -2", [1, 1, 2, 0, 3], "value of header 0"],
    ["bytes after the headers", [1, 1, 0, 0], "1 bytes are left in it"],
    ["body of five bytes", [1, 1], "does not fit"],
  ])("B-4: refuses a %s", (_what, payload, fault) => {
    expect(walk(raw(...payload)).fault).toContain(fault);
    expect(walk(raw(1, 1, 0)).fault).toBeUndefined();
  });

  it("B-10: stored batches may have gaps, but their deltas rise and end by the batch's last", () => {
    const stored = (...deltas: number[]) =>
      walk(bytesOf(...deltas.map((offsetDelta) => ({ ...RECORD, offsetDelta }))), {
        recordCount: deltas.length,
        lastOffsetDelta: 9,
        isDense: false,
      }).fault;
    expect(stored()).toBeUndefined();
    expect(stored(0, 4, 9)).toBeUndefined();
    expect(stored(8)).toBeUndefined();
    for (const deltas of [[1, 1], [2, 1], [10], [0, 10], [-1]])
      expect(stored(...deltas), String(deltas)).toContain("out of order");
  });

  it("gives the span of the timestamp deltas, of short and long varints", () => {
    const deltas = [5, -7, 2 ** 40, -(2 ** 41), 300];
    const bytes = bytesOf(...deltas.map((timestampDelta, offsetDelta) => ({ ...RECORD, timestampDelta, offsetDelta })));
    const span = walk(bytes, { recordCount: deltas.length });
    expect(span).toEqual({ fault: undefined, minTimestampDelta: -(2 ** 41), maxTimestampDelta: 2 ** 40 });
    expect(walk(new Uint8Array(0), { recordCount: 0 })).toEqual({
      fault: undefined,
      minTimestampDelta: 0,
      maxTimestampDelta: 0,
    });
  });
});
