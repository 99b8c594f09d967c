// The memory of a read is another's only when the socket has taken it: over real sockets, with a peer that leaves its answers unread for a while.
import { afterEach, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import { testCluster } from "../../src/index.ts";
import { baseOffsetAt, batchSizeAt, checkStoredBatch, lastOffsetAt } from "../../src/model/record-batch.ts";
import { createChecksum } from "../../src/platform/checksum.ts";
import { createWebSocketTransport } from "../../src/platform/websocket.ts";
import type { Client } from "../../src/client/types.ts";
import type { MessageConnection } from "../../src/ports/transport.ts";
import { API, type FetchResponse } from "../../src/wire/native/apis.ts";
import { encodeRequest, ResponseAssembler } from "../../src/wire/native/codec.ts";

const MiB = 1024 * 1024;
const RECORDS = 400;
/** More than sockets hold: most answers wait in the broker. */
const ASKED = 24;
const checksum = createChecksum();

afterEach(() => activateMutants([]));

/** Bodies of the answers, by correlation id. */
function collect(connection: MessageConnection): Map<number, Uint8Array> {
  const bodies = new Map<number, Uint8Array>();
  const assembler = new ResponseAssembler({ bodyBytesMax: 2 * MiB });
  connection.start({
    onReceive: (bytes) => {
      const assembled = assembler.push(bytes);
      if (assembled.kind !== "message") return;
      const { header, response } = assembled.message;
      const [entry] = (response as FetchResponse).entries ?? [];
      if (entry !== undefined)
        bodies.set(header.correlationId, assembled.message.bodies[entry.body] ?? new Uint8Array(0));
    },
    onClose: () => undefined,
    onDrain: () => undefined,
  });
  return bodies;
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5));
}

async function fill(client: Client): Promise<string> {
  const producer = client.producer({ acks: "all", batchBytes: 64 * 1024 });
  await producer.prepare("a");
  const value = new Uint8Array(60_000).fill(7);
  for (let sent = 0; sent < RECORDS; sent++) void producer.enqueue("a", { value, partition: 0 });
  await producer.flush();
  const { topicId } = await client.admin().describeTopic("a");
  return topicId;
}

/** How many of the answers that were left unread hold something else than what they were asked for, while others read the same log. */
async function wrongAnswers(): Promise<number> {
  await using cluster = await testCluster({
    nodes: 1,
    config: { "tail.cache.bytes": "1MiB" },
    topics: { a: { partitions: 1, replicationFactor: 1 } },
  });
  const client = await cluster.connect();
  const topicId = await fill(client);
  const connection = await createWebSocketTransport().connect(cluster.brokers[0]?.address ?? "");
  const bodies = collect(connection);
  const hello = { clientId: "unread", software: "test" };
  connection.send(encodeRequest({ api: API.HELLO, version: 0, correlationId: 0, deadlineMs: 0 }, hello, []));
  const offsetOf = (asked: number) => (asked * 7) % (RECORDS / 2);
  connection.pause();
  for (let asked = 1; asked <= ASKED; asked++) {
    const entry = { topicId, partition: 0, leaderEpoch: -1, offset: offsetOf(asked), maxBytes: MiB };
    const request = { maxWaitMs: 0, minBytes: 1, maxBytes: MiB, entries: [entry] } as never;
    connection.send(encodeRequest({ api: API.FETCH, version: 0, correlationId: asked, deadlineMs: 0 }, request, []));
  }
  for (let round = 0; round < 2; round++)
    for await (const _ of client.consumer({ topics: ["a"], untilEnd: true })) continue;
  connection.resume();
  await until(() => bodies.size === ASKED);
  let wrong = 0;
  for (const [asked, body] of bodies) if (!isRun(body, offsetOf(asked))) wrong++;
  connection.destroy();
  return wrong;
}

/** Most of a megabyte of whole batches, from the one that holds the offset on. */
function isRun(body: Uint8Array, offset: number): boolean {
  let next: number | undefined;
  for (let at = 0; at < body.length; at += batchSizeAt(body, at)) {
    const { kind } = checkStoredBatch(body, at, { end: body.length, checksum });
    const base = baseOffsetAt(body, at);
    if (kind !== "valid" || (next === undefined ? base > offset : base !== next)) return false;
    next = lastOffsetAt(body, at) + 1;
    if (next <= offset) return false;
  }
  return body.length > MiB / 2;
}

test("a peer that leaves its answers unread gets what it asked for, whatever others read meanwhile", async () => {
  expect(await wrongAnswers()).toBe(0);
});

test("S-20b: if memory were used again as soon as the answer is handed over, it would get what others asked for", async () => {
  activateMutants(["S-20b"]);
  expect(await wrongAnswers()).toBeGreaterThan(0);
});
