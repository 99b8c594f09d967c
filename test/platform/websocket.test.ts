// The WebSocket transport over real loopback sockets.
import { spawn } from "node:child_process";
import { IncomingMessage } from "node:http";
import { connect as connectTcp, createServer } from "node:net";
import type { Socket } from "node:net";
import { queryObjects } from "node:v8";
import { afterEach, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { createWebSocketTransport, isBufferutilLoaded } from "../../src/platform/websocket.ts";
import type { WebSocketTransportOptions } from "../../src/platform/websocket.ts";
import { clipUtf8 } from "../../src/platform/websocket-connection.ts";
import { TransportError } from "../../src/ports/transport.ts";
import type { Listener, MessageConnection } from "../../src/ports/transport.ts";

interface Peer {
  readonly connection: MessageConnection;
  readonly received: Uint8Array[];
  readonly closed: Promise<string>;
  closeReason: string | undefined;
  drains: number;
  unsentBytesAtDrain: number;
  receivedBytes: number;
}

const cleanups: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

function watch(connection: MessageConnection, keep = true): Peer {
  let onClosed: (reason: string) => void = () => {};
  const closed = new Promise<string>((resolve) => {
    onClosed = resolve;
  });
  const peer: Peer = {
    connection,
    received: [],
    closed,
    closeReason: undefined,
    drains: 0,
    unsentBytesAtDrain: -1,
    receivedBytes: 0,
  };
  connection.start({
    onReceive(message) {
      peer.receivedBytes += message.length;
      if (keep) peer.received.push(message);
    },
    onClose(reason) {
      expect(peer.closeReason).toBeUndefined();
      peer.closeReason = reason;
      onClosed(reason);
    },
    onDrain() {
      peer.drains++;
      peer.unsentBytesAtDrain = connection.unsentBytes;
    },
  });
  cleanups.push(() => connection.destroy());
  return peer;
}

interface Ground {
  readonly listener: Listener;
  readonly port: number;
  readonly accepted: Peer[];
  readonly dropped: string[];
}

async function listen(options: WebSocketTransportOptions = {}, onAccept?: (peer: Peer) => void): Promise<Ground> {
  const accepted: Peer[] = [];
  const dropped: string[] = [];
  const transport = createWebSocketTransport({ onDropped: (_remote, reason) => dropped.push(reason), ...options });
  const listener = await transport.listen("127.0.0.1:0", (connection) => {
    const peer = watch(connection);
    accepted.push(peer);
    onAccept?.(peer);
  });
  cleanups.push(() => listener.close());
  return { listener, port: Number(listener.address.split(":").at(-1)), accepted, dropped };
}

async function connect(address: string, options: WebSocketTransportOptions = {}): Promise<Peer> {
  return watch(await createWebSocketTransport(options).connect(address));
}

async function until(condition: () => boolean, what: string): Promise<void> {
  const deadline = performance.now() + 30_000;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`never: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

async function kindOf(attempt: Promise<unknown>): Promise<string> {
  const error = await attempt.then(
    () => new Error("no error"),
    (reason: unknown) => reason,
  );
  return error instanceof TransportError ? error.kind : String(error);
}

/** What the port answers to these bytes, until it closes. */
function rawExchange(port: number, bytes: Uint8Array | string): Promise<string> {
  return new Promise((resolve) => {
    let answer = "";
    const socket = connectTcp(port, "127.0.0.1", () => socket.write(bytes));
    socket.setEncoding("latin1");
    socket.on("data", (chunk: string) => {
      answer += chunk;
    });
    socket.on("error", () => {});
    socket.on("close", () => resolve(answer));
  });
}

function pattern(length: number, seed: number): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let index = 0; index < length; index++) bytes[index] = (index * 31 + (index >> 8) + seed) & 0xff;
  return bytes;
}

/** Those that the collector cannot take. */
const requestsInMemory = (): number => queryObjects(IncomingMessage, { format: "count" });

it("a connection does not keep its upgrade request", async () => {
  const ground = await listen();
  const before = requestsInMemory();
  for (let count = 0; count < 20; count++) await connect(ground.listener.address);
  await until(() => ground.accepted.length === 20, "all accepted");
  await until(() => requestsInMemory() <= before + 2, "their requests are gone");
});

describe("messages", () => {
  it("D-27: go both ways whole and in order, the empty one and large ones included", async () => {
    const ground = await listen();
    const client = await connect(ground.listener.address);
    const messages = [0, 1, 125, 126, 65_535, 65_536, 3_000_000].map((length, index) => pattern(length, index));
    client.connection.send(messages);
    await until(() => ground.accepted[0]?.received.length === messages.length, "all received");
    const server = ground.accepted[0] as Peer;
    for (const [index, message] of messages.entries())
      expect(Buffer.compare(server.received[index] as Uint8Array, message)).toBe(0);
    server.connection.send(server.received);
    await until(() => client.received.length === messages.length, "all echoed");
    for (const [index, message] of messages.entries())
      expect(Buffer.compare(client.received[index] as Uint8Array, message)).toBe(0);
    expect(client.received[3]?.constructor).toBe(Uint8Array);
  });

  it("stay what they were when masking is zero", async () => {
    const ground = await listen();
    const client = await connect(ground.listener.address, { masking: "zero" });
    const message = pattern(70_000, 5);
    client.connection.send([message]);
    await until(() => ground.accepted[0]?.received.length === 1, "received");
    expect(Buffer.compare(ground.accepted[0]?.received[0] as Uint8Array, message)).toBe(0);
  });

  it("are not changed in the sender's memory by masking", async () => {
    const ground = await listen();
    const client = await connect(ground.listener.address);
    const message = pattern(100_000, 9);
    client.connection.send([message]);
    await until(() => ground.accepted[0]?.receivedBytes === 100_000, "received");
    expect(Buffer.compare(message, pattern(100_000, 9))).toBe(0);
  });

  it("sent by the server in the turn of the connection are not lost before the client starts", async () => {
    const ground = await listen({}, (peer) => peer.connection.send([Uint8Array.of(1), Uint8Array.of(2)]));
    const connection = await createWebSocketTransport().connect(ground.listener.address);
    await Promise.resolve();
    const client = watch(connection);
    await until(() => client.received.length === 2, "greeting");
    expect(client.received.map((message) => message[0])).toEqual([1, 2]);
  });

  it("longer than the limit close the connection with FRAME_TOO_LARGE, a neighbour is untouched", async () => {
    const ground = await listen({ maxMessageBytes: 1000 });
    const neighbour = await connect(ground.listener.address);
    const client = await connect(ground.listener.address);
    client.connection.send([new Uint8Array(1001)]);
    expect(await client.closed).toContain("FRAME_TOO_LARGE");
    expect(await (ground.accepted[1] as Peer).closed).toContain("FRAME_TOO_LARGE");
    neighbour.connection.send([new Uint8Array(1000)]);
    await until(() => ground.accepted[0]?.receivedBytes === 1000, "neighbour's message");
    expect(ground.accepted[1]?.receivedBytes).toBe(0);
  });

  it("of text close the connection with 1003", async () => {
    const ground = await listen();
    const webSocket = new WebSocket(`ws://${ground.listener.address}`, ["ottla.1"]);
    const code = await new Promise<number>((resolve) => {
      webSocket.on("open", () => webSocket.send("hello"));
      webSocket.on("close", resolve);
    });
    expect(code).toBe(1003);
    expect(ground.accepted[0]?.received).toEqual([]);
  });
});

