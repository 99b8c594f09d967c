// What `ottla chaos export` says where there is nothing to export, or nowhere to.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { chaosExport } from "../../src/cli/commands/chaos-export.ts";
import { CommandFailure } from "../../src/cli/failure.ts";
import type { Output } from "../../src/cli/output.ts";
import { UsageError } from "../../src/cli/values.ts";

const directory = mkdtempSync(join(tmpdir(), "ottla-export-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const run = async (from: string, edn: string) =>
  chaosExport({ args: [from], flags: { edn }, output: { isJson: true, json: () => undefined } as unknown as Output });

it("names the line of a history that is none", async () => {
  mkdirSync(join(directory, "spoilt", "history"), { recursive: true });
  writeFileSync(join(directory, "spoilt", "history", "reader-1.jsonl"), "garbage\n");
  const failed = run(join(directory, "spoilt"), join(directory, "out.edn"));
  await expect(failed).rejects.toThrow(CommandFailure);
  await expect(failed).rejects.toMatchObject({
    code: "HISTORY_DAMAGED",
    message: expect.stringContaining("reader-1.jsonl:1: no event of a history") as string,
    exitCode: 1,
  });
});

it("leaves the file of before where the history is damaged further on", async () => {
  const [history, out] = [join(directory, "cut", "history"), join(directory, "kept.edn")];
  mkdirSync(history, { recursive: true });
  writeFileSync(join(history, "reader-1.jsonl"), "garbage\n");
  writeFileSync(out, "of an earlier run");
  await expect(run(join(directory, "cut"), out)).rejects.toThrow(CommandFailure);
  expect(readFileSync(out, "utf8")).toBe("of an earlier run");
  expect(existsSync(`${out}.new`)).toBe(false);
});

it("refuses a file in a directory that is not there, and a run that is not there", async () => {
  mkdirSync(join(directory, "empty", "history"), { recursive: true });
  writeFileSync(join(directory, "empty", "history", "reader-1.jsonl"), "");
  await expect(run(join(directory, "empty"), "/no/such/folder/out.edn")).rejects.toThrow(UsageError);
  await expect(run(join(directory, "nothing"), join(directory, "out.edn"))).rejects.toMatchObject({
    code: "NO_HISTORY",
  });
});
