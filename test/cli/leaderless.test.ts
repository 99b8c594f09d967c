// One of three nodes is killed, or hangs, and a third of the partitions has no leader: everything else goes on, and commands say what is
// missing. Real processes.
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { collect, outputMatching, type RunResult, start, startTestCluster, type TestCluster } from "./support.ts";

const GONE = 3;
let cluster: TestCluster;
let leaders: number[] = [];
const ledBy = (isGone: boolean) => leaders.flatMap((leader, index) => ((leader === GONE) === isGone ? [index] : []));
const lines = ({ stdout }: RunResult) => stdout.split("\n").filter((line) => line !== "");
const before = (partitions: readonly number[]) => partitions.map((partition) => `in ${partition}`);

async function describeTopic() {
  const { stdout } = await cluster.run(["topic", "describe", "t", "--json"]);
  return JSON.parse(stdout) as { partitions: { index: number; leader: number; endOffset: number | null }[] };
}

beforeAll(async () => {
  cluster = await startTestCluster({ nodeCount: 3 });
  await cluster.run(["topic", "create", "t", "-P", "6", "-R", "1"]);
  leaders = (await describeTopic()).partitions.map(({ leader }) => leader);
  for (const partition of leaders.keys()) {
    const sent = await cluster.run(["produce", "t", "--partition", String(partition)], { input: `in ${partition}\n` });
    expect(sent.code, sent.stderr).toBe(0);
  }
  expect(ledBy(true).length).toBeGreaterThan(0);
});
afterAll(() => cluster.stop());

