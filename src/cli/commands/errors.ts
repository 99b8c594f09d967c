// ottla errors [CODE]: the error table, for people and scripts.
import { ERRORS } from "../../model/errors.ts";
import { EXIT } from "../../model/exit-codes.ts";
import { CommandFailure } from "../failure.ts";
import type { Invocation } from "../invocation.ts";
import { nearest } from "../../base/nearest.ts";

export async function errors({ args, output }: Invocation): Promise<number> {
  const wanted = args[0]?.toUpperCase();
  const all = Object.entries(ERRORS).map(([name, row]) => ({ name, ...row }));
  const rows = wanted === undefined ? all : all.filter((row) => row.name === wanted || String(row.code) === wanted);
  if (rows.length === 0) {
    const suggestion = nearest(
      wanted ?? "",
      Object.keys(ERRORS).filter((name) => name !== "NONE"),
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
      String(row.code),
      row.name,
      String(row.kafkaCode),
      row.retriable ? "yes" : "no",
      row.meaning,
    ]);
    output.table({ headers: ["CODE", "NAME", "KAFKA", "RETRIABLE", "MEANING"], rows: cells, right: [0, 2] });
  } else {
    for (const row of rows) {
      output.line(
        `${row.name} (code ${row.code}, Kafka's ${row.kafkaCode}, ${row.retriable ? "retriable" : "not retriable"})`,
      );
      output.line(`  ${row.meaning}`);
      if (row.hint !== "") output.line(`  hint: ${row.hint}`);
    }
  }
  return EXIT.OK;
}
