// What users see of partitions with several replicas when nodes and disks are lost: three real nodes.
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { EXIT } from "../../src/model/exit-codes.ts";
import { json, type RunResult, startTestCluster, type TestCluster } from "./support.ts";

interface Partition {
  readonly index: number;
  readonly leader: number;
  readonly replicas: number[];
  readonly isr: number[];
  readonly elr: number[];
  readonly state: string;
  readonly highWatermark: number | null;
  readonly endOffset: number | null;
  readonly progress: { readonly nodeId: number; readonly lag: number | null; readonly isInSync: boolean }[];
  readonly unknown: { readonly code: string } | null;
}

const SOON = { timeout: 60_000, interval: 500 };
let cluster: TestCluster;
const lines = ({ stdout }: RunResult) => stdout.split("\n").filter((line) => line !== "");

async function ok(...args: string[]): Promise<RunResult> {
  const result = await cluster.run(args);
  expect(result.code, `${args.join(" ")}: ${result.stderr}`).toBe(0);
  return result;
}

async function partitionsOf(topic: string): Promise<Partition[]> {
  return json(await ok("topic", "describe", topic, "--json"))["partitions"] as Partition[];
}

const statesOf = async (topic: string) => (await partitionsOf(topic)).map(({ state }) => state);
const produce = async (topic: string, values: readonly string[], ...more: string[]) => {
  const sent = await cluster.run(["produce", topic, ...more], { input: `${values.join("\n")}\n` });
  expect(sent.code, sent.stderr).toBe(0);
};
const numbers = (from: number, count: number) => Array.from({ length: count }, (_, index) => `${from + index}`);

beforeAll(async () => {
  cluster = await startTestCluster({ nodeCount: 3 });
});
afterAll(() => cluster.stop());

