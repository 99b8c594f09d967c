// ottla log dump|verify: the files of a stopped node, looked at without a broker. Damage ends with 1 and names the first bad offset.
import { existsSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { EXIT } from "../../model/exit-codes.ts";
import { createChecksum } from "../../platform/checksum.ts";
import { createFiles } from "../../platform/files.ts";
import { FileError, type FileErrorKind } from "../../ports/files.ts";
import { verifyDirectory } from "../../storage/inspect.ts";
import { dumpLog, verifyLog } from "../../storage/inspect-log.ts";
import {
  type BatchSummary,
  type DirectoryReport,
  type Fault,
  faultsOf,
  type LogReport,
  type MetadataReport,
  type SnapshotReport,
} from "../../storage/inspect-types.ts";
import { verifyMetadata } from "../../storage/inspect-metadata.ts";
import {
  IDENT_SUFFIX,
  INDEX_SUFFIX,
  LOG_SUFFIX,
  PRODUCERS_SUFFIX,
  producersEndOf,
  SNAPSHOT_SUFFIX,
  TIME_INDEX_SUFFIX,
} from "../../storage/paths.ts";
import { QUORUM_STATE } from "../../storage/quorum-state.ts";
import { isDirectory } from "../data-dir.ts";
import { CommandFailure } from "../failure.ts";
import type { Invocation } from "../invocation.ts";
import type { Output } from "../output.ts";
import { counted } from "../values.ts";

const HELP =
  "log dump takes a segment file (<20 digits>.log), its .index, .timeindex or .ident, an image or a snapshot of producers or a node's metadata directory; log verify a segment file, and a partition's or a node's data directory";
const FAULTS_TOLD_MAX = 20;

const inspectDeps = () => ({ files: createFiles(), checksum: createChecksum() });

export async function logDump({ args, output }: Invocation): Promise<number> {
  const file = withoutSlash(args[0] ?? "");
  if (isMetadata(file)) return dumpMetadata(file, output);
  if (isDirectory(file)) throw unusable(file, "it is a directory");
  if (file.endsWith(PRODUCERS_SUFFIX)) return dumpImage(file, output);
  if (existsSync(file) && isBeside(file)) return dumpBeside(file, output);
  refuseOtherFile(file);
  if (isMetadata(dirname(file))) return dumpMetadata(file, output);
  const printer = batchPrinter(output);
  let count = 0;
  const fault = await looking(() =>
    dumpLog(inspectDeps(), file, (batch) => {
      if (count++ === 0) printer.head();
      printer.row(batch);
    }),
  );
  if (count === 0 && fault === undefined) printer.head();
  output.note(counted(count, "batch", "batches"));
  if (fault !== undefined) throw damaged([fault], FILE_HINT);
  return EXIT.OK;
}

async function dumpImage(file: string, output: Output): Promise<number> {
  const { dumpProducers } = await import("./log-producers.ts");
  const found = await looking(() => dumpProducers(inspectDeps(), file, output));
  if (typeof found !== "number")
    throw damaged([found], "it is passed over by the next start, which reads the log instead");
  output.note(counted(found, "producer"));
  return EXIT.OK;
}

async function dumpBeside(file: string, output: Output): Promise<number> {
  const { dumpSidecar } = await import("./log-sidecars.ts");
  const found = await looking(() => dumpSidecar(inspectDeps(), file, output));
  if (typeof found !== "number")
    throw damaged([found], "it is made anew from the log, or checked with it, by the next start");
  output.note(counted(found, "row"));
  return EXIT.OK;
}

const BESIDE = [INDEX_SUFFIX, TIME_INDEX_SUFFIX, IDENT_SUFFIX];
const isSnapshot = (file: string) => producersEndOf(basename(file), SNAPSHOT_SUFFIX) !== undefined;
const isBeside = (file: string) => isSnapshot(file) || BESIDE.some((suffix) => file.endsWith(suffix));
const withoutSlash = (path: string) => path.replace(/(?<=.)\/+$/, "");
const isMetadata = (directory: string) => existsSync(join(directory, QUORUM_STATE));

async function dumpMetadata(path: string, output: Output): Promise<number> {
  const { dumpMetadataDirectory, dumpMetadataFile } = await import("./log-metadata.ts");
  const deps = inspectDeps();
  const { count, faults } = await looking(async () => {
    if (isDirectory(path)) {
      const found = await verifyMetadata(deps, path);
      const entries = await dumpMetadataDirectory(deps, found, output);
      return { count: entries, faults: faultsOf({ ...found, directory: path }) };
    }
    const { count: entries, fault } = await dumpMetadataFile(deps, path, output);
    return { count: entries, faults: fault === undefined ? [] : [fault] };
  });
  output.note(counted(count, "entry", "entries"));
  if (faults.length > 0) throw damaged(faults, isDirectory(path) ? DIRECTORY_HINT : FILE_HINT);
  return EXIT.OK;
}

function refuseOtherFile(file: string): void {
  if (file.endsWith(LOG_SUFFIX) || !existsSync(file)) return;
  if (file.endsWith(PRODUCERS_SUFFIX) || isSnapshot(file))
    throw unusable(file, `it is an image of producers, which is checked with its log: ${dirname(file)}`);
  const suffix = BESIDE.find((each) => file.endsWith(each));
  if (suffix === undefined) throw unusable(file, "it is no segment file");
  throw unusable(file, `it is checked with its segment, which is ${file.slice(0, -suffix.length)}${LOG_SUFFIX}`);
}

function unusable(path: string, reason: string): CommandFailure {
  return new CommandFailure({
    code: "NO_SEGMENT_FILE",
    message: `${path}: ${reason}`,
    hint: HELP,
    exitCode: EXIT.USAGE,
  });
}

const COLUMNS = ["POSITION", "BYTES", "BASE", "LAST", "EPOCH", "RECORDS", "TIMESTAMP", "CODEC", "KIND"];
/** Its epoch behind its id. */
const PRODUCER_COLUMNS = ["PRODUCER", "SEQUENCE"];
const COLUMN_WIDTHS = [12, 9, 12, 12, 6, 8, 14, 7, 7, 14, 10];

/** Rows are printed as they come: a segment may hold millions. */
function batchPrinter(output: Output): { head(): void; row(batch: BatchSummary): void } {
  if (output.isJson) return { head: () => undefined, row: (batch) => output.json("log.dump", { ...batch }) };
  const layOut = (cells: readonly string[]) =>
    output.isTerminal
      ? cells.map((cell, column) => cell.padStart(COLUMN_WIDTHS[column] ?? 0)).join(" ")
      : cells.join("\t");
  return {
    head: () => output.line(layOut([...COLUMNS, ...PRODUCER_COLUMNS])),
    row: (batch) => output.line(layOut(cellsOf(batch))),
  };
}

function cellsOf(batch: BatchSummary): string[] {
  const { position, sizeBytes, baseOffset, lastOffset, leaderEpoch, recordCount, maxTimestamp } = batch;
  const numbers = [position, sizeBytes, baseOffset, lastOffset, leaderEpoch, recordCount, maxTimestamp];
  const { producerId, producerEpoch, baseSequence } = batch;
  const producer = producerId < 0 ? ["-", "-"] : [`${producerId}/${producerEpoch}`, String(baseSequence)];
  return [...numbers.map(String), batch.codec, kindOf(batch), ...producer];
}

/** `empty`: compaction has left only its offsets. `deletes`: so it has records that delete their key, which go in time. */
function kindOf({ isControl, told, recordCount, deleteHorizonMs }: BatchSummary): string {
  if (isControl) return told?.kind ?? "control";
  if (recordCount === 0) return "empty";
  return deleteHorizonMs === undefined ? "data" : "deletes";
}

export async function logVerify({ args, output }: Invocation): Promise<number> {
  const path = withoutSlash(args[0] ?? "");
  const isFile = existsSync(path) && !isDirectory(path);
  if (isFile) refuseOtherFile(path);
  const report = await looking(() => (isFile ? verifyFile(path) : verifyDirectory(inspectDeps(), path)));
  const faults = faultsOf(report);
  printReport(output, report, faults);
  if (faults.length > 0) throw damaged(faults, isFile ? FILE_HINT : DIRECTORY_HINT);
  return EXIT.OK;
}

type Report = Omit<DirectoryReport, "kind"> & { readonly kind: DirectoryReport["kind"] | "segment" };

const DIRECTORY_HINT = "keep a copy of the directory before anything is changed in it";
const FILE_HINT =
  "a tail torn by a crash is no damage, but only ottla log verify of the node's data directory can tell; keep a copy before anything is changed";

async function verifyFile(path: string): Promise<Report> {
  const { remarks, ...log } = await verifyLog(inspectDeps(), path);
  return { kind: "segment", directory: dirname(path), logs: [log], metadata: undefined, faults: [], remarks };
}

function printReport(output: Output, report: Report, faults: readonly Fault[]): void {
  if (output.isJson) {
    output.json("log.verify", {
      ...report,
      metadata: metadataFields(report.metadata),
      isGood: faults.length === 0,
      firstFault: faults[0] ?? null,
    });
    return;
  }
  const snapshots = report.metadata?.snapshots ?? [];
  const rows = [
    ...report.logs.map((log) => rowOf(log, report.directory)),
    ...snapshots.map((each) => snapshotRow(each, report.directory)),
  ];
  output.table({
    headers: ["FILE", "BASE", "END", "BATCHES", "RECORDS", "BYTES", "TAIL", "STATE"],
    rows,
    right: [1, 2, 3, 4, 5, 6],
  });
  for (const fault of faults.slice(0, FAULTS_TOLD_MAX)) output.note(describeFault(fault));
  if (faults.length > FAULTS_TOLD_MAX) output.note(`and ${faults.length - FAULTS_TOLD_MAX} more; --json lists all`);
  for (const { file, position, reason } of report.remarks)
    output.note(describeFault({ file, position, offset: undefined, reason }));
  if (faults.length === 0) output.note(`${report.kind}: ${counted(rows.length, "file")}, all good`);
}

function snapshotRow({ file, meta, faults }: SnapshotReport, directory: string): string[] {
  const numbers = [meta?.end, undefined, undefined, meta?.sizeBytes, undefined];
  const cells = numbers.map((number) => (number === undefined ? "-" : String(number)));
  return [relative(directory, file), "-", ...cells, faults.length === 0 ? "ok" : "damaged"];
}

function metadataFields(metadata: MetadataReport | undefined): unknown {
  if (metadata === undefined) return null;
  const { state, snapshots } = metadata;
  const marks = state === undefined ? [] : [...state.marks].map(([replica, mark]) => ({ replica, ...mark }));
  return {
    state: state === undefined ? null : { ...state, marks },
    snapshots: snapshots.map(({ file, meta }) => ({
      file,
      end: meta?.end ?? null,
      lastTerm: meta?.lastTerm ?? null,
      sizeBytes: meta?.sizeBytes ?? null,
    })),
  };
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

function damaged(faults: readonly Fault[], hint: string): CommandFailure {
  const first = faults.find((fault) => fault.offset !== undefined) ?? faults[0];
  const offset = first?.offset === undefined ? "" : `first bad offset ${first.offset}: `;
  const message = `${offset}${first === undefined ? "" : describeFault(first)}`;
  return new CommandFailure({ code: "DATA_DAMAGED", message, hint, exitCode: EXIT.FAILED });
}

const REASONS: Readonly<Partial<Record<FileErrorKind, string>>> = {
  "not-found": "no such file or directory",
  denied: "permission denied",
  io: "the disk failed to read it",
};

/** Words for what the file system says. */
async function looking<T>(look: () => Promise<T>): Promise<T> {
  try {
    return await look();
  } catch (thrown) {
    if (!(thrown instanceof FileError)) throw thrown;
    const exitCode = thrown.kind === "not-found" ? EXIT.NOT_FOUND : EXIT.FAILED;
    const reason = REASONS[thrown.kind] ?? (thrown.cause instanceof Error ? thrown.cause.message : thrown.kind);
    const message = `${thrown.path}: ${reason}`;
    throw new CommandFailure({ code: "FILE_UNREADABLE", message, hint: HELP, exitCode }, thrown);
  }
}
