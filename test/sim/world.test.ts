import { describe, expect, it } from "vitest";
import { createSimHost } from "../../scripts/sim-host.ts";
import { utf8Encode } from "../../src/base/bytes.ts";
import type { MessageConnection } from "../../src/ports/transport.ts";
import { SimNetwork } from "../../src/sim/network.ts";
import { createSimTimers, SimWorld, type TraceEvent } from "../../src/sim/world.ts";

const host = await createSimHost();
const LINK = { delayMs: 1, bandwidth: 100_000, windowBytes: 1 << 20 };

/** A conversation of two processes; `change` is xored into one byte of one message. */
async function conversation(seed: number, change = 0): Promise<SimWorld> {
  const world = new SimWorld({ seed, host });
  const network = new SimNetwork(world, { link: LINK });
  const server = world.startIncarnation("server");
  const client = world.startIncarnation("client");
  await world.settle(
    network.messages(server).listen("server:1", (connection) => {
      connection.start({
        onReceive: (message) => connection.send([message]),
        onClose: () => undefined,
        onDrain: () => undefined,
      });
    }),
  );
  const connection = await world.settle(network.messages(client).connect("server:1"));
  connection.start({ onReceive: () => undefined, onClose: () => undefined, onDrain: () => undefined });
  for (let round = 0; round < 50; round++) {
    const message = new Uint8Array(100).fill(round);
    if (round === 20) message[50] = (message[50] ?? 0) ^ change;
    connection.send([message]);
  }
  await world.runFor(1000);
  return world;
}

describe("run hash", () => {
  it("is the same for the same seed, another for another", async () => {
    const [first, again, other] = [await conversation(1), await conversation(1), await conversation(2)];
    expect(again.hash.value).toBe(first.hash.value);
    expect(again.hash.events).toBe(first.hash.events);
    expect(other.hash.value).not.toBe(first.hash.value);
  });

  it("a single changed bit of one payload changes it", async () => {
    const first = await conversation(1);
    for (const change of [1, 128]) expect((await conversation(1, change)).hash.value).not.toBe(first.hash.value);
  });

  it("a single additional draw changes it", () => {
    const first = new SimWorld({ seed: 3, host });
    const second = new SimWorld({ seed: 3, host });
    first.fork("workload").u32();
    second.fork("workload").u32();
    expect(second.hash.value).toBe(first.hash.value);
    second.fork("nemesis").u32();
    expect(second.hash.value).not.toBe(first.hash.value);
  });
});

describe("world", () => {
  it("events of one time run in an order that the seed permutes", async () => {
    const orders = new Set<string>();
    for (let seed = 0; seed < 40; seed++) {
      const world = new SimWorld({ seed, host });
      const order: number[] = [];
      for (let index = 0; index < 4; index++)
        world.schedule({ delayMs: 5, kind: "test" }, () => void order.push(index));
      await world.runFor(10);
      orders.add(order.join(""));
    }
    expect(orders.size).toBeGreaterThan(10);
  });

  it("P1: an ended incarnation continues nowhere, its promises never settle", async () => {
    const world = new SimWorld({ seed: 1, host });
    const owner = world.startIncarnation("p");
    const timers = createSimTimers(world, owner);
    const steps: string[] = [];
    const run = async (): Promise<void> => {
      for (let step = 0; ; step++) {
        await new Promise<void>((resolve) => void timers.after(10, resolve));
        steps.push(`${step}`);
      }
    };
    void run();
    await world.runFor(25);
    owner.end();
    await world.runFor(1000);
    expect(steps).toEqual(["0", "1"]);
  });

  it("microtasks run before the next event", async () => {
    const world = new SimWorld({ seed: 1, host });
    const order: string[] = [];
    world.schedule({ delayMs: 1, kind: "a" }, () => {
      void Promise.resolve()
        .then(() => undefined)
        .then(() => void order.push("microtask of a"));
    });
    world.schedule({ delayMs: 2, kind: "b" }, () => void order.push("b"));
    await world.runFor(5);
    expect(order).toEqual(["microtask of a", "b"]);
  });

  it("tripwires: the host's clock, chance and timers throw during a run, and work after it", () => {
    const undo = host.setTripwires();
    const caught: string[] = [];
    for (const reach of [
      () => Date.now(),
      () => Math.random(),
      () => setTimeout(() => undefined, 1),
      () => performance.now(),
    ]) {
      try {
        reach();
      } catch (thrown) {
        caught.push(String(thrown));
      }
    }
    undo();
    expect(caught).toHaveLength(4);
    expect(Date.now()).toBeGreaterThan(0);
    expect(Math.random()).toBeLessThan(1);
  });
});

interface End {
  readonly connection: MessageConnection;
  readonly received: Uint8Array[];
  readonly closed: string[];
}

function start(connection: MessageConnection): End {
  const end: End = { connection, received: [], closed: [] };
  connection.start({
    onReceive: (message) => void end.received.push(message),
    onClose: (reason) => void end.closed.push(reason),
    onDrain: () => undefined,
  });
  return end;
}

