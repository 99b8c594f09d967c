// The proxy in front of a node: what passes, what each fault does to it, and what is counted of that.
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createRng } from "../../../src/base/rng.ts";
import { SharedCounts } from "../../../src/chaos/faults/proxy-counts.ts";
import { TcpProxy } from "../../../src/chaos/faults/proxy.ts";

let server: Server;
let proxy: TcpProxy;
let counts: SharedCounts;
let port = 0;
let accepted: Promise<Socket>;

beforeEach(async () => {
  server = createServer({ allowHalfOpen: true, noDelay: true });
  accepted = once(server, "connection").then(([socket]) => socket as Socket);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  counts = new SharedCounts();
  const { port: nodePort } = server.address() as AddressInfo;
  proxy = new TcpProxy({ host: "127.0.0.1", port: nodePort, rng: createRng(7), count: counts.add.bind(counts) });
  port = await proxy.listen("127.0.0.1", 0);
});

afterEach(async () => {
  await proxy.close();
  server.close();
});

/** A client and what the node has of it. */
async function joined(): Promise<{ client: Socket; node: Socket }> {
  const client = connect({ port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
  const node = await accepted;
  for (const socket of [client, node]) socket.on("error", () => undefined);
  return { client, node };
}

function noise(bytes: number): Buffer {
  const made = Buffer.alloc(bytes);
  createRng(bytes).fill(made);
  return made;
}

/** Pieces that came, as they came. */
function heard(socket: Socket): Buffer[] {
  const pieces: Buffer[] = [];
  socket.on("data", (piece: Buffer) => void pieces.push(piece));
  return pieces;
}

/** All that comes; unlike a reader of node:stream/consumers it leaves the socket open for the other direction. */
async function whole(socket: Socket): Promise<Buffer> {
  const pieces = heard(socket);
  await once(socket, "end");
  return Buffer.concat(pieces);
}

/** Also after an error, which once() would reject with. A reset right behind data may be seen as an end. */
const closed = async (socket: Socket): Promise<void> =>
  new Promise((resolve) => void socket.once("close", () => resolve()).once("end", () => resolve()));

const SOON = { timeout: 60_000, interval: 10 };

describe("without a fault", () => {
  it("carries the same bytes both ways, as slowly as they are read, and both ends", async () => {
    const { client, node } = await joined();
    const [asked, answer] = [noise(16 << 20), noise(9 << 20)];
    client.end(asked);
    // Nobody reads yet: what the proxy holds must be bounded.
    await vi.waitFor(() => expect(counts.all.bytesToNode).toBeGreaterThan(64 << 10), SOON);
    node.end(answer);
    const [atNode, atClient] = await Promise.all([whole(node), whole(client)]);
    expect(atNode.equals(asked)).toBe(true);
    expect(atClient.equals(answer)).toBe(true);
    expect(counts.all).toMatchObject({
      connections: 1,
      bytesToNode: asked.length,
      bytesFromNode: answer.length,
      flipped: 0,
      delayed: 0,
    });
  });

  it("resets the client when the node is not there", async () => {
    server.close();
    const client = connect({ port, host: "127.0.0.1" });
    expect(await once(client, "error").catch((error: unknown) => [error])).toMatchObject([{ code: "ECONNRESET" }]);
  });
});

describe("a fault", () => {
  it("delay: everything comes later, in order, and what waits comes when it ends", async () => {
    const { client, node } = await joined();
    const pieces = heard(node);
    proxy.set({ kind: "delay", delayMs: 150, direction: "to node" });
    const beganMs = performance.now();
    client.write("one");
    await vi.waitFor(() => expect(counts.all.delayed).toBe(1), SOON);
    client.write("two");
    await vi.waitFor(() => expect(Buffer.concat(pieces).toString()).toBe("onetwo"), SOON);
    expect(performance.now() - beganMs).toBeGreaterThan(145);
    proxy.set({ kind: "delay", delayMs: 3_600_000, direction: "both" });
    client.write("three");
    await vi.waitFor(() => expect(counts.all.delayed).toBe(3), SOON);
    proxy.set(undefined);
    client.write("four");
    await vi.waitFor(() => expect(Buffer.concat(pieces).toString()).toBe("onetwothreefour"), SOON);
  });

  it("stall: nothing passes in that direction, and nothing is lost", async () => {
    const { client, node } = await joined();
    proxy.set({ kind: "stall", direction: "to node" });
    const [asked, answered] = [heard(node), heard(client)];
    client.write("held");
    await vi.waitFor(() => expect(counts.all.stalled).toBe(1), SOON);
    node.write("passes");
    await vi.waitFor(() => expect(Buffer.concat(answered).toString()).toBe("passes"), SOON);
    await sleep(50);
    expect(asked).toEqual([]);
    proxy.set(undefined);
    await vi.waitFor(() => expect(Buffer.concat(asked).toString()).toBe("held"), SOON);
  });

  it("stall: what is held is bounded, and the sender is made to wait", async () => {
    const { client, node } = await joined();
    proxy.set({ kind: "stall", direction: "both" });
    const asked = noise(32 << 20);
    client.end(asked);
    await vi.waitFor(() => expect(counts.all.bytesToNode).toBeGreaterThan(8 << 20), SOON);
    await sleep(100);
    expect(counts.all.bytesToNode).toBeLessThan(10 << 20);
    proxy.set(undefined);
    expect((await whole(node)).equals(asked)).toBe(true);
  });

  it("chunk: the same bytes, in small pieces", async () => {
    const { client, node } = await joined();
    const pieces = heard(node);
    proxy.set({ kind: "chunk", bytesMax: 7, direction: "both" });
    const asked = noise(700);
    client.write(asked);
    await vi.waitFor(() => expect(Buffer.concat(pieces).equals(asked)).toBe(true), SOON);
    expect(counts.all.chunks).toBeGreaterThanOrEqual(100);
    expect(pieces.length).toBeGreaterThan(10);
  });

  it("flip: about every n-th byte has one bit that differs, and each is counted", async () => {
    const { client, node } = await joined();
    proxy.set({ kind: "flip", everyBytes: 1_000, direction: "to node" });
    const asked = noise(300_000);
    client.end(asked);
    const got = await whole(node);
    const differing = [...got.keys()].filter((at) => got[at] !== asked[at]);
    expect(got.length).toBe(asked.length);
    expect(counts.all.flipped).toBe(differing.length);
    expect(differing.length).toBeGreaterThan(150);
    expect(differing.length).toBeLessThan(600);
  });

  it("reset: both sides hear it after n bytes, and of new connections, too", async () => {
    const { client, node } = await joined();
    proxy.set({ kind: "reset", afterBytes: 1_000, direction: "to node" });
    const ends = [closed(client), closed(node)];
    node.resume();
    client.resume();
    client.write(noise(999));
    await vi.waitFor(() => expect(counts.all.bytesToNode).toBe(999), SOON);
    expect(counts.all.resets).toBe(0);
    client.write(noise(2));
    await Promise.all(ends);
    expect(counts.all.resets).toBe(1);
    const next = connect({ port, host: "127.0.0.1" }).on("error", () => undefined);
    next.write(noise(1_000));
    await closed(next);
    expect(counts.all.resets).toBe(2);
  });

  it("half-close: the node hears the end after n bytes, and can still answer", async () => {
    const { client, node } = await joined();
    proxy.set({ kind: "half-close", afterBytes: 4, direction: "to node" });
    client.write("four, and more");
    expect((await whole(node)).toString()).toBe("four");
    const answers = heard(client);
    node.write("answer");
    await vi.waitFor(() => expect(Buffer.concat(answers).toString()).toBe("answer"), SOON);
    expect(counts.all.halfCloses).toBe(1);
    client.destroy();
    node.destroy();
  });
});
