import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { TOPIC_NAME_LENGTH_MAX, topicNameFault, topicNamesCollide } from "../../src/model/topic-name.ts";

const ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

describe("topicNameFault", () => {
  it.each(["a", "access-log", "A.b_c-9", "...", "-", "_", "a".repeat(TOPIC_NAME_LENGTH_MAX)])("allows %s", (name) => {
    expect(topicNameFault(name)).toBeUndefined();
  });

  it.each([
    ["", "empty"],
    [".", "cannot be called"],
    ["..", "cannot be called"],
    ["a".repeat(TOPIC_NAME_LENGTH_MAX + 1), "249"],
    ["a b", "made of"],
    ["a/b", "made of"],
    ["../up", "made of"],
    ["a\n", "made of"],
    ["a\0", "made of"],
    ["größe", "made of"],
    ["a:b", "made of"],
  ])("refuses %j and says why", (name, why) => {
    expect(topicNameFault(name)).toContain(why);
  });

  it("takes a name exactly when each character is of the alphabet", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ minLength: 3, maxLength: 6 }),
          fc.string({ unit: fc.constantFrom(...ALPHABET), minLength: 3 }),
        ),
        (name) => {
          const isAllowed = [...name].every((character) => ALPHABET.includes(character));
          expect(topicNameFault(name) === undefined).toBe(isAllowed);
        },
      ),
      { numRuns: 500 },
    );
  });
});

describe("topicNamesCollide", () => {
  it("takes . and _ for the same, and nothing else", () => {
    expect(topicNamesCollide("a.b_c", "a_b.c")).toBe(true);
    expect(topicNamesCollide("a.b", "a.b")).toBe(true);
    expect(topicNamesCollide("a.b", "a-b")).toBe(false);
    expect(topicNamesCollide("a.b", "A.b")).toBe(false);
    expect(topicNamesCollide("a..b", "a.b")).toBe(false);
  });
});
