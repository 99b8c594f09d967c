// ottla chaos export: the history of one cluster of a run, for other checkers.
import { existsSync, readdirSync, writeSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { historyFilesOf } from "../../chaos/history-files.ts";
import { historyFile } from "../../chaos/history-io.ts";
import { ednLines } from "../../checkers/edn.ts";
import { HistoryDamaged, mergeHistories } from "../../checkers/history-file.ts";
import { EXIT } from "../../model/exit-codes.ts";
import { CommandFailure } from "../failure.ts";
import type { Invocation } from "../invocation.ts";
import { replaceFile } from "../replace-file.ts";
import { counted, UsageError } from "../values.ts";
import { refuseUnwritable } from "./bench-out.ts";

export interface ExportFlags {
  readonly edn?: string;
  readonly cluster?: string;
}

export function chaosExport({ args, flags, output }: Invocation<ExportFlags>): Promise<number> {
  if (flags.edn === undefined) throw new UsageError("--edn <file> says where it is written");
  refuseUnwritable(dirname(resolve(flags.edn)), "--edn");
  const files = historyFilesOf(clusterOf(resolve(args[0] ?? ""), flags.cluster));
  if (files.length === 0) throw nothingThere(args[0] ?? "");
  let lines = 0;
  try {
    replaceFile(flags.edn, (out) => {
      for (const line of ednLines(mergeHistories(files.map(historyFile)))) {
        writeSync(out, `${line}\n`);
        lines++;
      }
    });
  } catch (error) {
    throw error instanceof HistoryDamaged ? damaged(error) : error;
  }
  if (output.isJson) output.json("chaos.export", { file: flags.edn, operations: lines, histories: files.length });
  else output.note(`${counted(lines, "line")} from ${counted(files.length, "history file")}`);
  return Promise.resolve(EXIT.OK);
}

/** A run's directory has clusters below it; that of one cluster is taken as it is. */
function clusterOf(directory: string, wanted: string | undefined): string {
  if (existsSync(join(directory, "history"))) return directory;
  const names = existsSync(directory) ? readdirSync(directory).filter((name) => /^cluster-\d+$/.test(name)) : [];
  const name = wanted === undefined ? names[0] : `cluster-${wanted}`;
  if (name === undefined || !names.includes(name)) throw nothingThere(directory);
  if (wanted === undefined && names.length > 1)
    throw new UsageError(`${directory} has ${counted(names.length, "cluster")}`, "say which with --cluster 1");
  return join(directory, name);
}

function damaged(error: HistoryDamaged): CommandFailure {
  const hint = "run it again: what is left of this one cannot be told from what was changed";
  return new CommandFailure({ code: "HISTORY_DAMAGED", message: error.message, hint, exitCode: EXIT.FAILED }, error);
}

function nothingThere(directory: string): CommandFailure {
  return new CommandFailure({
    code: "NO_HISTORY",
    message: `${directory} holds no history of a chaos run`,
    hint: "give the directory that ottla chaos run --out was given",
    exitCode: EXIT.NOT_FOUND,
  });
}
