// D-26: peers that hold as much of the broker as they can. None of them may keep another from being served, nor outgrow the accounts.
import { describe, expect, test } from "vitest";
import { ParkedFetch } from "../../src/broker/parked-fetch.ts";
import type { Replica } from "../../src/broker/replica.ts";
import { ScanGate } from "../../src/broker/scan-gate.ts";
import { sealBatch, setAttributes } from "../../src/model/record-batch.ts";
import { API } from "../../src/wire/native/apis.ts";
import { encodeRequest } from "../../src/wire/native/codec.ts";
import { batchOf, type BrokerWorld, startWorld, type TestClient } from "./support.ts";

const MiB = 1024 * 1024;
const TOPIC = "AAAAAAAAAAAAAAAAAAAAAQ" as never;

/** The first messages of a produce request whose bodies are announced as these lengths. */
function announce(lengths: readonly number[], correlationId = 1000): Uint8Array {
  const entries = lengths.map(() => ({ topicId: TOPIC, partition: 0, leaderEpoch: -1, isResent: false }));
  const header = { api: API.PRODUCE, version: 0, correlationId, deadlineMs: 0 };
  const bodies = lengths.map((length) => new Uint8Array(length));
  const [envelope] = encodeRequest(header, { acks: -1, timeoutMs: 1_000, entries }, bodies);
  if (envelope === undefined) throw new Error("no envelope");
  return envelope;
}

async function halfMessages(broker: BrokerWorld, count: number, lengths: readonly number[]): Promise<TestClient[]> {
  const peers: TestClient[] = [];
  for (let index = 0; index < count; index++) {
    const peer = await broker.connect();
    peer.connection.send([announce(lengths)]);
    peers.push(peer);
  }
  await broker.world.runFor(100);
  return peers;
}

const accountOf = (broker: BrokerWorld) => broker.metrics.values.get("request_inflight_bytes") ?? 0;

describe("half messages", () => {
  test("D-24: silent peers that fill the account are cut after 10 s; meanwhile all others are answered, also their small produce", async () => {
    const config = { "produce.inflight.bytes": "4MiB", "max.message.bytes": "4MiB" };
    const { broker, client } = await startWorld({ config });
    const topicId = await client.createTopic("t");
    const peers = await halfMessages(broker, 40, [MiB]);
    await broker.world.runFor(1_000);
    // Those that have no room are not read, and hold no more than their envelope.
    expect(accountOf(broker)).toBeGreaterThan(3 * MiB);
    expect(accountOf(broker)).toBeLessThan(4 * MiB + 40 * 1024);
    const startMs = broker.world.nowMs;
    const stranger = await broker.connect();
    expect((await stranger.metadata()).topics).toHaveLength(1);
    expect(await client.produce(topicId, batchOf(["x"]))).toMatchObject({ error: "NONE" });
    expect((await stranger.fetch(topicId, 0)).highWatermark).toBe(1);
    const large = client.sendProduce(topicId, batchOf(["x"], { padBytes: 100_000 }), { timeoutMs: 100_000 });
    await broker.world.runFor(10);
    expect(broker.world.nowMs - startMs).toBeLessThan(1_000);
    // Every ten seconds four of them are at their end; all others get their turn.
    expect((await broker.world.settle(large)).response.entries[0]).toMatchObject({ error: "NONE" });
    await broker.world.runFor(130_000);
    expect(peers.every((peer) => peer.closedWith !== undefined)).toBe(true);
    expect(accountOf(broker)).toBe(0);
  });

  test("D-24: what was granted is not paused by the account: it may be finished, and is answered", async () => {
    const config = { "produce.inflight.bytes": "2MiB", "max.message.bytes": "2MiB" };
    const { broker, client } = await startWorld({ config });
    await client.createTopic("t");
    const peers = await halfMessages(broker, 3, [700_000]);
    for (const peer of peers) peer.connection.send([new Uint8Array(700_000)]);
    await broker.world.runFor(5_000);
    // The topic is unknown, but an answer it is.
    expect(peers.map((peer) => [peer.closedWith, peer.strays])).toEqual(peers.map(() => [undefined, ["NONE"]]));
    expect(accountOf(broker)).toBe(0);
  });

  test("several bodies of more than 1 MiB are refused by their announcement", async () => {
    const { broker } = await startWorld();
    const peer = await broker.connect();
    const entries = [1, 2].map(() => ({ topicId: TOPIC, partition: 0, leaderEpoch: -1, isResent: false }));
    const header = { api: API.PRODUCE, version: 0, correlationId: 9, deadlineMs: 0 };
    // encodeRequest would refuse it: one byte less, and then a longer number of the same width.
    const [envelope] = encodeRequest(header, { acks: -1, timeoutMs: 1, entries }, [
      new Uint8Array(0x0f_ff_ff - 10_000),
      new Uint8Array(10_000),
    ]);
    const bytes = Uint8Array.from(envelope ?? []);
    const at = bytes.findIndex((byte, index) => byte === 0xce && bytes[index + 1] === 0);
    bytes.set([0x03, 0xc0, 0, 0], at + 1);
    peer.connection.send([bytes]);
    await broker.world.runFor(100);
    expect(peer.strays).toEqual(["FRAME_TOO_LARGE"]);
    await broker.world.runFor(2_000);
    expect(peer.closedWith).toContain("FRAME_TOO_LARGE");
  });
});

