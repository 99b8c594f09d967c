// A connection to a broker by hand: a socket, an upgrade and frames, so that any byte can be wrong. It reads all answers, checks that each can be
// decoded, and counts what they say.
import { connect, type Socket } from "node:net";
import { ResponseAssembler } from "../../src/wire/native/codec.ts";
import type { DecodedResponse } from "../../src/wire/native/protocol.ts";

const UPGRADE = (host: string): string =>
  `GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n` +
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: ottla.1\r\n\r\n";
const BODY_BYTES_MAX = 128 * 1024 * 1024;
const OPCODE = { CONTINUATION: 0, TEXT: 1, BINARY: 2, CLOSE: 8, PING: 9, PONG: 10 } as const;

/** What answers said, by code: "answer X", "entry X", "closed X". */
export class Counts {
  readonly byCode = new Map<string, number>();
  /** An answer that is none, and other things that no broker may send. */
  readonly faults: string[] = [];

  add(what: string): void {
    this.byCode.set(what, (this.byCode.get(what) ?? 0) + 1);
  }

  answer({ header, response }: DecodedResponse): void {
    this.add(`answer ${header.error}`);
    if (header.error === "NONE") this.#entries(response);
  }

  #entries(value: unknown): void {
    if (Array.isArray(value)) for (const item of value) this.#entries(item);
    else if (isObject(value)) {
      const { error } = value;
      if (typeof error === "string" && error !== "NONE") this.add(`entry ${error}`);
      for (const inner of Object.values(value)) if (typeof inner === "object") this.#entries(inner);
    }
  }
}

/** A masked frame; the mask is zero, so that bytes stay as they are. */
export function frame(payload: Uint8Array, { opcode = OPCODE.BINARY as number, isFinal = true } = {}): Buffer {
  const { length } = payload;
  const head = length < 126 ? Buffer.alloc(6) : length < 65_536 ? Buffer.alloc(8) : Buffer.alloc(14);
  head[0] = (isFinal ? 0x80 : 0) | opcode;
  if (length < 126) head[1] = 0x80 | length;
  else if (length < 65_536) {
    head[1] = 0x80 | 126;
    head.writeUInt16BE(length, 2);
  } else {
    head[1] = 0x80 | 127;
    head.writeBigUInt64BE(BigInt(length), 2);
  }
  return Buffer.concat([head, payload]);
}

export class RawPeer {
  readonly closed: Promise<string>;
  /** The handshake has ended, or the connection has. */
  readonly upgraded: Promise<void>;
  closeReason: string | undefined;
  readonly #socket: Socket;
  readonly #counts: Counts;
  readonly #assembler = new ResponseAssembler({ bodyBytesMax: BODY_BYTES_MAX });
  readonly #waiting = new Map<number, (answer: DecodedResponse | undefined) => void>();
  #isUpgraded = false;
  #unread: Buffer = Buffer.alloc(0);
  #parts: Buffer[] = [];
  #onClosed: (reason: string) => void = () => {};
  #onUpgraded: () => void = () => {};

  /** What is sent before the answer to the upgrade follows right behind it. */
  constructor(address: string, counts: Counts, { upgrade = UPGRADE(address) }: { upgrade?: string | Uint8Array } = {}) {
    const at = address.lastIndexOf(":");
    this.#counts = counts;
    this.closed = new Promise((resolve) => {
      this.#onClosed = resolve;
    });
    this.upgraded = new Promise((resolve) => {
      this.#onUpgraded = resolve;
    });
    this.#socket = connect({ host: address.slice(0, at), port: Number(address.slice(at + 1)), noDelay: true });
    this.#socket.on("data", (chunk: Buffer) => this.#read(chunk));
    this.#socket.on("error", (error: NodeJS.ErrnoException) => this.#end(`socket ${error.code ?? error.message}`));
    this.#socket.on("close", () => this.#end("cut"));
    this.#socket.write(upgrade);
  }

  /** Whole messages. */
  send(messages: readonly Uint8Array[]): void {
    for (const message of messages) this.#socket.write(frame(message));
  }

  sendRaw(bytes: Uint8Array): void {
    this.#socket.write(bytes);
  }

