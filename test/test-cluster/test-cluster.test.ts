// testCluster(): what its calls do to the nodes, and what they refuse.
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { connect as connectSocket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { connect, type OttlaError, type TestCluster, type TestClusterOptions, testCluster } from "../../src/index.ts";
import { waitedForCpuMs } from "../../scripts/attack/node.ts";
import { slowness } from "../speed.ts";
import { readAll, upTo } from "./support.ts";

let cluster: TestCluster | undefined;

afterEach(async () => {
  await cluster?.close();
  cluster = undefined;
});

async function opened(options: TestClusterOptions = {}): Promise<TestCluster> {
  cluster = await testCluster(options);
  return cluster;
}

/** How a connection to the address ends: refused, or open and silent. */
function knock(address: string): Promise<string> {
  const [host = "", port] = address.split(":");
  return new Promise((resolve) => {
    const socket = connectSocket(Number(port), host);
    const end = (outcome: string) => {
      socket.destroy();
      resolve(outcome);
    };
    socket.once("error", (error: NodeJS.ErrnoException) => end(error.code ?? "error"));
    socket.once("connect", () => socket.write("GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n"));
    socket.once("data", () => end("answered"));
    setTimeout(() => end("silent"), 300);
  });
}

const states = (of: TestCluster): string[] => of.brokers.map(({ state }) => state);

describe("a test cluster", () => {
  it("is ready in less than 500 ms", async () => {
    await (await testCluster()).close(); // loads the modules
    // The machine may be slow, or busy with other tests, whose share is taken off: it is as fast as it can be.
    let fastestMs = Number.POSITIVE_INFINITY;
    for (let round = 0; round < 20 && fastestMs >= 500; round++) {
      const [startMs, waitedMs] = [performance.now(), waitedForCpuMs("self")];
      const made = await testCluster();
      const tookMs = performance.now() - startMs - (waitedForCpuMs("self") - waitedMs);
      fastestMs = Math.min(fastestMs, tookMs / slowness());
      await made.close();
    }
    expect(fastestMs).toBeLessThan(500);
  });

  it("has three nodes that are one cluster; each of them can be asked", async () => {
    const { brokers } = await opened();
    expect(brokers.map(({ id, state, failure }) => ({ id, state, failure }))).toEqual(
      [1, 2, 3].map((id) => ({ id, state: "running", failure: undefined })),
    );
    for (const { address } of brokers) {
      const client = await connect({ brokers: [address] });
      const { brokers: known } = await client.admin().describeCluster();
      expect(known.map((broker) => broker.address)).toEqual(brokers.map((broker) => broker.address));
      await client.close();
    }
  });

  it("has as many nodes as wanted, configured as wanted, with the topics that are wanted", async () => {
    const one = await opened({ nodes: 1, config: { "num.partitions": 4 }, topics: { t: {} } });
    const client = await one.connect();
    expect((await client.admin().describeTopic("t")).partitions).toHaveLength(4);
    await one.close();
    const five = await opened({ nodes: 5, topics: { t: { replicationFactor: 5, partitions: 5 } } });
    await five.waitUntilInSync();
    // A node that a busy machine kept from its heartbeats is given its partition back.
    const leaders = async () => new Set(await Promise.all(upTo(5).map((partition) => five.leaderOf("t", partition))));
    await expect.poll(leaders).toEqual(new Set([1, 2, 3, 4, 5]));
  });

  it("is closed by `await using`, with its clients", async () => {
    const made = await opened();
    const client = await made.connect();
    await made[Symbol.asyncDispose]();
    expect(states(made)).toEqual(["killed", "killed", "killed"]);
    expect(() => client.admin()).toThrow(expect.objectContaining({ code: "CLOSED" }));
  });
});

describe("nodes of a test cluster", () => {
  it("that are killed refuse connections, another one leads, and what they wrote is there when they are started", async () => {
    const made = await opened({ topics: { t: {} } });
    const client = await made.connect();
    const producer = client.producer();
    const values = upTo(50).map((number) => `value ${number}`);
    await producer.sendBatch(
      "t",
      values.slice(0, 25).map((value) => ({ value })),
    );
    const leader = await made.leaderOf("t");
    await made.kill(leader);
    expect(states(made)[leader - 1]).toBe("killed");
    await expect.poll(() => knock(made.brokers[leader - 1]?.address ?? "")).toBe("ECONNREFUSED");
    const next = await made.leaderOf("t");
    expect(next).not.toBe(leader);
    await producer.sendBatch(
      "t",
      values.slice(25).map((value) => ({ value })),
    );
    await made.start(leader);
    await made.waitUntilInSync();
    await made.kill(next);
    expect(await readAll(client, "t")).toEqual(values);
  });

  it("that are paused keep their connections and say nothing; they go on where they were", async () => {
    const made = await opened({ topics: { t: {} } });
    const leader = await made.leaderOf("t");
    const { address = "" } = made.brokers[leader - 1] ?? {};
    const direct = await connect({ brokers: [address] });
    await made.pause(leader);
    expect(states(made)[leader - 1]).toBe("paused");
    expect(await knock(address)).toBe("silent");
    const asked = direct.admin().describeMetadata({ from: leader, timeoutMs: 60_000 });
    const next = await made.leaderOf("t");
    expect(next).not.toBe(leader);
    await made.resume(leader);
    await asked;
    await expect.poll(() => knock(address)).toBe("answered");
    await made.waitUntilInSync();
    await direct.close();
  });

  it("that are stopped hand over first, and restart as killed and failed ones do", async () => {
    const made = await opened({ topics: { t: { partitions: 3 } } });
    const leader = await made.leaderOf("t");
    await made.stop(leader);
    expect(states(made)[leader - 1]).toBe("stopped");
    expect(await made.leaderOf("t", 0, { timeoutMs: 1 })).not.toBe(leader);
    await made.restart(leader);
    await made.restart(leader);
    await made.kill(leader);
    await made.restart(leader);
    await made.waitUntilInSync();
    expect(states(made)).toEqual(["running", "running", "running"]);
  });

  it("all of them may be killed and started: the cluster goes on with what it had", async () => {
    const made = await opened({ topics: { t: { partitions: 3 } } });
    const client = await made.connect();
    await client.producer().sendBatch(
      "t",
      upTo(30).map((number) => ({ value: `${number}`, partition: number % 3 })),
    );
    await Promise.all(made.brokers.map(({ id }) => made.kill(id)));
    await Promise.all(made.brokers.map(({ id }) => made.start(id)));
    await made.waitUntilInSync();
    expect((await readAll(client, "t")).toSorted()).toEqual(upTo(30).map(String).toSorted());
    expect(made.brokers.map(({ id }) => id)).toContain(await made.controller());
  });

  it("keep their files in the directory that is given; the next cluster goes on with them", async () => {
    const directory = await mkdtemp(join(tmpdir(), "ottla-test-cluster-"));
    try {
      const first = await opened({ directory, topics: { t: {} } });
      await (await first.connect()).producer().send("t", { value: "kept" });
      await first.kill(1);
      await first.start(1);
      await first.close();
      expect((await readdir(directory)).toSorted()).toEqual(["node-1", "node-2", "node-3"]);
      const second = await opened({ directory });
      expect(await readAll(await second.connect(), "t")).toEqual(["kept"]);
      await second.close();
    } finally {
      await rm(directory, { recursive: true });
    }
  });
});

describe("a test cluster refuses", () => {
  it.each([
    [{ nodes: 0 }, "testCluster: nodes takes an integer from 1 to 9"],
    [{ nodes: 2.5 }, "testCluster: nodes takes an integer from 1 to 9"],
    [{ node: 3 }, "there is no option"],
    [{ directory: "" }, "testCluster: directory takes a text"],
    [{ config: { "node.id": 7 } }, "node.id, which a test cluster sets itself"],
    [{ config: 7 }, "testCluster: config takes an object"],
    [{ config: [] }, "testCluster: config takes an object"],
    [{ topics: ["a"] }, "testCluster: topics takes an object"],
    [{ topics: { a: null } }, "testCluster: topics.a takes an object"],
    [{ topics: { a: { partition: 1 } } }, "did you mean partitions?"],
    [{ topics: { a: { partitions: -1 } } }, "testCluster: topics.a: partitions takes a number from 1 on, not -1"],
  ])("options such as %j", async (options, message) => {
    const refusal = testCluster(options as TestClusterOptions);
    await expect(refusal).rejects.toMatchObject({ code: "INVALID_REQUEST", message: expect.stringContaining(message) });
  });

  it("configuration keys that there are not, and topics that cannot be", async () => {
    const config = { "num.partition": 3 } as TestClusterOptions["config"] & object;
    await expect(testCluster({ config })).rejects.toMatchObject({ code: "CONFIG_UNREADABLE" });
    await expect(testCluster({ topics: { "a/b": {} } })).rejects.toMatchObject({ code: "INVALID_TOPIC_EXCEPTION" });
  });

  it("a directory in which one of the nodes cannot start; the others end, too", async () => {
    const directory = await mkdtemp(join(tmpdir(), "ottla-test-cluster-"));
    try {
      await writeFile(join(directory, "node-2"), "");
      await expect(testCluster({ directory })).rejects.toMatchObject({ name: "OttlaError" });
      await rm(join(directory, "node-2"));
      await (await opened({ directory })).close();
    } finally {
      await rm(directory, { recursive: true });
    }
  });

  it("nodes that it does not have, and what their state does not allow", async () => {
    const made = await opened();
    for (const nodeId of [0, 4, 1.5, Number.NaN])
      await expect(made.kill(nodeId)).rejects.toMatchObject({
        code: "INVALID_REQUEST",
        message: expect.stringContaining("1 to 3"),
      });
    await expect(made.start(1)).rejects.toMatchObject({
      code: "WRONG_NODE_STATE",
      message: "start takes a node that is stopped or killed or failed: node 1 is running",
    });
    await expect(made.resume(1)).rejects.toMatchObject({ code: "WRONG_NODE_STATE" });
    await made.pause(1);
    for (const refused of [made.pause(1), made.stop(1), made.restart(1), made.start(1)])
      await expect(refused).rejects.toMatchObject({ code: "WRONG_NODE_STATE" });
    await made.kill(1);
    for (const refused of [made.kill(1), made.pause(1), made.resume(1), made.stop(1)])
      await expect(refused).rejects.toMatchObject({ code: "WRONG_NODE_STATE" });
  });

  it("partitions that there are not, and waits that take too long", async () => {
    const made = await opened({ topics: { t: {} } });
    await expect(made.leaderOf("u")).rejects.toMatchObject({ code: "UNKNOWN_TOPIC_OR_PARTITION" });
    await expect(made.leaderOf("t", 1)).rejects.toMatchObject({ code: "UNKNOWN_TOPIC_OR_PARTITION" });
    await expect(made.leaderOf("t", -1)).rejects.toMatchObject({ code: "INVALID_REQUEST" });
    await made.kill(2);
    await expect(made.waitUntilInSync({ timeoutMs: 200 })).rejects.toMatchObject({
      code: "REQUEST_TIMED_OUT",
      message: "waited for all replicas in sync: node 2 is killed",
    });
  });

  it("everything once it is closed", async () => {
    const made = await opened();
    await made.close();
    await made.close();
    const refused = [
      made.kill(1),
      made.pause(1),
      made.resume(1),
      made.stop(1),
      made.start(1),
      made.restart(1),
      made.connect(),
      made.leaderOf("t"),
      made.controller(),
      made.waitUntilInSync(),
    ];
    for (const each of await Promise.allSettled(refused))
      expect(each).toMatchObject({ status: "rejected", reason: { name: "OttlaError", code: "CLOSED" } });
  });

  it("a start that a kill overtakes", async () => {
    const made = await opened();
    await made.kill(2);
    const started = made.start(2);
    const outcome = started.catch((error: OttlaError) => error.code);
    await made.kill(2);
    expect(await outcome).toBe("WRONG_NODE_STATE");
    await made.start(2);
    await made.waitUntilInSync();
  });
});