describe("a killed node's partitions", () => {
  beforeAll(async () => {
    await cluster.run(["cluster", "kill", String(GONE)]);
    const isNoticed = async () => {
      expect((await describeTopic()).partitions[ledBy(true)[0] ?? 0]?.leader).toBe(-1);
    };
    await vi.waitFor(isNoticed, { timeout: 60_000, interval: 200 });
  });

  it("consume -e gives the others, then names them, within --timeout", async () => {
    const startedMs = performance.now();
    const read = await cluster.run(["consume", "t", "-e", "--timeout", "4s"]);
    expect(lines(read).toSorted()).toEqual(before(ledBy(false)));
    expect(read.code).toBe(3);
    const names = ledBy(true).map((partition) => `t-${partition}`);
    expect(read.stderr).toContain(
      `error[LEADER_NOT_AVAILABLE]: ${names.join(", ")}: no leader until node ${GONE} is up (waited for 4000 ms)`,
    );
    expect(read.stderr).toContain(`hint: start node ${GONE}`);
    expect(performance.now() - startedMs).toBeLessThan(20_000);
  });

  it("consume without -e gives the others, says what it waits for, and Ctrl-C ends it at once", async () => {
    const env = { OTTLA_BOOTSTRAP: cluster.addresses };
    const child = start(["consume", "t"], { env });
    const done = collect(child);
    const given = before(ledBy(false)).map((value) => outputMatching(child, "stdout", new RegExp(`^${value}$`, "m")));
    await outputMatching(child, "stderr", new RegExp(`waiting for t-${ledBy(true)[0]}.*: no leader`));
    await Promise.all(given);
    child.kill("SIGINT");
    const signalledMs = performance.now();
    const read = await done;
    expect(performance.now() - signalledMs).toBeLessThan(10_000);
    expect(read.code).toBe(130);
    expect(lines(read).toSorted()).toEqual(before(ledBy(false)));
  });

  it("Ctrl-C ends consume too when nothing can be read", async () => {
    const env = { OTTLA_BOOTSTRAP: cluster.addresses };
    const child = start(["consume", "t", "-o", "0", "-P", ledBy(true).join(","), "-e", "--timeout", "50s"], { env });
    const done = collect(child);
    await outputMatching(child, "stderr", /waiting for t-/);
    child.kill("SIGINT");
    const signalledMs = performance.now();
    expect((await done).code).toBe(130);
    expect(performance.now() - signalledMs).toBeLessThan(10_000);
  });

  it("topic describe shows start and end of the others", async () => {
    const described = await cluster.run(["topic", "describe", "t"]);
    expect(described.code, described.stderr).toBe(0);
    const rows = lines(described).slice(1);
    const ends = rows.map((row) => row.split("\t").slice(9, 11));
    expect(ends).toEqual(leaders.map((leader) => (leader === GONE ? ["-", "-"] : ["0", "1"])));
    expect(described.stderr).toContain(`offsets are not known of t-${ledBy(true)[0]}`);
    const { partitions } = await describeTopic();
    expect(partitions.map(({ endOffset }) => endOffset)).toEqual(leaders.map((leader) => (leader === GONE ? null : 1)));
  });

  it("produce sends records without key elsewhere, and says which keyed ones wait until they have failed", async () => {
    const free = await cluster.run(["produce", "t", "--batch-bytes", "100"], { input: "free\n".repeat(60) });
    expect(free.code, free.stderr).toBe(0);
    const input = Array.from({ length: 60 }, (_, index) => `key-${index}:keyed\n`).join("");
    const keyed = await cluster.run(["produce", "t", "--key-delimiter", ":", "--delivery-timeout", "5s"], { input });
    expect(keyed.code).toBe(1);
    const [gone] = ledBy(true);
    expect(keyed.stderr).toMatch(new RegExp(`waiting for t-${gone}.*: no leader`));
    expect(keyed.stderr).toMatch(
      /not appended \(t-\d\): error\[DELIVERY_TIMED_OUT, \w+\]: not acknowledged within 5000 ms: no leader/,
    );
    const [, acknowledged] = /(\d+) records? acknowledged of 60 read/.exec(keyed.stderr) ?? [];
    expect(Number(acknowledged)).toBeGreaterThan(10);
    expect(Number(acknowledged)).toBeLessThan(60);
  });

  it("are read when the node is back, and it may hang for a while", async () => {
    const child = start(["consume", "t"], { env: { OTTLA_BOOTSTRAP: cluster.addresses } });
    const done = collect(child, 170_000);
    let seen = "";
    child.stdout?.on("data", (chunk: Buffer) => {
      seen += chunk.toString();
    });
    await expect.poll(() => seen).toContain(`in ${ledBy(false)[0]}\n`);
    expect(seen).not.toContain(`in ${ledBy(true)[0]}\n`);
    const started = await cluster.run(["cluster", "start", String(GONE)]);
    expect(started.code, started.stderr).toBe(0);
    await expect.poll(() => seen).toContain(`in ${ledBy(true)[0]}\n`);

    await cluster.run(["cluster", "pause", String(GONE)]);
    const startedMs = performance.now();
    const read = await cluster.run(["consume", "t", "-e", "-q", "-f", "%v\\n", "--timeout", "4s"]);
    expect(performance.now() - startedMs).toBeLessThan(25_000);
    expect(read.code, read.stderr).toBe(3);
    for (const value of before(ledBy(false))) expect(lines(read)).toContain(value);
    expect(read.stderr).toMatch(
      new RegExp(`^error\\[([A-Z_]*LEADER[A-Z_]*|REQUEST_TIMED_OUT|CONNECTION_FAILED)\\]: t-${ledBy(true)[0]}`, "m"),
    );
    await cluster.run(["cluster", "resume", String(GONE)]);
    await expect.poll(async () => (await describeTopic()).partitions.every(({ leader }) => leader >= 0)).toBe(true);
    const late = await cluster.run(["produce", "t", "--partition", String(ledBy(true)[0])], { input: "late\n" });
    expect(late.code, late.stderr).toBe(0);
    await expect.poll(() => seen).toContain("late\n");
    child.kill("SIGINT");
    expect((await done).code).toBe(130);
  });
});
