// What becomes of accepted journal records that met a full disk: appends are taken back, all others must still be written.
import { openEpoch, truncateEpochs } from "./epochs.ts";
import { storageFull } from "./faults.ts";
import type { JournalEntry } from "./journal.ts";
import { KIND } from "./journal-record.ts";
import type { ReplicaLogImpl } from "./replica-log.ts";
import type { EpochEntry } from "./types.ts";

/** Where a log ends without its refused appends, and its epochs; undefined epochs: as they are, but for those above the end. */
export interface RefusedLog {
  end: number;
  epochs: EpochEntry[] | undefined;
  hasRefused: boolean;
}

/**
 * Walks the records in order. Those that are kept are changed to fit: a log that lost appends ends earlier than they said.
 * `keepsCreates`: there may be room for a CREATE now; otherwise its caller is told that the disk is full.
 */
export function refusals(
  entries: Iterable<JournalEntry>,
  options: { readonly keepsCreates: boolean; readonly keepsControls: boolean },
): { readonly kept: JournalEntry[]; readonly logs: Map<ReplicaLogImpl, RefusedLog> } {
  const kept: JournalEntry[] = [];
  const logs = new Map<ReplicaLogImpl, RefusedLog>();
  for (const entry of entries) {
    const log = entry.log as ReplicaLogImpl | undefined;
    if (entry.kind === KIND.MARK || entry.kind === KIND.HIGH_WATERMARKS) continue;
    if (entry.kind === KIND.APPEND && log !== undefined) {
      takeBack(logs, log, entry);
      continue;
    }
    if (entry.kind === KIND.CREATE ? !options.keepsCreates : !options.keepsControls) {
      entry.waiter?.reject(storageFull("the journal cannot grow"));
      continue;
    }
    const state = log === undefined ? undefined : logs.get(log);
    if (log !== undefined && state !== undefined) adapt(entry, log, state);
    kept.push(entry);
  }
  return { kept, logs };
}

function takeBack(logs: Map<ReplicaLogImpl, RefusedLog>, log: ReplicaLogImpl, entry: JournalEntry): void {
  let state = logs.get(log);
  if (state === undefined) {
    state = { end: entry.base, epochs: undefined, hasRefused: true };
    logs.set(log, state);
  }
  state.end = Math.min(state.end, entry.base);
  if (entry.undoEpochs !== undefined)
    state.epochs ??= entry.undoEpochs.filter((epoch) => epoch.startOffset <= entry.base);
}

function adapt(entry: JournalEntry, log: ReplicaLogImpl, state: RefusedLog): void {
  if (entry.kind === KIND.TRUNCATE) {
    state.end = Math.min(state.end, entry.base);
    entry.base = state.end;
    entry.last = state.end;
    if (state.epochs !== undefined) truncateEpochs(state.epochs, state.end);
  } else if (entry.kind === KIND.EPOCH) {
    state.epochs ??= log.epochs.filter((epoch) => epoch.startOffset < state.end);
    entry.base = state.end;
    entry.last = state.end;
    openEpoch(state.epochs, entry.epoch, state.end);
  }
  entry.endOffset = state.end;
}
