// The last lines of a node's log, shortened for a person; and a bound for files that somebody else appends to.
import { closeSync, copyFileSync, existsSync, fstatSync, openSync, readSync, statSync, truncateSync } from "node:fs";
import { dirname, join } from "node:path";
import { unusable } from "./data-dir.ts";

const TAIL_BYTES_MIN = 16 * 1024;
/** Read for each line that is asked for; most are a quarter as long. */
const LINE_BYTES = 1024;
const LINE_CHARS_MAX = 200;

/** Beside a node's log: what its process says outside of it, such as the last words of V8. Begun anew by each start. */
export const stderrLogOf = (logFile: string) => join(dirname(logFile), "stderr.log");

/** An empty file that is appended to. */
export function openAnew(file: string): number {
  try {
    closeSync(openSync(file, "w"));
    return openSync(file, "a");
  } catch (thrown) {
    throw unusable(file, thrown);
  }
}

/** Cuts a file that processes append to (O_APPEND) and keeps its content as `<file>.1`. What is written in between is lost. */
export function boundFile(file: string, bytesMax: number): void {
  if ((statSync(file, { throwIfNoEntry: false })?.size ?? 0) <= bytesMax) return;
  copyFileSync(file, `${file}.1`);
  truncateSync(file);
}

/** For a person, beside other news: never throws. */
export function lastLogLines(file: string, count: number): string[] {
  try {
    return tailOf(file, count).lines.map((line) => clip(readable(line)));
  } catch (thrown) {
    return [clip(`${file} cannot be read: ${(thrown as NodeJS.ErrnoException).code ?? String(thrown)}`)];
  }
}

export interface LogTail {
  readonly lines: readonly string[];
  /** Where what is appended later begins. */
  readonly endByte: number;
}

/** The last lines as they are in the file, at most so many as its last KiB for each of them hold. */
export function tailOf(file: string, count: number): LogTail {
  if (!existsSync(file)) return { lines: [], endByte: 0 };
  const fd = openSync(file, "r");
  try {
    const sizeBytes = fstatSync(fd).size;
    const tail = Buffer.alloc(Math.min(sizeBytes, Math.max(TAIL_BYTES_MIN, count * LINE_BYTES)));
    readSync(fd, tail, 0, tail.length, sizeBytes - tail.length);
    const text = tail.toString("utf8");
    // What follows the last line feed is a line that is being written.
    const end = text.lastIndexOf("\n") + 1;
    const lines = text.slice(0, end).split("\n");
    const isCut = sizeBytes > tail.length;
    const whole = (isCut ? lines.slice(1) : lines).filter((line) => line.trim() !== "");
    return {
      lines: whole.slice(Math.max(0, whole.length - count)),
      endByte: sizeBytes - Buffer.byteLength(text.slice(end)),
    };
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
    return line;
  }
  if (typeof parsed !== "object" || parsed === null) return line;
  const { time, level, event, node: _node, stack: _stack, ...rest } = parsed as Record<string, unknown>;
  const fields = Object.entries(rest).map(
    ([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
  const clock = typeof time === "string" ? time.slice(11, 23) : "";
  return [clock, String(level), String(event), ...fields].join(" ");
}

const clip = (text: string) => (text.length > LINE_CHARS_MAX ? `${text.slice(0, LINE_CHARS_MAX - 3)}...` : text);
