// One client connection: messages into requests, budgets into pause and resume (D-24, D-26). What one peer does wrong, or too slowly, stays
// on its connection.
import { Ring } from "../base/ring.ts";
import type { ErrorName } from "../model/errors.ts";
import type { MessageConnection } from "../ports/transport.ts";
import { encodeRefusal, RequestAssembler } from "../wire/native/codec.ts";
import { LIMITS, type DecodedRequest } from "../wire/native/protocol.ts";
import type { Accountant } from "./accountant.ts";

export interface ConnectionHost {
  readonly accountant: Accountant;
  readonly inFlightBytesMax: number;
  readonly unsentBytesMax: number;
  readonly bodyBytesMax: number;
  nowMs(): number;
  /** In arrival order. The bytes stay on the accounts until `release`. */
  onRequest(connection: ClientConnection, message: DecodedRequest, sizeBytes: number): void;
  onBroken(connection: ClientConnection, error: ErrorName, reason: string): void;
  onClosed(connection: ClientConnection, reason: string): void;
  guard(work: () => void): void;
}

/** Work that waits until the peer has taken what was sent. */
type DrainWork = () => void;

interface WaitingAnswer {
  readonly sizeBytes: number;
  readonly begin: () => void;
}

/** Work that ends with the connection it is for. */
export interface ConnectionDependent {
  onConnectionClosed(): void;
}

export class ClientConnection {
  readonly remote: string;
  readonly #connection: MessageConnection;
  readonly #host: ConnectionHost;
  readonly #assembler: RequestAssembler;
  /** Set by the Hello of this connection. */
  clientId: string | undefined;
  readonly dependents = new Set<ConnectionDependent>();
  #isOpen = true;
  /** We have closed it: what still comes in is not looked at. */
  #isClosing = false;
  /** Not yet serving: received messages wait, with reading paused. */
  #held: Uint8Array[] | undefined;
  #isPaused = false;
  #lastReceivedMs: number;
  /** Bytes of requests received and not released, half received ones among them. */
  #inFlightBytes = 0;
  /** The part of them that is no request yet. */
  #unassembledBytes = 0;
  #countedUnsentBytes = 0;
  /** Answers being read. */
  #reservedBytes = 0;
  readonly #answerQueue = new Ring<WaitingAnswer>();
  #onDrained: DrainWork[] = [];

  constructor(connection: MessageConnection, host: ConnectionHost) {
    this.remote = connection.remote;
    this.#connection = connection;
    this.#host = host;
    this.#assembler = new RequestAssembler({ bodyBytesMax: host.bodyBytesMax });
    this.#lastReceivedMs = host.nowMs();
  }

