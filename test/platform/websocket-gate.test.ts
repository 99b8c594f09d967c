// The gate that a paused node's transport holds: what waits there may be gone before it opens.
import { connect as connectTcp } from "node:net";
import { expect, it, vi } from "vitest";
import { createWebSocketTransport } from "../../src/platform/websocket.ts";
import type { MessageConnection } from "../../src/ports/transport.ts";

const UPGRADE = [
  "GET / HTTP/1.1",
  "Host: 127.0.0.1",
  "Upgrade: websocket",
  "Connection: Upgrade",
  "Sec-WebSocket-Version: 13",
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
  "Sec-WebSocket-Protocol: ottla.1",
];

const SOON = { timeout: 30_000 };

it("a peer that is reset while it waits ends nothing, and is no connection when the gate opens", async () => {
  const waiting: (() => void)[] = [];
  const gate = { isHeld: true, run: (work: () => void) => void waiting.push(work) };
  const accepted: MessageConnection[] = [];
  const transport = createWebSocketTransport({ gate });
  const listener = await transport.listen("127.0.0.1:0", (connection) => {
    accepted.push(connection);
    connection.start({ onReceive: () => {}, onClose: () => {}, onDrain: () => {} });
  });
  const uncaught: Error[] = [];
  const collect = (error: Error) => void uncaught.push(error);
  const others = process.listeners("uncaughtException");
  process.removeAllListeners("uncaughtException").on("uncaughtException", collect);
  try {
    const peer = connectTcp(Number(listener.address.split(":").at(-1)), "127.0.0.1").on("error", () => undefined);
    peer.write(`${UPGRADE.join("\r\n")}\r\n\r\n`);
    await vi.waitUntil(() => waiting.length === 1, SOON);
    peer.resetAndDestroy();
    const next = createWebSocketTransport().connect(listener.address);
    await vi.waitUntil(() => waiting.length === 2, SOON);
    for (const work of waiting.splice(0)) work();
    const connection = await next;
    expect(accepted).toHaveLength(1);
    expect(uncaught).toEqual([]);
    connection.destroy();
  } finally {
    process.removeListener("uncaughtException", collect);
    for (const other of others) process.on("uncaughtException", other);
    for (const connection of accepted) connection.destroy();
    await listener.close();
  }
});
