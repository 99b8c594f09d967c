// Three nodes under one launcher in the background: what another shell sees of them and does to them.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isAlive, isPaused, signalProcess } from "../../src/cli/process-identity.ts";
import { type ClusterState, readState, stateFileOf } from "../../src/cli/state-file.ts";
import { json, outputMatching, start, startTestCluster, type TestCluster } from "./support.ts";

let cluster: TestCluster;
const SOON = { timeout: 40_000 };

beforeAll(async () => {
  cluster = await startTestCluster({ nodeCount: 3 });
});
afterAll(() => cluster.stop());

function state(): ClusterState {
  const outcome = readState(cluster.dataDir);
  if (outcome.kind !== "found") throw new Error(`no state file: ${outcome.kind}`);
  return outcome.state;
}

const node = (nodeId: number) => {
  const found = state().nodes.find((one) => one.nodeId === nodeId);
  if (found === undefined) throw new Error(`no node ${nodeId}`);
  return found;
};

const parentOf = (pid: number) => Number(/^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
const sessionOf = (pid: number) => readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ")[3];

async function rows(): Promise<Record<number, Record<string, unknown>>> {
  const status = await cluster.run(["cluster", "status", "--json"]);
  const nodes = json(status)["nodes"] as { readonly nodeId: number }[];
  return Object.fromEntries(nodes.map((one) => [one.nodeId, one as unknown as Record<string, unknown>]));
}

describe("three nodes", () => {
  it("are children of the launcher, each in a session of its own", () => {
    const { launcher, nodes } = state();
    expect(nodes.map(({ nodeId }) => nodeId)).toEqual([1, 2, 3]);
    expect(nodes.map(({ process: { pid } }) => parentOf(pid))).toEqual([launcher.pid, launcher.pid, launcher.pid]);
    expect(new Set([launcher, ...nodes.map((one) => one.process)].map(({ pid }) => sessionOf(pid))).size).toBe(4);
  });

  it("are all running in `cluster status`, which ends with 0", async () => {
    await expect
      .poll(() => cluster.run(["cluster", "status"]), SOON)
      .toMatchObject({
        code: 0,
        stdout: expect.stringMatching(
          /^NODE\tSTATE\tROLE\tLEADERS\tIN SYNC\tADDRESS\tPID\n1\trunning\t.*\n2\trunning\t.*\n3\trunning\t.*\n$/,
        ) as string,
      });
  });
});

describe("kill and start", () => {
  it("a killed node stays in sight, and start makes the launcher its parent again", async () => {
    const before = node(2).process;
    const killed = await cluster.run(["cluster", "kill", "2"]);
    expect({ code: killed.code, out: killed.stdout }).toEqual({ code: 0, out: `node 2 killed (pid ${before.pid})\n` });
    expect(isAlive(before)).toBe(false);
    await expect.poll(() => node(2).state, SOON).toBe("killed");
    const status = await cluster.run(["cluster", "status", "--json"]);
    expect(status.code).toBe(10);
    expect((await rows())[2]).toMatchObject({ state: "killed", pid: null, reason: "SIGKILL" });

    const again = await cluster.run(["cluster", "kill", "2"]);
    expect(again.stderr).toBe(
      "error[NODE_NOT_RUNNING]: node 2 does not run (killed)\nhint: ottla cluster start 2 starts it\n",
    );
    expect(again.code).toBe(1);

    const started = await cluster.run(["cluster", "start"]);
    expect({ code: started.code, out: started.stdout }, started.stderr).toEqual({
      code: 0,
      out: `node 2 runs at ${node(2).address}\n`,
    });
    expect(node(2).address).toBe(state().nodes[1]?.address);
    expect(parentOf(node(2).process.pid)).toBe(state().launcher.pid);
    await expect.poll(async () => (await rows())[2], SOON).toMatchObject({ state: "running", reason: null });
  });

  it("start right after kill starts it, however late the launcher hears of its death", async () => {
    for (let turn = 0; turn < 3; turn++) {
      process.kill(node(3).process.pid, "SIGKILL");
      const { code, stderr } = await cluster.run(["cluster", "start", "3"]);
      expect(code, stderr).toBe(0);
    }
  });

  it("with -s TERM it stops in order", async () => {
    expect((await cluster.run(["cluster", "kill", "3", "-s", "SIGTERM"])).stdout).toMatch(
      /^node 3 told to stop by SIGTERM \(pid/,
    );
    await expect.poll(() => node(3).state, SOON).toBe("stopped");
    expect((await cluster.run(["cluster", "kill", "3", "-s", "HUP"])).code).toBe(2);
    expect((await cluster.run(["cluster", "start", "3"])).code).toBe(0);
  });

  it("restart stops in order and starts again, under another pid", async () => {
    const before = node(1).process.pid;
    const { code, stdout, stderr } = await cluster.run(["cluster", "restart", "1", "--json"]);
    expect(code, stderr).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ _command: "cluster.restart", nodes: [{ nodeId: 1 }] });
    expect(node(1).process.pid).not.toBe(before);
    expect(node(1).state).toBe("running");
  });

  it("a node that does not exist is named with those that do", async () => {
    for (const verb of ["kill", "pause", "resume", "start", "restart", "logs"]) {
      const { code, stderr } = await cluster.run(["cluster", verb, "9"]);
      expect(stderr, verb).toBe("error[UNKNOWN_NODE]: this cluster has no node 9\nhint: its nodes are 1, 2, 3\n");
      expect(code).toBe(4);
    }
  });

  it("a process that only has the pid is never signalled", async () => {
    const { process: real } = node(1);
    const file = stateFileOf(cluster.dataDir);
    const text = readFileSync(file, "utf8");
    try {
      const wrong = state().nodes.map((one) =>
        one.nodeId === 1 ? { ...one, process: { ...real, startTicks: real.startTicks + 1 } } : one,
      );
      writeFileSync(file, JSON.stringify({ ...state(), nodes: wrong }));
      for (const verb of ["kill", "pause"]) {
        const { code, stderr } = await cluster.run(["cluster", verb, "1"]);
        expect(stderr).toMatch(/^error\[NODE_NOT_RUNNING\]: node 1 does not run \(its process is gone\)/);
        expect(code).toBe(1);
      }
      expect([isAlive(real), isPaused(real)]).toEqual([true, false]);
    } finally {
      writeFileSync(file, text);
    }
  });
});

