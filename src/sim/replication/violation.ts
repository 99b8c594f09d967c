// What a broken invariant of a replicated partition is told by.

/** Broken by a run: numbered as the other checkers do (reliability: invariants); 44 and 45 are progress, 0 is an assertion of the code itself. */
const INVARIANTS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17, 20, 21, 22, 23, 24, 25, 44, 45] as const;
export type ReplicationInvariant = (typeof INVARIANTS)[number];

export interface ReplicationViolation {
  readonly invariant: ReplicationInvariant;
  readonly message: string;
}

/** Stops the run: thrown at the event that broke something. */
export class ReplicationBroken extends Error {
  override readonly name = "ReplicationBroken";
  readonly invariant: ReplicationInvariant;

  constructor(invariant: ReplicationInvariant, message: string) {
    super(message);
    this.invariant = invariant;
  }
}
