// What readers of old records cost one who reads the newest behind `ws` on this machine, without Ottla: a server that reads its file in pieces of 1 MiB
// beside its loop, takes their CRC-32C and sends one of them in a turn of the loop, and that writes, syncs and passes on each message of a producer.
// The readers take a pass over what they get that costs about what decoding does. As few processes as the broker's figure has, on the same cores.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { closeSync, fdatasync, openSync, read, writeSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { WebSocket, WebSocketServer } from "ws";
import { crc32cJs } from "../src/base/crc32c.ts";
import { createChecksum } from "../src/platform/checksum.ts";
import { killed } from "./broker-process.ts";
import { withTemporaryDirectory } from "./harness.ts";

const PIECE_BYTES = 1024 * 1024;
const READS_MAX = 4;
const MASK = { perMessageDeflate: false, generateMask: (mask: Buffer) => void mask.fill(0) };

export interface TailLoad {
  readonly readers: number;
  readonly coldBytes: number;
  readonly durationMs: number;
  /** Messages a second. */
  readonly rate: number;
}

/** Milliseconds from the send to the arrival at the one who reads the newest, of each message. */
export function bareTail(of: TailLoad): Promise<number[]> {
  return withTemporaryDirectory(async (directory) => {
    const server = child(["serve", join(directory, "log"), String(of.coldBytes)]);
    const processes = [server];
    try {
      const [port] = (await told(server)) as [number];
      if (of.readers > 0) {
        const readers = child(["read", String(port), String(of.readers)]);
        processes.push(readers);
        await told(readers);
      }
      return await tail(port, of);
    } finally {
      await Promise.all(processes.map(killed));
    }
  });
}

const child = (args: readonly string[]): ChildProcess =>
  fork(import.meta.filename, args, { execArgv: ["--import", "tsx"] });

function told(process: ChildProcess): Promise<unknown[]> {
  const died = once(process, "exit").then(([code]) => Promise.reject(new Error(`a process ended with ${code}`)));
  return Promise.race([once(process, "message"), died]);
}

async function opened(port: number | string): Promise<WebSocket> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}`, MASK);
  await once(socket, "open");
  return socket;
}

async function tail(port: number, { durationMs, rate }: TailLoad): Promise<number[]> {
  const consumer = await opened(port);
  const producer = await opened(port);
  const samples: number[] = [];
  consumer.on("message", (data: Buffer) => void samples.push(performance.now() - data.readDoubleLE(1)));
  consumer.send("tail");
  const startedAt = performance.now();
  let sent = 0;
  for (; performance.now() - startedAt < durationMs; sent++) {
    const waitMs = startedAt + (sent * 1000) / rate - performance.now();
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
    const message = Buffer.alloc(100, "p");
    message.writeDoubleLE(performance.now(), 1);
    producer.send(message);
  }
  while (samples.length < sent) await new Promise((resolve) => setTimeout(resolve, 10));
  consumer.terminate();
  producer.terminate();
  return samples;
}

/** Resolves when it has read something; goes on. */
async function readOver(port: string): Promise<void> {
  const socket = await opened(port);
  socket.on("message", (data: Buffer) => {
    crc32cJs(data);
    socket.send("cold");
  });
  socket.send("cold");
  await once(socket, "message");
}

interface Reading {
  readonly socket: WebSocket;
  position: number;
}

class BareServer {
  readonly #checksum = createChecksum();
  readonly #coldFile: number;
  readonly #coldBytes: number;
  readonly #waiting: Reading[] = [];
  readonly #arrived: (() => void)[] = [];
  readonly #free: Uint8Array<ArrayBuffer>[] = Array.from({ length: READS_MAX }, () => new Uint8Array(PIECE_BYTES));
  readonly #logFile: number;
  #unsynced: { readonly socket: WebSocket; readonly data: Buffer }[] = [];
  #isSyncing = false;
  #consumer: WebSocket | undefined;

  constructor(path: string, coldBytes: number) {
    this.#logFile = openSync(path, "w");
    this.#coldBytes = coldBytes - (coldBytes % PIECE_BYTES);
    const file = openSync(`${path}.cold`, "w");
    const piece = new Uint8Array(PIECE_BYTES).map((_, at) => (at * 131) & 0xff);
    for (let at = 0; at < this.#coldBytes; at += PIECE_BYTES) writeSync(file, piece);
    closeSync(file);
    this.#coldFile = openSync(`${path}.cold`, "r");
  }

  take(reading: Reading, data: Buffer): void {
    const { socket } = reading;
    const kind = data[0];
    if (kind === 0x63) this.#waiting.push(reading);
    else if (kind === 0x74) this.#consumer = socket;
    else this.#unsynced.push({ socket, data });
    this.#readNext();
    this.#syncNext();
  }

  #readNext(): void {
    while (this.#waiting.length > 0 && this.#free.length > 0) {
      const reading = this.#waiting.shift() as Reading;
      const buffer = this.#free.pop() as Uint8Array<ArrayBuffer>;
      read(this.#coldFile, buffer, 0, PIECE_BYTES, reading.position, () => {
        this.#arrived.push(() => {
          this.#checksum.crc32c(buffer);
          reading.socket.send(buffer, () => {
            this.#free.push(buffer);
            this.#readNext();
          });
        });
        if (this.#arrived.length === 1) setImmediate(() => this.#turn());
      });
      reading.position = (reading.position + PIECE_BYTES) % this.#coldBytes;
    }
  }

  #turn(): void {
    this.#arrived[0]?.();
    this.#arrived.shift();
    if (this.#arrived.length > 0) setImmediate(() => this.#turn());
  }

  #syncNext(): void {
    if (this.#isSyncing || this.#unsynced.length === 0) return;
    this.#isSyncing = true;
    const group = this.#unsynced;
    this.#unsynced = [];
    for (const { data } of group) writeSync(this.#logFile, data);
    fdatasync(this.#logFile, () => {
      this.#isSyncing = false;
      for (const { socket, data } of group) {
        socket.send("done");
        this.#consumer?.send(data);
      }
      this.#syncNext();
    });
  }
}

function serve(path: string, coldBytes: number): void {
  const bare = new BareServer(path, coldBytes);
  const server = new WebSocketServer({ host: "127.0.0.1", port: 0, perMessageDeflate: false });
  server.on("connection", (socket) => {
    const reading = { socket, position: 0 };
    socket.on("message", (data: Buffer) => bare.take(reading, data));
    socket.on("error", () => socket.terminate());
  });
  server.on("listening", () => process.send?.((server.address() as AddressInfo).port));
}

if (process.send !== undefined && process.argv[1] === import.meta.filename) {
  const [, , kind, where = "", count = "0"] = process.argv;
  process.on("disconnect", () => process.exit(0));
  if (kind === "serve") serve(where, Number(count));
  else {
    await Promise.all(Array.from({ length: Number(count) }, () => readOver(where)));
    process.send("ready");
  }
}
