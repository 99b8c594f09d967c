// cluster up, status, health, down: what another shell sees, and how a node that cannot run or dies is told.
import { createServer } from "node:net";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { askReadiness } from "../../src/cli/cluster/readiness.ts";
import { drawFreePorts } from "../../src/cli/free-ports.ts";
import { identify, isAlive } from "../../src/cli/process-identity.ts";
import { readState, writeState } from "../../src/cli/state-file.ts";
import { clusterFolder } from "./cluster-folder.ts";
import {
  collect,
  json,
  MAIN,
  ottla,
  outputMatching,
  SMALL_NODE,
  start,
  upArguments,
  writeClusterFile,
} from "./support.ts";

const folder = clusterFolder();
const dataDir = () => folder.dataDir;
const nodeDir = () => join(dataDir(), "node-1", "data");
const upWith = (listeners?: string) => upArguments(folder.path, writeClusterFile(folder.path, listeners));

function foundState() {
  const outcome = readState(dataDir());
  if (outcome.kind !== "found") throw new Error(`no state file: ${outcome.kind}`);
  return outcome.state;
}

describe("cluster up --detach", () => {
  it("returns when the node serves; status, health and down work from another shell", async () => {
    const up = await ottla([...upWith(), "--detach"]);
    expect(up.code, up.stderr).toBe(0);
    expect(up.stdout).toMatch(
      /^NODE\tSTATE\tROLE\tLEADERS\tIN SYNC\tADDRESS\tPID\n1\trunning\tcontroller\t0\t0\/0\tws:\/\/127\.0\.0\.1:\d+\t\d+\n$/,
    );
    expect(up.stderr).toContain("topic create greetings");
    const address = foundState().nodes[0]?.address.replace("ws://", "") ?? "";

    const status = await ottla(["cluster", "status", "--data-dir", dataDir(), "--json"]);
    expect(status.code).toBe(0);
    expect(json(status)).toMatchObject({
      _command: "cluster.status",
      isRunning: true,
      nodes: [{ nodeId: 1, state: "running" }],
    });

    const health = await ottla(["cluster", "health", "--data-dir", dataDir(), "--wait", "--timeout", "30s", "--json"]);
    expect(health.code, health.stderr).toBe(0);
    expect(json(health)).toMatchObject({ isHealthy: true, condition: "healthy", brokers: 1, problems: [] });

    for (const [path, status_] of [
      ["livez", 200],
      ["readyz", 200],
      ["version", 200],
      ["metrics", 200],
      ["nothing", 426],
    ] as const) {
      expect((await fetch(`http://${address}/${path}`)).status, path).toBe(status_);
    }
    expect(await (await fetch(`http://${address}/metrics`)).text()).toMatch(/^ottla_build_info\{/m);

    const again = await ottla([...upWith(), "--detach"]);
    expect(again.stderr).toMatch(/^error\[ALREADY_RUNNING\]: .*launcher pid \d+/);
    expect(again.code).toBe(1);

    const { launcher, nodes } = foundState();
    const down = await ottla(["cluster", "down", "--data-dir", dataDir()]);
    expect(down.code, down.stderr).toBe(0);
    expect([launcher, ...nodes.map((node) => node.process)].filter(isAlive)).toEqual([]);
    expect((await ottla(["cluster", "status", "--data-dir", dataDir()])).code).toBe(10);
    expect((await ottla(["cluster", "down", "--data-dir", dataDir()])).code).toBe(0);
    expect(readFileSync(join(dataDir(), "node-1", "log", "ottla.log"), "utf8")).toMatch(/"event":"node_ready"/);
  });

  it("shows why a start failed, with the node's exit code", async () => {
    mkdirSync(nodeDir(), { recursive: true });
    writeFileSync(join(nodeDir(), "holiday.jpg"), "not a log");
    const up = await ottla([...upWith(), "--detach"]);
    expect(up.stderr).toMatch(/error\[DATA_DIR_FOREIGN\]: node 1 did not start: /);
    expect(up.stderr).toContain("\nhint: ");
    expect(up.code).toBe(32);
    expect(existsSync(join(dataDir(), "cluster-state.json"))).toBe(false);
  });

  it("keeps a state file of somebody else's process from being signalled", async () => {
    mkdirSync(dataDir(), { recursive: true });
    const process_ = { pid: process.pid, startTicks: 1, bootId: "another" };
    writeState(dataDir(), {
      cluster: "x",
      startedAt: "",
      launcher: process_,
      socket: join(dataDir(), "launcher.sock"),
      nodes: [
        {
          nodeId: 1,
          process: process_,
          state: "running",
          since: "",
          reason: null,
          address: "ws://127.0.0.1:1",
          dataDir: "",
          logFile: "",
        },
      ],
    });
    for (const verb of ["kill", "pause", "resume", "start"]) {
      const { code, stderr } = await ottla(["cluster", verb, "1", "--data-dir", dataDir()]);
      expect(stderr).toMatch(/^error\[NO_CLUSTER\]/);
      expect(code).toBe(4);
    }
    const down = await ottla(["cluster", "down", "--data-dir", dataDir()]);
    expect(down.code).toBe(0);
    expect(down.stderr).toContain("no cluster runs");
  });

  it("a node that fails by itself takes the launcher with it when it was the last, and `cluster status` says why", async () => {
    expect((await ottla([...upWith(), "--detach"])).code).toBe(0);
    const { launcher, nodes } = foundState();
    process.kill(nodes[0]?.process.pid ?? 0, "SIGABRT");
    await expect.poll(() => isAlive(launcher)).toBe(false);
    const { code, stderr } = await ottla(["cluster", "status", "--data-dir", dataDir()]);
    expect(stderr).toContain("error[NODE_ENDED]: node 1 ended by itself: SIGABRT");
    expect(code).toBe(10);
  });

  it("nodes end when their launcher is killed", async () => {
    expect((await ottla([...upWith(), "--detach"])).code).toBe(0);
    const { launcher, nodes } = foundState();
    process.kill(launcher.pid, "SIGKILL");
    await expect.poll(() => nodes.filter((node) => isAlive(node.process)).length).toBe(0);
    expect((await ottla(["cluster", "status", "--data-dir", dataDir()])).code).toBe(10);
  });

  it("a node ends also when its launcher is killed while it loads", async () => {
    const entry = JSON.stringify(join(dirname(MAIN), "node-process.js"));
    // Killed in the moment after it has written down whose parent it is.
    const script = `const { fork } = require("node:child_process");
      const child = fork(${entry}, [], { detached: true, stdio: ["ignore", "ignore", "ignore", "ipc"] });
      process.stdout.write(String(child.pid), () => process.kill(process.pid, "SIGKILL"));`;
    const { stdout } = spawnSync(process.execPath, ["-e", script], { encoding: "utf8" });
    const node = identify(Number(stdout));
    expect(isAlive(node)).toBe(true);
    await expect.poll(() => isAlive(node), { timeout: 15_000 }).toBe(false);
  });
});

describe("cluster up", () => {
  it("says so when the last node dies by itself, and starts again after it", async () => {
    const child = start(upWith());
    const done = collect(child);
    await outputMatching(child, "stderr", /Ctrl-C stops it/);
    process.kill(foundState().nodes[0]?.process.pid ?? 0, "SIGABRT");
    const { code, stderr } = await done;
    expect(stderr).toMatch(/error\[NODE_ENDED\]: node 1 ended by itself: SIGABRT/);
    expect(stderr).toContain("node_ready");
    expect(code).toBe(1);
    const again = await ottla([...upWith(), "--detach"]);
    expect(again.code, again.stderr).toBe(0);
  });

  it("refuses a node's log that cannot be written, by code and name", async () => {
    const log = join(dataDir(), "node-1", "log", "ottla.log");
    mkdirSync(log, { recursive: true });
    const { code, stderr } = await ottla([...upWith(), "--detach"]);
    expect(stderr).toContain(`error[DATA_DIR_READ_ONLY]: node 1 did not start: ${log}: EISDIR`);
    expect(code).toBe(32);
  });

  it("refuses a port that is taken", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    const { port } = server.address() as { readonly port: number };
    const { code, stderr } = await ottla(upWith(`ws://127.0.0.1:${port}`));
    server.close();
    expect(stderr).toMatch(new RegExp(`error\\[PORT_IN_USE\\]: node 1 did not start: .*${port}`));
    expect(code).toBe(1);
  });

  it("refuses a directory that another live process uses, and names its pid", async () => {
    expect((await ottla([...upWith(), "--detach"])).code).toBe(0);
    const pid = foundState().nodes[0]?.process.pid;
    const args = ["server", "start", "--node-id", "1", "--data-dir", nodeDir(), "--listeners", "ws://127.0.0.1:0"];
    const { code, stderr } = await ottla([...args, "-q"]);
    expect(stderr).toMatch(new RegExp(`error\\[DATA_DIR_LOCKED\\]: .*${pid}`));
    expect(code).toBe(32);
  });

  it("refuses a cluster file it cannot use, with line and key", async () => {
    const file = join(folder.path, "c.json");
    writeFileSync(file, '{\n  "nodes": [{ "node.id": 1,\n    "listener": "ws://127.0.0.1:0" }]\n}');
    const { code, stderr } = await ottla(["cluster", "up", "-c", file]);
    expect(stderr).toBe(
      `error[CONFIG_UNREADABLE]: ${file}:3: unknown key "listener"\nhint: did you mean "listeners"?\n`,
    );
    expect(code).toBe(2);
  });
});

