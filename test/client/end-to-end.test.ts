// The library against a real node: over WebSocket, on a real directory.
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { type Acks, type Client, type CompressionName, connect, type OttlaNode, startNode } from "../../src/index.ts";

const ACKS: readonly Acks[] = [0, 1, "all"];
const CODECS: readonly CompressionName[] = ["none", "gzip", "snappy", "lz4", "zstd"];
const RECORDS_PER_KIND = 670; // 15 kinds: a little over 10,000

let directory: string;
let node: OttlaNode | undefined;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "ottla-client-"));
});

afterEach(async () => {
  await node?.close();
  await rm(directory, { recursive: true, force: true });
});

const start = async () => {
  node = await startNode({ dataDir: join(directory, "node-1"), listeners: "ws://127.0.0.1:0" });
  return { node, client: await node.connect({ clientId: "test" }) };
};

async function readAll(client: Client, topic: string): Promise<Map<string, string>> {
  const seen = new Map<string, string>();
  for await (const record of client.consumer({ topics: [topic], untilEnd: true })) {
    const place = `${record.partition}:${record.offset}`;
    if (seen.has(place)) throw new Error(`${place} was shown twice`);
    seen.set(place, Buffer.from(record.value ?? []).toString("utf8"));
  }
  return seen;
}

