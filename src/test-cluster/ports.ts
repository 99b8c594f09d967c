// Ports for nodes that must find theirs free again after a kill: below those that systems hand out by themselves (from 32,768 on Linux), so that no
// outgoing connection and nobody who asks for "any port" takes one meanwhile.
import { once } from "node:events";
import { createServer } from "node:net";
import { randomInt } from "node:crypto";

const FIRST = 15_000;
const LAST = 32_700;
const TRIES_MAX = 1_000;

export const HOST = "127.0.0.1";

export async function drawPorts(count: number): Promise<number[]> {
  const ports = new Set<number>();
  for (let tries = 0; ports.size < count && tries < TRIES_MAX; tries++) {
    const port = randomInt(FIRST, LAST + 1);
    if (!ports.has(port) && (await isFree(port))) ports.add(port);
  }
  return [...ports];
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    server.listen(port, HOST);
    await once(server, "listening");
    return true;
  } catch {
    return false;
  } finally {
    server.close();
  }
}
