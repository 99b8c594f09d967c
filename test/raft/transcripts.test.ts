import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { runTranscript } from "./transcript.ts";

const folder = fileURLToPath(new URL("testdata/", import.meta.url));
const names = readdirSync(folder).filter((name) => name.endsWith(".txt"));

describe("transcripts (REWRITE=1 writes them anew: read the difference)", () => {
  it("are there", () => expect(names.length).toBeGreaterThanOrEqual(12));

  it.each(names)("%s", (name) => {
    const before = readFileSync(folder + name, "utf8");
    const after = runTranscript(before);
    if (process.env["REWRITE"] === "1") writeFileSync(folder + name, after);
    else expect(after).toBe(before);
  });
});