describe("back-pressure", () => {
  it("a paused receiver makes the sender's bytes pile up; resume lets them go and reports the drain", async () => {
    const ground = await listen({}, (peer) => peer.connection.pause());
    const client = await connect(ground.listener.address, { unsentBytesMax: 8 * 1024 * 1024 });
    const message = new Uint8Array(1024 * 1024);
    // In two turns: two writes to the operating system, the second waiting for the first.
    for (let count = 0; count < 16; count++) client.connection.send([message]);
    await new Promise((resolve) => setTimeout(resolve, 10));
    for (let count = 0; count < 16; count++) client.connection.send([message]);
    expect(client.connection.unsentBytes).toBeGreaterThan(31 * 1024 * 1024);
    await until(() => ground.accepted.length === 1, "accepted");
    // Kernel buffers take some; a round trip on another connection shows that the loops have run meanwhile.
    const other = await connect(ground.listener.address);
    await until(() => ground.accepted.length === 2, "second");
    expect(client.connection.unsentBytes).toBeGreaterThan(16 * 1024 * 1024);
    expect(client.drains).toBe(0);
    const server = ground.accepted[0] as Peer;
    expect(server.receivedBytes).toBeLessThan(8 * 1024 * 1024);
    server.connection.resume();
    await until(() => server.receivedBytes === 32 * 1024 * 1024, "all arrived");
    await until(() => client.drains > 0, "drain");
    expect(client.drains).toBe(1);
    expect(client.unsentBytesAtDrain).toBeLessThanOrEqual(4 * 1024 * 1024);
    expect(client.connection.unsentBytes).toBe(0);
    other.connection.destroy();
  });

  it("small messages of one turn leave in one write", async () => {
    const ground = await listen();
    const client = await connect(ground.listener.address);
    for (let count = 0; count < 100; count++) client.connection.send([Uint8Array.of(count)]);
    // 100 masked frames of 7 bytes, all held until the turn ends.
    // Each of the three full groups of 32 is counted with what keeping its messages costs.
    expect(client.connection.unsentBytes).toBe(700 + 3 * 32 * 512);
    await until(() => ground.accepted[0]?.received.length === 100, "all");
  });
});

