// The arithmetic of majorities.

export const majorityOf = (voters: number): number => (voters >> 1) + 1;

/**
 * The greatest value that a majority has reached: the k-th greatest, k = majorityOf(values.length).
 *
 * Invariant: at least k values are >= the result, and fewer than k are greater.
 * Example:   [7, 4, 9] -> 7; [7, 4, 9, 2] -> 4; [] -> 0.
 */
export function majorityValue(values: readonly number[]): number {
  const { length } = values;
  if (length <= 1) return values[0] ?? 0;
  if (length === 3) {
    const [first, second, third] = values as readonly [number, number, number];
    return Math.max(Math.min(first, second), Math.min(Math.max(first, second), third));
  }
  return values.toSorted((left, right) => right - left)[majorityOf(length) - 1] ?? 0;
}

export type VoteOutcome = "won" | "lost" | "open";

/** Votes of those who are no voters do not count, and without voters nobody wins. */
export function voteOutcome<Id>(voters: readonly Id[], votes: ReadonlyMap<Id, boolean>): VoteOutcome {
  let granted = 0;
  let refused = 0;
  for (const voter of voters) {
    const vote = votes.get(voter);
    if (vote === true) granted++;
    else if (vote === false) refused++;
  }
  const needed = majorityOf(voters.length);
  if (granted >= needed) return "won";
  return refused > voters.length - needed ? "lost" : "open";
}

/** True when a majority of `left` and a majority of `right` could have nobody in common (invariant 41). */
export function canBeDisjoint<Id>(left: readonly Id[], right: readonly Id[]): boolean {
  const common = left.filter((id) => right.includes(id)).length;
  const fromCommonLeft = Math.max(0, majorityOf(left.length) - (left.length - common));
  const fromCommonRight = Math.max(0, majorityOf(right.length) - (right.length - common));
  return fromCommonLeft + fromCommonRight <= common;
}
