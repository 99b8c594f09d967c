// What the native port answers to anything that is no WebSocket of an Ottla client: plain HTTP, raw bytes, a web page of
// another site, one connection too many. Always one line with a code of the error table.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { ErrorName } from "../model/errors.ts";

export interface HttpAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
}

/** Serves the HTTP paths of the port; undefined = no such path. */
export type HttpHandler = (path: string) => HttpAnswer | undefined | Promise<HttpAnswer | undefined>;

export interface Refusal {
  readonly status: 400 | 403 | 426 | 503;
  readonly code: ErrorName;
  readonly about: string;
}

/** Name of the WebSocket subprotocol: the framing of docs/protocol.md. */
export const SUBPROTOCOL = "ottla.1";

const PHRASES = { 400: "Bad Request", 403: "Forbidden", 426: "Upgrade Required", 503: "Service Unavailable" } as const;

export const NOT_HTTP: Refusal = { status: 400, code: "BAD_ENVELOPE", about: "these bytes are no HTTP request" };
export const FULL: Refusal = {
  status: 503,
  code: "BUSY",
  about: "the broker has as many connections as connections.max allows",
};
const FOREIGN_ORIGIN: Refusal = {
  status: 403,
  code: "INVALID_REQUEST",
  about: "a web page of another origin may not connect",
};
const NO_SUBPROTOCOL: Refusal = {
  status: 426,
  code: "UNSUPPORTED_VERSION",
  about: `this port speaks the WebSocket subprotocol ${SUBPROTOCOL}`,
};
const PLAIN_HTTP: Refusal = {
  status: 426,
  code: "HANDSHAKE_REQUIRED",
  about: `this is the native port of an Ottla broker: WebSocket, subprotocol ${SUBPROTOCOL}`,
};

/**
 * Why an upgrade request is refused; undefined when it is welcome. A web page may connect only from the host that it connects to, and only when
 * that is one of `ownHosts`, an address that cannot be another's (loopback), or the address of the socket: a page of another name whose DNS answer
 * was changed to our address (DNS rebinding) sends that name as both.
 */
export function upgradeFault(request: IncomingMessage, ownHosts: ReadonlySet<string>): Refusal | undefined {
  const { origin, host } = request.headers;
  if (origin !== undefined && !isOwnOrigin(origin, { host, localAddress: request.socket.localAddress, ownHosts }))
    return FOREIGN_ORIGIN;
  const offered = (request.headers["sec-websocket-protocol"] ?? "").split(",").map((name) => name.trim());
  return offered.includes(SUBPROTOCOL) ? undefined : NO_SUBPROTOCOL;
}

function isOwnOrigin(
  origin: string,
  own: {
    readonly host: string | undefined;
    readonly localAddress: string | undefined;
    readonly ownHosts: ReadonlySet<string>;
  },
): boolean {
  if (own.host === undefined || !URL.canParse(origin) || !URL.canParse(`http://${own.host}`)) return false;
  const from = new URL(origin);
  const to = new URL(`${from.protocol}//${own.host}`);
  if (!/^https?:$/.test(from.protocol) || from.host !== to.host) return false;
  const name = to.hostname.replace(/^\[(.*)\]$/, "$1");
  return LOOPBACK_HOST.test(name) || own.ownHosts.has(name) || name === own.localAddress?.replace(/^::ffff:/, "");
}

export const LOOPBACK_HOST = /^(127(\.\d+){3}|localhost|::1)$/;

/** The name or IP of host:port, as a URL has it. */
export function hostNameOf(address: string): string {
  return address
    .replace(/^ws:\/\//, "")
    .replace(/:\d+$/, "")
    .replace(/^\[(.*)\]$/, "$1")
    .toLowerCase();
}

/** Ends a socket that has no HTTP response object. */
export function refuseSocket(socket: Duplex, refusal: Refusal): void {
  const body = lineOf(refusal);
  const head = [
    `HTTP/1.1 ${refusal.status} ${PHRASES[refusal.status]}`,
    "Connection: close",
    "Content-Type: text/plain; charset=utf-8",
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...(refusal.status === 426 ? ["Upgrade: websocket"] : []),
  ];
  socket.on("error", () => socket.destroy());
  socket.once("finish", () => socket.destroy());
  socket.end(`${head.join("\r\n")}\r\n\r\n${body}`);
}

function lineOf({ code, about }: Refusal): string {
  return `error[${code}]: ${about}\n`;
}

/** Answers a plain HTTP request by the handler, or says what this port is. Never rejects. */
export async function answerHttp(
  request: IncomingMessage,
  response: ServerResponse,
  handler: HttpHandler | undefined,
): Promise<void> {
  request.resume();
  const isRead = request.method === "GET" || request.method === "HEAD";
  const path = (request.url ?? "/").split("?", 1)[0] ?? "/";
  try {
    const answer = isRead ? await handler?.(path) : undefined;
    if (answer !== undefined) return writeAnswer(request, response, answer);
    response.setHeader("Upgrade", "websocket");
    writeAnswer(request, response, {
      status: PLAIN_HTTP.status,
      contentType: "text/plain; charset=utf-8",
      body: lineOf(PLAIN_HTTP),
    });
  } catch {
    const body = "error[UNKNOWN_SERVER_ERROR]: the request could not be answered\n";
    writeAnswer(request, response, { status: 500, contentType: "text/plain; charset=utf-8", body });
  }
}

function writeAnswer(
  request: IncomingMessage,
  response: ServerResponse,
  { status, contentType, body }: HttpAnswer,
): void {
  if (response.headersSent || response.destroyed) return;
  const length = Buffer.byteLength(body);
  response.writeHead(status, {
    "Content-Type": contentType,
    "Content-Length": length,
    "Cache-Control": "no-store",
    Connection: "close",
  });
  response.end(request.method === "HEAD" ? undefined : body);
}
