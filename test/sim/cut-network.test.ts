import { describe, expect, it } from "vitest";
import { createSimHost } from "../../scripts/sim-host.ts";
import { SimNetwork } from "../../src/sim/network.ts";
import { SimWorld } from "../../src/sim/world.ts";
import type { MessageConnection } from "../../src/ports/transport.ts";

const host = await createSimHost();
const LINK = { delayMs: 1, bandwidth: 100_000, windowBytes: 1000 };

interface End {
  readonly connection: MessageConnection;
  readonly received: number[];
  readonly closed: string[];
}

function start(connection: MessageConnection): End {
  const end: End = { connection, received: [], closed: [] };
  connection.start({
    onReceive: (message) => void end.received.push(message[0] ?? -1),
    onClose: (reason) => void end.closed.push(reason),
    onDrain: () => undefined,
  });
  return end;
}

async function connected(seed = 1) {
  const world = new SimWorld({ seed, host });
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

const message = (value: number, sizeBytes = 10): Uint8Array[] => [new Uint8Array(sizeBytes).fill(value)];

describe("N4: a cut direction", () => {
  it("holds what is sent into it until it is mended, in order; the other direction works", async () => {
    const { world, network, clientEnd, serverEnd } = await connected();
    network.cut("client", "server");
    for (let value = 1; value <= 5; value++) clientEnd.connection.send(message(value));
    serverEnd.connection.send(message(9));
    await world.runFor(3000);
    expect(serverEnd.received).toEqual([]);
    expect(clientEnd.received).toEqual([9]);
    network.mend("client", "server");
    clientEnd.connection.send(message(6));
    await world.runFor(3000);
    expect(serverEnd.received).toEqual([1, 2, 3, 4, 5, 6]);
  });

  it("confirms nothing of what came the other way: after a window the sender waits", async () => {
    const { world, network, clientEnd, serverEnd } = await connected();
    network.cut("client", "server");
    for (let value = 1; value <= 20; value++) serverEnd.connection.send(message(value, 100));
    await world.runFor(3000);
    expect(clientEnd.received).toHaveLength(10);
    expect(serverEnd.connection.unsentBytes).toBe(1000);
    network.mend("client", "server");
    await world.runFor(3000);
    expect(clientEnd.received).toHaveLength(20);
    expect(serverEnd.connection.unsentBytes).toBe(0);
  });

  it("is open again only when all that cut it have ended", async () => {
    const { world, network, clientEnd, serverEnd } = await connected();
    network.cut("client", "server");
    network.cut("client", "server");
    clientEnd.connection.send(message(1));
    network.mend("client", "server");
    await world.runFor(3000);
    expect(serverEnd.received).toEqual([]);
    network.mend("client", "server");
    await world.runFor(3000);
    expect(serverEnd.received).toEqual([1]);
  });

  it("ends both ends of a connection when it lasts longer than pings may go unanswered", async () => {
    const { world, network, clientEnd, serverEnd } = await connected();
    network.cut("server", "client");
    await world.runFor(19_000);
    expect([clientEnd.closed.length, serverEnd.closed.length]).toEqual([0, 0]);
    await world.runFor(50_000);
    expect([clientEnd.closed.length, serverEnd.closed.length]).toEqual([1, 1]);
  });

  it("lets no handshake through, in either direction, and that ends after 5 s", async () => {
    for (const [from, to] of [
      ["client", "server"],
      ["server", "client"],
    ] as const) {
      const { world, network, client } = await connected();
      network.cut(from, to);
      const startMs = world.nowMs;
      await expect(world.settle(network.messages(client).connect("server:1"))).rejects.toMatchObject({
        kind: "timed-out",
      });
      expect(world.nowMs - startMs).toBeGreaterThan(5000);
      expect(world.nowMs - startMs).toBeLessThan(6000);
      network.heal();
      await world.settle(network.messages(client).connect("server:1"));
    }
  });

  it("a cut with a reset reaches only who can be reached", async () => {
    const { world, network, clientEnd, serverEnd } = await connected();
    network.cut("client", "server");
    clientEnd.connection.destroy();
    await world.runFor(5000);
    expect([clientEnd.closed.length, serverEnd.closed.length]).toEqual([1, 0]);
    await world.runFor(60_000);
    expect(serverEnd.closed).toHaveLength(1);
  });
});

describe("N3: late bytes", () => {
  it("a delayed direction delivers all, in order, up to a minute later", async () => {
    const delays: number[] = [];
    for (let seed = 0; seed < 40; seed++) {
      const { world, network, clientEnd, serverEnd } = await connected(seed);
      network.delayOne();
      for (let value = 1; value <= 3; value++) clientEnd.connection.send(message(value));
      const sentMs = world.nowMs;
      await world.runUntil(() => serverEnd.received.length === 3, world.nowMs + 61_000);
      expect(serverEnd.received).toEqual([1, 2, 3]);
      delays.push(world.nowMs - sentMs);
    }
    expect(delays.filter((delay) => delay > 1000).length).toBeGreaterThan(5);
    expect(delays.filter((delay) => delay < 50).length).toBeGreaterThan(5);
  });

  it("what a dead process sent may still arrive, also after its successor has started", async () => {
    let late = 0;
    for (let seed = 0; seed < 200; seed++) {
      const { world, network, client, clientEnd, serverEnd } = await connected(seed);
      clientEnd.connection.send(message(7));
      client.end();
      network.forget(client);
      await world.runFor(500);
      const atOnce = serverEnd.received.length;
      await world.runFor(70_000);
      if (serverEnd.received.length > atOnce) late++;
      expect(serverEnd.closed).toHaveLength(1);
    }
    expect(late).toBeGreaterThan(9);
  });
});

describe("N5: the quality of a path is its own", () => {
  it("a slow direction is slow, the other one is not", async () => {
    const { world, network, clientEnd, serverEnd } = await connected();
    network.path("client", "server").setQuality({ delayMs: 500, bandwidth: 100, windowBytes: 4096 });
    clientEnd.connection.send(message(1));
    serverEnd.connection.send(message(2));
    await world.runFor(150);
    expect([clientEnd.received, serverEnd.received]).toEqual([[2], []]);
    await world.runFor(60_000);
    expect(serverEnd.received).toEqual([1]);
  });
});

describe("a machine that is off", () => {
  it("answers no handshake, and refuses once it is on without a process", async () => {
    const { world, network, server, client } = await connected();
    server.end();
    network.forget(server, { isPowerLoss: true });
    world.machine("server").isOff = true;
    const error = await world.settle(network.messages(client).connect("server:1")).catch((thrown: unknown) => thrown);
    expect(["timed-out", "unreachable"]).toContain((error as { kind: string }).kind);
    world.machine("server").isOff = false;
    await expect(world.settle(network.messages(client).connect("server:1"))).rejects.toMatchObject({ kind: "refused" });
  });

  it("tells its peers nothing until it is on again", async () => {
    const { world, network, server, clientEnd } = await connected();
    server.end();
    network.forget(server, { isPowerLoss: true });
    await world.runFor(10_000);
    expect(clientEnd.closed).toEqual([]);
    network.booted("server");
    await world.runFor(1000);
    expect(clientEnd.closed).toEqual(["connection reset"]);
  });
});
