// A real broker under the preload shim: every call by which it changes files passes the shim, and no power loss takes what it has
// acknowledged with acks=all; a broker that acknowledges too early is found out by the same loss.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import { createRng } from "../../../src/base/rng.ts";
import { distDirectory, mainScript } from "../../../src/chaos/build.ts";
import { type ChaosCluster, type ChaosNode, startCluster } from "../../../src/chaos/cluster.ts";
import type { PowerLoss, ShimControl } from "../../../src/chaos/shim/control.ts";
import { prepareShim } from "../../../src/chaos/shim/setup.ts";
import { drawFreePorts } from "../../../src/cli/free-ports.ts";
import { connect } from "../../../src/index.ts";
import { canPreload } from "./can-preload.ts";

const TOPIC = "t";
const PARTITIONS = 2;
const LOSSES = Number(process.env["SHIM_LOSSES"] ?? 3);
const SEED = Number(process.env["SHIM_FIRST_SEED"] ?? 1);
/** Records acknowledged before each loss. */
const ACKED_MIN = 300;
/** So that something is always unsynced, and what is acknowledged too early has time to be lost. */
const SYNC_DELAY_MS = 30;

interface Rig {
  readonly cluster: ChaosCluster;
  readonly node: ChaosNode;
  readonly shim: ShimControl;
}

async function openRig(mutants: readonly string[] = []): Promise<Rig> {
  const directory = mkdtempSync(join(tmpdir(), "ottla-shim-broker-"));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const preload = join(directory, "planted.mjs");
  const mutantModule = pathToFileURL(join(distDirectory(), "base/mutant.js")).href;
  writeFileSync(
    preload,
    `import { activateMutants } from "${mutantModule}";\nactivateMutants(${JSON.stringify(mutants)});\n`,
  );
  // Small files and checkpoints all the time: what is rare otherwise is under way when the power goes.
  const settings = { "segment.bytes": 65_536, "journal.bytes": 262_144, "checkpoint.interval.ms": 200 };
  const cluster = await startCluster({
    nodes: 1,
    directory: join(directory, "run"),
    shim: true,
    settings,
    ...(mutants.length === 0 ? {} : { preload }),
  });
  onTestFinished(async () => void (await cluster.close()));
  const node = cluster.node(1);
  if (node.shim === undefined) throw new Error("no shim");
  node.shim.set({ syncDelayMs: SYNC_DELAY_MS });
  const admin = (await cluster.client()).admin();
  await admin.createTopic(TOPIC, { partitions: PARTITIONS, replicationFactor: 1 });
  return { cluster, node, shim: node.shim };
}

/** Value by partition and offset. */
type Log = Map<string, string>;

/** Sends until so many are acknowledged, then kills the broker in the midst of it. */
async function sendAndKill({ cluster, node }: Rig, acked: Log, run: number): Promise<void> {
  const producer = (await cluster.client()).producer({
    acks: "all",
    lingerMs: 0,
    requestTimeoutMs: 1_000,
    deliveryTimeoutMs: 1_000,
  });
  const before = acked.size;
  let sequence = 0;
  let killed: Promise<void> | undefined;
  const sendOn = async (): Promise<void> => {
    while (killed === undefined) {
      const value = `${run}-${sequence++}-${"x".repeat((sequence * 37) % 700)}`;
      const result = await producer.send(TOPIC, { value, partition: sequence % PARTITIONS }).catch(() => undefined);
      if (result?.offset !== undefined) acked.set(`${result.partition}:${result.offset}`, value);
      if (acked.size - before >= ACKED_MIN) killed ??= node.kill();
    }
  };
  await Promise.all(Array.from({ length: 16 }, sendOn));
  await killed;
  await producer.close({ timeoutMs: 0 }).catch(() => undefined);
}

async function readAll({ cluster }: Rig): Promise<Log> {
  const log: Log = new Map();
  const consumer = (await cluster.client()).consumer({ topics: [TOPIC], untilEnd: true });
  for await (const { partition, offset, value } of consumer)
    log.set(`${partition}:${offset}`, Buffer.from(value ?? []).toString());
  return log;
}

interface Outcome {
  readonly lost: number;
  readonly losses: readonly PowerLoss[];
}

/** Ends with the first loss after which something acknowledged is missing. */
async function loseAgainAndAgain(rig: Rig, times: number): Promise<Outcome> {
  const acked: Log = new Map();
  const losses: PowerLoss[] = [];
  const rng = createRng(SEED);
  for (let run = 0; run < times; run++) {
    await sendAndKill(rig, acked, run);
    losses.push(await rig.shim.powerLoss(rng.fork(`loss ${run}`)));
    expect(await rig.node.start(), rig.node.logFile).toBe(true);
    const found = await readAll(rig);
    const lost = [...acked].filter(([at, value]) => found.get(at) !== value).length;
    if (lost > 0) return { lost, losses };
  }
  return { lost: 0, losses };
}

const hasStrace = spawnSync("strace", ["-V"]).status === 0;
if (!hasStrace) console.warn("NOT RUN: whether the broker's calls all pass the shim: no strace");

