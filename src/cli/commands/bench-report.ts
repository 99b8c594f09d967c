// ottla bench report RESULT...: one HTML file of what benchmarks have found out.
import { readFileSync, writeFileSync } from "node:fs";
import { renderReport } from "../../bench/report/report.ts";
import { parseResult } from "../../bench/result-file.ts";
import type { BenchResult } from "../../bench/result.ts";
import { EXIT } from "../../model/exit-codes.ts";
import type { Invocation } from "../invocation.ts";
import { UsageError } from "../values.ts";

interface Flags {
  readonly out: string;
}

export async function benchReport({ args, flags, output }: Invocation<Flags>): Promise<number> {
  const { out } = flags;
  if (!/\.html?$/i.test(out))
    throw new UsageError(`--out takes an HTML file, not ${out}`, "give it a name that ends in .html");
  const results = args.map(readOne);
  const html = renderReport(results);
  try {
    writeFileSync(out, html);
  } catch (error) {
    throw new UsageError(`${out} cannot be written: ${(error as Error).message}`);
  }
  const runs = results.reduce((sum, result) => sum + result.runs.length, 0);
  if (output.isJson) output.json("bench report", { file: out, results: results.length, runs, bytes: html.length });
  else {
    output.line(out);
    output.note(`${runs} ${runs === 1 ? "run" : "runs"}, ${Math.ceil(html.length / 1_000)} kB: open it in a browser`);
  }
  return EXIT.OK;
}

function readOne(file: string): BenchResult {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw new UsageError(`${file} cannot be read: ${(error as Error).message}`);
  }
  return parseResult(text, file);
}
