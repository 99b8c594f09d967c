// Messages and entries in words, for traces and transcripts.
import { utf8Decode } from "../base/bytes.ts";
import type { Configuration, Entry, Message } from "./types.ts";

export function describeConfiguration({ voters, learners }: Configuration): string {
  return `voters ${voters.join(" ") || "none"}${learners.length === 0 ? "" : `, learners ${learners.join(" ")}`}`;
}

/** `index:term` and what it is. */
export function describeEntry(entry: Entry): string {
  const place = `${entry.index}:${entry.term}`;
  switch (entry.kind) {
    case "command":
      return `${place} "${utf8Decode(entry.bytes)}"`;
    case "leaderStart":
      return `${place} (start of term)`;
    case "configuration":
      return `${place} [${describeConfiguration(entry.configuration)}]`;
  }
}

export function describeMessage(message: Message): string {
  const { kind, term } = message;
  switch (kind) {
    case "voteRequest":
      return `${message.isPreVote ? "pre-vote?" : "vote?"}${message.isTransfer ? " (transfer)" : ""} term ${term}, log (${message.end}, term ${message.lastTerm})`;
    case "voteResponse":
      return `${message.isPreVote ? "pre-vote" : "vote"} ${message.isGranted ? "granted" : "refused"}, term ${term}`;
    case "append":
      return `append term ${term}, from (${message.start}, term ${message.prevTerm}): ${message.entries.length} entries, commit ${message.commitEnd}`;
    case "appendMatched":
      return `matched ${message.end}, term ${term}`;
    case "appendRefused":
      return `refused at ${message.start}, hint (${message.hintEnd}, term ${message.hintTerm}), term ${term}`;
    case "heartbeat":
      return `heartbeat term ${term}, commit ${message.commitEnd}, round ${message.round}`;
    case "heartbeatResponse":
      return `heartbeat answered, term ${term}, round ${message.round}`;
    case "snapshotChunk":
      return `snapshot (${message.snapshot.end}, term ${message.snapshot.lastTerm}) from ${message.position}: ${message.sizeBytes} bytes, term ${term}`;
    case "snapshotResponse":
      return `snapshot ${message.snapshotEnd} wanted from ${message.position}, term ${term}`;
    case "timeoutNow":
      return `campaign now, term ${term}`;
  }
}
