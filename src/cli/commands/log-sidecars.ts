// ottla log dump of what lies beside a segment: its offset index, its time index, the rows of its identity, and Kafka's file of producers.
import { dirname } from "node:path";
import type { Fault, InspectDeps } from "../../storage/inspect-types.ts";
import { readSidecarRows } from "../../storage/inspect-sidecars.ts";
import { readPartitionMetadata } from "../../storage/log-directory.ts";
import { baseOffsetOf, IDENT_SUFFIX, INDEX_SUFFIX, SNAPSHOT_SUFFIX, TIME_INDEX_SUFFIX } from "../../storage/paths.ts";
import type { Output } from "../output.ts";

/** Offsets in these files are relative to the base of the segment; they are shown as they are in the log. */
const COLUMNS: Readonly<Record<string, { readonly headers: readonly string[]; readonly fields: readonly string[] }>> = {
  [INDEX_SUFFIX]: { headers: ["LAST", "POSITION"], fields: ["lastOffset", "position"] },
  [TIME_INDEX_SUFFIX]: { headers: ["TIMESTAMP", "LAST"], fields: ["timestamp", "lastOffset"] },
  [IDENT_SUFFIX]: { headers: ["END", "POSITION", "CHAIN"], fields: ["endOffset", "position", "chain"] },
  [SNAPSHOT_SUFFIX]: {
    headers: ["PRODUCER", "EPOCH", "LAST SEQUENCE", "LAST", "OFFSET DELTA"],
    fields: ["producerId", "producerEpoch", "lastSequence", "lastOffset", "offsetDelta"],
  },
};

/** Gives the count of rows, or the fault of a damaged file. */
export async function dumpSidecar(deps: InspectDeps, file: string, output: Output): Promise<number | Fault> {
  const base = baseOffsetOf(file.slice(file.lastIndexOf("/") + 1))?.base ?? 0;
  const metadata = file.endsWith(IDENT_SUFFIX) ? await readPartitionMetadata(deps, dirname(file)) : undefined;
  const found = await readSidecarRows(deps, file, metadata && { ...metadata, base });
  if (!Array.isArray(found)) return found as Fault;
  const rows = found.map(({ relativeLast, relativeEnd, ...rest }: Readonly<Record<string, number>>) => ({
    ...(relativeLast === undefined ? {} : { lastOffset: base + relativeLast }),
    ...(relativeEnd === undefined ? {} : { endOffset: base + relativeEnd }),
    ...rest,
  }));
  if (output.isJson) {
    for (const row of rows) output.json("log.dump", row);
    return rows.length;
  }
  const columns = Object.entries(COLUMNS).find(([suffix]) => file.endsWith(suffix))?.[1];
  const { headers, fields } = columns ?? { headers: [], fields: [] };
  const cells = rows.map((row) => fields.map((field) => String((row as Readonly<Record<string, number>>)[field])));
  output.table({ headers, rows: cells, right: headers.map((_, column) => column) });
  return rows.length;
}
