// ottla log dump|verify: the files of a stopped node, looked at without a broker. Damage ends with 1 and names the first bad offset.
import { relative } from "node:path";
import { EXIT } from "../../model/exit-codes.ts";
import { createChecksum } from "../../platform/checksum.ts";
import { createFiles } from "../../platform/files.ts";
import { FileError } from "../../ports/files.ts";
import {
  type BatchSummary,
  type DirectoryReport,
  dumpLog,
  type Fault,
  faultsOf,
  type LogReport,
  verifyDirectory,
} from "../../storage/inspect.ts";
import { CommandFailure } from "../failure.ts";
import type { Invocation } from "../invocation.ts";
import type { Output } from "../output.ts";
import { counted } from "../values.ts";

const HELP = "log dump takes a .log file; log verify takes a node's data directory or a partition's directory";
const FAULTS_TOLD_MAX = 20;

const inspectDeps = () => ({ files: createFiles(), checksum: createChecksum() });

export async function logDump({ args, output }: Invocation): Promise<number> {
  const file = args[0] ?? "";
  const print = batchPrinter(output);
  let count = 0;
  const fault = await looking(() =>
    dumpLog(inspectDeps(), file, (batch) => {
      count++;
      print(batch);
    }),
  );
  output.note(`${count} ${count === 1 ? "batch" : "batches"}`);
  if (fault !== undefined) throw damaged([fault]);
  return EXIT.OK;
}

const COLUMNS = ["POSITION", "BYTES", "BASE", "LAST", "EPOCH", "RECORDS", "TIMESTAMP", "CODEC", "KIND"];
const COLUMN_WIDTHS = [12, 9, 12, 12, 6, 8, 14, 7, 7];

/** Rows are printed as they come: a segment may hold millions. */
function batchPrinter(output: Output): (batch: BatchSummary) => void {
  if (output.isJson) return (batch) => output.json("log.dump", { ...batch });
  const layOut = (cells: readonly string[]) =>
    output.isTerminal
      ? cells.map((cell, column) => cell.padStart(COLUMN_WIDTHS[column] ?? 0)).join(" ")
      : cells.join("\t");
  output.line(layOut(COLUMNS));
  return (batch) => output.line(layOut(cellsOf(batch)));
}

function cellsOf(batch: BatchSummary): string[] {
  const { position, sizeBytes, baseOffset, lastOffset, leaderEpoch, recordCount, maxTimestamp } = batch;
  const numbers = [position, sizeBytes, baseOffset, lastOffset, leaderEpoch, recordCount, maxTimestamp];
  return [...numbers.map(String), batch.codec, batch.isControl ? "control" : "data"];
}

export async function logVerify({ args, output }: Invocation): Promise<number> {
  const directory = args[0] ?? "";
  const report = await looking(() => verifyDirectory(inspectDeps(), directory.replace(/(?<=.)\/+$/, "")));
  const faults = faultsOf(report);
  printReport(output, report, faults);
  if (faults.length > 0) throw damaged(faults);
  return EXIT.OK;
}

function printReport(output: Output, report: DirectoryReport, faults: readonly Fault[]): void {
  if (output.isJson) {
    output.json("log.verify", { ...report, isGood: faults.length === 0, firstFault: faults[0] ?? null });
    return;
  }
  const rows = report.logs.map((log) => rowOf(log, report.directory));
  output.table({
    headers: ["FILE", "BASE", "END", "BATCHES", "RECORDS", "BYTES", "TAIL", "STATE"],
    rows,
    right: [1, 2, 3, 4, 5, 6],
  });
  for (const fault of faults.slice(0, FAULTS_TOLD_MAX)) output.note(describeFault(fault));
  if (faults.length > FAULTS_TOLD_MAX) output.note(`and ${faults.length - FAULTS_TOLD_MAX} more; --json lists all`);
  if (faults.length === 0) output.note(`${report.kind}: ${counted(report.logs.length, "file")}, all good`);
}

function rowOf(log: LogReport, directory: string): string[] {
  const { baseOffset, endOffset, batchCount, recordCount, sizeBytes, tailBytes } = log;
  const numbers = [baseOffset, endOffset, batchCount, recordCount, sizeBytes, tailBytes];
  return [relative(directory, log.file), ...numbers.map(String), log.faults.length === 0 ? "ok" : "damaged"];
}

function describeFault({ file, position, offset, reason }: Fault): string {
  const where = [offset === undefined ? "" : `offset ${offset}`, position === undefined ? "" : `byte ${position}`];
  return `${[file, ...where.filter((part) => part !== "")].join(", ")}: ${reason}`;
}

function damaged(faults: readonly Fault[]): CommandFailure {
  const first = faults.find((fault) => fault.offset !== undefined) ?? faults[0];
  const offset = first?.offset === undefined ? "" : `first bad offset ${first.offset}: `;
  const message = `${offset}${first === undefined ? "" : describeFault(first)}`;
  const hint = "keep a copy of the directory before anything is changed in it";
  return new CommandFailure({ code: "DATA_DAMAGED", message, hint, exitCode: EXIT.FAILED });
}

/** Words for what the file system says. */
async function looking<T>(look: () => Promise<T>): Promise<T> {
  try {
    return await look();
  } catch (thrown) {
    if (!(thrown instanceof FileError)) throw thrown;
    const exitCode = thrown.kind === "not-found" ? EXIT.NOT_FOUND : EXIT.FAILED;
    const message = `${thrown.path}: ${thrown.kind === "not-found" ? "no such file or directory" : thrown.kind}`;
    throw new CommandFailure({ code: "FILE_UNREADABLE", message, hint: HELP, exitCode }, thrown);
  }
}