describe("pause and resume", () => {
  it("holds a node and lets it go on", async () => {
    const { process: identity } = node(3);
    expect((await cluster.run(["cluster", "pause", "3"])).stdout).toBe(`node 3 paused (pid ${identity.pid})\n`);
    expect(isPaused(identity)).toBe(true);
    expect((await rows())[3]).toMatchObject({ state: "paused", pid: identity.pid });
    expect((await cluster.run(["cluster", "resume", "3"])).code).toBe(0);
    expect(isPaused(identity)).toBe(false);
    await expect.poll(async () => (await rows())[3]?.["state"], SOON).toBe("running");
  });

  it("start lets a paused node go on, as the same process", async () => {
    const { pid } = node(3).process;
    await cluster.run(["cluster", "pause", "3"]);
    const { code, stderr } = await cluster.run(["cluster", "start", "3"]);
    expect(code, stderr).toBe(0);
    expect(node(3).process.pid).toBe(pid);
    expect(isPaused(node(3).process)).toBe(false);
  });
});

describe("logs", () => {
  it("are the last lines of all nodes, or of one", async () => {
    const all = await cluster.run(["cluster", "logs", "-n", "1"]);
    expect(
      all.stdout
        .trimEnd()
        .split("\n")
        .map((text) => text.slice(0, 4)),
    ).toEqual(["[n1]", "[n2]", "[n3]"]);
    const one = await cluster.run(["cluster", "logs", "2", "-n", "500"]);
    expect(one.stdout).toMatch(/^\d\d:\d\d:\d\d\.\d+ info node_starting /m);
    expect(one.stdout).not.toContain("[n2]");
    const raw = (await cluster.run(["cluster", "logs", "2", "-n", "3", "--json"])).stdout.trimEnd().split("\n");
    expect(raw.map((text) => (JSON.parse(text) as { readonly node: string }).node)).toEqual(["2", "2", "2"]);
    expect((await cluster.run(["cluster", "logs", "launcher", "-n", "1000"])).stdout).toContain(
      "node 2 killed (SIGKILL)",
    );
  });

  it("-f goes on with what is added, also after the file was renamed", async () => {
    const file = node(1).logFile;
    const follower = start(["cluster", "logs", "-f", "1", "-n", "0", "--data-dir", cluster.dataDir]);
    const spoke = outputMatching(follower, "stdout", /node_starting/);
    const stopped = outputMatching(follower, "stdout", /node_stopped/);
    const lines = outputMatching(follower, "stdout", /after the rename/);
    const isSeen = Promise.all([spoke, stopped]).then(() => true);
    // Nothing tells when the follower has begun, so there is more until it has seen it.
    do await cluster.run(["cluster", "restart", "1"]);
    while (!(await Promise.race([isSeen, delay(2_000, false)])));
    const text = readFileSync(file, "utf8");
    writeFileSync(`${file}.new`, `${text.slice(0, 10)}\n{"event":"after the rename"}\n`);
    const { renameSync } = await import("node:fs");
    renameSync(`${file}.new`, file);
    await lines;
    follower.kill("SIGINT");
    await expect(new Promise((resolve) => follower.once("close", resolve))).resolves.toBe(130);
  });
});

