// A follower: takes over the leader's log. Raft paper 5.3.
import { assert, present } from "../base/assert.ts";
import type { RaftState } from "./raft-state.ts";
import type { Append, Heartbeat } from "./types.ts";

/**
 * Example: log (index:term) 0:1 1:1 2:2, append start 1, prevTerm 1, entries 1:1 2:3 3:3
 *          1:1 is there; 2:2 differs -> cut to 2; 2:3 and 3:3 appended; "matched 4" leaves once the cut and both are durable.
 */
export function handleAppend(state: RaftState, append: Append): void {
  state.heardLeader(append.from);
  const { log } = state;
  const { start, prevTerm, entries, commitEnd, from: to } = append;
  const end = start + entries.length;
  checkCommitted(state, append);
  if (start < log.commitEnd && end <= log.commitEnd) {
    // Committed here, so the same there: there is nothing to compare, and its beginning may be cut off already.
    state.sendAfterSync({ kind: "appendMatched", to, end: log.commitEnd });
    return;
  }
  if (start >= log.commitEnd && !log.matches({ end: start, lastTerm: prevTerm })) {
    const hintEnd = log.lastPossibleMatch({ end: start, lastTerm: prevTerm });
    const hintTerm = present(log.termBefore(hintEnd), `term before ${hintEnd}`);
    state.sendInTerm({ kind: "appendRefused", to, start, hintEnd, hintTerm });
    return;
  }
  takeOver(state, append);
  commitTo(state, Math.min(commitEnd, end));
  state.sendAfterSync({ kind: "appendMatched", to, end });
}

/** what is committed here is the same there, or one of the two is broken beyond repair and must stop. */
function checkCommitted({ log }: RaftState, { from, entries }: Append): void {
  for (const { index, term } of entries) {
    if (index >= log.commitEnd) return;
    if (index < log.start || log.at(index).term === term) continue;
    assert(
      false,
      `${from} has term ${term} at ${index}, committed here up to ${log.commitEnd} is term ${log.at(index).term}`,
    );
  }
}

function takeOver(state: RaftState, { entries }: Append): void {
  const { log, configurations } = state;
  for (const entry of entries) {
    if (entry.index < log.commitEnd) continue;
    if (entry.index < log.end) {
      if (log.at(entry.index).term === entry.term) continue;
      log.cutSuffix(entry.index);
      configurations.cutSuffixTo(entry.index);
    }
    state.appendEntry(entry);
  }
}

export function handleHeartbeat(state: RaftState, { from: to, commitEnd, round }: Heartbeat): void {
  state.heardLeader(to);
  commitTo(state, Math.min(commitEnd, state.log.end));
  state.sendInTerm({ kind: "heartbeatResponse", to, round });
}

function commitTo({ log }: RaftState, end: number): void {
  if (end > log.commitEnd) log.commitTo(end);
}