describe("three replicas", () => {
  it("lie on three nodes, each of which leads its share; all are in sync, and the table says how far", async () => {
    expect((await ok("topic", "create", "t", "-P", "6", "--replication-factor", "3")).stdout).toBe(
      "t\t6 partitions\t3 replicas\n",
    );
    await produce("t", numbers(0, 3000));
    const isEven = async () => {
      const partitions = await partitionsOf("t");
      expect(partitions.map(({ leader }) => leader).toSorted((one, other) => one - other)).toEqual([1, 1, 2, 2, 3, 3]);
      for (const { state, progress, highWatermark, endOffset } of partitions) {
        expect([state, highWatermark]).toEqual(["ok", endOffset]);
        expect(progress.map(({ lag, isInSync }) => [lag, isInSync])).toEqual(
          Array.from({ length: 3 }, () => [0, true]),
        );
      }
    };
    await vi.waitFor(isEven, SOON);
    const [head, first] = lines(await ok("topic", "describe", "t"));
    expect(head).toBe(
      "TOPIC\tPARTITION\tLEADER\tEPOCH\tVERSION\tREPLICAS\tISR\tELR\tMIN\tSTART\tHW\tEND\tDURABLE\tLAG\tSTATE",
    );
    expect(first).toMatch(/^t\t0\t\d\t\d+\t\d+\t\d,\d,\d\t\d,\d,\d\t-\t2\t0\t\d+\t\d+\t\d+\t\d:0,\d:0\tok$/);
    const byReplica = lines(await ok("topic", "describe", "t", "--replicas"));
    expect(byReplica[0]).toBe("TOPIC\tPARTITION\tREPLICA\tROLE\tSTATE\tEND\tDURABLE\tLAG\tBEHIND");
    expect(byReplica).toHaveLength(1 + 6 * 3);
    expect(byReplica.filter((row) => /\tleader\tin-sync\t/.test(row))).toHaveLength(6);
    // A node that a busy machine keeps from answering in time is told as such.
    const isListed = async () => {
      expect((await ok("broker", "ls")).stdout).toMatch(/^3\t.*\tok\t2\t6\/6$/m);
      expect((await ok("cluster", "status")).stdout).toMatch(/^1\trunning\t\w+\t2\t6\/6\t/m);
      expect((await ok("topic", "ls")).stdout).toContain("t\t6\t3\t0\tok\n");
    };
    await vi.waitFor(isListed, SOON);
  });

  it("kill -9 of a node: writes with acks all go on elsewhere, nothing is lost, and listings say what is missing", async () => {
    await ok("cluster", "kill", "1");
    await produce("t", numbers(3000, 3000), "--acks", "all");
    const isMoved = async () => {
      for (const { leader, isr, state } of await partitionsOf("t")) {
        expect(leader).not.toBe(1);
        expect([isr.includes(1), state]).toEqual([false, "under-replicated"]);
      }
    };
    await vi.waitFor(isMoved, SOON);
    expect((await ok("topic", "ls")).stdout).toContain("t\t6\t3\t6\tunder-replicated\n");
    const health = await cluster.run(["cluster", "health"]);
    expect(health.stdout).toMatch(/6 partitions under-replicated: t-0 \(2 of 3 replicas in sync\)/);
    // Told once, and not by each leader again.
    expect(health.stdout).not.toContain("led here");
    expect(health.code).toBe(10);
    const read = await ok("consume", "t", "-e");
    expect(new Set(lines(read))).toEqual(new Set(numbers(0, 6000)));
    expect(lines(read)).toHaveLength(6000);
    const refused = await cluster.run(["partition", "elect", "t"]);
    expect(refused.stdout).toMatch(/\tPREFERRED_LEADER_NOT_AVAILABLE: /);
    expect(refused.code).toBe(1);
  });

  it("back it catches up, is in sync, and leads its share again", async () => {
    await ok("cluster", "start", "1");
    await vi.waitFor(async () => expect(await statesOf("t")).toEqual(Array.from({ length: 6 }, () => "ok")), SOON);
    const isBalanced = async () => {
      await ok("partition", "elect", "t");
      const partitions = await partitionsOf("t");
      expect(partitions.map(({ leader }) => leader)).toEqual(partitions.map(({ replicas }) => replicas[0]));
    };
    await vi.waitFor(isBalanced, SOON);
    const isNotNeeded = async () =>
      expect((await ok("partition", "elect", "t", "0-2", "5")).stdout.match(/\tnot needed\n/g)).toHaveLength(4);
    await vi.waitFor(isNotNeeded, SOON);
    const unsaid = await cluster.run(["partition", "elect", "--node", "2"]);
    expect([unsaid.code, unsaid.stderr]).toEqual([2, expect.stringContaining("--node needs a topic")]);
    expect((await cluster.run(["partition", "elect", "t", "0", "--node", "9"])).code).toBe(EXIT.NOT_FOUND);
    for (const nodeId of [1, 2, 3]) {
      const isThere = async () => {
        const moved = await ok("partition", "elect", "t", "0", "--node", String(nodeId));
        expect(lines(moved)[1]).toMatch(new RegExp(`^t\\t0\\t${nodeId}\\t(elected|not needed)$`));
      };
      // The balance may give it back in between.
      await vi.waitFor(isThere, SOON);
    }
    expect((await ok("cluster", "health", "--wait", "--timeout", "60s")).stdout).toBe("healthy\n");
  });

  it("too few in sync: nothing is taken, and the reason is told; what waits goes on by itself", async () => {
    await ok("topic", "create", "strict", "-P", "1", "-R", "3", "-c", "min.insync.replicas=3");
    await produce("strict", ["before"]);
    await ok("cluster", "kill", "2");
    await vi.waitFor(async () => expect(await statesOf("strict")).toEqual(["below-min-isr"]), SOON);
    for (const acks of ["all", "1"]) {
      const options = { input: "refused\n" };
      const refused = await cluster.run(["produce", "strict", "-a", acks, "--delivery-timeout", "6s"], options);
      expect(refused.stderr).toMatch(
        /not appended \(strict-0\): error\[DELIVERY_TIMED_OUT, NOT_ENOUGH_REPLICAS\]: .*\n\s*hint: .*describe strict/,
      );
      expect(refused.code).toBe(1);
    }
    // Nobody answers these; what cannot have been taken is told all the same.
    const unasked = await cluster.run(["produce", "strict", "-a", "0", "--json"], { input: "dropped\n" });
    expect(unasked.stderr).toMatch(/strict-0: nothing is taken there now, .*2 in sync, 3 needed/);
    expect(json(unasked)).toMatchObject({ recordsAcknowledged: 0, recordsSent: 1, batchLatencyP50Ms: null });
    expect(unasked.code).toBe(1);
    expect((await cluster.run(["cluster", "health"])).stdout).toContain(
      "1 partition below min.insync.replicas: strict-0 (2 in sync, 3 needed)",
    );
    const waiting = cluster.run(["produce", "strict", "--delivery-timeout", "60s"], { input: "waited\n" });
    await ok("cluster", "start", "2");
    expect((await waiting).code).toBe(0);
    expect(lines(await ok("consume", "strict", "-e"))).toEqual(["before", "waited"]);
  });
});

