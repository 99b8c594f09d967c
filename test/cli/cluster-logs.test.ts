// `cluster logs` over files of a cluster that does not run: what is followed from nothing, and what cannot be read.
import { appendFileSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, beforeAll, beforeEach, expect, it, onTestFinished } from "vitest";
import { collect, ensureBuilt, ottla, outputMatching, start, temporaryFolder } from "./support.ts";

let folder = temporaryFolder();
const log = () => join(folder.path, "node-1", "log", "ottla.log");

beforeAll(ensureBuilt);
beforeEach(() => {
  folder = temporaryFolder();
  mkdirSync(dirname(log()), { recursive: true });
});
afterEach(() => folder.remove());

it("-f goes on with what a node says outside of its log, also where that was nothing as yet", async () => {
  writeFileSync(log(), "begun\n");
  const stderrLog = join(dirname(log()), "stderr.log");
  writeFileSync(stderrLog, "");
  const follower = start(["cluster", "logs", "-f", "--data-dir", folder.path]);
  onTestFinished(() => void follower.kill("SIGKILL"));
  const ended = collect(follower);
  await outputMatching(follower, "stdout", /begun/);
  appendFileSync(stderrLog, "last words\n");
  await outputMatching(follower, "stdout", /^\[n1 stderr\] last words$/m);
  follower.kill("SIGINT");
  expect((await ended).code).toBe(130);
});

it("names a log that cannot be read, by code", async () => {
  mkdirSync(log());
  const { code, stderr } = await ottla(["cluster", "logs", "--data-dir", folder.path]);
  expect(stderr).toMatch(/^error\[FILE_UNREADABLE\]: \S+node-1\/log\/ottla\.log: EISDIR\nhint: /);
  expect(code).toBe(1);
});
