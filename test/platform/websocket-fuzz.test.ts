// D-27: the real framing under seeded garbage. Whatever arrives on the port, the process lives and a neighbour notices nothing.
import { connect as connectTcp } from "node:net";
import { expect, it } from "vitest";
import { createRng } from "../../src/base/rng.ts";
import type { Rng } from "../../src/base/rng.ts";
import { createWebSocketTransport } from "../../src/platform/websocket.ts";
import type { MessageConnection } from "../../src/ports/transport.ts";

const UPGRADE = Buffer.from(
  "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: ottla.1\r\n\r\n",
);

/** A masked frame, perhaps with a wrong opcode, length, reserved bit, mask bit, or a payload that is cut. */
function frame(rng: Rng): Buffer {
  const payload = Buffer.alloc(rng.below(300));
  rng.fill(payload);
  const first = rng.chance(0.5) ? 0x82 : rng.below(256);
  const maskBit = rng.chance(0.9) ? 0x80 : 0;
  const stated = rng.chance(0.8) ? payload.length : rng.below(2 ** 31);
  const head =
    stated < 126
      ? [first, maskBit | stated]
      : stated < 65_536
        ? [first, maskBit | 126, stated >> 8, stated & 0xff]
        : undefined;
  const long = Buffer.alloc(10);
  long[0] = first;
  long[1] = maskBit | 127;
  long.writeBigUInt64BE(BigInt(stated), 2);
  return Buffer.concat([head === undefined ? long : Buffer.from(head), Buffer.from([1, 2, 3, 4]), payload]);
}

function attack(rng: Rng): Buffer {
  const upgrade = Buffer.from(UPGRADE);
  if (rng.chance(0.3)) upgrade[rng.below(upgrade.length)] = rng.below(256);
  const frames = Array.from({ length: rng.between(1, 4) }, () => frame(rng));
  return Buffer.concat(rng.chance(0.1) ? frames : [upgrade, ...frames]);
}

/** Sends the bytes and the end; resolves when the other side has let go. */
function strike(port: number, bytes: Buffer): Promise<void> {
  return new Promise((resolve) => {
    const socket = connectTcp(port, "127.0.0.1", () => socket.end(bytes));
    socket.on("error", () => {});
    socket.on("close", () => resolve());
    socket.resume();
  });
}

it("D-27: 400 seeded attacks on the port: every connection ends, a neighbour's echo goes on", async () => {
  const opened: string[] = [];
  const closed: string[] = [];
  const transport = createWebSocketTransport({ maxMessageBytes: 100_000 });
  const listener = await transport.listen("127.0.0.1:0", (connection) => {
    opened.push(connection.remote);
    connection.start({
      onReceive: (message) => connection.send([message]),
      onClose: () => closed.push(connection.remote),
      onDrain: () => {},
    });
  });
  const neighbour: MessageConnection = await transport.connect(listener.address);
  let onEcho: (message: Uint8Array) => void = () => {};
  let neighbourClosed = "";
  neighbour.start({
    onReceive: (message) => onEcho(message),
    onClose: (reason) => {
      neighbourClosed = reason;
    },
    onDrain: () => {},
  });
  const port = Number(listener.address.split(":").at(-1));
  const rng = createRng(20_261_129);
  for (let round = 0; round < 20; round++) {
    const strikes = Array.from({ length: 20 }, () => strike(port, attack(rng)));
    const echo = new Promise<Uint8Array>((resolve) => {
      onEcho = resolve;
    });
    neighbour.send([Uint8Array.of(round, 1, 2)]);
    expect([...(await echo)]).toEqual([round, 1, 2]);
    await Promise.all(strikes);
  }
  // Most attacks get past the handshake, so the framing itself is under attack; the neighbour alone is still open.
  expect(opened.length).toBeGreaterThan(200);
  expect(closed.length).toBe(opened.length - 1);
  expect(neighbourClosed).toBe("");
  neighbour.destroy();
  await listener.close();
});
