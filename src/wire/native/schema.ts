// The small language in which schemas.ts lays out requests and answers: each schema turns a value into plain MessagePack
// values and back, checks it on both ways, and knows how many array elements it can have at most (D-25).
import { assert } from "../../base/assert.ts";
import { ERRORS, errorNameOf } from "../../model/errors.ts";
import type { ErrorName, Outcome } from "../../model/errors.ts";
import type { Uuid } from "../../model/ids.ts";
import type { Plain, PlainOut } from "./msgpack.ts";
import { uuidBytesOf, uuidTextOf } from "./uuid.ts";

/** Returned in place of a value; the trail says what is wrong. Faults are no exceptions: hostile bytes are expected. */
export const FAULT: unique symbol = Symbol("fault");
export type Fault = typeof FAULT;

/** Where in the value the fault is; filled from the inside outwards while the calls return. */
export class Trail {
  #reason = "";
  readonly #path: string[] = [];

  fail(reason: string): Fault {
    this.#reason = reason;
    return FAULT;
  }

  at(step: string | number): Fault {
    this.#path.push(typeof step === "number" ? `[${step}]` : `.${step}`);
    return FAULT;
  }

  /** For people, e.g. ".entries[3].partition: not an integer". */
  text(): string {
    return `${this.#path.toReversed().join("")}: ${this.#reason}`;
  }
}

export interface Schema<T> {
  /** Most elements of all arrays in a value together. */
  readonly elementsMax: number;
  /** Arrays inside each other. */
  readonly depth: number;
  encode(value: T, trail: Trail): PlainOut | Fault;
  decode(plain: Plain, trail: Trail): T | Fault;
}

export interface Range {
  readonly min: number;
  readonly max: number;
}
export const INT16: Range = { min: -0x8000, max: 0x7fff };
export const INT32: Range = { min: -0x80000000, max: 0x7fffffff };
export const UINT32: Range = { min: 0, max: 0xffffffff };
export const INT64: Range = { min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER };
export const COUNT64: Range = { min: 0, max: Number.MAX_SAFE_INTEGER };

/** An integer. Beyond 32 bits it goes out as bigint: see msgpack.ts. */
export function int<T extends number = number>({ min, max }: Range): Schema<T> {
  const fits = (value: unknown): value is T =>
    Number.isInteger(value) && (value as number) >= min && (value as number) <= max;
  const wrong = `not an integer of ${min} to ${max}`;
  return {
    elementsMax: 0,
    depth: 0,
    encode(value, trail) {
      if (!fits(value)) return trail.fail(wrong);
      return value > 0xffffffff || value < -0x80000000 ? BigInt(value) : value;
    },
    decode: (plain, trail) => (fits(plain) ? plain : trail.fail(wrong)),
  };
}

/** Text of at most `max` UTF-16 units. */
export function text(max: number): Schema<string> {
  const check = (value: Plain, trail: Trail): string | Fault => {
    if (typeof value !== "string") return trail.fail("not a string");
    return value.length <= max ? value : trail.fail(`longer than ${max} characters`);
  };
  return { elementsMax: 0, depth: 0, encode: check, decode: check };
}

/** Text for people: too long a one is cut by the sender. */
export function note(max: number): Schema<string> {
  const { decode } = text(max);
  return {
    elementsMax: 0,
    depth: 0,
    encode: (value) => (value.length <= max ? value : `${value.slice(0, max - 3)}...`),
    decode,
  };
}

export const bool: Schema<boolean> = {
  elementsMax: 0,
  depth: 0,
  encode: (value) => value,
  decode: (plain, trail) => (typeof plain === "boolean" ? plain : trail.fail("not a boolean")),
};

export const uuid: Schema<Uuid> = {
  elementsMax: 0,
  depth: 0,
  encode: (value, trail) => uuidBytesOf(value) ?? trail.fail("not a uuid"),
  decode: (plain, trail) =>
    plain instanceof Uint8Array && plain.length === 16 ? uuidTextOf(plain) : trail.fail("not 16 bytes"),
};

