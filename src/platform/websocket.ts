// MessageTransport over ws: the native protocol and HTTP on one port (D-27). bufferutil does the masking when it loads.
import { createServer } from "node:http";
import type { IncomingMessage, Server } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo, DropArgument, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { WebSocket, WebSocketServer } from "ws";
import type { ClientOptions, ServerOptions } from "ws";
import { TransportError } from "../ports/transport.ts";
import type { Listener, MessageConnection, MessageTransport } from "../ports/transport.ts";
import { FileWatch } from "./file-watch.ts";
import { clearInterval, setInterval } from "./host-time.ts";
import { type ConnectionOptions, TurnCork, WebSocketConnection } from "./websocket-connection.ts";
import {
  FULL,
  LOOPBACK_HOST,
  NOT_HTTP,
  SUBPROTOCOL,
  answerHttp,
  hostNameOf,
  refuseSocket,
  upgradeFault,
} from "./websocket-http.ts";
import type { HttpHandler, Refusal } from "./websocket-http.ts";

export type { HttpAnswer, HttpHandler } from "./websocket-http.ts";

const MiB = 1024 * 1024;
const HANDSHAKE_TIMEOUT_MS = 5_000;
const CLOSE_TIMEOUT_MS = 1_000;
const REQUEST_TIMEOUT_MS = 10_000;
/** Sockets beyond connectionsMax that may wait to be told so, or ask for /livez. */
const SPARE_SOCKETS = 256;

export interface WebSocketTransportOptions {
  /** Longest single message taken from a peer. Default 64 MiB, the highest max.message.bytes. */
  readonly maxMessageBytes?: number;
  /** Most open connections of one listener; the next is refused with 503. */
  readonly connectionsMax?: number;
  readonly httpHandler?: HttpHandler;
  /** ws://host:port, or without the ws://, that clients are told when it is another than the one listened on: web pages of that host may connect. */
  readonly advertisedAddress?: string | undefined;
  /** Told, at most every 10 s, that new connections fail, or soon will, for want of file descriptors. `about` says what helps. */
  readonly onFilesShort?: (about: string) => void;
  /** Told of each connection that was refused or never became one. */
  readonly onDropped?: (remote: string, reason: string) => void;
  /** Bound per connection that callers keep for `unsentBytes`; `onDrain` comes at half of it. Default 32 MiB (D-38). */
  readonly unsentBytesMax?: number;
  /** An idle connection is pinged this often. Default 20 s. */
  readonly heartbeatMs?: number;
  /**
   * How a client masks: "zero" saves the copy and the XOR. Default "auto": zero to an address of this machine, where no proxy needs the
   * protection (RFC 6455, 10.3), random to others.
   */
  readonly masking?: "random" | "zero" | "auto";
  /** What asks for an answer before there is a connection passes here: a node that is paused within its process gives none. Default: open. */
  readonly gate?: Gate;
}

export interface Gate {
  readonly isHeld: boolean;
  /** Runs it now or later, or never: then `dropped` is called. */
  run(work: () => void, dropped: () => void): void;
}

/** Of a socket that waits at the gate: nobody else listens there, and an error that nobody hears ends the process. It destroys itself. */
const heard = (): void => undefined;

const OPEN_GATE: Gate = { isHeld: false, run: (work) => work() };

type Settings = Required<Omit<WebSocketTransportOptions, "httpHandler" | "advertisedAddress">> &
  Pick<WebSocketTransportOptions, "httpHandler" | "advertisedAddress">;

/** False: masking runs in JavaScript, at a fifth of the speed. The composition root warns then. */
export function isBufferutilLoaded(): boolean {
  try {
    createRequire(import.meta.url)("bufferutil");
    return process.env["WS_NO_BUFFER_UTIL"] === undefined;
  } catch {
    return false;
  }
}

export function createWebSocketTransport(options: WebSocketTransportOptions = {}): MessageTransport {
  const transport = new WebSocketTransport({
    maxMessageBytes: 64 * MiB,
    connectionsMax: 10_000,
    onDropped: () => {},
    onFilesShort: () => {},
    unsentBytesMax: 32 * MiB,
    heartbeatMs: 20_000,
    masking: "auto",
    gate: OPEN_GATE,
    ...options,
  });
  return transport;
}

