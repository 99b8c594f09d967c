// The audit after the kills can fail: each way in which a node may differ from what clients were told is named.
import { describe, expect, it } from "vitest";
import { compare, longestGapMs, type Outcome } from "../../scripts/cluster/controller-kills.ts";

const told = (name: string, outcome: Outcome["outcome"], atMs: number, topicId?: string): Outcome =>
  topicId === undefined ? { name, outcome, atMs } : { name, outcome, atMs, topicId };
const there = (name: string, topicId: string) => ({ name, topicId });

describe("what a node shows against what was told", () => {
  const gone = [told("d", "ok", 4, "id4"), told("d", "deleted", 5)];
  const outcomes = [told("a", "ok", 1, "id1"), told("b", "refused", 2), told("c", "unknown", 3), ...gone];

  it("is right with and without what nobody was told", () => {
    expect(compare(1, [there("a", "id1")], outcomes)).toEqual({ faults: [], unknownThere: 0 });
    expect(compare(1, [there("a", "id1"), there("c", "id3")], outcomes)).toEqual({ faults: [], unknownThere: 1 });
  });

  it.each([
    ["an acknowledged topic is lost", [], "a was made with the id id1, now it is not there"],
    ["it has another id", [there("a", "id9")], "a was made with the id id1, now id9"],
    ["a refused one appears", [there("a", "id1"), there("b", "id2")], "b was refused, and is there"],
    ["a deleted one is there", [there("a", "id1"), there("d", "id4")], "d was deleted, and is there"],
    ["one appears that nobody asked for", [there("a", "id1"), there("z", "id2")], "z is there, and nobody asked"],
  ])("%s", (_, topics, words) => {
    const { faults } = compare(2, topics, outcomes);
    expect(faults).toHaveLength(1);
    expect(faults[0]).toContain(`node 2: ${words}`);
  });
});

describe("the gap", () => {
  const outcomes = [1000, 1010, 1500, 1510].map((atMs) => told(`t${atMs}`, "ok", atMs));

  it("runs from the last success before the kill to the first one after", () => {
    expect(longestGapMs(outcomes, 1020)).toBe(490);
    expect(longestGapMs(outcomes, 1505)).toBe(10);
    expect(longestGapMs([...outcomes, told("x", "refused", 1200)], 1020)).toBe(490);
  });
});
