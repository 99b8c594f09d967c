// What OTTLA_FAILPOINT may say: one that is never reached would look like a node that survives it.
import { describe, expect, it } from "vitest";
import { FAILPOINTS } from "../../../src/base/failpoint-names.ts";
import { failpointText, parseFailpoint } from "../../../src/chaos/faults/failpoint-wish.ts";

describe("parseFailpoint", () => {
  it.each(Object.keys(FAILPOINTS))("takes %s, with and without a count", (name) => {
    expect(parseFailpoint(name)).toEqual({ name, count: 1 });
    expect(failpointText(parseFailpoint(`${name}:12`))).toBe(`${name}:12`);
  });

  it.each(["", "journal", "journal-synced:0", "journal-synced:x", "journal-synced:1:2", "toString"])(
    "refuses %j, and says what there is",
    (text) => expect(() => parseFailpoint(text)).toThrow(/journal-synced, /),
  );
});
