// ottla errors [CODE]: the error table, for people and scripts.
import { ERRORS } from "../../model/errors.ts";
import { EXIT } from "../../model/exit-codes.ts";
import { CLI_CODES } from "../codes.ts";
import { CommandFailure } from "../failure.ts";
import type { Invocation } from "../invocation.ts";
import { nearest } from "../../base/nearest.ts";

interface Row {
  readonly name: string;
  /** Null: only the command line has it. */
  readonly code: number | null;
  readonly kafkaCode: number | null;
  readonly retriable: boolean;
  readonly meaning: string;
  readonly hint: string;
}

/** By name or native code; undefined: all. */
export function errorRows(wanted: string | undefined): Row[] {
  const table = Object.entries(ERRORS).map(([name, row]) => ({ name, ...row }));
  const own = Object.entries(CLI_CODES).map(([name, row]) => {
    return { name, code: null, kafkaCode: null, retriable: false, ...row };
  });
  const all: Row[] = [...table, ...own];
  return wanted === undefined ? all : all.filter(({ name, code }) => name === wanted || String(code) === wanted);
}

export async function errors({ args, output }: Invocation): Promise<number> {
  const wanted = args[0]?.toUpperCase();
  const rows = errorRows(wanted);
  if (rows.length === 0) {
    const suggestion = nearest(
      wanted ?? "",
      [...Object.keys(ERRORS), ...Object.keys(CLI_CODES)].filter((name) => name !== "NONE"),
    );
    const hint = suggestion === undefined ? "ottla errors lists all" : `did you mean ${suggestion}?`;
    throw new CommandFailure({
      code: "UNKNOWN_ERROR_CODE",
      message: `there is no error ${wanted}`,
      hint,
      exitCode: EXIT.NOT_FOUND,
    });
  }
  if (output.isJson) output.json("errors", { errors: rows });
  else if (wanted === undefined) {
    const cells = rows.map((row) => [
      String(row.code ?? "-"),
      row.name,
      String(row.kafkaCode ?? "-"),
      row.retriable ? "yes" : "no",
      row.meaning,
    ]);
    output.table({ headers: ["CODE", "NAME", "KAFKA", "RETRIABLE", "MEANING"], rows: cells, right: [0, 2] });
  } else {
    for (const row of rows) {
      const retriable = row.retriable ? "retriable" : "not retriable";
      const whose =
        row.code === null ? "the command line's" : `code ${row.code}, Kafka's ${row.kafkaCode}, ${retriable}`;
      output.line(`${row.name} (${whose})`);
      output.line(`  ${row.meaning}`);
      if (row.hint !== "") output.line(`  hint: ${row.hint}`);
    }
  }
  return EXIT.OK;
}
