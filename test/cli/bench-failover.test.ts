// Flags of ottla bench failover: what makes no sense is refused before anything is started.
import { describe, expect, it } from "vitest";
import { KINDS } from "../../src/bench/failover/kinds.ts";
import { failoverPlan } from "../../src/cli/commands/bench-failover.ts";
import { UsageError } from "../../src/cli/values.ts";

const FLAGS = { kills: "30", kinds: "kill,stop:3", rate: "20000", recordBytes: "100" };

describe("flags of ottla bench failover", () => {
  it("give each kind its number", () => {
    expect(failoverPlan(FLAGS)).toMatchObject({
      plan: [
        { kind: "kill", times: 30 },
        { kind: "stop", times: 3 },
      ],
      recordsPerSecond: 20_000,
      recordBytes: 100,
    });
  });

  it("mean all kinds when none is named", () => {
    expect(failoverPlan({ ...FLAGS, kinds: "all" }).plan.map(({ kind }) => kind)).toEqual([...KINDS]);
  });

  it.each([
    [{ kills: "0" }, "--kills takes an integer"],
    [{ kinds: "kil" }, "--kinds takes kill, controller"],
    [{ kinds: "kill:1:2" }, "--kinds takes kill, controller"],
    [{ kinds: "kill:x" }, "--kinds kill takes an integer"],
    [{ kinds: "kill,kill:2" }, "names kill twice"],
    [{ kinds: "" }, "--kinds takes kill, controller"],
    [{ rate: "fast" }, "--rate takes an integer"],
    [{ recordBytes: "2MiB" }, "--record-bytes takes 1 to"],
    [{ out: ["report.txt"] }, "ends in .json or .html"],
    [{ out: ["/nowhere/report.json"] }, "does not exist"],
    [{ dir: "/nowhere" }, "does not exist"],
  ])("%j is refused", (flags, message) => {
    expect(() => failoverPlan({ ...FLAGS, ...flags })).toThrow(UsageError);
    expect(() => failoverPlan({ ...FLAGS, ...flags })).toThrow(message);
  });
});
