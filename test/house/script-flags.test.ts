// The scripts that the documentation tells people to run: they say what they take, and refuse in a line of text what they do not.
import { execFile } from "node:child_process";
import { expect, it } from "vitest";

interface Ended {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

const run = (script: string, ...flags: readonly string[]): Promise<Ended> =>
  new Promise((resolve) => {
    execFile(process.execPath, ["--import", "tsx", `scripts/${script}.ts`, ...flags], (error, stdout, stderr) =>
      resolve({ exitCode: error === null ? 0 : Number(error.code), stdout, stderr }),
    );
  });

const SCRIPTS = [
  "chaos",
  "failover",
  "demo",
  "fuzz",
  "attack/main",
  "fresh-seeds",
  "mutants",
  "enumerate-crashes",
  "figures",
];

it.each([...SCRIPTS, "sim", "raft-sim", "replication-sim"])("%s --help", { timeout: 60_000 }, async (script) => {
  const { exitCode, stdout, stderr } = await run(script, "--help");
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
  expect(stdout).toMatch(/^usage: npm run .*(?:\[--|-- \[)/);
});

it.each([
  ["failover", "--nonsense", "Unknown option '--nonsense'"],
  ["failover", "--kills=many", '--kills takes an integer, 1 to 1000, not "many"'],
  ["failover", "--kinds=kil:3", "--kinds takes kill, "],
  ["demo", "--lines=0", "--lines takes a number from 1 on, not 0"],
  ["demo", "--runs=billion", "--runs takes million, tail, rolling; not billion"],
])("%s %s", { timeout: 60_000 }, async (script, flag, message) => {
  const { exitCode, stdout, stderr } = await run(script, flag);
  expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: "" });
  expect(stderr.startsWith(message)).toBe(true);
  expect(stderr).toMatch(/^usage: npm run /m);
  expect(stderr).not.toMatch(/^ +at /m);
});
