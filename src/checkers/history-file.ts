// The history of a run of real processes as text: one line of JSON per event. Every process writes a file of its own, each life of it a new one, and
// its events stand in the order of their time. The clock is the same for all of one machine (CLOCK_MONOTONIC in ms, with fractions), so that files
// can be merged by time.
import type { HistoryEvent } from "./history.ts";

/** With its line feed. */
export function historyLine(event: HistoryEvent): string {
  return `${JSON.stringify(event)}\n`;
}

export interface HistorySource {
  /** For messages: a file's name. */
  readonly name: string;
  /** The text, cut anywhere. */
  readonly chunks: Iterable<string>;
}

/** What the file says cannot be: it is not a history, or it was damaged. */
export class HistoryDamaged extends Error {
  constructor(source: string, line: number, why: string) {
    super(`${source}:${line}: ${why}`);
    this.name = "HistoryDamaged";
  }
}

/**
 * A last line without its line feed is left out, for its writer was killed while it wrote: what it would have told has not happened for anybody.
 * Any other line that is no event is an error, and so is time that goes back.
 */
export function* parseHistory({ name, chunks }: HistorySource): Generator<HistoryEvent, undefined> {
  let line = 0;
  let timeMs = Number.NEGATIVE_INFINITY;
  for (const text of linesOf(chunks)) {
    line++;
    const event = eventOf(text);
    if (event === undefined) throw new HistoryDamaged(name, line, "no event of a history");
    if (event.timeMs < timeMs)
      throw new HistoryDamaged(name, line, `time goes back from ${timeMs} to ${event.timeMs} ms`);
    timeMs = event.timeMs;
    yield event;
  }
  return undefined;
}

/** All events by time; of those at the same time, the ones of an earlier source first. Holds one event and one chunk of each source. */
export function* mergeHistories(sources: readonly HistorySource[]): Generator<HistoryEvent, undefined> {
  const heads: Head[] = [];
  for (const source of sources) {
    const rest = parseHistory(source);
    const first = rest.next();
    if (first.done !== true) heads.push({ event: first.value, rest });
  }
  while (heads.length > 0) {
    const index = earliest(heads);
    const head = heads[index];
    if (head === undefined) break;
    yield head.event;
    const next = head.rest.next();
    if (next.done === true) heads.splice(index, 1);
    else head.event = next.value;
  }
  return undefined;
}

interface Head {
  event: HistoryEvent;
  readonly rest: Generator<HistoryEvent, undefined>;
}

/** A few dozen sources at most: looking at each is cheap. */
function earliest(heads: readonly Head[]): number {
  let best = 0;
  let bestMs = Number.POSITIVE_INFINITY;
  for (const [index, { event }] of heads.entries())
    if (event.timeMs < bestMs) {
      best = index;
      bestMs = event.timeMs;
    }
  return best;
}

/** A line may be longer than many chunks (a scan): its pieces are joined once. */
function* linesOf(chunks: Iterable<string>): Generator<string> {
  let pieces: string[] = [];
  for (const chunk of chunks) {
    const [head = "", ...lines] = chunk.split("\n");
    pieces.push(head);
    for (const line of lines) {
      yield pieces.join("");
      pieces = [line];
    }
  }
}

function eventOf(text: string): HistoryEvent | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return undefined;
  }
  return isEvent(parsed) ? parsed : undefined;
}

/** The files are written by this package alone: what tells an event from anything else is enough. */
function isEvent(parsed: unknown): parsed is HistoryEvent {
  if (typeof parsed !== "object" || parsed === null || !("type" in parsed) || !("timeMs" in parsed)) return false;
  return typeof parsed.type === "string" && typeof parsed.timeMs === "number";
}
