// Who votes: configurations, one-at-a-time changes of them, and their history along a log.
import { assert, assertNever, present } from "../base/assert.ts";
import type { Configuration, Entry, ReplicaId } from "./types.ts";

export type ConfChange =
  | { readonly kind: "addLearner"; readonly replica: ReplicaId }
  | { readonly kind: "promote"; readonly replica: ReplicaId }
  | { readonly kind: "remove"; readonly replica: ReplicaId };

export const NOBODY: Configuration = { voters: [], learners: [] };

export const isMember = ({ voters, learners }: Configuration, replica: ReplicaId): boolean =>
  voters.includes(replica) || learners.includes(replica);

const without = (list: readonly ReplicaId[], replica: ReplicaId): ReplicaId[] => list.filter((id) => id !== replica);

const withOne = (list: readonly ReplicaId[], replica: ReplicaId): ReplicaId[] => [...list, replica].toSorted();

export type ChangeOutcome =
  | { readonly kind: "changed"; readonly configuration: Configuration }
  | { readonly kind: "refused"; readonly reason: string };

const refused = (reason: string): ChangeOutcome => ({ kind: "refused", reason });

/** The configuration after one change. At most one voter differs, so any majorities of the two have a member in common. */
export function changeConfiguration(current: Configuration, change: ConfChange): ChangeOutcome {
  const { voters, learners } = current;
  const { replica } = change;
  switch (change.kind) {
    case "addLearner":
      if (isMember(current, replica)) return refused(`${replica} is a member already`);
      return { kind: "changed", configuration: { voters, learners: withOne(learners, replica) } };
    case "promote":
      if (!learners.includes(replica)) return refused(`${replica} is no learner`);
      return {
        kind: "changed",
        configuration: { voters: withOne(voters, replica), learners: without(learners, replica) },
      };
    case "remove":
      if (!isMember(current, replica)) return refused(`${replica} is no member`);
      if (voters.length === 1 && voters[0] === replica) return refused(`${replica} is the only voter`);
      return {
        kind: "changed",
        configuration: { voters: without(voters, replica), learners: without(learners, replica) },
      };
    default:
      return assertNever(change);
  }
}

/**
 * The configurations along one log.
 *
 * Shape:     changes ascending by index, all at or above the log's start; `base` is in force before the first of them.
 * Invariant: the last one is in force as soon as it is in the log; cutting the log brings the one before back.
 */
export class ConfigurationHistory {
  #base: Configuration;
  readonly #changes: { readonly index: number; readonly configuration: Configuration }[] = [];

  constructor(base: Configuration) {
    this.#base = base;
  }

  /** In force now. */
  get latest(): Configuration {
    return this.#changes.at(-1)?.configuration ?? this.#base;
  }

  /** Index of the entry that put `latest` in force; -1 when it lies below the log's start. */
  get latestIndex(): number {
    return this.#changes.at(-1)?.index ?? -1;
  }

  append(entry: Entry): void {
    if (entry.kind !== "configuration") return;
    assert(entry.index > this.latestIndex, `configuration at ${entry.index} after one at ${this.latestIndex}`);
    this.#changes.push({ index: entry.index, configuration: entry.configuration });
  }

  cutSuffixTo(end: number): void {
    while (this.latestIndex >= end) this.#changes.pop();
  }

  cutPrefixTo(start: number): void {
    while (this.#changes.length > 0 && present(this.#changes[0], "change").index < start)
      this.#base = present(this.#changes.shift(), "change").configuration;
  }

  /** In force at the end of the prefix [0, end). */
  at(end: number): Configuration {
    return this.#changes.findLast(({ index }) => index < end)?.configuration ?? this.#base;
  }

  reset(base: Configuration): void {
    this.#base = base;
    this.#changes.length = 0;
  }
}
