// kill -9 in mid-stream: what was acknowledged is there after the restart, nothing is there twice, and what is unknown is told.
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { collect, ensureBuilt, ottla, outputMatching, SMALL_NODE, start, temporaryFolder } from "./support.ts";

const folder = temporaryFolder();
beforeAll(ensureBuilt);
afterAll(folder.remove);

interface Summary {
  readonly recordsRead: number;
  readonly recordsAcknowledged: number;
  readonly recordsNotAppended: number;
  readonly recordsUnknown: number;
}

async function startNode(dir: string, listeners: string) {
  const args = ["server", "start", "--node-id", "1", "--data-dir", dir, "--listeners", listeners, "-q"];
  const node = start([...args, ...SMALL_NODE.flatMap((pair) => ["-X", pair])]);
  const [, address = ""] = await outputMatching(node, "stdout", /ready ws:\/\/(\S+)/);
  return { node, address };
}

describe("kill -9 of the node", () => {
  it.each(["1", "all"])("with acks %s", async (acks) => {
    const dir = join(folder.path, `acks-${acks}`);
    const { node, address } = await startNode(dir, "ws://127.0.0.1:0");
    const env = { OTTLA_BOOTSTRAP: address };
    expect((await ottla(["topic", "create", "t", "-P", "3"], { env })).code).toBe(0);

    const producer = start(["produce", "t", "--acks", acks, "--json", "--delivery-timeout", "10s"], { env });
    const done = collect(producer);
    let fed = 0;
    const feed = (count: number) => {
      const lines = Array.from({ length: count }, () => `${fed++}\n`);
      producer.stdin?.write(lines.join(""));
    };
    const follower = start(["consume", "t", "-n", "20000", "-q"], { env });
    const read = collect(follower);
    // As much as it takes: what waits in the pipe's stead would have to be sent, and read again, after the kill.
    const feeding = setInterval(() => {
      if (producer.stdin?.writableNeedDrain !== true) feed(2000);
    }, 5);
    await read;
    node.kill("SIGKILL");
    await new Promise((resolve) => node.once("close", resolve));
    clearInterval(feeding);
    const again = await startNode(dir, `ws://${address}`);
    // The same producer goes on against the new process.
    feed(1000);
    producer.stdin?.end();
    const { stdout, stderr, code } = await done;
    const summary = JSON.parse(stdout) as Summary;
    expect(summary.recordsRead, stderr).toBe(fed);
    expect(summary.recordsAcknowledged + summary.recordsNotAppended + summary.recordsUnknown).toBe(fed);
    expect(code).toBe(summary.recordsAcknowledged === fed ? 0 : 1);
    if (summary.recordsUnknown > 0) expect(stderr).toMatch(/records of unknown outcome \(batch of t-\d/);

    const consumed = (await ottla(["consume", "t", "-e", "-q"], { env })).stdout.trimEnd().split("\n").map(Number);
    expect(new Set(consumed).size).toBe(consumed.length);
    expect(consumed.every((value) => value >= 0 && value < fed)).toBe(true);
    expect(consumed.length).toBeGreaterThanOrEqual(summary.recordsAcknowledged);
    expect(consumed.length).toBeLessThanOrEqual(summary.recordsAcknowledged + summary.recordsUnknown);
    again.node.kill("SIGTERM");
    await new Promise((resolve) => again.node.once("close", resolve));
  });
});

describe("a node that is gone for a while", () => {
  it("a tailing consume says so once, and once that it is back", async () => {
    const dir = join(folder.path, "away");
    const { node, address } = await startNode(dir, "ws://127.0.0.1:0");
    const env = { OTTLA_BOOTSTRAP: address };
    expect((await ottla(["topic", "create", "t"], { env })).code).toBe(0);
    await ottla(["produce", "t"], { env, input: "before\n" });
    const follower = start(["consume", "t"], { env });
    const done = collect(follower);
    await outputMatching(follower, "stdout", /before\n/);
    const lost = outputMatching(follower, "stderr", /^lost the broker at \S+, trying again\n/m);
    const back = outputMatching(follower, "stderr", /^the broker at \S+ is back\n/m);
    const later = outputMatching(follower, "stdout", /after\n/);
    node.kill("SIGKILL");
    await lost;
    const again = await startNode(dir, `ws://${address}`);
    await back;
    await ottla(["produce", "t"], { env, input: "after\n" });
    await later;
    follower.kill("SIGTERM");
    const { code, stderr } = await done;
    expect(stderr.split("\n").filter((line) => /the broker at/.test(line))).toEqual([
      `lost the broker at ${address}, trying again`,
      `the broker at ${address} is back`,
    ]);
    expect(code).toBe(143);
    again.node.kill("SIGTERM");
    await new Promise((resolve) => again.node.once("close", resolve));
  });
});
