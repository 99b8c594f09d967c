// Where the verbs of `ottla bench` put what they found out: checked before anything is measured, written after.
import { accessSync, constants, existsSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, extname, resolve } from "node:path";
import { renderReport } from "../../bench/report/report.ts";
import { resultText } from "../../bench/result-file.ts";
import type { BenchResult } from "../../bench/result.ts";
import type { Output } from "../output.ts";
import { replaceText } from "../replace-file.ts";
import { ottlaCommand } from "../self.ts";
import { UsageError } from "../values.ts";

/** What Ctrl-C makes of a measurement. */
export const MEASURED_SO_FAR = "ending, with what was measured so far";

/** Of --out: results (.json), and of most verbs reports (.html). */
export function outsOf(
  files: readonly string[] = [],
  endings: readonly string[] = [".json", ".html"],
): readonly string[] {
  for (const file of files) {
    if (!endings.includes(extname(file)))
      throw new UsageError(`--out takes a file that ends in ${endings.join(" or ")}, not "${file}"`);
    if (existsSync(file) && statSync(file).isDirectory()) throw new UsageError(`--out ${file}: it is a directory`);
    refuseUnwritable(dirname(resolve(file)), "--out");
  }
  return files;
}

/** Of --dir. */
export function directoryOf(path: string | undefined): string {
  const directory = resolve(path ?? tmpdir());
  refuseUnwritable(directory, "--dir");
  return directory;
}

export function refuseUnwritable(directory: string, what: string): void {
  try {
    if (!statSync(directory).isDirectory()) throw new UsageError(`${what}: ${directory} is no directory`);
    accessSync(directory, constants.W_OK);
  } catch (thrown) {
    if (thrown instanceof UsageError) throw thrown;
    const reason = (thrown as NodeJS.ErrnoException).code === "ENOENT" ? "does not exist" : "cannot be written to";
    throw new UsageError(`${what}: the directory ${directory} ${reason}`);
  }
}

export function writeOuts(outs: readonly string[], result: BenchResult, output: Output): void {
  for (const file of outs) {
    replaceText(file, file.endsWith(".json") ? resultText(result) : renderReport([result]));
    output.note(`written: ${file}`);
  }
}

const quoted = (text: string) => (/^[\w./:=,@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** To paste. */
export const commandLine = (): string => [ottlaCommand(), ...process.argv.slice(2).map(quoted)].join(" ");