/** The native code. One that a newer peer made up reads as UNKNOWN_SERVER_ERROR. */
export const errorName: Schema<ErrorName> = {
  elementsMax: 0,
  depth: 0,
  encode: (value) => ERRORS[value].code,
  decode: (plain, trail) =>
    typeof plain === "number" && plain >= 0 && plain <= 0xffff ? errorNameOf(plain) : trail.fail("not an error code"),
};

const OUTCOMES: readonly Outcome[] = ["not appended", "unknown", "appended"];

export const outcome: Schema<Outcome> = {
  elementsMax: 0,
  depth: 0,
  encode: (value) => OUTCOMES.indexOf(value),
  decode: (plain, trail) =>
    (typeof plain === "number" ? OUTCOMES[plain] : undefined) ?? trail.fail("not an outcome of 0 to 2"),
};

export function nullable<T>(inner: Schema<T>): Schema<T | null> {
  return {
    elementsMax: inner.elementsMax,
    depth: inner.depth,
    encode: (value, trail) => (value === null ? null : inner.encode(value, trail)),
    decode: (plain, trail) => (plain === null ? null : inner.decode(plain, trail)),
  };
}

/** At most `max` values of one schema. */
export function array<T>(inner: Schema<T>, max: number): Schema<readonly T[]> {
  const wrong = `more than ${max} elements`;
  return {
    elementsMax: max * (1 + inner.elementsMax),
    depth: 1 + inner.depth,
    encode(values, trail) {
      if (values.length > max) return trail.fail(wrong);
      const out: PlainOut[] = [];
      for (let index = 0; index < values.length; index++) {
        const item = inner.encode(values[index] as T, trail);
        if (item === FAULT) return trail.at(index);
        out.push(item);
      }
      return out;
    },
    decode(plain, trail) {
      if (!Array.isArray(plain)) return trail.fail("not an array");
      const items = plain as readonly Plain[];
      if (items.length > max) return trail.fail(wrong);
      const out: T[] = [];
      for (let index = 0; index < items.length; index++) {
        const item = inner.decode(items[index] as Plain, trail);
        if (item === FAULT) return trail.at(index);
        out.push(item);
      }
      return out;
    },
  };
}

/** Rows of integers, flat: `columns.length` numbers for each, one after another. What comes in is checked and handed on as it is. */
export function intRows(columns: readonly Range[], rowsMax: number): Schema<readonly number[]> {
  const width = columns.length;
  const wrong = `not at most ${rowsMax} rows of ${width} integers`;
  const faultAt = (values: readonly unknown[], from: number): number => {
    for (let at = from; at < values.length; at++) {
      const value = values[at];
      const { min, max } = columns[at % width] as Range;
      if (!Number.isInteger(value) || (value as number) < min || (value as number) > max) return at;
    }
    return -1;
  };
  const check = (values: Plain, trail: Trail): readonly number[] | Fault => {
    if (!Array.isArray(values)) return trail.fail("not an array");
    if (values.length % width !== 0 || values.length > rowsMax * width) return trail.fail(wrong);
    const fault = faultAt(values as readonly Plain[], 0);
    if (fault < 0) return values as readonly number[];
    trail.fail("not an integer of its column's range");
    return trail.at(fault);
  };
  return {
    elementsMax: rowsMax * width,
    depth: 1,
    encode(values, trail) {
      const checked = check(values, trail);
      if (checked === FAULT || !checked.some(isBeyond32Bits)) return checked;
      return checked.map((value) => (isBeyond32Bits(value) ? BigInt(value) : value));
    },
    decode: check,
  };
}

const isBeyond32Bits = (value: number): boolean => value > 0xffffffff || value < -0x80000000;

export type Fields<T> = { readonly [Name in keyof T]-?: Schema<T[Name]> };