describe("client and node", () => {
  it("an ordered restart of the node under load fails no send, and nothing is there twice", async () => {
    const { node: first } = await start();
    const client = await connect({ brokers: [first.address] });
    await client.admin().createTopic("t", { partitions: 2 });
    const producer = client.producer({ lingerMs: 0 });
    const stop = { now: false };
    const sent: string[] = [];
    const senders = Array.from({ length: 32 }, async (_, sender) => {
      for (let index = 0; !stop.now; index++) {
        const value = `${sender}-${index}`;
        await producer.send("t", { value }, { acks: sender % 2 === 0 ? "all" : 1 });
        sent.push(value);
      }
    });
    const ended = Promise.all(senders);
    ended.catch(() => undefined);
    onTestFinished(() => {
      stop.now = true;
    });
    await expect.poll(() => sent.length).toBeGreaterThan(200);
    await first.close();
    node = await startNode({ dataDir: join(directory, "node-1"), listeners: `ws://${first.address}` });
    const before = sent.length;
    await expect.poll(() => sent.length).toBeGreaterThan(before + 200);
    stop.now = true;
    await ended;
    expect([...(await readAll(client, "t")).values()].sort()).toEqual(sent.sort());
    await client.close();
  });

  it("close() has sent what acks=0 handed over, even when the process ends right after it", async () => {
    const { node: running, client } = await start();
    await client.admin().createTopic("t", { partitions: 1 });
    const script = join(import.meta.dirname, "fixtures/produce-and-exit.mts");
    await promisify(execFile)(process.execPath, ["--import", "tsx", script, running.address, "t", "50000"]);
    await expect.poll(async () => (await client.admin().offsets("t"))[0]?.endOffset).toBe(50_000);
  });

  it("gives back 10,000 records of all acks levels and codecs, also after a restart", async () => {
    const first = await start();
    await first.client.admin().createTopic("t", { partitions: 3 });
    const acknowledged = new Map<string, string>();
    let unplaced = 0;
    for (const compression of CODECS) {
      const producer = first.client.producer({ compression, batchBytes: 16_384 });
      const sends: Promise<void>[] = [];
      for (const acks of ACKS) {
        for (let index = 0; index < RECORDS_PER_KIND; index++) {
          const value = `${compression}-${acks}-${index}-${"ü".repeat(index % 50)}`;
          const sent = producer.send("t", { key: String(index), value }, { acks });
          sends.push(
            sent.then(({ partition, offset }) => {
              if (offset === undefined) unplaced++;
              else acknowledged.set(`${partition}:${offset}`, value);
            }),
          );
        }
      }
      await Promise.all(sends);
      await producer.close();
    }
    expect(unplaced).toBe(CODECS.length * RECORDS_PER_KIND);
    const total = ACKS.length * CODECS.length * RECORDS_PER_KIND;
    expect(acknowledged.size + unplaced).toBe(total);

    const before = await readAll(first.client, "t");
    expect(before.size).toBe(total);
    expect(new Set(before.values()).size).toBe(total);
    expect([...acknowledged].filter(([place, value]) => before.get(place) !== value)).toEqual([]);
    const ends = await first.client.admin().offsets("t");
    expect(ends.reduce((sum, { endOffset }) => sum + endOffset, 0)).toBe(total);

    await first.node.close();
    const second = await start();
    expect(await readAll(second.client, "t")).toEqual(before);
    const more = await second.client.producer().send("t", { value: "more", partition: 0 });
    expect(more.offset).toBe(ends[0]?.endOffset);
  });

  it("keeps bytes, nulls, headers and timestamps as they were", async () => {
    const { client } = await start();
    await client.admin().createTopic("t");
    const every = Uint8Array.from({ length: 256 }, (_, index) => index);
    const records = [
      { key: null, value: every, headers: [["h", every] as const, ["h", null] as const], timestamp: 1_234 },
      { key: "", value: null },
      { key: every, value: "" },
    ];
    await client.producer().sendBatch("t", records);
    const seen = [];
    for await (const record of client.consumer({ topics: ["t"], untilEnd: true })) seen.push(record);
    expect(seen[0]).toMatchObject({ offset: 0, timestamp: 1_234, key: null });
    expect([...(seen[0]?.value ?? [])]).toEqual([...every]);
    expect(seen[0]?.headers.map(([key, value]) => [key, value?.length ?? null])).toEqual([
      ["h", 256],
      ["h", null],
    ]);
    expect([seen[1]?.key?.length, seen[1]?.value]).toEqual([0, null]);
    expect([seen[2]?.key?.length, seen[2]?.value?.length]).toEqual([256, 0]);
  });

  it("wakes a waiting consumer as soon as records come", async () => {
    const { client } = await start();
    await client.admin().createTopic("t", { partitions: 2 });
    const iterator = client.consumer({ topics: ["t"], maxWaitMs: 30_000 })[Symbol.asyncIterator]();
    const producer = client.producer({ lingerMs: 0 });
    for (let index = 0; index < 20; index++) {
      const next = iterator.next();
      await producer.send("t", { value: String(index), partition: index % 2 });
      expect(Buffer.from((await next).value.value).toString()).toBe(String(index));
    }
    await iterator.return?.();
  });

  it("keeps a consumer and a producer going over a restart of the node, on the same port", async () => {
    const first = await start();
    await first.client.admin().createTopic("t");
    const { address } = first.node;
    const client = await connect({ brokers: [address] });
    const iterator = client.consumer({ topics: ["t"], maxWaitMs: 100 })[Symbol.asyncIterator]();
    const producer = client.producer({ lingerMs: 0 });
    const values: string[] = [];
    const give = async (value: string) => {
      await producer.send("t", { value });
      values.push(Buffer.from((await iterator.next()).value.value).toString());
    };
    await give("before");
    await first.node.close();
    const late = give("after");
    node = await startNode({ dataDir: join(directory, "node-1"), listeners: `ws://${address}` });
    await late;
    expect(values).toEqual(["before", "after"]);
    await client.close();
  });

  it("a client that is connected beside the node's close ends with it", async () => {
    const { node: running } = await start();
    const connecting = running.connect();
    const refused = expect(connecting).rejects.toMatchObject({ code: "CLOSED" });
    await running.close();
    await refused;
    await expect(running.connect()).rejects.toMatchObject({ code: "CLOSED" });
  });

  it("deletes a topic and frees its name", async () => {
    const { client } = await start();
    const admin = client.admin();
    await admin.createTopic("t", { partitions: 2 });
    await client.producer().send("t", { value: "old" });
    await admin.deleteTopic("t", { wait: true });
    expect(await admin.listTopics()).toEqual([]);
    await admin.createTopic("t");
    await client.producer().send("t", { value: "new" });
    expect([...(await readAll(client, "t")).values()]).toEqual(["new"]);
  });

  it("refuses what cannot be, with codes", async () => {
    const { client, node: running } = await start();
    await expect(client.admin().describeTopic("nowhere")).rejects.toMatchObject({ code: "UNKNOWN_TOPIC_OR_PARTITION" });
    await expect(client.admin().createTopic("a/b")).rejects.toMatchObject({ code: "INVALID_TOPIC_EXCEPTION" });
    await expect(client.admin().createTopic("t", { partitions: 0 })).rejects.toMatchObject({
      code: "INVALID_PARTITIONS",
    });
    const same = startNode({ dataDir: join(directory, "node-1"), listeners: "ws://127.0.0.1:0" });
    await expect(same).rejects.toMatchObject({ code: "DATA_DIR_LOCKED" });
    const taken = startNode({ dataDir: join(directory, "node-2"), listeners: `ws://${running.address}` });
    await expect(taken).rejects.toMatchObject({ code: "PORT_IN_USE" });
    const wrong = startNode({ dataDir: directory, config: { "segment.bytes": "many" } });
    await expect(wrong).rejects.toMatchObject({ code: "CONFIG_UNREADABLE" });
  });
});
