// The scripts that compute for minutes run as one file: what they are given, what they end with, and that nothing of it is left.
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { bundle } from "../../scripts/bundled.ts";

const directory = mkdtempSync(join(tmpdir(), "ottla-bundled-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

function script(name: string, text: string): string {
  const path = join(directory, name);
  writeFileSync(path, text);
  return path;
}

it("a bundled script has its arguments, keeps its exit code, and is gone afterwards", () => {
  const path = script(
    "ends.ts",
    "console.log(JSON.stringify([import.meta.filename, ...process.argv.slice(2)])); process.exitCode = 3 as number;",
  );
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ["--import", "tsx", "scripts/bundled.ts", path, "--seeds", "1..2"],
    { encoding: "utf8" },
  );
  expect({ status, stderr }).toEqual({ status: 3, stderr: "" });
  const [file = "", ...args] = JSON.parse(stdout) as string[];
  expect(args).toEqual(["--seeds", "1..2"]);
  expect(file).toMatch(/ends\.mjs$/);
  expect(existsSync(file)).toBe(false);
});

it("a failure names the lines of the sources", () => {
  const { args, remove } = bundle(script("throws.ts", "type Unused = string;\n\nthrow new Error('as planned');\n"));
  try {
    const { status, stderr } = spawnSync(process.execPath, [...args], { encoding: "utf8" });
    expect(status).toBe(1);
    expect(stderr).toMatch(/throws\.ts:3:/);
  } finally {
    remove();
  }
});

it("what cannot be bundled is an error, not an empty run", () => {
  expect(() => bundle(join(directory, "nowhere.ts"))).toThrow(/nowhere/);
});
