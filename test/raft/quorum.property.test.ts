import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type ConfChange, changeConfiguration } from "../../src/raft/configuration.ts";
import { canBeDisjoint, majorityOf, majorityValue, voteOutcome } from "../../src/raft/quorum.ts";
import type { Configuration, ReplicaId } from "../../src/raft/types.ts";

const ids = (count: number): fc.Arbitrary<ReplicaId[]> =>
  fc.subarray(Array.from({ length: count }, (_, at) => `${at}:a` as ReplicaId));

const subsets = <T>(items: readonly T[]): T[][] =>
  items.reduce<T[][]>((all, item) => [...all, ...all.map((subset) => [...subset, item])], [[]]);

const majorities = <T>(voters: readonly T[]): T[][] =>
  subsets(voters).filter((subset) => subset.length * 2 > voters.length);

describe("quorum arithmetic against naive twins", () => {
  it("majorityValue is the greatest value that more than half have reached", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(20), { minLength: 1, maxLength: 9 }), (values) => {
        const reached = values.filter((value) => values.filter((other) => other >= value).length * 2 > values.length);
        expect(majorityValue(values)).toBe(Math.max(...reached));
      }),
    );
    expect(majorityValue([])).toBe(0);
  });

  it("majorityOf is the smallest size of which two always meet", () => {
    for (let voters = 1; voters <= 9; voters++) {
      expect(majorityOf(voters) * 2).toBeGreaterThan(voters);
      expect((majorityOf(voters) - 1) * 2).toBeLessThanOrEqual(voters);
    }
  });

  it("voteOutcome is decided as soon as, and only if, the open votes cannot change it", () => {
    const outcomes = (voters: readonly ReplicaId[], votes: ReadonlyMap<ReplicaId, boolean>): Set<boolean> => {
      const open = voters.filter((id) => !votes.has(id));
      const given = voters.filter((id) => votes.get(id) === true).length;
      return new Set(subsets(open).map((more) => (given + more.length) * 2 > voters.length));
    };
    fc.assert(
      fc.property(
        ids(6),
        fc.dictionary(fc.constantFrom("0:a", "1:a", "2:a", "3:a", "4:a", "9:a"), fc.boolean()),
        (voters, given) => {
          const votes = new Map(Object.entries(given)) as Map<ReplicaId, boolean>;
          const possible = outcomes(voters, votes);
          const expected = possible.size === 2 ? "open" : possible.has(true) ? "won" : "lost";
          expect(voteOutcome(voters, votes)).toBe(expected);
        },
      ),
    );
  });

  it("canBeDisjoint finds every pair of majorities without a common member", () => {
    fc.assert(
      fc.property(ids(6), ids(6), (left, right) => {
        fc.pre(left.length > 0 && right.length > 0);
        const isDisjoint = majorities(left).some((one) =>
          majorities(right).some((other) => !one.some((id) => other.includes(id))),
        );
        expect(canBeDisjoint(left, right)).toBe(isDisjoint);
      }),
    );
  });

  it("41: majorities before and after one change always meet", () => {
    const change = fc.record({
      kind: fc.constantFrom("addLearner", "promote", "remove"),
      replica: fc.constantFrom("0:a", "1:a", "2:a", "3:a", "4:a"),
    }) as fc.Arbitrary<ConfChange>;
    fc.assert(
      fc.property(fc.array(change, { maxLength: 30 }), (changes) => {
        let current: Configuration = { voters: ["0:a" as ReplicaId], learners: [] };
        for (const one of changes) {
          const outcome = changeConfiguration(current, one);
          if (outcome.kind === "refused") continue;
          const { voters, learners } = outcome.configuration;
          expect(canBeDisjoint(current.voters, voters)).toBe(false);
          expect(voters.length).toBeGreaterThan(0);
          expect(new Set([...voters, ...learners]).size).toBe(voters.length + learners.length);
          current = outcome.configuration;
        }
      }),
    );
  });
});