describe("slow readers", () => {
  test("D-26: together they hold no more than unsent.bytes and a small answer each; a short fetch of others is answered; the stalled are cut when others wait", async () => {
    const config = { "unsent.bytes": "4MiB", "connection.unsent.bytes": "8MiB", "retention.ms": -1 };
    const { broker, client } = await startWorld({ config });
    const topicId = await client.createTopic("t");
    for (let index = 0; index < 8; index++) await client.produce(topicId, batchOf(["x"], { padBytes: 500_000 }));
    const slow: TestClient[] = [];
    for (let index = 0; index < 20; index++) {
      const peer = await broker.connect();
      peer.connection.pause();
      for (let offset = 0; offset < 4; offset++) void peer.sendFetch(topicId, offset, { maxBytes: 4 * MiB });
      slow.push(peer);
    }
    await broker.world.runFor(5_000);
    const unsentBytes = broker.metrics.values.get("unsent_bytes") ?? 0;
    expect(unsentBytes).toBeGreaterThan(MiB);
    expect(unsentBytes).toBeLessThanOrEqual(5 * MiB);
    const quiet = await client.createTopic("quiet");
    await client.produce(quiet, batchOf(["small"]));
    const startMs = broker.world.nowMs;
    expect((await client.fetch(quiet, 0, { maxBytes: 2 ** 20 })).bytes.length).toBeGreaterThan(0);
    expect(broker.world.nowMs - startMs).toBeLessThan(100);
    // What does not fit into a small answer waits, until a stalled peer is cut.
    const patient = await broker.connect();
    expect((await patient.fetch(topicId, 0)).bytes.length).toBeGreaterThan(500_000);
    expect(broker.world.nowMs - startMs).toBeGreaterThan(1_000);
    await broker.world.runFor(400_000);
    expect(slow.filter((peer) => peer.closedWith !== undefined).length).toBeGreaterThan(10);
    for (const peer of slow) peer.connection.destroy();
    await broker.world.runFor(2_000);
    expect(broker.metrics.values.get("unsent_bytes")).toBe(0);
  });

  test("the account of unsent bytes comes back to nothing however often it was full", async () => {
    const config = { "unsent.bytes": "1MiB", "connection.unsent.bytes": "1MiB" };
    const { broker, client } = await startWorld({ config });
    const names = Array.from({ length: 1000 }, (_, index) => "x".repeat(50) + index);
    for (let round = 0; round < 4; round++) {
      const peers = [await broker.connect(), await broker.connect(), await broker.connect()];
      for (const peer of peers) {
        peer.connection.pause();
        for (let index = 0; index < 60; index++)
          void peer.send(API.METADATA, { topics: names, after: null, barrier: false });
      }
      await broker.world.runFor(2_000);
      expect(broker.metrics.values.get("unsent_bytes")).toBeGreaterThan(MiB);
      for (const peer of peers) peer.connection.destroy();
      await broker.world.runFor(2_000);
      expect(broker.metrics.values.get("unsent_bytes")).toBe(0);
    }
    expect((await client.metadata(names.slice(0, 1))).topics).toHaveLength(1);
  });
});

