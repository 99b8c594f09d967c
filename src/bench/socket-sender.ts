// The other end of the raw socket measurement, a process of its own: sends that many bytes to that port, 64 KiB a write.
import { randomFillSync } from "node:crypto";
import { connect } from "node:net";

const CHUNK_BYTES = 64 * 1024;
const [port, totalBytes] = process.argv.slice(2).map(Number) as [number, number];
const chunk = randomFillSync(Buffer.alloc(CHUNK_BYTES));
const socket = connect(port, "127.0.0.1");
let sentBytes = 0;

function send(): void {
  while (sentBytes < totalBytes) {
    sentBytes += CHUNK_BYTES;
    if (!socket.write(chunk)) return void socket.once("drain", send);
  }
  socket.end();
}

socket.once("connect", send);
