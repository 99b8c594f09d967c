// Peers that hold what is not on any account, and web pages that are not ours.
import { connect as connectTcp } from "node:net";
import type { Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { createWebSocketTransport } from "../../src/platform/websocket.ts";
import type { MessageConnection } from "../../src/ports/transport.ts";

interface Accepted {
  readonly connection: MessageConnection;
  receivedBytes: number;
  closeReason: string | undefined;
}

const cleanups: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

/** A port whose connections expect 64 KiB at most. */
async function listen(): Promise<{ readonly port: number; readonly accepted: Accepted[] }> {
  const accepted: Accepted[] = [];
  const listener = await createWebSocketTransport().listen("127.0.0.1:0", (connection) => {
    const peer: Accepted = { connection, receivedBytes: 0, closeReason: undefined };
    accepted.push(peer);
    connection.expect?.(64 * 1024);
    connection.start({
      onReceive: (message) => {
        peer.receivedBytes += message.length;
      },
      onClose: (reason) => {
        peer.closeReason = reason;
      },
      onDrain: () => {},
    });
    cleanups.push(() => connection.destroy());
  });
  cleanups.push(() => listener.close());
  return { port: Number(listener.address.split(":").at(-1)), accepted };
}

async function until(condition: () => boolean, what: string): Promise<void> {
  const deadline = performance.now() + 30_000;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`never: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

/** The head of the answer to an upgrade, and the socket. */
function upgrade(port: number, headers: string): Promise<{ readonly socket: Socket; readonly head: string }> {
  return new Promise((resolve) => {
    const socket = connectTcp(port, "127.0.0.1", () =>
      socket.write(
        "GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
          `Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: ottla.1\r\n${headers}\r\n`,
      ),
    );
    cleanups.push(() => void socket.destroy());
    socket.on("error", () => {});
    socket.once("data", (data) => resolve({ socket, head: data.toString("latin1") }));
    socket.on("data", () => {});
  });
}

/** A masked frame of zeros, masked with zeros. */
function frame(first: number, length: number): Buffer {
  const head =
    length < 126 ? Buffer.from([first, 0x80 | length]) : Buffer.from([first, 0xfe, length >> 8, length & 0xff]);
  return Buffer.concat([head, Buffer.alloc(4 + length)]);
}

describe("messages that are not finished", () => {
  it("D-26: are cut at what is expected, in however many fragments; one that is finished, and pongs, are not", async () => {
    const { port, accepted } = await listen();
    const { socket: neighbour } = await upgrade(port, "Host: a\r\n");
    const { socket: evil } = await upgrade(port, "Host: a\r\n");
    let isClosed = false;
    evil.once("close", () => {
      isClosed = true;
    });
    // Fragments without the last one, and pongs between them, which must not hide them.
    const part = Buffer.concat([frame(0x00, 4_096), frame(0x8a, 100)]);
    evil.write(frame(0x02, 4_096));
    for (let count = 0; count < 2_000 && !isClosed; count++) {
      if (!evil.write(part)) await new Promise((resolve) => setTimeout(resolve, 1));
    }
    await until(() => accepted[1]?.closeReason !== undefined, "cut");
    expect(accepted[1]?.closeReason).toContain("FRAME_TOO_LARGE");
    expect(accepted[1]?.receivedBytes).toBe(0);
    for (let count = 0; count < 3_000; count++) neighbour.write(frame(0x8a, 100));
    neighbour.write(frame(0x02, 60_000));
    await until(() => accepted[0]?.connection.partialBytes === 60_008, "half");
    neighbour.write(frame(0x80, 0));
    await until(() => accepted[0]?.receivedBytes === 60_000, "finished");
    expect([accepted[0]?.connection.partialBytes, accepted[0]?.closeReason]).toEqual([0, undefined]);
  });

  it("may grow as long as is expected", async () => {
    const { port, accepted } = await listen();
    const { socket } = await upgrade(port, "Host: a\r\n");
    await until(() => accepted.length === 1, "accepted");
    accepted[0]?.connection.expect?.(2 ** 20);
    socket.write(frame(0x02, 60_000));
    for (let count = 0; count < 14; count++) socket.write(frame(0x00, 60_000));
    socket.write(frame(0x80, 60_000));
    await until(() => accepted[0]?.receivedBytes === 16 * 60_000, "all of it");
  });
});

describe("web pages", () => {
  it("DNS rebinding: a page whose name was made to mean our address is refused though its origin is the host it connects to", async () => {
    const { port } = await listen();
    const headAs = async (host: string) => (await upgrade(port, `Host: ${host}\r\nOrigin: http://${host}\r\n`)).head;
    for (const host of ["rebound.example:7070", "127.0.0.1.rebound.example", "203.0.113.7:7070"])
      expect([host, (await headAs(host)).slice(0, 13)]).toEqual([host, "HTTP/1.1 403 "]);
    for (const host of ["localhost:7070", "127.0.0.1:7070", "[::1]:7070"])
      expect([host, (await headAs(host)).slice(0, 13)]).toEqual([host, "HTTP/1.1 101 "]);
  });
});