describe("closing", () => {
  it("tells the peer why, after everything that was enqueued", async () => {
    const ground = await listen();
    const client = await connect(ground.listener.address);
    client.connection.send([new Uint8Array(2_000_000)]);
    client.connection.close("BODY_MISMATCH: a reason of the client");
    await until(() => ground.accepted[0]?.closeReason !== undefined, "closed");
    expect(ground.accepted[0]?.receivedBytes).toBe(2_000_000);
    expect(ground.accepted[0]?.closeReason).toBe("BODY_MISMATCH: a reason of the client");
    expect(await client.closed).toBe("BODY_MISMATCH: a reason of the client");
  });

  it("cuts a long reason between characters", async () => {
    const ground = await listen();
    const client = await connect(ground.listener.address);
    client.connection.close("ä".repeat(200));
    await until(() => ground.accepted[0]?.closeReason !== undefined, "closed");
    expect(ground.accepted[0]?.closeReason).toBe("ä".repeat(61));
    expect(clipUtf8("abc😀", 6)).toBe("abc");
  });

  it("ends after a second when the peer does not answer", async () => {
    const ground = await listen();
    const client = await connect(ground.listener.address);
    await until(() => ground.accepted.length === 1, "accepted");
    client.connection.pause();
    const startedAt = performance.now();
    const server = ground.accepted[0] as Peer;
    server.connection.close("bye");
    expect(await server.closed).toBe("bye");
    const tookMs = performance.now() - startedAt;
    expect(tookMs).toBeGreaterThan(900);
    expect(tookMs).toBeLessThan(10_000);
  });

  it("destroy cuts at once; the peer sees a lost connection; sends afterwards are dropped", async () => {
    const ground = await listen();
    const client = await connect(ground.listener.address);
    await until(() => ground.accepted.length === 1, "accepted");
    client.connection.destroy();
    expect(await client.closed).toBe("cut");
    const server = ground.accepted[0] as Peer;
    expect(await server.closed).toBe("the connection was lost");
    server.connection.send([Uint8Array.of(1)]);
    client.connection.send([Uint8Array.of(1)]);
    client.connection.close("late");
    server.connection.pause();
    server.connection.resume();
  });

  it("close of the listener leaves open connections alone and frees the port", async () => {
    const ground = await listen();
    const client = await connect(ground.listener.address);
    await until(() => ground.accepted.length === 1, "accepted");
    await ground.listener.close();
    expect(await kindOf(createWebSocketTransport().connect(ground.listener.address))).toBe("refused");
    client.connection.send([Uint8Array.of(7)]);
    await until(() => ground.accepted[0]?.received.length === 1, "still open");
    const again = await createWebSocketTransport().listen(ground.listener.address, () => {});
    await again.close();
  });

  it("close of the listener lets go of sockets that never said anything", async () => {
    const ground = await listen();
    const socket = connectTcp(ground.port, "127.0.0.1");
    socket.on("error", () => {});
    await new Promise<void>((resolve) => socket.once("connect", resolve));
    const gone = new Promise<void>((resolve) => socket.once("close", () => resolve()));
    socket.resume();
    // The answer to a second request shows that the server has taken the first socket, too.
    await (await fetch(`http://${ground.listener.address}/`)).text();
    await ground.listener.close();
    await gone;
  });

  it("a peer that answers no ping is cut, one that does stays", async () => {
    const ground = await listen({ heartbeatMs: 20 });
    const mute = new WebSocket(`ws://${ground.listener.address}`, ["ottla.1"], { autoPong: false });
    mute.on("error", () => {});
    await until(() => ground.accepted.length === 1, "accepted");
    const client = await connect(ground.listener.address);
    expect(await (ground.accepted[0] as Peer).closed).toBe("the peer does not answer pings");
    client.connection.send([Uint8Array.of(1)]);
    await until(() => ground.accepted[1]?.received.length === 1, "the other is open");
  });

  it("a paused connection is kept by its own pings", async () => {
    const ground = await listen({ heartbeatMs: 20 }, (peer) => peer.connection.pause());
    const client = await connect(ground.listener.address, { heartbeatMs: 20 });
    await new Promise((resolve) => setTimeout(resolve, 250));
    client.connection.send([Uint8Array.of(1)]);
    ground.accepted[0]?.connection.resume();
    await until(() => ground.accepted[0]?.received.length === 1, "message after the pause");
    expect(client.closeReason).toBeUndefined();
  });
});

