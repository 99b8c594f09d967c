// The demonstration in small steps: `npm run demo` tells what it does. Real processes, started, killed and asked by the command line.
// OTTLA_DEMO_LINES and OTTLA_DEMO_RATE make it shorter.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { sortedHash, writeLines } from "../../scripts/cluster/demo-lines.ts";
import { AFTER_SHARE, cutDivergentTail, writeThroughKills } from "../../scripts/cluster/demo.ts";
import { ensureBuilt } from "../cli/support.ts";

const LINES = Number(process.env["OTTLA_DEMO_LINES"] ?? 1_000_000);
const RATE = Number(process.env["OTTLA_DEMO_RATE"] ?? 25_000);
const TIMEOUT_MS = 600_000;

beforeAll(ensureBuilt);

/** What happened, for the message of a failure. */
async function told<Result>(run: (say: (line: string) => void) => Promise<Result>): Promise<[Result, string]> {
  const lines: string[] = [];
  const result = await run((line) => lines.push(line)).catch((error: unknown) => {
    throw new Error(lines.join("\n"), { cause: error });
  });
  return [result, lines.join("\n")];
}

describe("the demonstration", () => {
  it(`${LINES} acknowledged lines are there exactly once, though a leader, the controller and a node that is both are killed`, {
    timeout: TIMEOUT_MS,
  }, async () => {
    const [report, lines] = await told((say) => writeThroughKills({ lines: LINES, rate: RATE }, { say }));
    console.log(JSON.stringify(report));
    expect(report.outputHash, lines).toBe(report.inputHash);
    const [first] = report.kills;
    expect(first?.acknowledgedShare).toBeGreaterThanOrEqual(0.3);
    expect(first?.acknowledgedShare).toBeLessThanOrEqual(1 - AFTER_SHARE);
    expect(report.kills.map(({ what }) => what)).toEqual(["the leader", "the controller", "a node that is both"]);
  });

  it("a tail that only the dead leader has is cut at the offset that its log names, and replicas end byte for byte the same", {
    timeout: TIMEOUT_MS,
  }, async () => {
    const [report, lines] = await told((say) => cutDivergentTail({ say }));
    console.log(JSON.stringify(report));
    expect(new Set(report.hashes).size, lines).toBe(1);
    expect(report.hashes).toHaveLength(3);
    expect(report.cutAt).toBeGreaterThanOrEqual(1_000);
    expect(report.cutFrom).toBe(1_500);
    // What the first answers carried to sleeping followers may be kept; the rest is gone.
    expect(report.cutAt).toBeLessThan(1_500);
    expect(report.endOffset).toBe(report.cutAt + 2_000);
    expect(report.segmentBytes).toBeGreaterThan(10_000);
  });
});

describe("the comparison of lines", () => {
  it("knows a line that is missing, one that is there twice, and no order", async () => {
    const folder = mkdtempSync(join(tmpdir(), "ottla-lines-"));
    try {
      const at = (name: string): string => join(folder, name);
      await writeLines(at("made"), 1_000);
      await writeLines(at("again"), 1_000);
      const hash = await sortedHash(at("made"));
      expect(await sortedHash(at("again"))).toBe(hash);
      const variants: Record<string, string> = { same: "b\na\n", twice: "a\nb\nb\n", lost: "a\n", other: "a\nc\n" };
      writeFileSync(at("order"), "a\nb\n");
      const wanted = await sortedHash(at("order"));
      for (const [name, text] of Object.entries(variants)) {
        writeFileSync(at(name), text);
        expect((await sortedHash(at(name))) === wanted, name).toBe(name === "same");
      }
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
