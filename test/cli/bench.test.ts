// `ottla bench` as a person runs it, on tiny sizes: what it measures is plausible, what it cannot do is said early, and nothing is left behind.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseResult, readResult } from "../../src/bench/result-file.ts";
import type { BenchResult, BenchRun } from "../../src/bench/result.ts";
import {
  collect,
  json,
  ottla,
  outputMatching,
  start,
  startTestCluster,
  temporaryFolder,
  type TestCluster,
} from "./support.ts";

const SHORT = ["--duration", "400ms", "--warm-up", "100ms", "--clients", "2"];
/** For what is counted by the clock: a machine may stand still for a second. */
const LONGER = ["--duration", "2s", "--warm-up", "100ms", "--clients", "2"];
const TIMEOUT_MS = 280_000;

let cluster: TestCluster;
let folder: ReturnType<typeof temporaryFolder>;

beforeAll(async () => {
  cluster = await startTestCluster();
  folder = temporaryFolder();
}, TIMEOUT_MS);

afterAll(async () => {
  await cluster?.stop();
  folder?.remove();
});

const file = (name: string) => join(folder.path, name);
/** Against the running cluster; brokers are found by --bootstrap alone. */
const bench = (args: readonly string[]) => ottla(["-b", cluster.address, "bench", ...args], { timeoutMs: TIMEOUT_MS });

async function benchResult(args: readonly string[]): Promise<BenchResult> {
  const { code, stdout, stderr } = await bench([...args, "--json"]);
  if (code !== 0) throw new Error(`ended with ${code}: ${stderr}`);
  const { _command, _version, ...result } = JSON.parse(stdout) as Record<string, unknown>;
  expect([_command, _version]).toEqual([`bench.${args[0]}`, 1]);
  return parseResult(JSON.stringify(result), "stdout");
}

/** What any good run shows. */
function expectPlausible(run: BenchRun | undefined): asserts run is BenchRun {
  if (run === undefined) throw new Error("no run");
  expect(run.records).toBeGreaterThan(0);
  expect(run.bytes).toBeGreaterThanOrEqual(run.records);
  expect(run.errors).toEqual({});
  expect(run.recordsPerSecond).toBeCloseTo(run.records / run.seconds, 3);
  expect(run.timeline.reduce((sum, { records }) => sum + records, 0)).toBe(run.records);
  const { p50, p90, p99, p999, max } = run.latencyMs ?? { p50: -1, p90: -1, p99: -1, p999: -1, max: -1 };
  expect(p50).toBeGreaterThan(0);
  expect([p50, p90, p99, p999, max]).toEqual([p50, p90, p99, p999, max].sort((left, right) => left - right));
  expect(run.percentiles.at(-1)).toEqual([1, max]);
  expect(run.cpuSecondsPerGB.client).toBeGreaterThan(0);
}

describe("ottla bench against brokers of its own", () => {
  it("makes a run of each combination, writes both files, and takes its brokers away", {
    timeout: TIMEOUT_MS,
  }, async () => {
    const dir = temporaryFolder();
    const args = ["--acks", "0,1,all", "--record-bytes", "100", "--batch-bytes", "4KiB", "--in-flight", "1"];
    const own = ["--cluster", "1", "--limit-bytes", "1MB", "--dir", dir.path];
    const { code, stdout, stderr } = await ottla(
      ["bench", "produce", ...args, ...own, ...LONGER, "--out", file("r.json"), "--out", file("r.html")],
      { timeoutMs: TIMEOUT_MS },
    );
    expect({ code, stderr: code === 0 ? "" : stderr }).toEqual({ code: 0, stderr: "" });
    expect(stderr).toMatch(/3 runs of 2 s after 0\.1 s of warm-up: about \d+ s\n[^]*run 1\/3: produce acks=0\n/);
    expect(stdout.split("\n").map((line) => line.split("\t")[0])).toEqual([
      "RUN",
      "produce acks=0",
      "produce acks=1",
      "produce acks=all",
      "",
    ]);
    const result = readResult(file("r.json"));
    expect(result).toMatchObject({ isComplete: true, cluster: { brokers: 1, isOwn: true } });
    expect(result.limits.rawDiskMBs).toBeGreaterThan(1);
    expect(result.limits.rawSocketMBs).toBeGreaterThan(1);
    for (const run of result.runs) {
      expectPlausible(run);
      expect(run.bytes).toBe(run.records * 100);
      expect(run.ratio.toRawDisk).toBeCloseTo(run.mbPerSecond / (result.limits.rawDiskMBs ?? 0), 6);
    }
    expect(result.runs[2]?.cpuSecondsPerGB.brokers).toBeGreaterThan(0);
    expect(readFileSync(file("r.html"), "utf8")).toMatch(/^<!doctype html>/);
    expect(readdirSync(dir.path)).toEqual([]);
    dir.remove();
  });
});

