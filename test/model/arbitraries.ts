// Random records and batches for the tests of the record format.
import fc from "fast-check";
import type { RecordInput } from "../../src/model/records.ts";
import type { NaiveRecord } from "./naive-batch.ts";

const bytes = (maxLength: number): fc.Arbitrary<Uint8Array | null> =>
  fc.option(fc.uint8Array({ maxLength }), { nil: null, freq: 4 });

/** Around the bounds of one, two and three length bytes. */
const value = fc.oneof(
  { weight: 8, arbitrary: bytes(70) },
  { weight: 1, arbitrary: fc.constantFrom(63, 64, 8191, 8192, 8193).map((size) => new Uint8Array(size).fill(0x5a)) },
);

const headers = fc.oneof(
  { weight: 2, arbitrary: fc.constant([]) },
  {
    weight: 1,
    arbitrary: fc.array(fc.tuple(fc.string({ unit: "grapheme", maxLength: 5 }), bytes(4)), { maxLength: 3 }),
  },
);

const timestamp = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 1_700_000_000_000, max: 1_700_000_010_000 }) },
  { weight: 1, arbitrary: fc.constantFrom(-1, 0, 2 ** 31, 2 ** 52 - 2) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 2 ** 52 - 2 }) },
);

export const recordInput: fc.Arbitrary<RecordInput> = fc.record({ key: value, value, headers, timestamp });
export const recordInputs: fc.Arbitrary<RecordInput[]> = fc.array(recordInput, { minLength: 1, maxLength: 12 });

export const plain = (view: Uint8Array | null): number[] | null => (view === null ? null : [...view]);

export function naiveOf(record: RecordInput, offsetDelta: number, baseTimestamp: number): NaiveRecord {
  return {
    offsetDelta,
    timestampDelta: record.timestamp - baseTimestamp,
    key: plain(record.key),
    value: plain(record.value),
    headers: record.headers.map(([name, content]) => [name, plain(content)]),
  };
}