describe("strangers on the port", () => {
  it("raw bytes get one coded line and are closed", async () => {
    const ground = await listen();
    const answer = await rawExchange(ground.port, Buffer.from("000000ff00120003deadbeef0a0a", "hex"));
    expect(answer).toMatch(/^HTTP\/1\.1 400 [\s\S]*\r\n\r\nerror\[BAD_ENVELOPE\]: [^\n]+\n$/);
    expect(ground.dropped[0]).toContain("BAD_ENVELOPE");
  });

  it("plain HTTP on an unknown path gets 426 and one coded line; a known path is served", async () => {
    const ground = await listen({
      httpHandler: async (path) =>
        path === "/livez" ? { status: 200, contentType: "text/plain", body: "ok\n" } : undefined,
    });
    const unknown = await fetch(`http://${ground.listener.address}/x?y=1`);
    expect(unknown.status).toBe(426);
    expect(await unknown.text()).toMatch(/^error\[HANDSHAKE_REQUIRED\]: [^\n]+\n$/);
    const known = await fetch(`http://${ground.listener.address}/livez?verbose`);
    expect([known.status, await known.text()]).toEqual([200, "ok\n"]);
    const posted = await fetch(`http://${ground.listener.address}/livez`, { method: "POST", body: "x" });
    expect(posted.status).toBe(426);
    await posted.text();
  });

  it("a handler that throws gives 500, not a crash", async () => {
    const ground = await listen({ httpHandler: () => Promise.reject(new Error("boom")) });
    const answer = await fetch(`http://${ground.listener.address}/livez`);
    expect([answer.status, await answer.text()]).toEqual([500, expect.stringContaining("error[UNKNOWN_SERVER_ERROR]")]);
  });

  const upgrade = (headers: string): string =>
    `GET / HTTP/1.1\r\nHost: broker:7070\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n${headers}\r\n`;

  it("a web page of another origin is refused with 403, one of the same host is not", async () => {
    const ground = await listen({ advertisedAddress: "ws://Broker:7070" });
    const evil = await rawExchange(
      ground.port,
      upgrade("Sec-WebSocket-Protocol: ottla.1\r\nOrigin: http://evil.example\r\n"),
    );
    expect(evil).toMatch(/^HTTP\/1\.1 403 [\s\S]*error\[INVALID_REQUEST\]/);
    for (const origin of ["null", "file://broker:7070", "ftp://broker:7070", "http://broker:7071"]) {
      const answer = await rawExchange(
        ground.port,
        upgrade(`Sec-WebSocket-Protocol: ottla.1\r\nOrigin: ${origin}\r\n`),
      );
      expect([origin, answer.slice(0, 13)]).toEqual([origin, "HTTP/1.1 403 "]);
    }
    expect(ground.accepted.length).toBe(0);
    const own = rawExchange(ground.port, upgrade("Sec-WebSocket-Protocol: ottla.1\r\nOrigin: http://broker:7070\r\n"));
    await until(() => ground.accepted.length === 1, "accepted");
    ground.accepted[0]?.connection.destroy();
    expect(await own).toMatch(/^HTTP\/1\.1 101 /);
  });

  it("a WebSocket without the subprotocol is refused", async () => {
    const ground = await listen();
    expect(await rawExchange(ground.port, upgrade(""))).toMatch(/^HTTP\/1\.1 426 [\s\S]*error\[UNSUPPORTED_VERSION\]/);
  });

  it("connectionsMax: the next one is refused as busy until one leaves", async () => {
    const ground = await listen({ connectionsMax: 1 });
    const client = await connect(ground.listener.address);
    expect(await kindOf(createWebSocketTransport().connect(ground.listener.address))).toBe("busy");
    expect(ground.dropped[0]).toContain("BUSY");
    client.connection.destroy();
    await until(() => ground.accepted[0]?.closeReason !== undefined, "gone");
    await connect(ground.listener.address);
  });

  it("garbage inside an open WebSocket closes only that connection", async () => {
    const ground = await listen();
    const client = await connect(ground.listener.address);
    const garbage = rawExchange(ground.port, upgrade("Sec-WebSocket-Protocol: ottla.1\r\n"));
    await until(() => ground.accepted.length === 2, "accepted");
    ground.accepted[1]?.connection.destroy();
    await garbage;
    const socket: Socket = connectTcp(ground.port, "127.0.0.1", () => {
      socket.write(upgrade("Sec-WebSocket-Protocol: ottla.1\r\n"));
      socket.write(Buffer.from("ffffffffffffffffffffffff", "hex"));
    });
    socket.on("error", () => {});
    await until(() => ground.accepted[2]?.closeReason !== undefined, "third closed");
    client.connection.send([Uint8Array.of(1)]);
    await until(() => ground.accepted[0]?.received.length === 1, "first is open");
  });
});

