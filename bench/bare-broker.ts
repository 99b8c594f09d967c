// What no broker behind `ws` can be faster than on this machine: a server without a protocol, a log or followers, which answers each message with 16
// bytes, and a client that sends messages made beforehand, 50 in flight. "kept": it also does what any log must once: a CRC-32C of the bytes, and a write.
import { fork } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, writeSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { WebSocket, WebSocketServer } from "ws";
import { createChecksum } from "../src/platform/checksum.ts";
import { killed } from "./broker-process.ts";
import { withTemporaryDirectory } from "./harness.ts";

const IN_FLIGHT = 50;
const ANSWER = new Uint8Array(16);

export type BareKind = "heard" | "kept";

/** As figures call them. */
export const BARE_NAMES: Readonly<Record<BareKind, string>> = {
  heard: "bare server: messages heard and answered",
  kept: "bare server: with a CRC and one write",
};

/** Megabytes (10^6) per second, from the first message to the last answer. */
export function bareBroker(kind: BareKind, messageBytes: number, totalBytes: number): Promise<number> {
  return withTemporaryDirectory(async (directory) => {
    const child = fork(import.meta.filename, [kind, join(directory, "kept")], { execArgv: ["--import", "tsx"] });
    try {
      const died = once(child, "exit").then(([code]) => Promise.reject(new Error(`the server ended with ${code}`)));
      const [port] = (await Promise.race([once(child, "message"), died])) as [number];
      return await Promise.race([load(port, messageBytes, Math.ceil(totalBytes / messageBytes)), died]);
    } finally {
      await killed(child);
    }
  });
}

async function load(port: number, messageBytes: number, messages: number): Promise<number> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}`, {
    perMessageDeflate: false,
    generateMask: (mask) => void mask.fill(0),
  });
  await once(socket, "open");
  const message = new Uint8Array(messageBytes).map((_, at) => (at * 131) & 0xff);
  let sent = 0;
  let answered = 0;
  const startedAt = performance.now();
  await new Promise<void>((resolve) => {
    const send = (): void => {
      for (; sent < messages && sent - answered < IN_FLIGHT; sent++) socket.send(message);
    };
    socket.on("message", () => {
      if (++answered === messages) resolve();
      else send();
    });
    send();
  });
  const elapsedMs = performance.now() - startedAt;
  socket.terminate();
  return (messages * messageBytes) / 1000 / elapsedMs;
}

function serve(kind: BareKind, path: string): void {
  const checksum = createChecksum();
  const fd = kind === "kept" ? openSync(path, "w") : undefined;
  const server = new WebSocketServer({ host: "127.0.0.1", port: 0, perMessageDeflate: false });
  server.on("connection", (socket) => {
    socket.on("message", (data: Buffer) => {
      if (fd !== undefined) {
        checksum.crc32c(data);
        writeSync(fd, data);
      }
      socket.send(ANSWER);
    });
    socket.on("close", () => fd !== undefined && closeSync(fd));
  });
  server.on("listening", () => process.send?.((server.address() as AddressInfo).port));
}

if (process.send !== undefined && process.argv[1] === import.meta.filename)
  serve(process.argv[2] as BareKind, process.argv[3] as string);