  /** The answer to this correlation id; undefined when the connection ends before. Of an answer in parts: the last. */
  answerTo(correlationId: number): Promise<DecodedResponse | undefined> {
    if (this.closeReason !== undefined) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      this.#waiting.set(correlationId, resolve);
    });
  }

  forget(correlationId: number): void {
    this.#waiting.delete(correlationId);
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    if (this.closeReason === undefined) this.#socket.resume();
  }

  destroy(): void {
    this.#end("left");
    this.#socket.destroy();
  }

  #end(reason: string): void {
    if (this.closeReason !== undefined) return;
    this.closeReason = reason;
    for (const resolve of this.#waiting.values()) resolve(undefined);
    this.#waiting.clear();
    this.#onClosed(reason);
    this.#onUpgraded();
  }

  #read(chunk: Buffer): void {
    this.#unread = this.#unread.length === 0 ? chunk : Buffer.concat([this.#unread, chunk]);
    if (!this.#isUpgraded && !this.#readUpgrade()) return;
    while (this.closeReason === undefined && this.#readFrame());
  }

  #readUpgrade(): boolean {
    const end = this.#unread.indexOf("\r\n\r\n");
    if (end < 0) return false;
    const status = this.#unread.toString("latin1", 9, 12);
    if (status !== "101") {
      this.#counts.add(`refused HTTP ${status}`);
      this.#leave(`HTTP ${status}`);
      return false;
    }
    this.#isUpgraded = true;
    this.#onUpgraded();
    this.#unread = this.#unread.subarray(end + 4);
    return true;
  }

  #readFrame(): boolean {
    const bytes = this.#unread;
    if (bytes.length < 2) return false;
    const short = (bytes[1] ?? 0) & 0x7f;
    const headBytes = short < 126 ? 2 : short === 126 ? 4 : 10;
    if (bytes.length < headBytes) return false;
    const length = short < 126 ? short : short === 126 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2));
    if (bytes.length < headBytes + length) return false;
    this.#unread = bytes.subarray(headBytes + length);
    this.#frame(bytes[0] ?? 0, bytes.subarray(headBytes, headBytes + length));
    return true;
  }

  #frame(first: number, payload: Buffer): void {
    const opcode = first & 0x0f;
    if (opcode === OPCODE.PING) this.sendRaw(frame(payload, { opcode: OPCODE.PONG }));
    else if (opcode === OPCODE.CLOSE) {
      const reason = payload.toString("utf8", 2);
      const code = payload.length >= 2 ? payload.readUInt16BE(0) : 1005;
      this.#counts.add(`closed ${code} ${/^[A-Z]+_[A-Z_]+/.exec(reason)?.[0] ?? reason.slice(0, 40)}`.trim());
      this.#leave(`${code} ${reason}`);
    } else if (opcode === OPCODE.BINARY || opcode === OPCODE.CONTINUATION) {
      this.#parts.push(payload);
      if ((first & 0x80) === 0) return;
      const message = this.#parts.length === 1 ? payload : Buffer.concat(this.#parts);
      this.#parts = [];
      this.#message(message);
    }
  }

  #message(message: Uint8Array): void {
    const assembled = this.#assembler.push(message);
    if (assembled.kind === "incomplete") return;
    if (assembled.kind === "broken") {
      this.#counts.faults.push(`an answer that cannot be read: ${assembled.error} ${assembled.reason}`);
      this.#leave("broken answer");
      return;
    }
    const answer = assembled.message;
    this.#counts.answer(answer);
    if (answer.header.more) return;
    const resolve = this.#waiting.get(answer.header.correlationId);
    this.#waiting.delete(answer.header.correlationId);
    resolve?.(answer);
  }

  #leave(reason: string): void {
    this.#end(reason);
    this.#socket.end(frame(Uint8Array.of(0x03, 0xe8), { opcode: OPCODE.CLOSE }));
    this.#socket.destroySoon();
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !(value instanceof Uint8Array);
}

/** Connections that are being made at once. */
const OPENING = 50;

/** So many peers, some at a time. */
export async function openPeers(count: number, open: () => Promise<RawPeer>): Promise<RawPeer[]> {
  const peers: RawPeer[] = [];
  while (peers.length < count) {
    const some = Array.from({ length: Math.min(OPENING, count - peers.length) }, open);
    peers.push(...(await Promise.all(some)));
  }
  return peers;
}
