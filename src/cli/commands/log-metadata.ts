// ottla log dump of a node's metadata: hard state, what it remembers of other voters, snapshots, and every entry of the log with its content.
import { decodeConfiguration } from "../../broker/quorum/codec.ts";
import { decodeCommand } from "../../metadata/codec.ts";
import { asOttlaError } from "../../model/errors.ts";
import type { Fault, InspectDeps, MetadataReport } from "../../storage/inspect-types.ts";
import { dumpEntries, type EntrySummary, type MetadataFindings } from "../../storage/inspect-metadata.ts";
import type { StoredEntry } from "../../storage/raft-types.ts";
import type { Output } from "../output.ts";
import { counted } from "../values.ts";

const COLUMNS = ["POSITION", "BYTES", "INDEX", "TERM", "SYNCED", "TIMESTAMP", "KIND", "CONTENT"];
const COLUMN_WIDTHS = [12, 9, 12, 8, 12, 14, 13];

/** Of everything in the directory, up to the first break of the log; gives the count of entries. */
export async function dumpMetadataDirectory(
  deps: InspectDeps,
  report: MetadataFindings,
  output: Output,
): Promise<number> {
  printState(report.metadata, output);
  const printer = entryPrinter(output);
  printer.head();
  let count = 0;
  for (const { file } of report.logs) {
    const { count: found, fault } = await dumpInto(deps, file, printer);
    count += found;
    if (fault !== undefined) break;
  }
  return count;
}

/** Of one file of the metadata log. */
export async function dumpMetadataFile(
  deps: InspectDeps,
  file: string,
  output: Output,
): Promise<{ readonly count: number; readonly fault: Fault | undefined }> {
  const printer = entryPrinter(output);
  printer.head();
  return dumpInto(deps, file, printer);
}

async function dumpInto(
  deps: InspectDeps,
  file: string,
  printer: EntryPrinter,
): Promise<{ readonly count: number; readonly fault: Fault | undefined }> {
  let count = 0;
  const fault = await dumpEntries(deps, file, (entry, summary) => {
    count++;
    printer.row(entry, summary);
  });
  return { count, fault };
}

function printState({ state, snapshots }: MetadataReport, output: Output): void {
  if (output.isJson) {
    if (state !== undefined) output.json("log.dump", { part: "state", ...state, marks: [...state.marks].map(markOf) });
    for (const { file, meta } of snapshots)
      output.json("log.dump", { part: "snapshot", file, ...meta, configuration: configurationOf(meta?.configuration) });
    return;
  }
  if (state !== undefined) {
    const { hardState, logStart, provenEnd, boots, marks } = state;
    output.line(`term ${hardState.term}, voted for ${hardState.votedFor ?? "nobody"}; ${counted(boots, "start")}`);
    output.line(`log from ${logStart.start} (term ${logStart.startTerm}), known to be synced up to ${provenEnd}`);
    for (const [replica, mark] of marks)
      output.line(`peer ${replica}: term ${mark.term}, acknowledged ${mark.end}, ${counted(mark.boots, "start")}`);
  }
  for (const { file, meta, faults } of snapshots) {
    const what = meta === undefined ? `damaged: ${faults[0]?.reason ?? ""}` : `${meta.sizeBytes} bytes`;
    output.line(`snapshot ${file.slice(file.lastIndexOf("/") + 1)}: ${what}`);
  }
}

const markOf = ([replica, mark]: readonly [string, object]) => ({ replica, ...mark });

interface EntryPrinter {
  head(): void;
  row(entry: StoredEntry, summary: EntrySummary): void;
}

/** Rows are printed as they come. */
function entryPrinter(output: Output): EntryPrinter {
  if (output.isJson) {
    const row = (
      { index, term, kind, bytes }: StoredEntry,
      { position, sizeBytes, timestamp, syncedEnd }: EntrySummary,
    ) =>
      output.json("log.dump", {
        part: "entry",
        position,
        sizeBytes,
        index,
        term,
        kind,
        syncedEnd,
        timestamp,
        content: contentOf({ index, kind, bytes }),
      });
    return { head: () => undefined, row };
  }
  const layOut = (cells: readonly string[]) =>
    output.isTerminal
      ? cells.map((cell, column) => cell.padStart(COLUMN_WIDTHS[column] ?? 0)).join(" ")
      : cells.join("\t");
  return {
    head: () => output.line(layOut(COLUMNS)),
    row: (entry, { position, sizeBytes, timestamp, syncedEnd }) => {
      const numbers = [position, sizeBytes, entry.index, entry.term, syncedEnd, timestamp];
      output.line(layOut([...numbers.map(String), entry.kind, JSON.stringify(contentOf(entry))]));
    },
  };
}

/** What the entry says; a text where this build cannot tell. */
function contentOf({ index, kind, bytes }: Pick<StoredEntry, "index" | "kind" | "bytes">): unknown {
  try {
    switch (kind) {
      case "command":
        return decodeCommand(bytes, index);
      case "configuration":
        return decodeConfiguration(bytes, `entry ${index}`);
      case "leaderStart":
        return null;
    }
  } catch (thrown) {
    return asOttlaError(thrown).message;
  }
}

function configurationOf(bytes: Uint8Array | undefined): unknown {
  return bytes === undefined ? null : contentOf({ index: 0, kind: "configuration", bytes });
}