class WebSocketTransport implements MessageTransport {
  readonly #settings: Settings;
  readonly #cork = new TurnCork();
  readonly #connections = new Set<WebSocketConnection>();
  #heartbeat: NodeJS.Timeout | undefined;

  constructor(settings: Settings) {
    this.#settings = settings;
  }

  async listen(address: string, onConnection: (connection: MessageConnection) => void): Promise<Listener> {
    const { host, port } = parseAddress(address);
    const server = createServer({
      requestTimeout: REQUEST_TIMEOUT_MS,
      headersTimeout: REQUEST_TIMEOUT_MS,
      noDelay: true,
    });
    server.maxConnections = this.#settings.connectionsMax + SPARE_SOCKETS;
    await bound(server, { host, port, address });
    this.#serve(server, host, onConnection);
    const actual = server.address() as AddressInfo;
    return {
      address: `${clientHost(host)}:${actual.port}`,
      async close() {
        server.close();
        server.closeAllConnections();
      },
    };
  }

  #serve(server: Server, host: string, onConnection: (connection: MessageConnection) => void): void {
    const { httpHandler, onDropped, onFilesShort, connectionsMax, advertisedAddress, gate } = this.#settings;
    const ownHosts = new Set([host.toLowerCase(), ...(advertisedAddress ? [hostNameOf(advertisedAddress)] : [])]);
    const files = new FileWatch(onFilesShort);
    const upgrader = new WebSocketServer({
      ...this.#protocolOptions(),
      noServer: true,
      clientTracking: false,
      handleProtocols: () => SUBPROTOCOL,
    });
    const open = new Set<WebSocketConnection>();
    // Made here: a closure of the upgrade would keep its request as long as the connection.
    const onEnd = (ended: WebSocketConnection): void => void open.delete(ended);
    const refuse = (socket: Duplex, refusal: Refusal, remote: string | undefined): void => {
      onDropped(remote ?? "?", `${refusal.code}: ${refusal.about}`);
      refuseSocket(socket, refusal);
    };
    // E.g. no file descriptor left for accept(): one peer's loss, not the process's.
    server.on("error", (error: NodeJS.ErrnoException) => {
      onDropped("?", error.message);
      if (error.code === "EMFILE" || error.code === "ENFILE") files.failed();
    });
    server.on("connection", () => files.opened());
    server.on("drop", (peer?: DropArgument) => onDropped(peer?.remoteAddress ?? "?", `${FULL.code}: ${FULL.about}`));
    // The handler's failures are answered inside: answerHttp never rejects.
    server.on("request", (request, response) =>
      gate.run(
        () => void answerHttp(request, response, httpHandler),
        () => request.socket.destroy(),
      ),
    );
    server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
      if (error.code === "ECONNRESET" || !socket.writable) socket.destroy();
      else refuse(socket, NOT_HTTP, (socket as Socket).remoteAddress);
    });
    const upgrade = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
      const fault = open.size >= connectionsMax ? FULL : upgradeFault(request, ownHosts);
      if (fault !== undefined) return refuse(socket, fault, request.socket.remoteAddress);
      upgrader.handleUpgrade(request, socket, head, (webSocket) => {
        const connection = this.#adopt(webSocket, request.socket, { onEnd, limitsPartial: true });
        open.add(connection);
        onConnection(connection);
      });
    };
    server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      socket.on("error", heard);
      gate.run(
        () => upgrade(request, socket, head),
        () => socket.destroy(),
      );
    });
  }

  async connect(address: string): Promise<MessageConnection> {
    const { host, port } = parseAddress(address);
    const url = `ws://${host.includes(":") ? `[${host}]` : host}:${port}`;
    const options: ClientOptions & { closeTimeout: number } = {
      ...this.#protocolOptions(),
      handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
    };
    const { masking } = this.#settings;
    if (masking === "zero" || (masking === "auto" && LOOPBACK_HOST.test(host)))
      options.generateMask = (mask) => void mask.fill(0);
    return new Promise((resolve, reject) => {
      const webSocket = new WebSocket(url, [SUBPROTOCOL], options);
      let socket: Socket | undefined;
      const fail = (error: Error): void => reject(toTransportError(error, address));
      // Stays: a second error of a failed handshake must not become an uncaught one.
      webSocket.on("error", fail);
      webSocket.once("unexpected-response", (request, response) => {
        // 503 is a broker that is full; anything else answers HTTP but does not speak our protocol.
        const kind = response.statusCode === FULL.status ? "busy" : "not-ottla";
        reject(new TransportError(kind, address, new Error(`HTTP ${response.statusCode}`)));
        request.destroy();
      });
      webSocket.once("upgrade", (response) => {
        socket = response.socket;
      });
      webSocket.once("open", () => {
        resolve(this.#adopt(webSocket, socket as Socket, { onEnd: () => {}, limitsPartial: false }));
      });
    });
  }

  #protocolOptions(): ServerOptions & { closeTimeout: number } {
    return {
      perMessageDeflate: false,
      skipUTF8Validation: true,
      maxPayload: this.#settings.maxMessageBytes,
      closeTimeout: CLOSE_TIMEOUT_MS,
    };
  }

  #adopt(
    webSocket: WebSocket,
    socket: Socket,
    { onEnd, limitsPartial }: Pick<ConnectionOptions, "onEnd" | "limitsPartial">,
  ): WebSocketConnection {
    const connection = new WebSocketConnection(webSocket, socket, {
      unsentBytesMax: this.#settings.unsentBytesMax,
      cork: this.#cork,
      limitsPartial,
      onEnd: (ended) => {
        onEnd(ended);
        this.#forget(ended);
      },
    });
    this.#connections.add(connection);
    // One timer for all connections, and none without any; it keeps no process alive.
    this.#heartbeat ??= setInterval(() => this.#beat(), this.#settings.heartbeatMs).unref();
    return connection;
  }

  #beat(): void {
    if (this.#settings.gate.isHeld) return;
    for (const connection of this.#connections) connection.beat();
  }

  #forget(connection: WebSocketConnection): void {
    this.#connections.delete(connection);
    if (this.#connections.size > 0) return;
    clearInterval(this.#heartbeat);
    this.#heartbeat = undefined;
  }
}

function bound(
  server: Server,
  { host, port, address }: { host: string; port: number; address: string },
): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (error: Error): void => reject(toTransportError(error, address));
    server.once("error", fail);
    server.listen({ host, port }, () => {
      server.off("error", fail);
      resolve();
    });
  });
}

