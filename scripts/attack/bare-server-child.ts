// The server of bare-server.ts. While a sync is under way, what arrives waits for the next one, and shares it.
//
// Its argument is the path of its file. Child -> parent: its port.
import { fdatasync, fsyncSync, openSync, writeSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { type WebSocket, WebSocketServer } from "ws";

/** Written in full before, so that no sync has to record a new length or new blocks. */
const FILE_BYTES = 64 * 1024 * 1024;
const ANSWER = new Uint8Array(16);

interface Arrived {
  readonly socket: WebSocket;
  readonly data: Buffer;
}

class BareLog {
  readonly #fd: number;
  #position = 0;
  #waiting: Arrived[] = [];
  #isSyncing = false;

  constructor(path: string) {
    this.#fd = openSync(path, "w");
    const zeros = new Uint8Array(1024 * 1024);
    for (let at = 0; at < FILE_BYTES; at += zeros.length) writeSync(this.#fd, zeros, 0, zeros.length, at);
    fsyncSync(this.#fd);
  }

  take(arrived: Arrived): void {
    this.#waiting.push(arrived);
    this.#syncNext();
  }

  #syncNext(): void {
    if (this.#isSyncing || this.#waiting.length === 0) return;
    this.#isSyncing = true;
    const group = this.#waiting;
    this.#waiting = [];
    for (const { data } of group) this.#write(data);
    fdatasync(this.#fd, (error) => {
      if (error !== null) throw error;
      this.#isSyncing = false;
      for (const { socket } of group) socket.send(ANSWER);
      this.#syncNext();
    });
  }

  #write(data: Buffer): void {
    if (this.#position + data.length > FILE_BYTES) this.#position = 0;
    writeSync(this.#fd, data, 0, data.length, this.#position);
    this.#position += data.length;
  }
}

const log = new BareLog(process.argv[2] ?? "");
const server = new WebSocketServer({ host: "127.0.0.1", port: 0, perMessageDeflate: false });
server.on("connection", (socket) => {
  socket.on("message", (data: Buffer) => log.take({ socket, data }));
  socket.on("error", () => socket.terminate());
});
server.on("listening", () => process.send?.((server.address() as AddressInfo).port));
process.on("disconnect", () => process.exit());
