// Three real nodes, asked and changed by `ottla broker`, `ottla quorum` and `ottla topic alter`.
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { json, startTestCluster, type TestCluster } from "./support.ts";

/** A node that a busy machine keeps from its heartbeats, or from answering, is told as such for a while. */
const SOON = { timeout: 40_000 };
let cluster: TestCluster;
beforeAll(async () => {
  cluster = await startTestCluster({ nodeCount: 3 });
});
afterAll(() => cluster.stop());

interface Quorum {
  readonly leaderId: number | null;
  readonly nodeId: number;
  readonly voters: { readonly nodeId: number; readonly endOffset: number; readonly isRefused: boolean }[];
  readonly observers: { readonly nodeId: number }[];
}
const quorum = async () => json(await cluster.run(["quorum", "status", "--json"])) as unknown as Quorum;

describe("ottla broker", () => {
  it("ls tells role, state and what each leads", async () => {
    expect((await cluster.run(["topic", "create", "spread", "-P", "6"])).code).toBe(0);
    const isListed = async () => {
      const { code, stdout } = await cluster.run(["broker", "ls"]);
      expect(code).toBe(0);
      const [head, ...rows] = stdout.trimEnd().split("\n");
      expect(head).toBe("BROKER\tADDRESS\tROLE\tSTATE\tLEADERS\tIN SYNC");
      const cells = rows.map((row) => row.split("\t"));
      expect(cells.map(([nodeId]) => nodeId)).toEqual(["1", "2", "3"]);
      expect(cells.map(([, address]) => address).join(",")).toBe(cluster.addresses);
      expect(cells.flatMap(([, , role]) => role ?? []).toSorted()).toEqual(["controller", "voter", "voter"]);
      expect(cells.map(([, , , state]) => state)).toEqual(["ok", "ok", "ok"]);
      expect(cells.reduce((sum, row) => sum + Number(row[4]), 0)).toBeGreaterThanOrEqual(6);
    };
    await vi.waitFor(isListed, SOON);
    expect(json(await cluster.run(["broker", "ls", "--json"]))).toMatchObject({
      _command: "broker.ls",
      brokers: [{ nodeId: 1, isFenced: false }, { nodeId: 2 }, { nodeId: 3 }],
    });
  });

  it("describe shows a broker's own settings, asked of that broker", async () => {
    const isDescribed = async () => {
      const { stdout, stderr } = await cluster.run(["broker", "describe", "3"]);
      expect(stderr).toMatch(/^broker 3 {2}127\.0\.0\.1:\d+ {2}(controller|voter) {2}ok\n$/);
      expect(stdout).toMatch(/^KEY\tVALUE\tFROM\tALTERABLE\n/);
      expect(stdout).toMatch(/\nnode\.id\t3\tstart-up\tat start\n/);
    };
    await vi.waitFor(isDescribed, SOON);
    const unknown = await cluster.run(["broker", "describe", "9"]);
    expect(unknown).toMatchObject({ code: 4 });
    expect(unknown.stderr).toMatch(/^error\[BROKER_ID_NOT_REGISTERED\]: there is no broker 9, but 1, 2, 3\nhint: /);
  });

  it("alter changes a default of all brokers, and takes it back", async () => {
    const setting = async () => (await cluster.run(["broker", "describe", "default"])).stdout;
    const alter = (...args: string[]) => cluster.run(["broker", "alter", "default", ...args]);
    expect(await alter("-c", "num.partitions=7", "--dry-run")).toMatchObject({
      code: 0,
      stdout: "default\t1 setting would be altered\n",
    });
    expect(await setting()).not.toContain("num.partitions");
    expect(await alter("-c", "num.partitions=7")).toMatchObject({ code: 0, stdout: "default\t1 setting altered\n" });
    expect(await setting()).toContain("num.partitions\t7\tall brokers\tany time\n");
    expect((await cluster.run(["topic", "create", "seven"])).stdout).toBe("seven\t7 partitions\t3 replicas\n");
    expect((await alter("--delete-config", "num.partitions")).code).toBe(0);
    expect(await setting()).not.toContain("num.partitions");
    const refused = await alter("-c", "node.id=4");
    expect(refused.code).toBe(2);
    expect(refused.stderr).toMatch(/^error\[INVALID_CONFIG\]: node\.id: /);
  });
});

