// Proxies in threads of their own: each order is in force when it resolves, and what it did can be asked.
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { describe, expect, it, vi } from "vitest";
import { openProxies } from "../../../src/chaos/faults/proxy-place.ts";

const SOON = { timeout: 30_000 };

describe("openProxies", () => {
  it("puts each node behind one that obeys at once, and ends with close()", async () => {
    const place = await openProxies([1, 2]);
    const node = place.nodes.get(2);
    const [host, nodePort] = node?.listeners.split(":") ?? [];
    const [, port] = node?.advertised.split(":") ?? [];
    const server = createServer((socket) => void socket.pipe(socket)).listen(Number(nodePort), host);
    await once(server, "listening");
    const client: Socket = connect(Number(port), host);
    const heard: Buffer[] = [];
    client.on("data", (piece: Buffer) => void heard.push(piece)).on("error", () => undefined);
    client.write("a");
    await vi.waitFor(() => expect(heard.join("")).toBe("a"), SOON);
    await node?.proxy?.set({ kind: "stall", direction: "from node" });
    client.write("b");
    await vi.waitFor(() => expect(node?.proxy?.counts).toMatchObject({ bytesToNode: 2, stalled: 1 }), SOON);
    expect(heard.join("")).toBe("a");
    await node?.proxy?.set(undefined);
    await vi.waitFor(() => expect(heard.join("")).toBe("ab"), SOON);
    expect(place.nodes.get(1)?.proxy?.counts.connections).toBe(0);
    await place.close();
    if (!client.destroyed) await once(client, "close");
    server.close();
    await expect(once(connect(Number(port), host), "connect")).rejects.toMatchObject({ code: "ECONNREFUSED" });
  });
});
