// What the machine does without Ottla: appending to a file, and one TCP connection between two processes. The ratio to these is what can be
// compared between machines.
import { fork } from "node:child_process";
import { closeSync, openSync, unlinkSync, writeSync } from "node:fs";
import { randomFillSync } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { entryPoint } from "../platform/package-files.ts";
import type { Limits } from "./result.ts";

const CHUNK_BYTES = 64 * 1024;
const SOCKET_TIMEOUT_MS = 60_000;

/** Megabytes (10^6) per second of `writeSync` of 64 KiB to a new file, which is removed; nothing is synced. */
export function rawAppend(directory: string, totalBytes: number): number {
  const path = join(directory, "raw-append.bin");
  const chunk = randomFillSync(Buffer.alloc(CHUNK_BYTES));
  const file = openSync(path, "wx");
  try {
    const startedAt = performance.now();
    let position = 0;
    for (; position < totalBytes; position += CHUNK_BYTES) writeSync(file, chunk, 0, CHUNK_BYTES, position);
    return position / 1000 / (performance.now() - startedAt);
  } finally {
    closeSync(file);
    unlinkSync(path);
  }
}

/** Megabytes per second that another process sends to this one, 64 KiB a write, from the first byte to the last. */
export async function rawSocket(totalBytes: number): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const sender = fork(entryPoint("bench/socket-sender"), [String(port), String(totalBytes)], { stdio: "ignore" });
  const signal = AbortSignal.timeout(SOCKET_TIMEOUT_MS);
  try {
    const [socket] = (await once(server, "connection", { signal })) as [Socket];
    return await rateOf(socket, signal);
  } finally {
    sender.kill("SIGKILL");
    server.close();
  }
}

async function rateOf(socket: Socket, signal: AbortSignal): Promise<number> {
  let bytes = 0;
  let startedAt: number | undefined;
  socket.on("data", (chunk: Buffer) => {
    startedAt ??= performance.now();
    bytes += chunk.length;
  });
  await once(socket, "end", { signal });
  return bytes / 1000 / (performance.now() - (startedAt ?? 0));
}

export async function measureLimits(directory: string, totalBytes: number): Promise<Limits> {
  return { rawDiskMBs: rawAppend(directory, totalBytes), rawSocketMBs: await rawSocket(totalBytes) };
}

const mean = (one: number | null, other: number | null) => (one === null || other === null ? null : (one + other) / 2);

export function meanLimits(before: Limits, after: Limits): Limits {
  return {
    rawDiskMBs: mean(before.rawDiskMBs, after.rawDiskMBs),
    rawSocketMBs: mean(before.rawSocketMBs, after.rawSocketMBs),
  };
}

/** By how much the second differs from the first, the larger of both: 0.2 is 20 %. */
export function driftOf(before: Limits, after: Limits): number {
  const drift = (one: number | null, other: number | null) =>
    one === null || other === null ? 0 : Math.abs(other / one - 1);
  return Math.max(drift(before.rawDiskMBs, after.rawDiskMBs), drift(before.rawSocketMBs, after.rawSocketMBs));
}