describe("ottla topic alter", () => {
  it("changes settings of a topic in use; describe shows them", async () => {
    await cluster.run(["topic", "create", "t", "-P", "2"]);
    const altered = await cluster.run([
      "topic",
      "alter",
      "t",
      "-c",
      "max.message.bytes=2MiB",
      "-c",
      "segment.bytes=64MiB",
    ]);
    expect(altered).toMatchObject({ code: 0, stdout: "t\t2 settings altered\n" });
    const described = await cluster.run(["topic", "describe", "t", "--linearizable"]);
    expect(described.stderr).toContain("max.message.bytes=2097152 segment.bytes=67108864");
    expect(described.stdout).toMatch(/^TOPIC\tPARTITION\tLEADER\t.*\nt\t0\t[123]\t.*\nt\t1\t[123]\t/);
    const removed = await cluster.run(["topic", "alter", "t", "--delete-config", "segment.bytes", "--json"]);
    expect(json(removed)).toMatchObject({ topic: "t", changes: { "segment.bytes": null }, isDone: true });
    const settings = await cluster.run(["topic", "describe", "t", "--configs", "--linearizable"]);
    expect(settings.stdout).toContain("\nt\tmax.message.bytes\t2097152\ttopic\tany time\n");
    expect(settings.stdout).toMatch(/\nt\tsegment\.bytes\t\d+\tstart-up\tany time\n/);
  });

  it("trim deletes the oldest records, where cleanup.policy lets it; words stay words", async () => {
    await cluster.run(["topic", "create", "short", "-P", "2", "-c", "message.timestamp.type=logappendtime"]);
    for (const partition of ["0", "1"])
      await cluster.run(["produce", "short", "-p", partition], { input: "a\nb\nc\nd\ne\n" });
    const trim = (...args: string[]) => cluster.run(["topic", "trim", "short", ...args]);
    const missing = await trim("--yes");
    expect(missing).toMatchObject({ code: 2 });
    expect(missing.stderr).toMatch(
      /^error\[USAGE\]: --before is missing: .*\nhint: it takes an offset, .*; end deletes all/,
    );
    expect((await trim("--before", "-0")).stderr).toContain("this deletes all records (the last 0 stay) of short");
    const unsure = await trim("--before", "end");
    expect(unsure).toMatchObject({ code: 6 });
    expect(unsure.stderr).toMatch(
      /^error\[NOT_CONFIRMED\]: this deletes all records of short, for good\nhint: add --yes/,
    );
    expect(await trim("--before", "start", "--yes")).toMatchObject({ code: 2 });
    expect(await trim("--before", "2", "-P", "1", "--yes")).toMatchObject({
      code: 0,
      stdout: "TOPIC\tPARTITION\tSTART\tRESULT\nshort\t1\t2\ttrimmed\n",
    });
    expect((await cluster.run(["consume", "short", "-P", "1", "-o", "start", "-e"])).stdout).toBe("c\nd\ne\n");
    expect(json(await trim("--before", "-1", "--yes", "--json"))).toMatchObject({
      _command: "topic.trim",
      partitions: [
        { partition: 0, startOffset: 4, error: null },
        { partition: 1, startOffset: 4 },
      ],
    });
    const beyond = await trim("--before", "99", "--yes");
    expect(beyond).toMatchObject({ code: 1 });
    expect(beyond.stderr).toMatch(
      /^error\[OFFSET_OUT_OF_RANGE\]: offset 99 cannot be the first of short-0: 4 \(its start\) to \d \(its end\) can be; offset 99 .* short-1: 4 .*\nhint: give --before one of/,
    );
    expect(beyond.stderr).not.toContain("consume");
    expect(await trim("--before", "@now", "--yes")).toMatchObject({ code: 0 });
    await cluster.run(["topic", "alter", "short", "-c", "cleanup.policy=compact"]);
    expect((await cluster.run(["topic", "describe", "short", "--linearizable"])).stderr).toContain(
      "cleanup.policy=compact message.timestamp.type=LogAppendTime",
    );
    const kept = await trim("--before", "end", "--yes");
    expect(kept).toMatchObject({ code: 2 });
    expect(kept.stderr).toMatch(
      /^error\[POLICY_VIOLATION\]: cleanup\.policy of short has no delete\nhint: records are/,
    );
    expect(await cluster.run(["topic", "trim", "nosuch", "--before", "end", "--yes"])).toMatchObject({ code: 4 });
  });

  it("refuses with codes: all of the changes or none", async () => {
    await cluster.run(["topic", "create", "whole", "-P", "1"]);
    const refusals: [string[], RegExp, number][] = [
      [["whole", "-c", "max.message.bytes=3MiB", "-c", "colour=red"], /^error\[INVALID_CONFIG\]: colour: /, 2],
      [["nosuch", "-c", "max.message.bytes=3MiB"], /^error\[UNKNOWN_TOPIC_OR_PARTITION\]/, 4],
      [["whole"], /^error\[USAGE\]: nothing to change\nhint: give --config/, 2],
      [["whole", "-c", "a=1", "--delete-config", "a"], /^error\[USAGE\]: a is given twice/, 2],
    ];
    for (const [args, stderr, code] of refusals) {
      const result = await cluster.run(["topic", "alter", ...args]);
      expect(result.stderr).toMatch(stderr);
      expect(result.code, args.join(" ")).toBe(code);
    }
    expect((await cluster.run(["topic", "describe", "whole"])).stderr).not.toContain("max.message.bytes");
  });
});

