// What `alter` and `create` take as settings, and what `alter` says of its changes: also what they take away for good.
import { expect, test } from "vitest";
import { alteredText, changesOf } from "../../src/cli/commands/config-changes.ts";
import { topicCreate } from "../../src/cli/commands/topic.ts";
import type { Output } from "../../src/cli/output.ts";

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

test("a key is given once, to set or to take away", () => {
  expect(changesOf({ config: ["a=1", "b=2"], deleteConfig: ["c"] })).toEqual({ a: "1", b: "2", c: null });
  expect(() => changesOf({ config: ["a=1", "a=1"] })).toThrow("a is given twice");
  expect(() => changesOf({ config: ["a=1"], deleteConfig: ["a"] })).toThrow("a is given twice");
});

test("a topic is not made either where one is given twice: nobody is asked", async () => {
  const output = {} as Output;
  const flags = { config: ["a=1", "b=2", "a=3"], bootstrap: "127.0.0.1:1" };
  await expect(topicCreate({ args: ["t"], flags, output })).rejects.toThrow("a is given twice");
});
