// Ports that nobody listens on now. Another program may take one before it is used; then its node says so. They are drawn below those that systems give
// to whoever names none (from 32768 on Linux, 49152 elsewhere): such a one could be anybody's the moment after.
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:net";

const FIRST = 20_000;
/** Exclusive. */
const END = 32_768;
const TRIES_MAX = 1_000;

export async function drawFreePorts(count: number): Promise<number[]> {
  const held = new Map<number, Server>();
  try {
    for (let tries = 1; held.size < count; tries++) {
      const port = randomInt(FIRST, END);
      try {
        if (!held.has(port)) held.set(port, await listening(port));
      } catch (thrown) {
        if (tries >= TRIES_MAX) throw thrown;
      }
    }
    return [...held.keys()];
  } finally {
    for (const server of held.values()) server.close();
  }
}

async function listening(port: number): Promise<Server> {
  const server = createServer().listen(port, "127.0.0.1");
  await once(server, "listening");
  return server;
}