describe("ottla bench against a running cluster", () => {
  it("produce: an open loop sends exactly its schedule", { timeout: TIMEOUT_MS }, async () => {
    const args = ["--rate", "400", "--connections", "3", "--record-bytes", "64", "--limit-bytes", "0"];
    const { runs, cluster: facts, limits } = await benchResult(["produce", ...args, ...SHORT]);
    expect(facts).toEqual({ brokers: 1, isOwn: false });
    expect(limits).toEqual({ rawDiskMBs: null, rawSocketMBs: null });
    const [run] = runs;
    expectPlausible(run);
    expect(run.records).toBe(160);
    expect(run.labels).toMatchObject({ mode: "open", ratePerSecond: 400, clients: 2, connections: 3 });
    expect(run.driverLateMs?.max).toBeGreaterThan(0);
    // Its topic is gone.
    expect((await cluster.run(["topic", "ls"])).stdout).not.toContain("bench-");
  });

  it("consume: reads what it wrote over and over, or a topic that is there", { timeout: TIMEOUT_MS }, async () => {
    const own = ["--fill", "200kB", "--partitions", "2", "--connections", "1,3", "--limit-bytes", "0"];
    const { runs } = await benchResult(["consume", ...own, ...LONGER]);
    expect(runs.map(({ name }) => name)).toEqual(["consume connections=1", "consume connections=3"]);
    for (const run of runs) {
      expectPlausible(run);
      expect(run.bytes).toBe(run.records * 1024);
      // More than there is: it was read again.
      expect(run.bytes).toBeGreaterThan(200_000);
    }
    await cluster.run(["topic", "create", "there", "-P", "1"]);
    await cluster.run(["produce", "there"], { input: "a\nbb\nccc\n" });
    const there = await benchResult([
      "consume",
      "--topic",
      "there",
      "--partitions",
      "1",
      "--limit-bytes",
      "0",
      ...LONGER,
    ]);
    expect(there.runs[0]?.records).toBeGreaterThan(3);
    expect(json(await cluster.run(["topic", "describe", "there", "--json"]))["name"]).toBe("there");
  });

  it("e2e: every acknowledged record was read, at each acks level", { timeout: TIMEOUT_MS }, async () => {
    const args = ["--acks", "0,1,all", "--rate", "300", "--partitions", "3", "--limit-bytes", "0", ...SHORT];
    const { runs } = await benchResult(["e2e", ...args]);
    for (const run of runs) {
      expectPlausible(run);
      expect(run.records).toBe(120);
      expect(run.remarks.join()).toMatch(/150 records acknowledged, 0 lost, 0 read twice, 0 out of order/);
    }
  });

  it("soak: looks at the brokers over time and finds nothing", { timeout: TIMEOUT_MS }, async () => {
    const args = ["--rate", "100", "--duration", "3s", "--warm-up", "200ms", "--window", "100ms", "--limit-bytes", "0"];
    const { runs } = await benchResult(["soak", ...args]);
    const [run] = runs;
    expectPlausible(run);
    expect(run.processes.length).toBeGreaterThan(8);
    expect(run.processes[0]).toMatchObject({ process: "node 1" });
    expect(run.processes[0]?.rssBytes).toBeGreaterThan(10_000_000);
    expect(run.timeline.length).toBeGreaterThanOrEqual(30);
  });

  it("a broker that stalls shows in p99 of an open loop, and no record is left out", {
    timeout: TIMEOUT_MS,
  }, async () => {
    const nodes = json(await cluster.run(["cluster", "status", "--json"]))["nodes"] as { readonly pid: number }[];
    const pid = nodes[0]?.pid ?? 0;
    const args = ["--rate", "300", "--duration", "4s", "--warm-up", "200ms", "--limit-bytes", "0", "--json"];
    const child = start(["-b", cluster.address, "bench", "produce", ...args]);
    const ended = collect(child, TIMEOUT_MS);
    await outputMatching(child, "stderr", /measuring/);
    await delay(1000);
    const stoppedMs = performance.now();
    process.kill(pid, "SIGSTOP");
    await delay(1000).finally(() => process.kill(pid, "SIGCONT"));
    const stallMs = performance.now() - stoppedMs;
    const { code, stdout } = await ended;
    expect(code).toBe(0);
    const [run] = (JSON.parse(stdout) as BenchResult).runs;
    // A quarter of the schedule fell into the stall.
    expect(run?.records).toBe(1200);
    expect(run?.latencyMs?.p99).toBeGreaterThan(stallMs * 0.8);
  });

  it("Ctrl-C: what was measured so far is printed, the topic is gone, exit code 130", {
    timeout: TIMEOUT_MS,
  }, async () => {
    const args = ["--acks", "all,1", "--duration", "60s", "--warm-up", "100ms", "--limit-bytes", "0"];
    const child = start(["-b", cluster.address, "bench", "produce", ...args, "--out", file("cut.json")]);
    const ended = collect(child, TIMEOUT_MS);
    await outputMatching(child, "stderr", /measuring/);
    await delay(2_000);
    child.kill("SIGINT");
    const { code, stdout, stderr } = await ended;
    expect(code).toBe(130);
    expect(stdout).toMatch(/^RUN[^\n]*\nproduce acks=all\t[1-9]/);
    expect(stderr).toContain("ending, with what was measured so far");
    const result = readResult(file("cut.json"));
    expect(result.isComplete).toBe(false);
    expect(result.runs).toHaveLength(1);
    expect(result.runs[0]?.seconds).toBeLessThan(20);
    expect((await cluster.run(["topic", "ls"])).stdout).not.toContain("bench-");
  });
});

