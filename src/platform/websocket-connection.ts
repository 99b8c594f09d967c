// One WebSocket as a MessageConnection: corked writes, back-pressure both ways, and a close that always ends.
import type { Socket } from "node:net";
import type { RawData, WebSocket } from "ws";
import { assert } from "../base/assert.ts";
import type { ConnectionHandlers, MessageConnection } from "../ports/transport.ts";
import { setImmediate } from "./host-time.ts";

/** A close frame holds 125 bytes, two of them the code. */
const CLOSE_REASON_BYTES_MAX = 123;
const CLOSE_NORMAL = 1000;
const CLOSE_UNSUPPORTED_DATA = 1003;
const CLOSE_ABNORMAL = 1006;
const CLOSE_POLICY = 1008;
const CLOSE_TOO_BIG = 1009;
const SILENT_ROUNDS_MAX = 2;

/**
 * Holds the writes of one event-loop turn together: everything that is sent in it to one socket becomes one writev (2.6 times
 * the small requests per second).
 */
export class TurnCork {
  #corked: Socket[] = [];
  readonly #uncorkAll = (): void => {
    const sockets = this.#corked;
    this.#corked = [];
    for (const socket of sockets) socket.uncork();
  };

  /** Call once per socket and turn: `writableCorked` tells. */
  cork(socket: Socket): void {
    if (socket.writableCorked > 0) return;
    if (this.#corked.length === 0) setImmediate(this.#uncorkAll);
    this.#corked.push(socket);
    socket.cork();
  }
}

/** Headers of frames and what one read brings beyond the message. */
const PARTIAL_SLACK_BYTES = 64 * 1024;
/** Header and mask of a control frame. */
const CONTROL_FRAME_BYTES = 6;

/** What a message that waits costs beside its bytes: the objects of its frame and of its place in the socket's queue. */
const MESSAGE_OVERHEAD_BYTES = 512;
/** Counted in groups of so many, so that only one message in a group asks to be told when it is written. */
const MESSAGES_COUNTED = 32;

export interface ConnectionOptions {
  /** Watches how much the peer sends of a message that it does not complete, and holds it to what is expected. */
  readonly limitsPartial: boolean;
  /** The most that callers let pile up; `onDrain` comes at half of it. */
  readonly unsentBytesMax: number;
  readonly cork: TurnCork;
  readonly onEnd: (connection: WebSocketConnection) => void;
}

