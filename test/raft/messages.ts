// Messages for tests that say only what matters to them.
import type {
  Append,
  Entry,
  Heartbeat,
  ReplicaId,
  Term,
  TimeoutNow,
  VoteRequest,
  VoteResponse,
} from "../../src/raft/types.ts";
import { id } from "./cluster.ts";

interface Way {
  readonly from: string;
  readonly to: string;
  readonly term: number;
}
const way = ({ from, to, term }: Way): { from: ReplicaId; to: ReplicaId; term: Term } => ({
  from: id(from),
  to: id(to),
  term: term as Term,
});

export const voteRequest = (
  sender: Way,
  log: { readonly end: number; readonly lastTerm: number },
  flags: { readonly isPreVote?: boolean; readonly isTransfer?: boolean } = {},
): VoteRequest => ({
  kind: "voteRequest",
  ...way(sender),
  end: log.end,
  lastTerm: log.lastTerm as Term,
  isPreVote: flags.isPreVote ?? false,
  isTransfer: flags.isTransfer ?? false,
});

export const voteResponse = (sender: Way, isGranted: boolean): VoteResponse => ({
  kind: "voteResponse",
  ...way(sender),
  isPreVote: false,
  isGranted,
});

export const append = (
  sender: Way,
  {
    start,
    prevTerm,
    entries = [],
    commitEnd = 0,
  }: {
    readonly start: number;
    readonly prevTerm: number;
    readonly entries?: readonly Entry[];
    readonly commitEnd?: number;
  },
): Append => ({ kind: "append", ...way(sender), start, prevTerm: prevTerm as Term, entries, commitEnd });

export const heartbeat = (sender: Way, commitEnd = 0): Heartbeat => ({
  kind: "heartbeat",
  ...way(sender),
  commitEnd,
  round: 0,
});

export const timeoutNow = (sender: Way): TimeoutNow => ({ kind: "timeoutNow", ...way(sender) });

export const command = (index: number, term: number, text = `${index}:${term}`): Entry => ({
  kind: "command",
  index,
  term: term as Term,
  bytes: new TextEncoder().encode(text),
});