async function connected(seed: number, onTrace?: (event: TraceEvent) => void) {
  const world = new SimWorld({ seed, host, ...(onTrace === undefined ? {} : { onTrace }) });
  const network = new SimNetwork(world, { link: LINK });
  const [server, client] = [world.startIncarnation("server"), world.startIncarnation("client")];
  const accepted: End[] = [];
  await world.settle(
    network.messages(server).listen("server:1", (connection) => void accepted.push(start(connection))),
  );
  const clientEnd = start(await world.settle(network.messages(client).connect("server:1")));
  await world.runUntil(() => accepted.length === 1, 100);
  return { world, network, server, client, clientEnd, serverEnd: accepted[0] as End };
}

describe("simulated network", () => {
  it("N2: a cut falls between any two messages of one logical message", async () => {
    const counts = new Set<number>();
    for (let seed = 0; seed < 60; seed++) {
      const { world, network, clientEnd, serverEnd } = await connected(seed);
      clientEnd.connection.send([1, 2, 3, 4].map((byte) => new Uint8Array([byte])));
      world.schedule({ delayMs: 0.7, kind: "cut" }, () => void network.cutOne("both"));
      await world.runFor(5000);
      expect([clientEnd.closed.length, serverEnd.closed.length]).toEqual([1, 1]);
      counts.add(serverEnd.received.length);
    }
    expect(counts.has(0)).toBe(true);
    expect(counts.size).toBeGreaterThan(2);
  });

  it("N2: a silent cut tells nobody until the end gives up", async () => {
    const { world, network, clientEnd, serverEnd } = await connected(1);
    network.cutOne("silent");
    clientEnd.connection.send([new Uint8Array(1)]);
    await world.runFor(5000);
    expect([clientEnd.closed, serverEnd.closed, serverEnd.received]).toEqual([[], [], []]);
    network.heal();
    await world.runFor(5000);
    expect([clientEnd.closed.length, serverEnd.closed.length]).toEqual([1, 1]);
  });

  it("N1: delays have a heavy tail and never reorder one connection", async () => {
    const { world, clientEnd, serverEnd } = await connected(1);
    const delays: number[] = [];
    for (let count = 0; count < 2000; count++) {
      const sentMs = world.nowMs;
      clientEnd.connection.send([new Uint8Array([count & 255])]);
      await world.runUntil(() => serverEnd.received.length === count + 1, world.nowMs + 60_000);
      delays.push(world.nowMs - sentMs);
    }
    delays.sort((left, right) => left - right);
    expect(delays[1000] ?? 0).toBeLessThan(2);
    expect(delays[1999] ?? 0).toBeGreaterThan(50);
    expect(serverEnd.received.every((message, index) => message[0] === (index & 255))).toBe(true);
  });

  it("D-27: it copies what it carries", async () => {
    const { world, clientEnd, serverEnd } = await connected(1);
    const bytes = utf8Encode("sent");
    clientEnd.connection.send([bytes]);
    bytes.fill(0);
    await world.runFor(1000);
    expect([...(serverEnd.received[0] ?? [])]).toEqual([...utf8Encode("sent")]);
  });

  it("D-27: a byte stream arrives in any pieces, and whole", async () => {
    const world = new SimWorld({ seed: 1, host });
    const network = new SimNetwork(world, { link: LINK });
    const [server, client] = [world.startIncarnation("server"), world.startIncarnation("client")];
    const received: Uint8Array[] = [];
    await world.settle(
      network.bytes(server).listen("server:1", (connection) => {
        connection.start({
          onReceive: (chunk) => void received.push(chunk),
          onClose: () => undefined,
          onDrain: () => undefined,
        });
      }),
    );
    const connection = await world.settle(network.bytes(client).connect("server:1"));
    const sent = Uint8Array.from({ length: 5000 }, (_, index) => index & 255);
    for (let at = 0; at < 5000; at += 100) connection.send(sent.subarray(at, at + 100));
    await world.runFor(60_000);
    expect(Buffer.concat(received).equals(Buffer.from(sent))).toBe(true);
    expect(new Set(received.map((chunk) => chunk.length)).size).toBeGreaterThan(10);
    await expect(world.settle(network.messages(client).connect("server:1"))).rejects.toMatchObject({
      kind: "not-ottla",
    });
  });

  it("P1: a dead process's peers hear a reset or nothing, and its address is refused", async () => {
    const told = new Set<number>();
    for (let seed = 0; seed < 30; seed++) {
      const { world, network, server, client, clientEnd } = await connected(seed);
      server.end();
      network.forget(server);
      await world.runFor(1000);
      told.add(clientEnd.closed.length);
      await expect(world.settle(network.messages(client).connect("server:1"))).rejects.toMatchObject({
        kind: "refused",
      });
    }
    expect(told).toEqual(new Set([0, 1]));
  });
});