describe("without most nodes", () => {
  it("acks 0 ends soon: what was sent to the leader that is left, and what nobody could be sent", async () => {
    await ok("topic", "create", "lonely", "-P", "3", "-R", "1");
    const leaders = (await partitionsOf("lonely")).map(({ leader }) => leader);
    await ok("cluster", "kill", "1", "2");
    const startedMs = performance.now();
    const sent = await cluster.run(["produce", "lonely", "-p", String(leaders.indexOf(3)), "-a", "0"], {
      input: "x\n",
    });
    expect(sent.stderr).toContain("1 record sent, not acknowledged (acks 0), of 1 read");
    expect(sent.stderr).not.toContain("warning");
    expect(sent.code).toBe(0);
    const dead = ["-p", String(leaders.indexOf(1)), "-a", "0", "--delivery-timeout", "3s"];
    const unsent = await cluster.run(["produce", "lonely", ...dead], { input: "x\n" });
    expect(unsent.stderr).toContain("1 record not appended (lonely-");
    expect(unsent.code).toBe(1);
    expect(performance.now() - startedMs).toBeLessThan(40_000);
    const health = await cluster.run(["cluster", "health"]);
    expect(health.stdout).toMatch(/partitions? led by a node that does not answer/);
    await ok("cluster", "start", "1");
    await ok("cluster", "start", "2");
    await ok("topic", "delete", "lonely", "--yes", "--wait");
  });
});