function parseAddress(address: string): { host: string; port: number } {
  const match = /^([^\s/?#@]*):(\d{1,5})$/.exec(address);
  const port = Number(match?.[2]);
  if (match === null || port > 65_535)
    throw new TransportError("address-not-available", address, new Error("not host:port"));
  return { host: (match[1] ?? "").replace(/^\[(.*)\]$/, "$1"), port };
}

/** An address that a client can use in place of a wildcard. */
function clientHost(host: string): string {
  if (host === "" || host === "0.0.0.0" || host === "::") return "127.0.0.1";
  return host.includes(":") ? `[${host}]` : host;
}

const KINDS: Readonly<Record<string, TransportError["kind"]>> = {
  ECONNREFUSED: "refused",
  EADDRINUSE: "address-in-use",
  EADDRNOTAVAIL: "address-not-available",
  EACCES: "denied",
  EPERM: "denied",
  ETIMEDOUT: "timed-out",
  ENOTFOUND: "unreachable",
  EAI_AGAIN: "unreachable",
  EHOSTUNREACH: "unreachable",
  ENETUNREACH: "unreachable",
  EHOSTDOWN: "unreachable",
  ECONNRESET: "unreachable",
  EPIPE: "unreachable",
};

function toTransportError(error: NodeJS.ErrnoException, address: string): TransportError {
  const { code, message } = error;
  if (message === "Opening handshake has timed out") return new TransportError("timed-out", address, error);
  // The HTTP parser and ws complain about what the other side said.
  const isForeign = code?.startsWith("HPE_") === true || /Sec-WebSocket|subprotocol|Upgrade header/i.test(message);
  return new TransportError(isForeign ? "not-ottla" : (KINDS[code ?? ""] ?? "other"), address, error);
}