export class WebSocketConnection implements MessageConnection {
  readonly remote: string;
  readonly #webSocket: WebSocket;
  readonly #socket: Socket;
  readonly #options: ConnectionOptions;
  readonly #drainBytes: number;
  #handlers: ConnectionHandlers<Uint8Array> | undefined;
  #isAboveDrain = false;
  #isPaused = false;
  /** close() or destroy() was called here: nothing more is sent or handed on. */
  #isLeaving = false;
  #closeReason: string | undefined;
  #fault: string | undefined;
  #wasHeard = true;
  #silentRounds = 0;
  /** Read since the last message was complete; up to one read less than it is. */
  #partialBytes = 0;
  #expectedBytes = Number.POSITIVE_INFINITY;
  /** Groups of messages that wait, and those of the group that is not full. */
  #groups = 0;
  #ungrouped = 0;
  readonly #onSent = (): void => this.#checkDrain();
  readonly #onGroupSent = (): void => {
    this.#groups--;
    this.#checkDrain();
  };

  constructor(webSocket: WebSocket, socket: Socket, options: ConnectionOptions) {
    this.#webSocket = webSocket;
    this.#socket = socket;
    this.#options = options;
    this.#drainBytes = options.unsentBytesMax / 2;
    this.remote = `${socket.remoteAddress ?? "?"}:${socket.remotePort ?? 0}`;
    socket.setNoDelay(true);
    this.#listen();
    if (options.limitsPartial) socket.prependListener("data", (chunk: Buffer) => this.#count(chunk.length));
    // Nothing is read before start(): no message may come without its handler.
    webSocket.pause();
  }

  #listen(): void {
    const webSocket = this.#webSocket;
    webSocket.on("message", (data, isBinary) => this.#receive(data, isBinary));
    webSocket.on("pong", (data) => this.#heardControl(data.length));
    webSocket.on("ping", (data) => this.#heardControl(data.length));
    webSocket.on("error", (error: NodeJS.ErrnoException) => {
      this.#fault ??=
        error.code === "WS_ERR_UNSUPPORTED_MESSAGE_LENGTH" ? `FRAME_TOO_LARGE: ${error.message}` : error.message;
    });
    this.#socket.on("error", (error) => {
      this.#fault ??= error.message;
    });
    webSocket.on("close", (code, reason) => this.#closed(code, reason.toString()));
  }

  get unsentBytes(): number {
    return this.#webSocket.bufferedAmount + this.#groups * MESSAGES_COUNTED * MESSAGE_OVERHEAD_BYTES;
  }

  get partialBytes(): number {
    return this.#partialBytes;
  }

  expect(bytes: number): void {
    this.#expectedBytes = bytes;
  }

  start(handlers: ConnectionHandlers<Uint8Array>): void {
    assert(this.#handlers === undefined, "a connection is started once");
    this.#handlers = handlers;
    const reason = this.#closeReason;
    if (reason !== undefined) setImmediate(() => handlers.onClose(reason));
    else if (!this.#isPaused) this.#webSocket.resume();
  }

  send(outgoing: readonly Uint8Array[], onTaken?: () => void): void {
    const webSocket = this.#webSocket;
    if (this.#isLeaving || webSocket.readyState !== webSocket.OPEN) return;
    let { unsentBytes } = this;
    for (const message of outgoing) unsentBytes += message.length;
    // Only what may have to report a drain asks to be told when it is written.
    const isAboveDrain = unsentBytes > this.#drainBytes;
    if (isAboveDrain) this.#isAboveDrain = true;
    this.#options.cork.cork(this.#socket);
    const last = outgoing.length - 1;
    for (const [index, message] of outgoing.entries()) {
      const onSent = this.#countMessage() ?? (isAboveDrain ? this.#onSent : undefined);
      webSocket.send(message, onTaken === undefined || index < last ? onSent : both(onSent, onTaken));
    }
  }

  /** What the message that ends a group calls when it is written: they are written in order, so all of its group are. */
  #countMessage(): (() => void) | undefined {
    if (++this.#ungrouped < MESSAGES_COUNTED) return undefined;
    this.#ungrouped = 0;
    this.#groups++;
    return this.#onGroupSent;
  }

  #checkDrain(): void {
    if (!this.#isAboveDrain || this.#isLeaving || this.unsentBytes > this.#drainBytes) return;
    this.#isAboveDrain = false;
    this.#handlers?.onDrain();
  }

  pause(): void {
    this.#isPaused = true;
    this.#webSocket.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#silentRounds = 0;
    this.#wasHeard = true;
    if (this.#handlers !== undefined) this.#webSocket.resume();
  }

  close(reason: string): void {
    if (this.#isLeaving || this.#closeReason !== undefined) return;
    this.#isLeaving = true;
    this.#fault ??= reason;
    // A reason that begins with a code of the error table tells of a peer that broke the rules.
    const code = /^(error\[)?[A-Z]+_[A-Z_]+/.test(reason) ? CLOSE_POLICY : CLOSE_NORMAL;
    this.#webSocket.close(code, clipUtf8(reason, CLOSE_REASON_BYTES_MAX));
    // The peer's answer comes behind whatever was not read yet.
    this.#webSocket.resume();
  }

  destroy(): void {
    this.#isLeaving = true;
    this.#fault ??= "cut";
    this.#webSocket.terminate();
  }

  /** Called every heartbeat: pings a silent peer, cuts one that did not answer twice. A paused connection hears nothing, so it only pings. */
  beat(): void {
    if (this.#webSocket.readyState !== this.#webSocket.OPEN) return;
    const isListening = !this.#isPaused && this.#handlers !== undefined;
    if (isListening && this.#wasHeard) {
      this.#wasHeard = false;
      return;
    }
    if (isListening && this.#silentRounds >= SILENT_ROUNDS_MAX) {
      this.#fault ??= "the peer does not answer pings";
      this.#webSocket.terminate();
      return;
    }
    if (isListening) this.#silentRounds++;
    this.#webSocket.ping();
  }

  /** Before ws sees the chunk: what was counted so far is of a message that is still incomplete. ws itself tells nothing of fragments. */
  #count(chunkBytes: number): void {
    if (this.#partialBytes > this.#expectedBytes + PARTIAL_SLACK_BYTES) this.#tooLong();
    this.#partialBytes += chunkBytes;
  }

  #tooLong(): void {
    if (!this.#isLeaving) {
      const about = `FRAME_TOO_LARGE: more than the ${this.#expectedBytes} bytes that a message may have now`;
      this.#isLeaving = true;
      this.#fault ??= about;
      this.#webSocket.close(CLOSE_TOO_BIG, about);
    }
    // While the close waits for its answer, ws would go on collecting.
    this.#webSocket.pause();
  }

  #heardControl(payloadBytes: number): void {
    this.#partialBytes = Math.max(0, this.#partialBytes - payloadBytes - CONTROL_FRAME_BYTES);
    this.#heard();
  }

  #heard(): void {
    this.#wasHeard = true;
    this.#silentRounds = 0;
  }

  #receive(data: RawData, isBinary: boolean): void {
    this.#partialBytes = 0;
    this.#heard();
    if (this.#isLeaving) return;
    if (!isBinary) {
      this.#isLeaving = true;
      this.#fault ??= "a text message: only binary ones are allowed";
      this.#webSocket.close(CLOSE_UNSUPPORTED_DATA, "BAD_ENVELOPE: only binary messages are allowed");
      return;
    }
    // binaryType is "nodebuffer": always a Buffer. Handed on as a plain view, the type that the ports speak of.
    const { buffer, byteOffset, byteLength } = data as Buffer;
    this.#handlers?.onReceive(new Uint8Array(buffer, byteOffset, byteLength));
  }

  #closed(code: number, peerReason: string): void {
    this.#closeReason = this.#reasonOf(code, peerReason);
    this.#options.onEnd(this);
    this.#handlers?.onClose(this.#closeReason);
  }

  #reasonOf(code: number, peerReason: string): string {
    if (this.#fault !== undefined) return this.#fault;
    if (peerReason !== "") return peerReason;
    if (code === CLOSE_TOO_BIG) return "FRAME_TOO_LARGE: the peer does not take a message that long";
    return code === CLOSE_ABNORMAL ? "the connection was lost" : `closed by the peer (${code})`;
  }
}

/** Written in order: when the last message is, all are. After an error nobody knows what still looks at the bytes. */
function both(onSent: (() => void) | undefined, onTaken: () => void): (error?: Error) => void {
  return (error) => {
    if (error === undefined || error === null) onTaken();
    onSent?.();
  };
}

/** At most `maxBytes` of UTF-8, cut between characters. */
export function clipUtf8(text: string, maxBytes: number): string {
  if (Buffer.byteLength(text) <= maxBytes) return text;
  let clipped = "";
  let sizeBytes = 0;
  for (const character of text) {
    sizeBytes += Buffer.byteLength(character);
    if (sizeBytes > maxBytes) break;
    clipped += character;
  }
  return clipped;
}