describe("a partition whose last complete copy is lost", () => {
  let complete = 0;
  let behind = 0;

  it("waits for the node that has everything, and says for which", async () => {
    await ok("topic", "create", "frail", "-P", "1", "-R", "2", "-c", "min.insync.replicas=1");
    await produce("frail", ["on both"]);
    const [partition] = await partitionsOf("frail");
    complete = partition?.leader ?? 0;
    behind = partition?.replicas.find((nodeId) => nodeId !== complete) ?? 0;
    await ok("cluster", "kill", String(behind));
    await vi.waitFor(async () => expect((await partitionsOf("frail"))[0]?.isr).toEqual([complete]), SOON);
    await produce("frail", ["on one"]);
    await ok("cluster", "start", String(behind));
    // It has "on one" then, and will not have "gone".
    await vi.waitFor(async () => expect((await partitionsOf("frail"))[0]?.isr).toHaveLength(2), SOON);
    await ok("cluster", "kill", String(behind));
    await vi.waitFor(async () => expect((await partitionsOf("frail"))[0]?.isr).toEqual([complete]), SOON);
    await produce("frail", ["gone"]);
    await ok("cluster", "kill", String(complete));
    const started = await cluster.run(["cluster", "start", String(behind)]);
    expect(started.code, started.stderr).toBe(0);
    await vi.waitFor(async () => expect(await statesOf("frail")).toEqual(["leaderless"]), SOON);
    const startedMs = performance.now();
    const described = await ok("topic", "describe", "frail");
    expect(performance.now() - startedMs).toBeLessThan(9_000);
    expect(described.stdout).toMatch(
      new RegExp(`^frail\t0\tnone\t.*\t-\t${complete}\t1\t-\t-\t-\t-\t.*\tleaderless$`, "m"),
    );
    expect(described.stderr).toContain(`no leader until node ${complete} is up`);
    // Its node is only down.
    const isSurveyed = async () => {
      const unsaid = await cluster.run(["partition", "elect", "frail", "0", "--unclean"]);
      expect(unsaid.stderr).toContain(`until node ${complete}, which has everything, is up: start it instead`);
      expect(unsaid.stderr).toContain(`node ${behind} ends at 2`);
    };
    await vi.waitFor(isSurveyed, SOON);
    const refused = await cluster.run(["partition", "elect", "frail", "0", "--unclean", "--yes"]);
    expect(refused.stdout).toContain("ELIGIBLE_LEADER_DOWN");
    expect(refused.code).toBe(1);
    expect(await statesOf("frail")).toEqual(["leaderless"]);
  });

  it("is lost when that one's disk is: sends fail at once, with the way out", async () => {
    await ok("cluster", "wipe", String(complete), "--yes");
    const started = await cluster.run(["cluster", "start", String(complete)]);
    expect(started.code, started.stderr).toBe(0);
    await vi.waitFor(async () => expect(await statesOf("frail")).toEqual(["lost"]), SOON);
    const startedMs = performance.now();
    const sent = await cluster.run(["produce", "frail"], { input: "refused\n" });
    expect(sent.stderr).toMatch(/not appended .*NO_INTACT_REPLICA/);
    expect(sent.code).toBe(1);
    const read = await cluster.run(["consume", "frail", "-e"]);
    expect(read.stderr).toMatch(
      /^error\[NO_INTACT_REPLICA\]: frail-0: .*\nhint: .*ottla partition elect frail 0 --unclean --yes/m,
    );
    expect(read.code).toBe(1);
    expect(performance.now() - startedMs).toBeLessThan(30_000);
    expect((await cluster.run(["cluster", "health"])).stdout).toMatch(
      /1 partition without a leader and without .*: frail-0/,
    );
  });

  it("goes on with what is left only when somebody says so", async () => {
    // Each node has a second to say where its log ends.
    const isSurveyed = async () => {
      const unsaid = await cluster.run(["partition", "elect", "frail", "0", "--unclean"]);
      expect(unsaid.stderr).toMatch(/^error\[NOT_CONFIRMED\]: frail-0: .*lost for good\nhint: add --yes/);
      expect(unsaid.stderr).toContain(`node ${behind} ends at 2`);
      expect(unsaid.stderr).toContain(`node ${complete} ends at 0`);
      expect(unsaid.code).toBe(6);
      const byReplica = await ok("topic", "describe", "frail", "--replicas");
      expect(byReplica.stdout).toMatch(new RegExp(`^frail\t0\t${behind}\t-\tincomplete\t2\t2\t-\t-$`, "m"));
    };
    await vi.waitFor(isSurveyed, SOON);
    // Of the two the one that has some of it.
    const done = await ok("partition", "elect", "frail", "0", "--unclean", "--yes");
    expect(lines(done)[1]).toMatch(new RegExp(`^frail\t0\t${behind}\telected; its log ends at 2`));
    expect((await ok("topic", "describe", "frail")).stderr).toContain("an unclean election gave up records of frail-0");
    await produce("frail", ["new"]);
    expect(lines(await ok("consume", "frail", "-e"))).toEqual(["on both", "on one", "new"]);
    await vi.waitFor(async () => expect(await statesOf("frail")).toEqual(["ok"]), SOON);
    await ok("quorum", "replace", String(complete));
    expect((await ok("cluster", "health", "--wait", "--timeout", "60s")).stdout).toBe("healthy\n");
  });
});
