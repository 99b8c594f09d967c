// Everything a command prints: data on stdout (table on a terminal, tab-separated otherwise, or one JSON document), all else on stderr.
import { type Failure, failureLines } from "./failure.ts";

export interface GlobalFlags {
  readonly bootstrap?: string;
  readonly bootstrapServer?: string;
  readonly json?: boolean;
  readonly timeout?: string;
  /** False after --no-color. */
  readonly color?: boolean;
  readonly quiet?: boolean;
  readonly verbose?: number;
}

export interface Table {
  readonly headers: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** Positions of columns of numbers. */
  readonly right?: readonly number[];
  /** Headers of columns that a narrow terminal leaves out, the first of them first. */
  readonly spare?: readonly string[];
}

export interface Output {
  readonly isJson: boolean;
  readonly isTerminal: boolean;
  readonly isQuiet: boolean;
  readonly verbosity: number;
  /** Lines of data on stdout. */
  line(text: string): void;
  table(table: Table): void;
  /** One JSON document on stdout, with the command's name and the version of its shape. */
  json(command: string, fields: Readonly<Record<string, unknown>>): void;
  /** A remark on stderr, with --json as a JSON line; silent with --quiet. */
  note(text: string): void;
  failure(failure: Failure): void;
}

/** For what has to run on when nobody can be told of it: that output cannot be written does not end this process any more. */
export function outliveOutput(onFault: (error: NodeJS.ErrnoException) => void): void {
  process.stdout.removeAllListeners("error");
  process.stdout.on("error", onFault);
}

/** Colour only where a person looks and did not decline it (NO_COLOR, FORCE_COLOR, TERM=dumb). */
export function wantsColour(isTerminal: boolean, flags: GlobalFlags): boolean {
  const { NO_COLOR, FORCE_COLOR, TERM } = process.env;
  if (flags.color === false || (NO_COLOR !== undefined && NO_COLOR !== "")) return false;
  if (FORCE_COLOR !== undefined && FORCE_COLOR !== "" && FORCE_COLOR !== "0") return true;
  return isTerminal && TERM !== "dumb";
}

const BOLD = "\u001b[1m";
const RED = "\u001b[31m";
const PLAIN = "\u001b[0m";

export function createOutput(flags: GlobalFlags): Output {
  const isTerminal = process.stdout.isTTY === true;
  const isJson = flags.json === true;
  const paint = wantsColour(isTerminal, flags);
  const paintErrors = wantsColour(process.stderr.isTTY === true, flags);
  return {
    isJson,
    isTerminal,
    isQuiet: flags.quiet === true,
    verbosity: flags.verbose ?? 0,
    line: (text) => void process.stdout.write(`${text}\n`),
    table: (table) =>
      void process.stdout.write(
        isTerminal ? alignedTable(fitted(table, process.stdout.columns), paint) : tabbedTable(table),
      ),
    json: (command, fields) => {
      process.stdout.write(`${JSON.stringify({ _command: command, _version: 1, ...fields })}\n`);
    },
    note: (text) => {
      if (flags.quiet !== true) process.stderr.write(remarkText(text, isJson));
    },
    failure: (failure) => void process.stderr.write(failureText(failure, { isJson, paint: paintErrors })),
  };
}

export function remarkText(text: string, isJson: boolean): string {
  return isJson ? `${JSON.stringify({ _version: 1, remark: text.trim() })}\n` : `${text}\n`;
}

export function failureText(failure: Failure, style: { readonly isJson: boolean; readonly paint: boolean }): string {
  if (style.isJson) {
    const { code, message, hint, exitCode } = failure;
    return `${JSON.stringify({ _version: 1, error: { code, message, hint, exitCode } })}\n`;
  }
  const lines = failureLines(failure).join("\n");
  return `${style.paint ? lines.replace(/^error\[[^\]]*\]/, (head) => `${RED}${head}${PLAIN}`) : lines}\n`;
}

export function tabbedTable({ headers, rows }: Table): string {
  const clean = (cell: string) => cell.replace(/[\t\n\r]/g, " ");
  return `${[headers, ...rows].map((row) => row.map(clean).join("\t")).join("\n")}\n`;
}

const GAP = 2;

/** Without as many of its spare columns as do not fit. */
export function fitted(table: Table, columns: number | undefined): Table {
  const [dropped, ...spare] = table.spare ?? [];
  const at = dropped === undefined ? -1 : table.headers.indexOf(dropped);
  const widths = table.headers.map((header, column) =>
    Math.max(header.length, ...table.rows.map((row) => row[column]?.length ?? 0)),
  );
  const width = widths.reduce((sum, one) => sum + one + GAP, -GAP);
  if (at < 0 || columns === undefined || width <= columns) return table;
  const without = (row: readonly string[]) => row.filter((_, column) => column !== at);
  const right = (table.right ?? [])
    .filter((column) => column !== at)
    .map((column) => (column > at ? column - 1 : column));
  return fitted({ headers: without(table.headers), rows: table.rows.map(without), right, spare }, columns);
}

export function alignedTable({ headers, rows, right = [] }: Table, paint = false): string {
  const widths = headers.map((header, column) => {
    return rows.reduce((width, row) => Math.max(width, row[column]?.length ?? 0), header.length);
  });
  const layOut = (row: readonly string[]) =>
    row
      .map((cell, column) =>
        right.includes(column) ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0),
      )
      .join("  ")
      .trimEnd();
  const head = layOut(headers);
  return `${[paint ? `${BOLD}${head}${PLAIN}` : head, ...rows.map(layOut)].join("\n")}\n`;
}
