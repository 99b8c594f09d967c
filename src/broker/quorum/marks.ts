// What this disk remembers of the other voters (D-20): nobody's starts, term or committed log ever go back, except on an old copy of a disk.
import { mutant } from "../../base/mutant.ts";
import type { ReplicaId } from "../../raft/types.ts";
import type { PeerMark } from "../../storage/raft-types.ts";

/** What a voter says of itself. */
export interface Standing {
  /** Starts of its disk. */
  readonly boots: number;
  readonly term: number;
  /** Durable end of its log. */
  readonly end: number;
  /** What of it it knows to be committed. */
  readonly commitEnd: number;
}

/** Bound: marks kept; those of strangers go first. */
const MARKS_MAX = 64;

/** Why a standing cannot be the truth of the disk that the mark was taken from; undefined when it can. */
export function faultOfStanding(standing: Standing, mark: PeerMark | undefined): string | undefined {
  if (mark === undefined || mutant("D20m")) return undefined;
  if (standing.boots < mark.boots) return `it was started ${standing.boots} times, before that ${mark.boots} times`;
  if (standing.term < mark.term) return `it knows term ${standing.term}, before that it knew term ${mark.term}`;
  if (standing.end < mark.end) return `its log ends at ${standing.end}, but it had confirmed ${mark.end} entries`;
  return undefined;
}

export class Marks {
  readonly #marks: Map<ReplicaId, PeerMark>;
  /** Changed since it was written. */
  isDirty = false;

  constructor(stored: ReadonlyMap<string, PeerMark>) {
    this.#marks = new Map(stored) as Map<ReplicaId, PeerMark>;
  }

  get all(): ReadonlyMap<ReplicaId, PeerMark> {
    return this.#marks;
  }

  of(replica: ReplicaId): PeerMark | undefined {
    return this.#marks.get(replica);
  }

  /** Each number only rises. */
  raise(replica: ReplicaId, seen: Partial<PeerMark>): void {
    const known = this.#marks.get(replica) ?? { boots: 0, term: 0, end: 0 };
    const { boots = 0, term = 0, end = 0 } = seen;
    if (boots <= known.boots && term <= known.term && end <= known.end) return;
    this.#marks.set(replica, {
      boots: Math.max(boots, known.boots),
      term: Math.max(term, known.term),
      end: Math.max(end, known.end),
    });
    this.isDirty = true;
  }

  /** Keeps to the bound; members are never forgotten. */
  prune(isMember: (replica: ReplicaId) => boolean): void {
    for (const replica of this.#marks.keys()) {
      if (this.#marks.size <= MARKS_MAX) return;
      if (isMember(replica)) continue;
      this.#marks.delete(replica);
      this.isDirty = true;
    }
  }
}
