// Ports that nobody listens on now. Another program may take one before it is used; then its node says so.
import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";

export async function drawFreePorts(count: number): Promise<number[]> {
  const servers: Server[] = [];
  try {
    for (let index = 0; index < count; index++) {
      const server = createServer().listen(0, "127.0.0.1");
      servers.push(server);
      await once(server, "listening");
    }
    return servers.map((server) => (server.address() as AddressInfo).port);
  } finally {
    for (const server of servers) server.close();
  }
}
