// The question before something is deleted.
import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { askYesNo } from "../../src/cli/question.ts";

async function answerTo(typed: string): Promise<{ readonly answer: string; readonly shown: string }> {
  const input = new PassThrough();
  const output = new PassThrough();
  const asked = askYesNo("Delete it? [y/N] ", { input, output });
  input.write(typed);
  return { answer: await asked, shown: String(output.read()) };
}

describe("a question", () => {
  it.each([
    ["y\r", "yes"],
    ["Yes\r", "yes"],
    ["n\r", "no"],
    ["\r", "no"],
    ["yellow\r", "no"],
    ["\u0004", "no"],
    ["\u0003", "interrupted"],
    ["y\u0003", "interrupted"],
  ])("%j is %s", async (typed, expected) => {
    const { answer, shown } = await answerTo(typed);
    expect(answer).toBe(expected);
    expect(shown).toContain("Delete it? [y/N] ");
  });
});
