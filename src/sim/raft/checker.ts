// What must hold at every moment of a Raft cluster: Raft's five properties, one vote a term, reads, membership.
import { canBeDisjoint } from "../../raft/quorum.ts";
import type { Configuration, Entry, Message, ReplicaId } from "../../raft/types.ts";

/** Ids as the other checkers number them: 16 durable claims, 37 Raft, 38 reads, 39 state machines, 41 membership, 45 progress of a core. */
export type RaftInvariant = 16 | 37 | 38 | 39 | 41 | 45;

export interface RaftViolation {
  readonly invariant: RaftInvariant;
  readonly message: string;
}

/** Stops the run: thrown at the event that broke something. */
export class RaftBroken extends Error {
  override readonly name = "RaftBroken";
  readonly invariant: RaftInvariant;
  constructor(invariant: RaftInvariant, message: string) {
    super(message);
    this.invariant = invariant;
  }
}

/** What the checker may see of a node. `chain[i]` is the hash of its whole log up to and with entry i. */
export interface Watched {
  readonly id: ReplicaId;
  readonly chain: number[];
  readonly entries: Entry[];
  logEnd: number;
}

export function mix(hash: number, value: number): number {
  let mixed = Math.imul(hash ^ value, 0x9e3779b1);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x85ebca6b);
  return (mixed ^ (mixed >>> 13)) >>> 0;
}

export function entryHash(entry: Entry): number {
  let hash = mix(entry.index + 1, entry.term);
  switch (entry.kind) {
    case "command":
      for (const byte of entry.bytes) hash = mix(hash, byte);
      return hash;
    case "leaderStart":
      return mix(hash, 1);
    case "configuration":
      for (const id of [...entry.configuration.voters, "|", ...entry.configuration.learners])
        for (let at = 0; at < id.length; at++) hash = mix(hash, id.charCodeAt(at));
      return hash;
  }
}

export class RaftChecker {
  /** Hash of the log up to each committed index: the first node that commits it fixes it. */
  readonly #committed: number[] = [];
  /** Term in which each index was first seen committed. */
  readonly #committedIn: number[] = [];
  readonly #states: number[] = [];
  readonly #leaders = new Map<number, ReplicaId>();
  readonly #votes = new Map<string, ReplicaId>();
  /** Log matching: (term, index) -> hash of the log up to there. */
  readonly #chains = new Map<number, number>();
  #configuration: Configuration | undefined;
  #lastLeaderTerm = 0;

  get committedEnd(): number {
    return this.#committed.length;
  }
  get lastLeaderTerm(): number {
    return this.#lastLeaderTerm;
  }
  get configuration(): Configuration | undefined {
    return this.#configuration;
  }
  get elections(): number {
    return this.#leaders.size;
  }

  committedHash(index: number): number | undefined {
    return this.#committed[index];
  }

  /** Log matching: the same (index, term) means the same log up to there. */
  appended(node: Watched, entry: Entry): void {
    const { index } = entry;
    const before = index === 0 ? 0 : node.chain[index - 1];
    if (before === undefined) throw new RaftBroken(37, `log matching: ${node.id} appends ${index} after a gap`);
    const hash = mix(before, entryHash(entry));
    const key = entry.term * 2 ** 26 + index;
    const known = this.#chains.get(key);
    if (known === undefined) this.#chains.set(key, hash);
    else if (known !== hash)
      throw new RaftBroken(37, `log matching: ${node.id} has another log up to (${index}, term ${entry.term})`);
    node.chain[index] = hash;
    node.entries[index] = entry;
    node.logEnd = index + 1;
  }

  becameLeader(node: Watched, term: number): void {
    const other = this.#leaders.get(term);
    if (other !== undefined && other !== node.id)
      throw new RaftBroken(37, `election safety: ${other} and ${node.id} lead term ${term}`);
    if (other !== undefined) throw new RaftBroken(37, `D-1: ${node.id} leads term ${term} twice`);
    this.#leaders.set(term, node.id);
    this.#lastLeaderTerm = Math.max(this.#lastLeaderTerm, term);
    let end = this.committedEnd;
    while (end > 0 && (this.#committedIn[end - 1] ?? 0) >= term) end--;
    if (end > 0 && (node.logEnd < end || node.chain[end - 1] !== this.#committed[end - 1]))
      throw new RaftBroken(
        37,
        `leader completeness: ${node.id} leads term ${term} without the committed entries up to ${end}`,
      );
  }

  committed(
    node: Watched,
    { from, end, term }: { readonly from: number; readonly end: number; readonly term: number },
  ): void {
    for (let index = from; index < end; index++) {
      const hash = node.chain[index];
      if (hash === undefined) throw new RaftBroken(37, `${node.id} commits ${index}, which it does not have`);
      const known = this.#committed[index];
      if (known === hash) continue;
      if (known !== undefined)
        throw new RaftBroken(37, `state machine safety: ${node.id} commits another entry at ${index}`);
      this.#committed[index] = hash;
      this.#committedIn[index] = term;
      const entry = node.entries[index];
      if (entry?.kind === "configuration") this.#configuration = entry.configuration;
    }
  }

  /** 39: equal applied ends mean equal states, with or without a snapshot in between. */
  applied(id: ReplicaId, end: number, state: number): void {
    const known = this.#states[end];
    if (known === undefined) this.#states[end] = state;
    else if (known !== state) throw new RaftBroken(39, `${id} has another state at ${end}`);
  }

  /** 41: a leader's configuration and the one last agreed on can never decide apart. */
  configured(node: Watched, term: number, configuration: Configuration): void {
    if (term < this.#lastLeaderTerm || this.#configuration === undefined) return;
    if (canBeDisjoint(configuration.voters, this.#configuration.voters))
      throw new RaftBroken(
        41,
        `${node.id} goes by the voters ${configuration.voters.join(" ")} while those agreed on are ${this.#configuration.voters.join(" ")}`,
      );
  }

  /** One vote per (node, term), the node's own included, across crashes. */
  sent(message: Message): void {
    if (message.kind === "voteRequest" && !message.isPreVote) this.#voted(message.from, message.term, message.from);
    if (message.kind === "voteResponse" && !message.isPreVote && message.isGranted)
      this.#voted(message.from, message.term, message.to);
  }

  #voted(voter: ReplicaId, term: number, candidate: ReplicaId): void {
    const key = `${voter} ${term}`;
    const known = this.#votes.get(key);
    if (known === undefined) this.#votes.set(key, candidate);
    else if (known !== candidate)
      throw new RaftBroken(37, `two votes: ${voter} votes for ${known} and ${candidate} in term ${term}`);
  }
}
