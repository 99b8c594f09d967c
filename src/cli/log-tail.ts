// The last lines of a node's log, shortened for a person.
import { closeSync, existsSync, fstatSync, openSync, readSync } from "node:fs";

const TAIL_BYTES = 16 * 1024;
const LINE_CHARS_MAX = 200;

export function lastLogLines(file: string, count: number): string[] {
  if (!existsSync(file)) return [];
  const fd = openSync(file, "r");
  try {
    const sizeBytes = fstatSync(fd).size;
    const tail = Buffer.alloc(Math.min(sizeBytes, TAIL_BYTES));
    readSync(fd, tail, 0, tail.length, sizeBytes - tail.length);
    const lines = tail.toString("utf8").split("\n");
    return lines
      .filter((line) => line.trim() !== "")
      .slice(-count)
      .map(readable);
  } finally {
    closeSync(fd);
  }
}

/** A line of JSON as `12:34:56.789 error event key=value`; stacks stay in the file. Anything else as it is. */
export function readable(line: string): string {
  let parsed: unknown;
  try {
    parsed = JSON.parse(line);
  } catch {
    return clip(line);
  }
  if (typeof parsed !== "object" || parsed === null) return clip(line);
  const { time, level, event, node: _node, stack: _stack, ...rest } = parsed as Record<string, unknown>;
  const fields = Object.entries(rest).map(
    ([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
  const clock = typeof time === "string" ? time.slice(11, 23) : "";
  return clip([clock, String(level), String(event), ...fields].join(" "));
}

const clip = (text: string) => (text.length > LINE_CHARS_MAX ? `${text.slice(0, LINE_CHARS_MAX - 3)}...` : text);