describe("connecting and listening", () => {
  it("says what went wrong", async () => {
    const transport = createWebSocketTransport();
    const ground = await listen();
    expect(await kindOf(transport.listen(ground.listener.address, () => {}))).toBe("address-in-use");
    expect(await kindOf(transport.listen("203.0.113.7:0", () => {}))).toBe("address-not-available");
    expect(await kindOf(transport.listen("nonsense", () => {}))).toBe("address-not-available");
    const silent = createServer((socket) => socket.end("SSH-2.0-OpenSSH\r\n"));
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    cleanups.push(() => void silent.close());
    const address = silent.address();
    const port = address !== null && typeof address === "object" ? address.port : 0;
    expect(await kindOf(transport.connect(`127.0.0.1:${port}`))).toBe("not-ottla");
    silent.close();
    expect(await kindOf(transport.connect(`127.0.0.1:${port}`))).toBe("refused");
    expect(await kindOf(transport.connect(`localhost:${port}`))).toBe("refused");
    expect(await kindOf(transport.connect("not an address"))).toBe("address-not-available");
    expect(await kindOf(transport.connect("127.0.0.1:7070/path:1"))).toBe("address-not-available");
    expect(await kindOf(transport.connect("nowhere.invalid:1"))).toBe("unreachable");
  });

  it("an HTTP server that is no Ottla is told apart", async () => {
    const { createServer: createHttp } = await import("node:http");
    const http = createHttp((_request, response) => response.end("hello"));
    await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
    cleanups.push(() => void http.close());
    const address = http.address();
    const port = address !== null && typeof address === "object" ? address.port : 0;
    expect(await kindOf(createWebSocketTransport().connect(`127.0.0.1:${port}`))).toBe("not-ottla");
  });

  it("a process that closed its listener and connections ends by itself", async () => {
    const script = `
      import { createWebSocketTransport } from ${JSON.stringify(new URL("../../src/platform/websocket.ts", import.meta.url).href)};
      const transport = createWebSocketTransport();
      const handlers = { onReceive() {}, onClose() {}, onDrain() {} };
      let server;
      const listener = await transport.listen("127.0.0.1:0", (connection) => { server = connection; server.start(handlers); });
      const client = await transport.connect(listener.address);
      client.start(handlers);
      client.close("done");
      await listener.close();
    `;
    const child = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", script], {
      stdio: ["ignore", "ignore", "pipe"],
    });
    cleanups.push(() => void child.kill("SIGKILL"));
    let errors = "";
    child.stderr.on("data", (chunk: Buffer) => {
      errors += chunk.toString();
    });
    const code = await new Promise<number | null>((resolve) => child.on("exit", resolve));
    expect([code, errors]).toEqual([0, ""]);
  });

  it("masks in native code", () => {
    expect(isBufferutilLoaded()).toBe(true);
  });
});
