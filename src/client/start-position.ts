// Where a consumer may be told to start.
import type { Check } from "./options.ts";

const FIELDS = ["offset", "fromEnd", "timestamp"];

/** What a start position may be; undefined when it is one. */
export const startPositionFault: Check = (from) => {
  if (from === "start" || from === "end") return undefined;
  const takes = '"start", "end", { offset }, { fromEnd } or { timestamp }';
  if (typeof from !== "object" || from === null) return takes;
  const [field, ...others] = Object.entries(from as Readonly<Record<string, unknown>>);
  if (field === undefined || others.length > 0 || !FIELDS.includes(field[0])) return `${takes}, one of them`;
  const [name, value] = field;
  const isFine = typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
  return isFine ? undefined : `{ ${name} } with an integer from 0 on`;
};
