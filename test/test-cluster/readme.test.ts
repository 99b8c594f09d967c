// The README's example of a test, run as it stands there, and the figures of docs/testing.md against the code.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { brokerConfigKeys } from "../../src/model/config.ts";
import { ROOT, read } from "../house/tree.ts";

it("README.md has an example of a consumer that outlives its leader; it runs, ends by itself and says nothing", () => {
  const blocks = [...read("README.md").matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = ""]) => code);
  const [example = "", more] = blocks.filter((code) => code.includes("testCluster("));
  expect(example).toContain("cluster.kill(");
  expect(more).toBeUndefined();
  const folder = mkdtempSync(join(tmpdir(), "ottla-readme-"));
  try {
    const library = JSON.stringify(join(ROOT, "src/index.ts"));
    writeFileSync(join(folder, "example.mts"), example.replace('"ottla"', library));
    const tsx = join(ROOT, "node_modules/tsx/dist/cli.mjs");
    const run = spawnSync(process.execPath, [tsx, join(folder, "example.mts")], { encoding: "utf8", timeout: 200_000 });
    expect(run).toMatchObject({ status: 0, stdout: "", stderr: "" });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

it("docs/testing.md names every key that a test cluster sets, with its value and its default", () => {
  const source = readFileSync(join(ROOT, "src/test-cluster/test-cluster.ts"), "utf8");
  const set = [...source.matchAll(/^ +"([a-z.]+)": ([\d_]+),$/gm), ...source.matchAll(/\{ "([a-z.]+)": ([^,]+), "/g)];
  const rows = read("docs/testing.md")
    .split("\n")
    .filter((line) => line.startsWith("| `"));
  expect(set.length).toBeGreaterThan(5);
  for (const [, key = "", value = ""] of set) {
    const row = rows.find((line) => line.includes(`\`${key}\``)) ?? "";
    const shown = Number(value.replaceAll("_", "")).toLocaleString("en-US");
    if (!value.includes("*")) expect(row, key).toContain(shown);
    const fallback = brokerConfigKeys[key as keyof typeof brokerConfigKeys].fallback;
    if (!value.includes("*")) expect(row, key).toContain(Number(fallback).toLocaleString("en-US"));
  }
});
