// The scripts that the documentation tells people to run: they say what they take, and refuse in a line of text what they do not.
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { buildSync } from "esbuild";
import { afterAll, beforeAll, expect, it } from "vitest";

interface Ended {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Of esbuild, once for all: by tsx each takes up to ten times as long to begin. Below the packages, which it imports by name. */
const CACHE = join(import.meta.dirname, "../../node_modules/.cache");
mkdirSync(CACHE, { recursive: true });
const built = mkdtempSync(join(CACHE, "script-flags-"));
afterAll(() => rmSync(built, { recursive: true, force: true }));

/** As npm runs them. The first two bundle others, beside themselves; the third only passes on what it is given. */
const BY_TSX = ["fresh-seeds", "attack/main", "chaos"];
const BUILT = [
  "failover",
  "demo",
  "fuzz",
  "mutants",
  "enumerate-crashes",
  "figures",
  "sim",
  "raft-sim",
  "replication-sim",
];

beforeAll(() => {
  buildSync({
    entryPoints: BUILT.map((script) => `scripts/${script}.ts`),
    outbase: "scripts",
    outdir: built,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    splitting: true,
    platform: "node",
    format: "esm",
    packages: "external",
  });
});

const run = (script: string, ...flags: readonly string[]): Promise<Ended> =>
  new Promise((resolve) => {
    const how = BY_TSX.includes(script) ? ["--import", "tsx", `scripts/${script}.ts`] : [join(built, `${script}.mjs`)];
    execFile(process.execPath, [...how, ...flags], (error, stdout, stderr) =>
      resolve({ exitCode: error === null ? 0 : Number(error.code), stdout, stderr }),
    );
  });

it.each([...BY_TSX, ...BUILT])("%s --help", async (script) => {
  const { exitCode, stdout, stderr } = await run(script, "--help");
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
  expect(stdout).toMatch(/^usage: npm run .*(?:\[--|-- \[)/);
});

it.each([
  ["attack/main", "--only=frame:1,frames:2", "--only takes frame:N and sequence:N, not frames:2"],
  ["failover", "--nonsense", "Unknown option '--nonsense'"],
  ["failover", "--kills=many", '--kills takes an integer, 1 to 1000, not "many"'],
  ["failover", "--kinds=kil:3", "--kinds takes kill, "],
  ["demo", "--lines=0", "--lines takes a number from 1 on, not 0"],
  ["demo", "--runs=billion", "--runs takes million, tail, rolling; not billion"],
])("%s %s", async (script, flag, message) => {
  const { exitCode, stdout, stderr } = await run(script, flag);
  expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: "" });
  expect(stderr.startsWith(message)).toBe(true);
  expect(stderr).toMatch(/^usage: npm run /m);
  expect(stderr).not.toMatch(/^ +at /m);
});
