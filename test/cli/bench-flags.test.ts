// Flags of `ottla bench` that make no sense are refused before anything is started; those that do make the plan that they say.
import { describe, expect, it } from "vitest";
import { buildProgram } from "../../src/cli/program.ts";
import { type BenchFlags, benchPlan, type BenchVerb } from "../../src/cli/commands/bench-flags.ts";
import type { GlobalFlags } from "../../src/cli/output.ts";
import { UsageError } from "../../src/cli/values.ts";

/** The plan of this command line, as the command tree parses it. */
function planOf(args: readonly string[]) {
  const program = buildProgram();
  const bench = program.commands.find((command) => command.name() === "bench");
  const verb = bench?.commands.find((command) => command.name() === args[0]);
  if (verb === undefined) throw new Error(`no verb ${args[0]}`);
  let flags: unknown;
  verb.action(() => {
    flags = verb.optsWithGlobals();
  });
  program.parse(["bench", ...args], { from: "user" });
  return benchPlan(args[0] as BenchVerb, flags as BenchFlags & GlobalFlags);
}

describe("flags of ottla bench are refused", () => {
  it.each([
    [["produce", "--acks", "2"], '--acks takes 0, 1 or all, not "2"'],
    [["produce", "--acks", "0,,1"], '--acks takes values with commas between them, not "0,,1"'],
    [["produce", "--record-bytes", "big"], '--record-bytes takes a size such as 65536, 64KiB or 1MB, not "big"'],
    [["produce", "--record-bytes", "2MB"], '--record-bytes takes 1 to 1000000 bytes, not "2MB"'],
    [["e2e", "--record-bytes", "8"], '--record-bytes takes 16 to 1000000 bytes, not "8"'],
    [["produce", "--partitions", "1,0"], '--partitions takes an integer, 1 to 10000, not "0"'],
    [["produce", "--rate", "fast"], '--rate takes an integer, 1 to 10000000, not "fast"'],
    [["soak", "--rate", "max"], '--rate takes an integer, 1 to 10000000, not "max"'],
    [["produce", "--duration", "1ms"], "--duration takes 100ms or more"],
    [["produce", "--cluster", "2"], '--cluster takes 1 or 3, not "2"'],
    [["produce", "--cluster", "1", "-b", "localhost"], /--cluster starts brokers and --bootstrap names some that run/],
    [["produce", "--cluster", "1", "--replication-factor", "3"], /--replication-factor takes an integer, 1 to 1,/],
    [["produce", "--out", "result.csv"], '--out takes a file that ends in .json or .html, not "result.csv"'],
    [["produce", "--out", "/no/such/folder/r.json"], "--out: the directory /no/such/folder does not exist"],
    [["produce", "--dir", "/no/such/folder"], "--dir: the directory /no/such/folder does not exist"],
    [["soak", "--duration", "10000h", "--rate", "1000000"], /a run writes [\d.]+ \w+, and \S+ has/],
    [["soak", "--duration", "25d", "--rate", "1"], "--warm-up and --duration: at most 24d together"],
    [["produce", "--window", "10ms", "--duration", "1h"], /--window 10ms makes more than 10000 entries/],
    [
      ["produce", "--partitions", range(25), "--connections", range(25)],
      "these lists make 625 runs; at most 500 are taken",
    ],
  ] as const)("%j", (args, message) => {
    expect(() => planOf(args)).toThrow(UsageError);
    expect(() => planOf(args)).toThrow(message);
  });
});

describe("flags of ottla bench make a plan", () => {
  it("by default: three brokers of its own, a closed loop, acks all", () => {
    const plan = planOf(["produce"]);
    expect(plan).toMatchObject({ ownNodes: 3, durationMs: 10_000, warmUpMs: 2000, windowMs: 200, outs: [] });
    expect(plan.specs).toHaveLength(1);
    expect(plan.specs[0]).toMatchObject({ mode: "closed", acks: "all", recordBytes: 1024, batchBytes: 65_536 });
  });

  it("brokers that are named are not started", () => {
    expect(planOf(["consume", "-b", "localhost"]).ownNodes).toBeUndefined();
  });

  it("lists make their product, each value once", () => {
    const plan = planOf(["e2e", "--acks", "0,1,all,-1", "--rate", "max,500", "--record-bytes", "100,1kB,1kB"]);
    expect(plan.specs).toHaveLength(12);
  });

  it("a soak is one run by a schedule", () => {
    const { specs, durationMs, windowMs } = planOf(["soak", "--rate", "200", "--duration", "1h"]);
    expect(specs).toHaveLength(1);
    expect(specs[0]).toMatchObject({ benchmark: "soak", verb: "e2e", mode: "open", ratePerSecond: 200 });
    expect({ durationMs, windowMs }).toEqual({ durationMs: 3_600_000, windowMs: 60_000 });
  });
});

function range(count: number): string {
  return Array.from({ length: count }, (_, index) => index + 1).join(",");
}