describe("server start", () => {
  const args = (dir: string) => [
    "server",
    "start",
    "--node-id",
    "1",
    "--data-dir",
    dir,
    "--listeners",
    "ws://127.0.0.1:0",
    "-q",
    ...SMALL_NODE.flatMap((pair) => ["-X", pair]),
  ];

  it("refuses a foreign directory and leaves it as it is", async () => {
    const dir = join(folder.path, "photos");
    mkdirSync(dir);
    writeFileSync(join(dir, "holiday.jpg"), "not a log");
    const { code, stderr } = await ottla(args(dir));
    expect(stderr).toMatch(/error\[DATA_DIR_FOREIGN\]: /);
    expect(code).toBe(32);
    expect(readdirSync(dir)).toEqual(["holiday.jpg"]);
  });

  it("refuses a directory that cannot be made, at once", async () => {
    const file = join(folder.path, "file");
    writeFileSync(file, "");
    for (const dir of [file, join(file, "below"), "/proc/ottla/data"]) {
      const { code, stderr } = await ottla(args(dir));
      expect(stderr).toMatch(/error\[DATA_DIR_READ_ONLY\]: /);
      if (dir.startsWith(file)) expect(stderr).toContain(`${file} is not a directory`);
      expect(code).toBe(32);
    }
  });

  it("a start that hangs ends on a signal: after the shutdown timeout, and at once on the second", async () => {
    const dir = join(folder.path, "hangs");
    mkdirSync(dir);
    // Nobody ever writes to it: reading it waits for ever, as on a disk that does not answer.
    expect(spawnSync("mkfifo", [join(dir, "superblock")]).status).toBe(0);
    const [port = 0] = await drawFreePorts(1);
    const stop = async (timeout: string, first: NodeJS.Signals, again?: NodeJS.Signals) => {
      const own = ["--listeners", `ws://127.0.0.1:${port}`, "-X", `shutdown.timeout.ms=${timeout}`];
      const child = start([...args(dir), ...own]);
      const done = collect(child);
      // It listens before it reads its disk.
      await expect.poll(() => askReadiness(`127.0.0.1:${port}`, 1000)).toBeDefined();
      child.kill(first);
      // A signal within 500 ms of the first counts as the same one; only the process knows when it met the first.
      const isOver = done.then(() => true);
      if (again !== undefined) while (!(await Promise.race([isOver, delay(600, false)]))) child.kill(again);
      const { signal } = await done;
      return signal;
    };
    expect(await stop("200ms", "SIGTERM")).toBe("SIGTERM");
    expect(await stop("60s", "SIGTERM", "SIGINT")).toBe("SIGINT");
  });

  it("refuses another node's directory", async () => {
    const dir = join(folder.path, "d");
    const first = start(args(dir));
    await outputMatching(first, "stdout", /ready ws:/);
    first.kill("SIGTERM");
    expect((await collect(first)).code).toBe(0);
    const { code, stderr } = await ottla([...args(dir), "--node-id", "2"]);
    expect(stderr).toMatch(/error\[DATA_DIR_FOREIGN\]: /);
    expect(code).toBe(32);
  });

  const mountReadOnly = () => {
    const dir = join(folder.path, "ro");
    mkdirSync(dir);
    return spawnSync("mount", ["-t", "tmpfs", "-o", "ro,size=1m", "tmpfs", dir]).status === 0 ? dir : undefined;
  };

  it("refuses a disk that cannot be written", async ({ skip }) => {
    const dir = mountReadOnly();
    if (dir === undefined) skip("needs the right to mount");
    try {
      const { code, stderr } = await ottla(args(dir ?? ""));
      expect(stderr).toMatch(/error\[DATA_DIR_READ_ONLY\]: /);
      expect(code).toBe(32);
      const deeper = await ottla(args(join(dir ?? "", "not", "there")));
      expect(deeper.stderr).toMatch(/error\[DATA_DIR_READ_ONLY\]: /);
      expect(deeper.code).toBe(32);
      const file = writeClusterFile(folder.path);
      const up = await ottla(["cluster", "up", "-c", file, "--data-dir", join(dir ?? "", "deep", "d")]);
      expect(up.stderr).toMatch(/error\[DATA_DIR_READ_ONLY\]: .*the file system cannot be written/);
      expect(up.code).toBe(32);
    } finally {
      spawnSync("umount", [dir ?? ""]);
    }
  });
});