describe("health", () => {
  it("--watch tells each change, until Ctrl-C", async () => {
    const watch = start(["cluster", "health", "--watch", "--json"], { env: { OTTLA_DATA_DIR: cluster.dataDir } });
    const well = outputMatching(watch, "stdout", /"condition":"healthy"/);
    const ill = outputMatching(watch, "stdout", /"condition":"degraded".*"code":"NODE_DOWN","nodeId":3/);
    await well;
    await cluster.run(["cluster", "kill", "3"]);
    await ill;
    const again = outputMatching(watch, "stdout", /"condition":"healthy"/);
    expect((await cluster.run(["cluster", "start", "3"])).code).toBe(0);
    await again;
    watch.kill("SIGINT");
    await expect(new Promise((resolve) => watch.once("close", resolve))).resolves.toBe(130);
  });

  it("every node answers plain HTTP, and one of them is the controller", async () => {
    const ask = async (path: string) =>
      await Promise.all(
        state().nodes.map(async ({ address }) => {
          const answer = await fetch(`${address.replace("ws", "http")}${path}`);
          return { status: answer.status, text: await answer.text() };
        }),
      );
    for (const path of ["/livez", "/readyz", "/version", "/metrics"])
      await expect
        .poll(async () => (await ask(path)).map(({ status }) => status), { ...SOON, message: path })
        .toEqual([200, 200, 200]);
    const active = async () =>
      (await ask("/metrics")).map(({ text }) => Number(/^ottla_controller_active (\d)$/m.exec(text)?.[1]));
    // None for a moment, where a busy machine makes them elect another one.
    await expect.poll(async () => (await active()).reduce((sum, one) => sum + one, 0), SOON).toBe(1);
  });
});

describe("wipe", () => {
  it("refuses without --yes, and while the node runs", async () => {
    const running = await cluster.run(["cluster", "wipe", "3", "--yes"]);
    expect(running.stderr).toMatch(
      /^error\[STILL_RUNNING\]: node 3 runs \(pid \d+\)\nhint: ottla cluster kill 3 first\n/,
    );
    expect(running.code).toBe(1);
    const all = await cluster.run(["cluster", "wipe", "--yes"]);
    expect(all.code).toBe(1);
    await cluster.run(["cluster", "kill", "3"]);
    const unsaid = await cluster.run(["cluster", "wipe", "3"]);
    expect(unsaid.stderr).toMatch(/^error\[NOT_CONFIRMED\]: this deletes everything of 1 node \(3\), \d.*\nhint: /);
    expect(unsaid.code).toBe(6);
    expect((await cluster.run(["cluster", "start", "3"])).code).toBe(0);
  });
});

describe("bounds", () => {
  it("a launcher that does not answer is told as such, and down works all the same", async () => {
    const { launcher } = state();
    await cluster.run(["cluster", "kill", "2"]);
    await expect.poll(() => node(2).state, SOON).toBe("killed");
    signalProcess(launcher, "SIGSTOP");
    try {
      const { code, stderr } = await cluster.run(["cluster", "start", "2", "--timeout", "500ms"]);
      expect(stderr).toMatch(/^error\[LAUNCHER_SILENT\]: the launcher does not answer\nhint: /);
      expect(code).toBe(3);
    } finally {
      signalProcess(launcher, "SIGCONT");
    }
  });

  // The last of this file: the cluster is gone after it.
  it("down stops all, also what is killed or paused", async () => {
    await cluster.run(["cluster", "start"]);
    const { launcher, nodes } = state();
    await cluster.run(["cluster", "kill", "1"]);
    await cluster.run(["cluster", "pause", "2"]);
    const { code, stderr } = await cluster.run(["cluster", "down", "--timeout", "60s"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "stopped 3 nodes of cluster test\n" });
    expect([launcher, ...nodes.map((one) => one.process)].filter(isAlive)).toEqual([]);
    const health = await cluster.run(["cluster", "health", "--timeout", "2s"]);
    expect(health.stderr).toMatch(/^error\[CONNECTION_FAILED\]: no node answers at 127\.0\.0\.1:/);
    expect(health.code).toBe(3);
    const wiped = await cluster.run(["cluster", "wipe", "--yes", "--json"]);
    expect(JSON.parse(wiped.stdout)).toMatchObject({ _command: "cluster.wipe", nodes: [1, 2, 3] });
    expect((await cluster.run(["cluster", "wipe"])).stdout).toMatch(/^nothing to delete in /);
    expect(readState(cluster.dataDir).kind).toBe("none");
    expect(join(cluster.dataDir, "x")).toContain("data");
  });
});
