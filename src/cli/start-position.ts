// The value of `consume -o`: start, end, an offset, -N (the last N of each partition), @time.
import type { StartPosition } from "../client/types.ts";
import { parseDuration, UsageError } from "./values.ts";

const TAKES = "takes start, end, an offset, -N (the last N), or @time: milliseconds, an ISO date or @-1h";
/** The last time that a Date can be (ECMAScript, "Time Values"). */
const TIME_MS_MAX = 8.64e15;

export function parseStartPosition(text: string, nowMs: number, flag = "-o"): StartPosition {
  if (text === "start" || text === "beginning" || text === "earliest") return "start";
  if (text === "end" || text === "latest") return "end";
  if (text.startsWith("@")) return { timestamp: parseTime(text.slice(1), nowMs, flag) };
  const value = /^-?\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (!Number.isSafeInteger(value)) throw new UsageError(`${flag} ${TAKES}; not "${text}"`);
  return text.startsWith("-") ? { fromEnd: -value } : { offset: value };
}

function parseTime(text: string, nowMs: number, flag: string): number {
  if (text === "now") return nowMs;
  if (text.startsWith("-")) return Math.max(0, nowMs - parseDuration(text.slice(1), `${flag} @-`));
  const isCount = /^\d{1,16}$/.test(text) && Number(text) <= TIME_MS_MAX;
  const parsed = isCount ? Number(text) : /^\d{4}-\d{2}/.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(parsed)) throw new UsageError(`${flag} ${TAKES}; not "@${text}"`);
  return parsed;
}