describe("ottla quorum", () => {
  it("status shows leader, voters and how far they are, whichever node is asked", async () => {
    const isTold = async (address: string) => {
      const { code, stdout, stderr } = await cluster.run(["quorum", "status", "-b", address]);
      expect(code).toBe(0);
      expect(stderr).toMatch(
        /^cluster \S{22} {2}leader [123] {2}term \d+ {2}committed \d+ {2}metadata\.version \d+ \(/,
      );
      expect(stdout).toMatch(/^NODE\tROLE\tSTATE\tADDRESS\tEND\tLAG\tHEARD\tDIRECTORY\n/);
      expect(stdout.match(/\t(leader|voter)\tok\t127\.0\.0\.1:\d+\t\d+\t\d+\t(-|\d+ms)\t\S{22}\n/g)).toHaveLength(3);
    };
    for (const address of cluster.addresses.split(",")) await vi.waitFor(() => isTold(address), SOON);
  });

  it("transfer makes another voter the leader, and changes go on", async () => {
    const before = (await quorum()).leaderId;
    const target = before === 1 ? 2 : 1;
    expect(await cluster.run(["quorum", "transfer", String(target)])).toMatchObject({
      code: 0,
      stdout: `${target}\tleads\n`,
    });
    await expect.poll(async () => (await quorum()).leaderId, SOON).toBe(target);
    expect((await cluster.run(["topic", "create", "after-transfer"])).code).toBe(0);
  });

  it("remove takes a vote away, add gives it back", async () => {
    const leaderId = (await quorum()).leaderId ?? 0;
    const other = [1, 2, 3].find((nodeId) => nodeId !== leaderId) ?? 0;
    expect((await cluster.run(["quorum", "remove", String(other)])).stdout).toBe(`${other}\tvotes no more\n`);
    const isWithout = async () => {
      const { voters, observers } = await quorum();
      expect(new Set(voters.map(({ nodeId }) => nodeId))).toEqual(
        new Set([1, 2, 3].filter((nodeId) => nodeId !== other)),
      );
      expect(observers.map(({ nodeId }) => nodeId)).toEqual([other]);
    };
    await vi.waitFor(isWithout, SOON);
    expect((await cluster.run(["quorum", "add", String(other), "--json"])).stdout).toContain('"_command":"quorum.add"');
    await expect.poll(async () => (await quorum()).voters, SOON).toHaveLength(3);
    const stranger = await cluster.run(["quorum", "add", "8"]);
    expect(stranger.code).toBe(4);
    expect(stranger.stderr).toMatch(/^error\[BROKER_ID_NOT_REGISTERED\]/);
  });

  it("upgrade has nothing to do where all is new, and never goes back", async () => {
    expect((await cluster.run(["quorum", "upgrade"])).stdout).toMatch(/^metadata\.version is \d+ already\n$/);
    const refused = await cluster.run(["quorum", "upgrade", "--to", "1"]);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain("it is never lowered");
  });

  it("without enough voters status exits 10 and says so; a change says what was not done, and exits 3", async () => {
    const leaderId = (await quorum()).leaderId ?? 0;
    const others = [1, 2, 3].filter((nodeId) => nodeId !== leaderId).map(String);
    await cluster.run(["cluster", "kill", ...others, "--data-dir", cluster.dataDir]);
    const survivor = cluster.addresses.split(",")[leaderId - 1] ?? "";
    let status = await cluster.run(["quorum", "status", "-b", survivor]);
    for (let tries = 0; status.code !== 10 && tries < 20; tries++) {
      status = await cluster.run(["quorum", "status", "-b", survivor]);
    }
    expect(status.code).toBe(10);
    expect(status.stderr).toContain("no leader");
    const creating = await cluster.run(["topic", "create", "never", "-b", survivor, "--timeout", "10s"]);
    expect(creating.code).toBe(3);
    expect(creating.stderr).toMatch(
      /^error\[NOT_CONTROLLER\]: there is no controller now.*\nhint: .*ottla cluster health/m,
    );
    expect((await cluster.run(["topic", "ls", "-b", survivor])).stdout).toContain("spread");
    await cluster.run(["cluster", "start", ...others, "--data-dir", cluster.dataDir]);
    expect((await cluster.run(["topic", "create", "again", "--timeout", "30s"])).code).toBe(0);
    expect((await cluster.run(["topic", "ls"])).stdout).not.toContain("never");
  });
});
