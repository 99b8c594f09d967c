// What `alter` says of its changes: also what they take away for good.
import { expect, test } from "vitest";
import { alteredText } from "../../src/cli/commands/config-changes.ts";

const LOSS = "; with compact, records without a key will go; the others keep their last value";

test.each(["compact", "compact,delete", "Delete, Compact", "2"])("a policy of %s is told to take records", (policy) => {
  const changes = { "cleanup.policy": policy, "segment.bytes": "1MiB" };
  expect(alteredText(changes, true)).toBe(`2 settings would be altered${LOSS}`);
  expect(alteredText(changes, false)).toBe(`2 settings altered${LOSS}`);
});

test("nothing else is", () => {
  expect(alteredText({ "cleanup.policy": "delete" }, false)).toBe("1 setting altered");
  expect(alteredText({ "cleanup.policy": null }, false)).toBe("1 setting altered");
  expect(alteredText({ "retention.ms": "2" }, true)).toBe("1 setting would be altered");
});
