// Several nodes in one process, over real sockets and directories: startNode with controller.quorum.voters.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { drawFreePorts } from "../../src/cli/free-ports.ts";
import { type NodeOptions, type OttlaNode, startNode } from "../../src/index.ts";

let directory: string;
let nodes: OttlaNode[];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "ottla-nodes-"));
  nodes = [];
});

afterEach(async () => {
  await Promise.all(nodes.map((node) => node.close()));
  await rm(directory, { recursive: true, force: true });
});

async function optionsOfThree(): Promise<NodeOptions[]> {
  const ports = await drawFreePorts(3);
  const voters = ports.map((port, index) => `${index + 1}@127.0.0.1:${port}`).join(",");
  return ports.map((port, index) => ({
    dataDir: join(directory, `node-${index + 1}`),
    listeners: `ws://127.0.0.1:${port}`,
    config: { "node.id": index + 1, "controller.quorum.voters": voters },
  }));
}

it("three of them are a cluster; a client of one reaches what the others lead", async () => {
  nodes = await Promise.all((await optionsOfThree()).map(startNode));
  const [first] = nodes;
  if (first === undefined) throw new Error("no node");
  const client = await first.connect();
  const { partitions } = await client.admin().createTopic("t", { partitions: 6 });
  expect(new Set(partitions.map(({ leader }) => leader))).toEqual(new Set([1, 2, 3]));
  const producer = client.producer();
  for (let partition = 0; partition < 6; partition++) await producer.send("t", { partition, value: `${partition}` });
  const seen = new Set<string>();
  for await (const { value } of client.consumer({ topics: ["t"], untilEnd: true }))
    seen.add(new TextDecoder().decode(value ?? new Uint8Array(0)));
  expect([...seen].sort((left, right) => Number(left) - Number(right))).toEqual(["0", "1", "2", "3", "4", "5"]);
});

it("one of three waits for the others, until its signal ends that; its directory can be used again", async () => {
  const [alone] = await optionsOfThree();
  const waited = AbortSignal.timeout(1_500);
  await expect(startNode({ ...alone, signal: waited })).rejects.toMatchObject({ name: "OttlaError", code: "ABORTED" });
  await expect(startNode({ ...alone, signal: AbortSignal.abort() })).rejects.toMatchObject({ code: "ABORTED" });
  const again = await optionsOfThree();
  const listening = again.map((options, index) =>
    index === 0 ? { ...options, dataDir: alone?.dataDir ?? "" } : options,
  );
  nodes = await Promise.all(listening.map(startNode));
  expect(nodes).toHaveLength(3);
});
