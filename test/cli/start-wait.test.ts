// `cluster up --detach` of a cluster that cannot serve: bounded, with a word on what it waits for, and no success.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { leftOut, leftOutRemark, notServing, startWait } from "../../src/cli/launcher/start-wait.ts";
import {
  collect,
  ensureBuilt,
  ottla,
  outputMatching,
  start,
  temporaryFolder,
  upArguments,
  writeClusterFile,
} from "./support.ts";

const folder = temporaryFolder();
const dataDir = join(folder.path, "data");
// Its own address is not in the list, and nobody is at the others: it never finds a cluster.
const NO_PEERS = ["-X", "controller.quorum.voters=2@127.0.0.1:1,3@127.0.0.1:2"];
let up: string[] = [];
const down = () => ottla(["cluster", "down", "--data-dir", dataDir]);

beforeAll(() => {
  ensureBuilt();
  up = [...upArguments(folder.path, writeClusterFile(folder.path)), ...NO_PEERS, "--any-port", "--detach"];
});
afterAll(async () => {
  await down();
  folder.remove();
});

describe("a cluster that does not serve", () => {
  it("ends with 10 after --timeout, says what it waits for, and goes on in the background", async () => {
    const { code, stdout, stderr } = await ottla([...up, "--timeout", "12s"]);
    expect(stderr).toMatch(/^node 1: waiting/m);
    expect(stderr).toMatch(
      /^error\[NODE_NOT_READY\]: the cluster does not serve after 12 s: node 1: waiting.*\nhint: /m,
    );
    expect(stderr).not.toContain("Try");
    expect({ code, stdout }).toEqual({ code: 10, stdout: "" });
    expect((await down()).stderr).toContain("stopped 1 node");
  });

  it("ended by cluster down from another shell: 1; by Ctrl-C: 130; neither says that it serves", async () => {
    const one = start(up);
    const ended = collect(one);
    await outputMatching(one, "stderr", /node 1: waiting/);
    await down();
    expect(await ended).toMatchObject({
      code: 1,
      stdout: "",
      stderr: expect.stringContaining("error[STOPPING]: the cluster was stopped before it served") as string,
    });
    const other = start(up);
    const interrupted = collect(other);
    await outputMatching(other, "stderr", /node 1: waiting/);
    other.kill("SIGINT");
    const { code, stdout, stderr } = await interrupted;
    expect({ code, stdout }).toEqual({ code: 130, stdout: "" });
    expect(stderr).not.toMatch(/error|Try/);
    expect((await down()).stderr).toContain("no cluster runs");
  });
});

describe("nodes that are left out", () => {
  it("are those that keep data here and are not started", () => {
    const own = temporaryFolder();
    for (const name of ["node-1", "node-2", "node-12", "other"]) {
      mkdirSync(join(own.path, name, "data"), { recursive: true });
      writeFileSync(join(own.path, name, "data", "superblock"), "");
    }
    expect(leftOut(own.path, [1])).toEqual([2, 12]);
    expect(leftOut(own.path, [1, 2, 3, 12])).toEqual([]);
    own.remove();
    expect(leftOutRemark([2])).toMatch(/^node 2 of an earlier start is not started/);
    expect(notServing("/d", 30, "", [2, 3]).hint).toMatch(/cluster down.*then cluster up with nodes 2, 3 too/);
    expect(notServing("/d", 30, "", []).hint).toMatch(/ottla cluster health --data-dir \/d /);
  });

  it("the time is up when it is, and not after the end", async () => {
    const wait = startWait("/nowhere", 20, () => undefined);
    await wait.timeIsUp;
    const ended = startWait("/nowhere", 20, () => undefined);
    ended.end();
    const later = startWait("/nowhere", 60, () => undefined);
    await expect(Promise.race([ended.timeIsUp.then(() => "up"), later.timeIsUp.then(() => "later")])).resolves.toBe(
      "later",
    );
  });
});