  /** Once, in the turn in which the transport handed the connection out. `hold`: serve nothing before `serve()`. */
  start(options: { readonly hold: boolean }): void {
    if (options.hold) this.#held = [];
    this.#connection.start({
      onReceive: (message) => this.#host.guard(() => this.#receive(message)),
      onClose: (reason) => this.#host.guard(() => this.#closed(reason)),
      onDrain: () => this.#host.guard(() => this.settle()),
    });
    this.#updatePause();
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  get inFlightBytes(): number {
    return this.#inFlightBytes;
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** The peer takes its answers too slowly, or all peers together do: send it no more large ones. */
  get isUnsentFull(): boolean {
    const { unsentBytes } = this.#connection;
    return this.#isAtUnsentBound(unsentBytes) || (unsentBytes > 0 && this.#host.accountant.unsent.isFull);
  }

  /**
   * Puts an answer that is to be read on the accounts; `releaseAnswerRoom` gives it back. While what is unsent and what is being read is at
   * the bound, it waits in turn. When the connection is gone it waits no more: look whether the request is done.
   */
  acquireAnswerRoom(sizeBytes: number): Promise<void> | undefined {
    if (this.#answerQueue.length === 0 && this.#hasAnswerRoom()) {
      this.#reserve(sizeBytes);
      return undefined;
    }
    return new Promise((begin) => this.#answerQueue.push({ sizeBytes, begin }));
  }

  releaseAnswerRoom(sizeBytes: number): void {
    this.#reserve(-sizeBytes);
    this.#beginAnswers();
  }

  #hasAnswerRoom(): boolean {
    const bytes = this.#connection.unsentBytes + this.#reservedBytes;
    return !this.#isAtUnsentBound(bytes) && (bytes === 0 || !this.#host.accountant.unsent.isFull);
  }

  #reserve(sizeBytes: number): void {
    this.#reservedBytes += sizeBytes;
    this.#host.accountant.unsent.add(sizeBytes);
  }

  #beginAnswers(): void {
    while (this.#answerQueue.length > 0 && (!this.#isOpen || this.#hasAnswerRoom())) {
      const next = this.#answerQueue.shift();
      if (next === undefined) return;
      this.#reserve(next.sizeBytes);
      next.begin();
    }
  }

  /** A little below the bound, so that envelopes and small answers still fit under it. */
  #isAtUnsentBound(bytes: number): boolean {
    return bytes * 16 >= this.#host.unsentBytesMax * 15;
  }

  /** Begins to serve, with what came in meanwhile. */
  serve(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    this.#updatePause();
    for (const message of held) this.#receive(message);
  }

  send(messages: readonly Uint8Array[]): void {
    if (!this.#isOpen) return;
    this.#connection.send(messages);
    this.#countUnsent();
  }

  /** Gives back a request's bytes: it is answered. */
  release(sizeBytes: number): void {
    this.#inFlightBytes -= sizeBytes;
    this.#host.accountant.requests.add(-sizeBytes);
    this.#updatePause();
  }

  /** Runs the work once there is room for answers again, or the connection is gone. */
  whenDrained(work: DrainWork): void {
    this.#onDrained.push(work);
  }

  /** Looks at the budgets again: after a drain, at each sweep, and when a broker-wide account has room again. */
  settle(): void {
    this.#countUnsent();
    this.#updatePause();
    this.#runDrained();
    this.#beginAnswers();
  }

  #runDrained(): void {
    if (this.#onDrained.length === 0 || (this.#isOpen && this.isUnsentFull)) return;
    const works = this.#onDrained;
    this.#onDrained = [];
    for (const work of works) work();
  }

  /** D-24: owed bodies that do not come, and a first request that does not, end the connection; our own pause is no silence. */
  closeIfSilent(nowMs: number): void {
    if (this.#isPaused || (this.clientId !== undefined && !this.#assembler.owesBodies)) return;
    if (nowMs - this.#lastReceivedMs < LIMITS.OWED_BODY_SILENCE_MS) return;
    const awaited = this.#assembler.owesBodies ? "an announced body" : "the first request";
    this.close(`no byte of ${awaited} for ${LIMITS.OWED_BODY_SILENCE_MS} ms`);
  }

  /** Sends what is enqueued, then closes. */
  close(reason: string): void {
    if (!this.#isOpen || this.#isClosing) return;
    this.#isClosing = true;
    this.#connection.close(reason);
  }

  destroy(): void {
    this.#connection.destroy();
  }

  #receive(message: Uint8Array): void {
    if (!this.#isOpen || this.#isClosing) return;
    if (this.#held !== undefined) {
      this.#held.push(message);
      return;
    }
    this.#lastReceivedMs = this.#host.nowMs();
    this.#inFlightBytes += message.length;
    this.#unassembledBytes += message.length;
    this.#host.accountant.requests.add(message.length);
    const assembled = this.#assembler.push(message);
    switch (assembled.kind) {
      case "incomplete":
        break;
      case "message": {
        const sizeBytes = this.#unassembledBytes;
        this.#unassembledBytes = 0;
        this.#host.onRequest(this, assembled.message, sizeBytes);
        break;
      }
      case "broken":
        this.refuse(assembled);
        break;
    }
    this.#updatePause();
  }

  /** Tells a peer that broke the protocol why, where its request can be named, and cuts it off. */
  refuse(broken: { readonly error: ErrorName; readonly reason: string; readonly correlationId: number | null }): void {
    const refusal = encodeRefusal(broken);
    if (refusal !== null) this.send(refusal);
    this.#host.onBroken(this, broken.error, broken.reason);
    this.close(`${broken.error}: ${broken.reason}`);
  }

  #closed(reason: string): void {
    this.#isOpen = false;
    this.#held = undefined;
    this.#countUnsent();
    this.release(this.#unassembledBytes);
    this.#unassembledBytes = 0;
    for (const dependent of [...this.dependents]) dependent.onConnectionClosed();
    this.#runDrained();
    this.#beginAnswers();
    this.#host.onClosed(this, reason);
  }

  #countUnsent(): void {
    const unsentBytes = this.#isOpen ? this.#connection.unsentBytes : 0;
    this.#host.accountant.unsent.add(unsentBytes - this.#countedUnsentBytes);
    this.#countedUnsentBytes = unsentBytes;
  }

  #updatePause(): void {
    if (!this.#isOpen) return;
    const isFull =
      this.#held !== undefined ||
      this.#inFlightBytes >= this.#host.inFlightBytesMax ||
      this.#host.accountant.requests.isFull ||
      this.#isAtUnsentBound(this.#connection.unsentBytes);
    if (isFull === this.#isPaused) return;
    this.#isPaused = isFull;
    if (isFull) this.#connection.pause();
    else {
      this.#lastReceivedMs = this.#host.nowMs();
      this.#connection.resume();
    }
  }
}
