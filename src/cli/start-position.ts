// The value of `consume -o`: start, end, an offset, -N (the last N of each partition), @time.
import type { StartPosition } from "../client/types.ts";
import { parseDuration, UsageError } from "./values.ts";

const TAKES =
  "takes start, end, an offset, -N (the last N), or @time: milliseconds, an ISO date (UTC unless it says otherwise) or @-1h";
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
  if (/^-\d+$/.test(text)) throw new UsageError(`${flag} @${text} names no unit`, `such as @${text}s or @${text}h`);
  if (text.startsWith("-")) return Math.max(0, nowMs - parseDuration(text.slice(1), `${flag} @-`));
  const isCount = /^\d{1,16}$/.test(text) && Number(text) <= TIME_MS_MAX;
  const parsed = isCount ? Number(text) : parseDate(text);
  if (Number.isNaN(parsed)) throw new UsageError(`${flag} ${TAKES}; not "@${text}"`);
  return parsed;
}

const ISO_DATE = /^(\d{4}-\d{2})(?:(-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?))?)?(Z|[+-]\d{2}:?\d{2})?$/;

/** NaN: it is none, or names a day that no month has. Date.parse alone takes a time without a zone for local time, and the 31st of a February for the 3rd of March. */
function parseDate(text: string): number {
  const [, month, day = "-01", time = "00:00", zone = "Z"] = ISO_DATE.exec(text) ?? [];
  if (month === undefined) return Number.NaN;
  const midnightMs = Date.parse(`${month}${day}T00:00Z`);
  const isThere = !Number.isNaN(midnightMs) && new Date(midnightMs).toISOString().startsWith(month + day);
  const zoneWithColon = zone.replace(/^(.\d{2})(\d{2})$/, "$1:$2");
  return isThere ? Date.parse(`${month}${day}T${time}${zoneWithColon}`) : Number.NaN;
}
