// ottla bench report: results in, one HTML file out; what is no result is refused by name.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { resultText } from "../../src/bench/result-file.ts";
import { benchReport } from "../../src/cli/commands/bench-report.ts";
import type { Output } from "../../src/cli/output.ts";
import { UsageError } from "../../src/cli/values.ts";
import { OttlaError } from "../../src/model/errors.ts";
import { acksRuns, resultOf } from "../bench/report/samples.ts";

const folder = mkdtempSync(join(tmpdir(), "ottla-bench-report-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const file = (name: string, text?: string): string => {
  const path = join(folder, name);
  if (text !== undefined) writeFileSync(path, text);
  return path;
};

function run(args: readonly string[], out: string, isJson = false) {
  const lines: string[] = [];
  const documents: Readonly<Record<string, unknown>>[] = [];
  const output = {
    isJson,
    line: (text: string) => lines.push(text),
    note: () => undefined,
    json: (_: string, fields: Readonly<Record<string, unknown>>) => documents.push(fields),
  } as unknown as Output;
  return { lines, documents, exit: benchReport({ args, flags: { out }, output }) };
}

describe("ottla bench report", () => {
  const before = file("before.json", resultText(resultOf(acksRuns(), { commit: "aaaaaaaaaaaa" })));
  const after = file("after.json", resultText(resultOf(acksRuns(), { commit: "bbbbbbbbbbbb" })));

  it("puts results together, and says where the report is", async () => {
    const out = file("report.html");
    const { lines, exit } = run([before, after], out);
    expect(await exit).toBe(0);
    expect(lines).toEqual([out]);
    const html = readFileSync(out, "utf8");
    for (const commit of ["aaaaaaaaa", "bbbbbbbbb"]) expect(html).toContain(`acks=all · commit ${commit}`);
  });

  it("says so as JSON, too", async () => {
    const { documents, exit } = run([before], file("other.html"), true);
    expect(await exit).toBe(0);
    expect(documents).toMatchObject([{ results: 1, runs: 3 }]);
  });

  it.each([
    ["no file", () => [file("missing.json")], "missing.json cannot be read"],
    ["no JSON", () => [file("text.json", "hello")], "text.json is no result of ottla bench: it is no JSON"],
    ["no result", () => [before, file("other.json", "{}")], "other.json is no result of ottla bench"],
  ])("refuses %s, and writes nothing", async (_, args, message) => {
    const out = file("never.html");
    const error: unknown = await run(args(), out).exit.catch((thrown: unknown) => thrown);
    expect(error instanceof UsageError || (error instanceof OttlaError && error.code === "INVALID_CONFIG")).toBe(true);
    expect((error as Error).message).toContain(message);
    expect(existsSync(out)).toBe(false);
  });

  it("does not write over a result", async () => {
    await expect(run([before], before).exit).rejects.toThrow("--out takes an HTML file");
    expect(readFileSync(before, "utf8")).toContain("aaaaaaaaaaaa");
  });
});