describe("ottla bench refuses early", () => {
  it("a flag that makes no sense", async () => {
    const { code, stdout, stderr } = await ottla(["bench", "produce", "--acks", "2"]);
    expect({ code, stdout, stderr }).toEqual({
      code: 2,
      stdout: "",
      stderr: 'error[USAGE]: --acks takes 0, 1 or all, not "2"\n',
    });
  });

  it("brokers that do not answer: 3", async () => {
    const { code, stderr } = await ottla(["-b", "127.0.0.1:1", "bench", "produce"]);
    expect(code).toBe(3);
    expect(stderr).toMatch(/^error\[CONNECTION_FAILED\]: 127\.0\.0\.1:1: refused$/m);
  });

  it("a topic in use, one that is not there, and more replicas than brokers", async () => {
    await cluster.run(["topic", "create", "taken", "-P", "1"]);
    const taken = await bench(["produce", "--topic", "taken"]);
    expect(taken.code).toBe(1);
    expect(taken.stderr).toMatch(/^error\[TOPIC_ALREADY_EXISTS\]: topic "taken" is there/);
    const missing = await bench(["consume", "--topic", "missing"]);
    expect(missing.code).toBe(4);
    expect(missing.stderr).toMatch(/^error\[UNKNOWN_TOPIC_OR_PARTITION\]: no topic "missing"/);
    const replicas = await bench(["produce", "--replication-factor", "3"]);
    expect(replicas.code).toBe(2);
    expect(replicas.stderr).toContain("--replication-factor 3: there are 1 broker");
  });
});