/** Calls by which a process changes files: those that the shim counts, and those that it must never see used. */
const COUNTED = {
  writes: ["write", "writev", "pwrite64", "pwritev"],
  syncs: ["fsync", "fdatasync"],
  resizes: ["ftruncate"],
} as const;
const FOREIGN = [
  "pwritev2",
  "truncate",
  "fallocate",
  "copy_file_range",
  "sendfile",
  "splice",
  "renameat",
  "renameat2",
  "unlinkat",
  "mkdirat",
  "symlink",
  "symlinkat",
  "linkat",
  "mknod",
  "io_uring_setup",
];

/** Calls of each name in what strace wrote that name something below the directory. */
function callsOn(directory: string, trace: string): Map<string, number> {
  const calls = new Map<string, number>();
  for (const line of trace.split("\n")) {
    const [, name = "", rest = ""] = /^\d+ +(\w+)\((.*)$/.exec(line) ?? [];
    if (name === "io_uring_setup" || rest.includes(`${directory}/`) || rest.includes(`<${directory}>`))
      calls.set(name, (calls.get(name) ?? 0) + 1);
  }
  return calls;
}

/** A broker under strace and the shim takes some records and is stopped in order; returns what strace saw. */
async function traceBroker(directory: string, env: Readonly<Record<string, string>>): Promise<string> {
  const traceFile = join(directory, "trace");
  const [port = 0] = await drawFreePorts(1);
  const traced = [...Object.values(COUNTED).flat(), ...FOREIGN].map((name) => `?${name}`).join(",");
  const forBroker = Object.entries(env).flatMap(([key, value]) => ["-E", `${key}=${value}`]);
  const strace = [
    "-f",
    "-qq",
    "-y",
    "--seccomp-bpf",
    "-e",
    `trace=${traced}`,
    "-s",
    "0",
    "-o",
    traceFile,
    ...forBroker,
  ];
  const at = `127.0.0.1:${port}`;
  const flags = ["--node-id", "1", "--data-dir", join(directory, "data"), "--listeners", `ws://${at}`];
  const settings = [
    "-X",
    `controller.quorum.voters=1@${at}`,
    "-X",
    "checkpoint.interval.ms=200",
    "-X",
    "segment.bytes=65536",
  ];
  const broker = [process.execPath, mainScript(), "server", "start", ...flags, ...settings];
  const child = spawn("strace", [...strace, ...broker], { stdio: ["ignore", "ignore", "pipe"] });
  const ended = once(child, "exit");
  // strace passes no signal on: the broker is ended by the number that its log says.
  const pid = await new Promise<number>((resolve, reject) => {
    createInterface({ input: child.stderr }).on("line", (line) => {
      const [, found] = /"pid":(\d+)/.exec(line) ?? [];
      if (found !== undefined) resolve(Number(found));
    });
    void ended.then(() => reject(new Error("strace ended")));
  });
  onTestFinished(() => {
    if (child.exitCode === null) process.kill(pid, "SIGKILL");
  });
  const client = await connect({ brokers: [at], connectTimeoutMs: 60_000 });
  try {
    await client.admin().createTopic(TOPIC, { partitions: PARTITIONS, replicationFactor: 1 });
    const producer = client.producer({ acks: "all" });
    const value = "x".repeat(1000);
    for (let round = 0; round < 5; round++)
      await Promise.all(Array.from({ length: 100 }, async () => producer.send(TOPIC, { value })));
    await client.admin().deleteTopic(TOPIC);
  } finally {
    await client.close();
  }
  process.kill(pid, "SIGTERM");
  await ended;
  return readFileSync(traceFile, "latin1");
}

describe.runIf(canPreload && hasStrace)("every change of a broker's files", () => {
  test("passes the shim", async () => {
    const directory = realpathSync(mkdtempSync(join(tmpdir(), "ottla-shim-trace-")));
    onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
    mkdirSync(join(directory, "data"));
    const { env, control } = (await prepareShim(directory)).nodeFor(1, join(directory, "data"));
    onTestFinished(() => control.close());
    const calls = callsOn(join(directory, "data"), await traceBroker(directory, env));
    const counters = control.counters();
    const seen = (names: readonly string[]) => names.reduce((sum, name) => sum + (calls.get(name) ?? 0), 0);
    for (const [counter, names] of Object.entries(COUNTED) as [keyof typeof COUNTED, readonly string[]][]) {
      expect(seen(names), counter).toBe(counters[counter]);
      expect(counters[counter], counter).toBeGreaterThan(0);
    }
    expect(FOREIGN.filter((name) => calls.has(name))).toEqual([]);
    expect(counters).toMatchObject({ unsupported: 0, undoLost: 0 });
  });
});

describe.runIf(canPreload)("a broker under the preload shim", () => {
  test("loses nothing acknowledged by power losses", async () => {
    const { lost, losses } = await loseAgainAndAgain(await openRig(), LOSSES);
    expect(losses.flatMap(({ problems }) => problems)).toEqual([]);
    expect(losses.reduce((sum, { dropped, torn }) => sum + dropped + torn, 0)).toBeGreaterThan(0);
    expect(lost).toBe(0);
  });

  const LIES = ["M1", "M2"];
  test.each(LIES)("is found out when it acknowledges before the sync (planted bug %s)", async (bug) => {
    const { lost } = await loseAgainAndAgain(await openRig([bug]), 8);
    expect(lost).toBeGreaterThan(0);
  });
});
