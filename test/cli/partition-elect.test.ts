// The question before an unclean election, over an admin client that stands in for a real one.
import { expect, test } from "vitest";
import { confirmUnclean } from "../../src/cli/commands/partition.ts";

test("waits for what nodes say as long as --timeout allows, by default as long as the client does", async () => {
  const asked: unknown[] = [];
  const admin = {
    describePartitions: (...of: readonly unknown[]) => {
      asked.push(of);
      return Promise.resolve([]);
    },
  };
  for (const wish of [{ topic: "t", partitions: [1], timeoutMs: 7 }, { topic: "t" }])
    await expect(confirmUnclean(admin, wish)).rejects.toMatchObject({ code: "NOT_CONFIRMED" });
  expect(asked).toEqual([
    ["t", { partitions: [1], timeoutMs: 7 }],
    ["t", {}],
  ]);
});
