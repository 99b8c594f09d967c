// The other end of the raw socket measurement, a process of its own: sends that many bytes to that port, 64 KiB a write.
import { randomFillSync } from "node:crypto";
import { connect, type Socket } from "node:net";

const CHUNK_BYTES = 64 * 1024;

function send(socket: Socket, chunk: Buffer, totalBytes: number): void {
  let leftBytes = totalBytes;
  while (leftBytes > 0) {
    leftBytes -= CHUNK_BYTES;
    if (!socket.write(chunk)) return void socket.once("drain", () => send(socket, chunk, leftBytes));
  }
  socket.end();
}

const [port, totalBytes] = process.argv.slice(2).map(Number) as [number, number];
const socket = connect(port, "127.0.0.1");
socket.once("connect", () => send(socket, randomFillSync(Buffer.alloc(CHUNK_BYTES)), totalBytes));
