// Random values that the messages are made of.
import fc from "fast-check";
import { ERRORS } from "../../src/model/errors.ts";
import type { ErrorName, Outcome } from "../../src/model/errors.ts";
import { uuidFromBytes } from "../../src/model/ids.ts";
import type { NodeId, Uuid } from "../../src/model/ids.ts";

export interface Sample<Payload> {
  readonly payload: Payload;
  readonly bodies: Uint8Array[];
}

export const uuid: fc.Arbitrary<Uuid> = fc.uint8Array({ minLength: 16, maxLength: 16 }).map(uuidFromBytes);
export const text = fc.string({ unit: "grapheme", maxLength: 40 });
export const int32 = fc.oneof(fc.integer(), fc.integer({ min: -40, max: 300 }));
export const int64 = fc.oneof(fc.maxSafeInteger(), fc.integer(), fc.integer({ min: -2, max: 70_000 }));
export const count64 = fc.oneof(fc.maxSafeNat(), fc.nat());
export const error = fc.constantFrom(...(Object.keys(ERRORS) as ErrorName[]));
export const outcome = fc.constantFrom<Outcome>("not appended", "unknown", "appended");
export const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null });
export const list = <T>(value: fc.Arbitrary<T>, maxLength = 6) => fc.array(value, { maxLength });
export const configs = list(fc.record({ key: text, value: text }), 3);
/** Inline ones, and some that are too long for that. */
export const body: fc.Arbitrary<Uint8Array> = fc.oneof(
  { weight: 6, arbitrary: fc.uint8Array({ maxLength: 200 }) },
  {
    weight: 1,
    arbitrary: fc.integer({ min: 8_190, max: 12_000 }).map((length) => new Uint8Array(length).fill(length & 0xff)),
  },
);
export const bare = <T>(payload: fc.Arbitrary<T>): fc.Arbitrary<Sample<T>> =>
  payload.map((value) => ({ payload: value, bodies: [] }));
export const nodeId = fc.nat().map((id) => id as NodeId);
