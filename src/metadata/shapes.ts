// Checks of parsed JSON, field by field: what a record or a snapshot may hold.
import { uuidToBytes } from "../model/ids.ts";

export type Check = (value: unknown) => boolean;
export type Fields = Readonly<Record<string, Check>>;

/** 0 .. 2^53 - 1. Minus zero is none: it would be another text of the same number. */
export const isNumber: Check = (value) =>
  Number.isSafeInteger(value) && (value as number) >= 0 && !Object.is(value, -0);
export const isNumberOrMinusOne: Check = (value) => value === -1 || isNumber(value);
export const isTimestamp: Check = (value) => Number.isSafeInteger(value) && !Object.is(value, -0);
export const isText: Check = (value) => typeof value === "string";
export const isFlag: Check = (value) => typeof value === "boolean";
export const isUuid: Check = (value) => typeof value === "string" && uuidToBytes(value) !== undefined;

export const isNullOr =
  (check: Check): Check =>
  (value) =>
    value === null || check(value);

export const isListOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);

/** A list of exactly these, in this order. */
export const isTuple =
  (...checks: readonly Check[]): Check =>
  (value) =>
    Array.isArray(value) && value.length === checks.length && checks.every((check, at) => check(value[at]));

export const isOneOf =
  (...allowed: readonly string[]): Check =>
  (value) =>
    allowed.includes(value as string);

export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export const isObjectOf =
  (fields: Fields): Check =>
  (value) =>
    isObject(value) && faultyField(value, fields) === undefined;

/** Keys of letters and dots: none of them is taken for an index, so objects keep the order in which their keys were set. */
export const isConfigs: Check = (value) =>
  isObject(value) && Object.entries(value).every(([key, each]) => /^[a-z][a-z.]*$/.test(key) && isConfigValue(each));

/** A fraction, too. */
const isConfigValue: Check = (value) => typeof value === "number" && Math.abs(value) <= Number.MAX_SAFE_INTEGER;

/** The first field that is missing, wrong, or not known. */
export function faultyField(value: Readonly<Record<string, unknown>>, fields: Fields): string | undefined {
  for (const [name, check] of Object.entries(fields))
    if (!Object.hasOwn(value, name) || !check(value[name])) return name;
  return Object.keys(value).find((name) => !Object.hasOwn(fields, name));
}
