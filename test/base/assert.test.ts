import { afterEach, describe, expect, it } from "vitest";
import { AssertionFailure, assert, assertNever, present } from "../../src/base/assert.ts";
import { activateMutants, mutant } from "../../src/base/mutant.ts";

describe("assert", () => {
  it("throws AssertionFailure with its message, and only when the condition is false", () => {
    expect(() => assert(true, "fine")).not.toThrow();
    expect(() => assert(false, "the end is before the start")).toThrow(
      new AssertionFailure("the end is before the start"),
    );
  });

  it("present gives the value, falsy ones included, and names what is missing", () => {
    expect([present(0, "count"), present("", "name"), present(false, "flag")]).toEqual([0, "", false]);
    expect(() => present(undefined, "leader")).toThrow("leader is missing");
    expect(() => present(null, "leader")).toThrow(AssertionFailure);
  });

  it("assertNever shows the value that nobody handled", () => {
    expect(() => assertNever({ kind: "new" } as never)).toThrow('{"kind":"new"}');
  });
});

describe("mutant", () => {
  afterEach(() => activateMutants([]));

  it("is off by default, on for exactly the named ones, and off again", () => {
    expect(mutant("D-11")).toBe(false);
    activateMutants(["D-11", "M2"]);
    expect([mutant("D-11"), mutant("M2"), mutant("M20")]).toEqual([true, true, false]);
    activateMutants([]);
    expect(mutant("D-11")).toBe(false);
  });
});