describe("requests", () => {
  test("a correlation id that is still in flight is refused, one that was answered may be used again", async () => {
    const { broker, client } = await startWorld();
    const topicId = await client.createTopic("t");
    const header = { api: API.FETCH, version: 0, correlationId: 500, deadlineMs: 0 };
    const entries = [{ topicId, partition: 0, leaderEpoch: -1, offset: 0, maxBytes: 1 }];
    const fetch = (maxWaitMs: number) => encodeRequest(header, { maxWaitMs, minBytes: 1, maxBytes: 1, entries }, []);
    const peer = await broker.connect();
    for (let round = 0; round < 2; round++) {
      peer.connection.send(fetch(0));
      await broker.world.runFor(100);
    }
    expect(peer.strays).toEqual(["NONE", "NONE"]);
    peer.connection.send([...fetch(10_000), ...fetch(10_000)]);
    await broker.world.runFor(2_000);
    expect(peer.strays).toEqual(["NONE", "NONE", "BAD_ENVELOPE"]);
    expect(peer.closedWith).toContain("BAD_ENVELOPE");
  });

  test("a leader epoch below -1 is INVALID_REQUEST", async () => {
    const { client } = await startWorld();
    const topicId = await client.createTopic("t");
    expect(await client.produce(topicId, batchOf(["x"]), { leaderEpoch: -2 })).toMatchObject({
      error: "INVALID_REQUEST",
      outcome: "not appended",
    });
    expect((await client.fetch(topicId, 0, { leaderEpoch: -2 })).error).toBe("INVALID_REQUEST");
  });

  test("D-26: a request is charged for what its entries and batches cost beside its bytes", async () => {
    const { broker, client } = await startWorld();
    const topicId = await client.createTopic("t");
    const entry = { topicId, partition: 0, leaderEpoch: -1, offset: 0, maxBytes: 1 };
    const entries = Array.from({ length: 1024 }, () => entry);
    void client.send(API.FETCH, { maxWaitMs: 20_000, minBytes: 1, maxBytes: 1, entries });
    await broker.world.runFor(1_500);
    expect(accountOf(broker)).toBeGreaterThan(1024 * 256 + 20_000);
  });

  test("D-26: a search by time ends with its deadline and with its connection", async () => {
    const { broker, client } = await startWorld();
    const topicId = await client.createTopic("t");
    await client.produce(topicId, batchOf(["x"]));
    const entries = [{ topicId, partition: 0, timestamp: 5 }];
    const found = await client.call(API.LIST_OFFSETS, { entries });
    expect(found.response.entries[0]).toMatchObject({ error: "NONE", offset: 0 });
    const hasty = await client.call(
      API.LIST_OFFSETS,
      { entries: Array.from({ length: 1024 }, () => entries[0] as never) },
      { deadlineMs: 1 },
    );
    expect(hasty.error).toBe("REQUEST_TIMED_OUT");
    const gone = await broker.connect();
    void gone.send(API.LIST_OFFSETS, { entries });
    gone.connection.destroy();
    await broker.world.runFor(2_000);
    expect(broker.metrics.values.get("requests_inflight")).toBe(0);
  });

  test.each([3, 1, 2, 4])(
    "D-17: a batch that is as its client sent it and cannot be decompressed (codec %i) is no damage: the partition serves on, and a search by time finds it whole",
    async (codec) => {
      const { broker, client } = await startWorld();
      const topicId = await client.createTopic("t");
      const batch = batchOf(["no", "such", "data"], { timestamp: 5_000 });
      setAttributes(batch, codec);
      sealBatch(batch, broker.world.checksum);
      expect(await client.produce(topicId, batch)).toMatchObject({ error: "NONE", baseOffset: 0 });
      const entries = [{ topicId, partition: 0, timestamp: 5_001 }];
      for (let round = 0; round < 2; round++) {
        const { response } = await client.call(API.LIST_OFFSETS, { entries });
        expect(response.entries[0]).toMatchObject({ error: "NONE", offset: 0, timestamp: 5_002 });
        // Out of the memory, then out of the file.
        await broker.world.runFor(2_000);
      }
      expect(await client.produce(topicId, batchOf(["x"]))).toMatchObject({ error: "NONE", baseOffset: 3 });
      expect((await client.fetch(topicId, 0)).highWatermark).toBe(4);
    },
  );

  test("two searches run at a time, and one request of each owner", async () => {
    const gate = new ScanGate();
    const ends: (() => void)[] = [];
    let running = 0;
    const search = async () => {
      running++;
      await new Promise<void>((resolve) => ends.push(resolve));
      running--;
    };
    const owners = [{}, {}, {}];
    const settled = async () => {
      for (let round = 0; round < 20; round++) await Promise.resolve();
    };
    const all = owners.flatMap((owner) => [
      gate.inTurn(owner, () => gate.run(search)),
      gate.inTurn(owner, () => gate.run(search)),
    ]);
    for (let ended = 0; ended < 6; ended++) {
      await settled();
      expect([ended, running]).toEqual([ended, Math.min(2, 6 - ended)]);
      ends.shift()?.();
    }
    await Promise.all(all);
    expect(running).toBe(0);
  });
});

describe("a parked fetch", () => {
  const replicaWith = (acceptedBytes: number) =>
    ({ acceptedBytes, core: { highWatermark: 5, isLeader: true } }) as unknown as Replica & { acceptedBytes: number };
  const looked = (replica: Replica, isSettled = true) => ({
    replica,
    highWatermark: 5,
    acceptedBytes: replica.acceptedBytes,
    isSettled,
  });

  test("looks only at the partition that moved, and adds up what came to all of them", () => {
    const [first, second] = [replicaWith(10), replicaWith(20)];
    const parked = new ParkedFetch([looked(first), looked(second)], 100);
    expect(parked.replicas).toEqual([first, second]);
    first.acceptedBytes += 60;
    expect([parked.mayHaveEnough(second), parked.mayHaveEnough(first), parked.mayHaveEnough(first)]).toEqual([
      false,
      false,
      false,
    ]);
    second.acceptedBytes += 40;
    expect(parked.mayHaveEnough(second)).toBe(true);
  });

  test("never says no where a read would say yes: several entries of one partition, bytes not committed when it was looked at", () => {
    const replica = replicaWith(0);
    const twice = new ParkedFetch([looked(replica), looked(replica)], 100);
    expect(twice.replicas).toHaveLength(1);
    replica.acceptedBytes = 50;
    expect(twice.mayHaveEnough(replica)).toBe(true);
    expect(new ParkedFetch([looked(replica, false)], 100).mayHaveEnough(replica)).toBe(true);
  });
});
