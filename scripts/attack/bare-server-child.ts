// The server of bare-server.ts. While a sync is under way, what arrives waits for the next one, and shares it.
//
// Its arguments: the path of its file, and the directory of those that get the same again behind the answers, if there are any. Child -> parent: its port.
import { closeSync, fdatasync, fsyncSync, openSync, unlinkSync, write, writeSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { type WebSocket, WebSocketServer } from "ws";

/** Written in full before, so that no sync has to record a new length or new blocks. */
const FILE_BYTES = 64 * 1024 * 1024;
const ANSWER = new Uint8Array(16);
/** Of what lies behind the answers: as the storage has them, whose segments grow. */
const BEHIND = { fileBytes: FILE_BYTES, syncBytes: 1024 * 1024, waitingBytes: 32 * 1024 * 1024 } as const;

interface Arrived {
  readonly socket: WebSocket;
  readonly data: Buffer;
}

const writeTo = promisify(write);
const syncData = promisify(fdatasync);

/** Files that grow, one after the other; two are kept. */
class Behind {
  readonly #directory: string;
  readonly #onRoom: () => void;
  #last: Promise<void> = Promise.resolve();
  #waitingBytes = 0;
  #files = 0;
  #fd = -1;
  #position = BEHIND.fileBytes;
  #unsyncedBytes = 0;

  constructor(directory: string, onRoom: () => void) {
    this.#directory = directory;
    this.#onRoom = onRoom;
  }

  get hasRoom(): boolean {
    return this.#waitingBytes < BEHIND.waitingBytes;
  }

  take(data: Buffer): void {
    this.#waitingBytes += data.length;
    this.#last = this.#last.then(() => this.#append(data));
  }

  async #append(data: Buffer): Promise<void> {
    if (this.#position >= BEHIND.fileBytes) this.#openNext();
    await writeTo(this.#fd, data, 0, data.length, this.#position);
    this.#position += data.length;
    this.#unsyncedBytes += data.length;
    if (this.#unsyncedBytes >= BEHIND.syncBytes) {
      this.#unsyncedBytes = 0;
      await syncData(this.#fd);
    }
    this.#waitingBytes -= data.length;
    this.#onRoom();
  }

  #openNext(): void {
    const pathOf = (number: number): string => join(this.#directory, `behind-${number}`);
    if (this.#fd >= 0) closeSync(this.#fd);
    if (this.#files >= 2) unlinkSync(pathOf(this.#files - 2));
    this.#fd = openSync(pathOf(this.#files++), "wx");
    this.#position = 0;
  }
}

class BareLog {
  readonly #fd: number;
  readonly #behind: Behind | undefined;
  #position = 0;
  #waiting: Arrived[] = [];
  #isSyncing = false;

  constructor(path: string, behind: string | undefined) {
    if (behind !== undefined) this.#behind = new Behind(behind, () => this.#syncNext());
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
    if (this.#isSyncing || this.#waiting.length === 0 || this.#behind?.hasRoom === false) return;
    this.#isSyncing = true;
    const group = this.#waiting;
    this.#waiting = [];
    for (const { data } of group) this.#write(data);
    fdatasync(this.#fd, (error) => {
      if (error !== null) throw error;
      this.#isSyncing = false;
      for (const { socket, data } of group) {
        socket.send(ANSWER);
        this.#behind?.take(data);
      }
      this.#syncNext();
    });
  }

  #write(data: Buffer): void {
    if (this.#position + data.length > FILE_BYTES) this.#position = 0;
    writeSync(this.#fd, data, 0, data.length, this.#position);
    this.#position += data.length;
  }
}

const [path = "", behind] = process.argv.slice(2);
const log = new BareLog(path, behind);
const server = new WebSocketServer({ host: "127.0.0.1", port: 0, perMessageDeflate: false });
server.on("connection", (socket) => {
  socket.on("message", (data: Buffer) => log.take({ socket, data }));
  socket.on("error", () => socket.terminate());
});
server.on("listening", () => process.send?.((server.address() as AddressInfo).port));
process.on("disconnect", () => process.exit());