/** A fixed array of the fields in the order in which they are written down here. */
export function struct<T extends object>(fields: Fields<T>): Schema<T> {
  const names = Object.keys(fields) as (keyof T & string)[];
  const schemas = names.map((name): Schema<T[keyof T & string]> => fields[name]);
  const wrong = `not an array of ${names.length}`;
  return {
    elementsMax: schemas.reduce((sum, schema) => sum + 1 + schema.elementsMax, 0),
    depth: 1 + Math.max(0, ...schemas.map((schema) => schema.depth)),
    encode(value, trail) {
      const out: PlainOut[] = [];
      for (let index = 0; index < names.length; index++) {
        const name = names[index] as keyof T & string;
        const item = (schemas[index] as Schema<T[typeof name]>).encode(value[name], trail);
        if (item === FAULT) return trail.at(name);
        out.push(item);
      }
      return out;
    },
    decode(plain, trail) {
      if (!Array.isArray(plain) || plain.length !== names.length) return trail.fail(wrong);
      const items = plain as readonly Plain[];
      const out: Partial<T> = {};
      for (let index = 0; index < names.length; index++) {
        const name = names[index] as keyof T & string;
        const item = (schemas[index] as Schema<T[typeof name]>).decode(items[index] as Plain, trail);
        if (item === FAULT) return trail.at(name);
        out[name] = item;
      }
      return out as T;
    },
  };
}

/** The layout of a version that does not have the fields of `added` yet: they are not sent, and read as given there. */
export function older<T extends object, Added extends keyof T>(
  fields: Fields<Omit<T, Added>>,
  added: Pick<T, Added>,
): Schema<T> {
  const present = struct<Omit<T, Added>>(fields);
  return {
    elementsMax: present.elementsMax,
    depth: present.depth,
    encode: (value, trail) => present.encode(value, trail),
    decode(plain, trail) {
      const value = present.decode(plain, trail);
      return value === FAULT ? FAULT : ({ ...value, ...added } as unknown as T);
    },
  };
}

/** One of a few words, as its position. */
export function choice<T extends string>(...words: readonly T[]): Schema<T> {
  const wrong = `not one of ${words.length} choices`;
  return {
    elementsMax: 0,
    depth: 0,
    encode(value, trail) {
      const position = words.indexOf(value);
      return position < 0 ? trail.fail(wrong) : position;
    },
    decode: (plain, trail) => (typeof plain === "number" ? words[plain] : undefined) ?? trail.fail(wrong),
  };
}

type Kind = { readonly kind: string };
/** Tag on the wire and layout of each kind; tags are never used again for something else. */
export type Cases<T extends Kind> = {
  readonly [K in T["kind"]]: readonly [tag: number, layout: Schema<Omit<Extract<T, { kind: K }>, "kind">>];
};

/** One of several layouts, told apart by `kind`: an array of its tag and its fields. */
export function variant<T extends Kind>(cases: Cases<T>): Schema<T> {
  const rows = Object.entries(cases) as [T["kind"], readonly [number, Schema<object>]][];
  const byKind = new Map(rows);
  const byTag = new Map(rows.map(([kind, [tag, layout]]) => [tag, { kind, layout }]));
  assert(byTag.size === rows.length, "each kind has a tag of its own");
  return {
    elementsMax: 2 + Math.max(...rows.map(([, [, layout]]) => layout.elementsMax)),
    depth: 1 + Math.max(...rows.map(([, [, layout]]) => layout.depth)),
    encode(value, trail) {
      const found = byKind.get(value.kind);
      if (found === undefined) return trail.fail("unknown kind");
      const fields = found[1].encode(value, trail);
      return fields === FAULT ? trail.at(value.kind) : [found[0], fields];
    },
    decode(plain, trail) {
      if (!Array.isArray(plain) || plain.length !== 2) return trail.fail("not a pair of tag and fields");
      const [tag, fields] = plain as unknown as readonly [Plain, Plain];
      const found = typeof tag === "number" ? byTag.get(tag) : undefined;
      if (found === undefined) return trail.fail("unknown tag");
      const value = found.layout.decode(fields, trail);
      return value === FAULT ? trail.at(found.kind) : ({ kind: found.kind, ...value } as unknown as T);
    },
  };
}
