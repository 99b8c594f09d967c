// One client connection: messages into requests, budgets into pause and resume (D-24, D-26; the policy is in accountant.ts). What one peer does
// wrong, too slowly or too much of, stays on its connection.
import { Ring } from "../base/ring.ts";
import type { ErrorName } from "../model/errors.ts";
import type { MessageConnection } from "../ports/transport.ts";
import { API } from "../wire/native/apis.ts";
import { encodeRefusal, RequestAssembler } from "../wire/native/codec.ts";
import { type DecodedRequest, LIMITS, type RequestHeader } from "../wire/native/protocol.ts";
import { type Account, type Accountant, CONNECTION_SHARE_BYTES } from "./accountant.ts";
import { AnswerRoom } from "./answer-room.ts";
import { answerBytesOf, overheadBytesOf } from "./request-cost.ts";
import type { TurnQueue } from "./turn-queue.ts";

export interface ConnectionHost {
  readonly accountant: Accountant;
  readonly inFlightBytesMax: number;
  readonly unsentBytesMax: number;
  readonly bodyBytesMax: number;
  nowMs(): number;
  /** What goes on in a later turn. */
  readonly turns: TurnQueue;
  /** In arrival order. The bytes stay on the accounts until `release`. */
  onRequest(connection: ClientConnection, message: DecodedRequest, sizeBytes: number): void;
  onBroken(connection: ClientConnection, error: ErrorName, reason: string): void;
  onClosed(connection: ClientConnection, reason: string): void;
  guard(work: () => void): void;
}

/** Work that ends with the connection it is for. */
export interface ConnectionDependent {
  onConnectionClosed(): void;
}

/** A connection that has kept the loop busy for this long goes on in a later turn, after the others. */
const SLICE_MS = 2;
/** A request that took this long is dear: while others wait for their turn, so does the next one of its connection. */
const DEAR_MS = 0.5;
/** An incomplete message shorter than this may stay so. */
const PARTIAL_BYTES = 1024;
const MiB = 1024 * 1024;
/** Who holds a place without having said Hello, while few are left, loses it after this. */
const CROWDED_HELLO_MS = 2_000;
/** A peer that takes nothing for this long while others wait for room is cut. */
const STALL_MS = 60_000;

export class ClientConnection {
  readonly remote: string;
  readonly answers: AnswerRoom;
  readonly #connection: MessageConnection;
  readonly #host: ConnectionHost;
  readonly #assembler: RequestAssembler;
  /** Set by the Hello of this connection. */
  clientId: string | undefined;
  readonly dependents = new Set<ConnectionDependent>();
  #isOpen = true;
  /** We have closed it: what still comes in is not looked at. */
  #isClosing = false;
  /** No budget for the next message. */
  #isBlocked = false;
  /** The transport does not read. */
  #isPaused = false;
  /** Has had its slice: goes on in a later turn. */
  #isYielding = false;
  #busyMs = 0;
  #lastMs = 0;
  /** Received, but not looked at. */
  readonly #backlog = new Ring<Uint8Array>();
  #backlogBytes = 0;
  #lastReceivedMs: number;
  /** When a sweep first saw the message that is incomplete now. */
  #partialSinceMs: number | undefined;
  /** Of `#backlogBytes` and the transport's incomplete message, as of the last sweep. */
  #countedPartialBytes = 0;
  /** As the last sweep saw it, and when it last was another. */
  #seenPartialBytes = 0;
  #grownMs = 0;
  #expectedBytes: number = LIMITS.ENVELOPE_BYTES;
  /** Bytes of requests received and not released, a half received one with all that it announced among them. */
  #inFlightBytes = 0;
  /** Those of them that are on the account of other nodes. */
  #peerBytes = 0;
  /** The part of them that is no request yet, and the account that it is on. */
  #halfBytes = 0;
  #halfAccount: Account;
  /** The half message's bodies have no room yet. */
  #isAwaitingGrant = false;
  readonly #inFlightIds = new Set<number>();
  readonly #onTurn = (): void => {
    this.#isYielding = false;
    this.#busyMs = 0;
    this.#work();
  };

  constructor(connection: MessageConnection, host: ConnectionHost) {
    this.remote = connection.remote;
    this.#connection = connection;
    this.#host = host;
    this.#assembler = new RequestAssembler({ bodyBytesMax: host.bodyBytesMax });
    this.#halfAccount = host.accountant.produce;
    this.#lastReceivedMs = host.nowMs();
    this.answers = new AnswerRoom(connection, host.accountant.unsent, host.unsentBytesMax);
  }

  /** Once, in the turn in which the transport handed the connection out. */
  start(): void {
    this.#connection.start({
      onReceive: (message) => this.#host.guard(() => this.#receive(message)),
      onClose: (reason) => this.#host.guard(() => this.#closed(reason)),
      onDrain: () => this.#host.guard(() => this.settle()),
    });
    this.#connection.expect?.(this.#expectedBytes);
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

  send(messages: readonly Uint8Array[], onTaken?: () => void): void {
    if (!this.#isOpen) return;
    this.#connection.send(messages, onTaken);
    this.answers.count();
  }

  /** Gives back a request's bytes and its correlation id: it is answered. */
  release({ api, correlationId }: Pick<RequestHeader, "api" | "correlationId">, sizeBytes: number): void {
    this.#inFlightIds.delete(correlationId);
    this.#charge(this.#accountOf(api), -sizeBytes);
    this.answers.owe(-answerBytesOf(api));
    this.#updatePause();
  }

  /** Looks at the budgets again: after a drain, at each sweep, and when a broker-wide account has room again. */
  settle(): void {
    this.answers.settle();
    this.#updatePause();
  }

  /** Once a second: budgets, and the ends of those who keep us waiting. `isCrowded`: there are few places left. */
  sweep(nowMs: number, isCrowded: boolean): void {
    this.#countPartial(nowMs);
    this.settle();
    this.#closeIfSilent(nowMs, isCrowded);
    const { unsent } = this.#host.accountant;
    if (this.answers.stalledMs(nowMs) < STALL_MS || !(unsent.isFull || unsent.isWaitedFor)) return;
    this.#host.onBroken(this, "BUSY", "takes no answers while others wait for room");
    this.destroy();
  }

  /** Sends what is enqueued, then closes. */
  close(reason: string): void {
    if (!this.#isOpen || this.#isClosing) return;
    this.#isClosing = true;
    this.#clearBacklog();
    this.#connection.close(reason);
  }

  destroy(): void {
    this.#connection.destroy();
  }

  /** Tells a peer that broke the protocol why, where its request can be named, and cuts it off. */
  refuse(broken: { readonly error: ErrorName; readonly reason: string; readonly correlationId: number | null }): void {
    const refusal = encodeRefusal(broken);
    if (refusal !== null) this.send(refusal);
    this.#host.onBroken(this, broken.error, broken.reason);
    this.close(`${broken.error}: ${broken.reason}`);
  }

  #accountOf(api: RequestHeader["api"]): Account {
    const { accountant } = this.#host;
    switch (api) {
      case API.PRODUCE:
        return accountant.produce;
      case API.RAFT:
      case API.ALTER_PARTITION:
      case API.REPLICA_FETCH:
      case API.DURABLE_REPORT:
        return accountant.peers;
      default:
        return accountant.control;
    }
  }

  #charge(account: Account, bytes: number): void {
    this.#count(account, bytes);
    account.add(bytes);
  }

  /** Of what is on the account already. */
  #count(account: Account, bytes: number): void {
    this.#inFlightBytes += bytes;
    if (account === this.#host.accountant.peers) this.#peerBytes += bytes;
  }

  #receive(message: Uint8Array): void {
    if (!this.#isOpen || this.#isClosing) return;
    const nowMs = this.#host.nowMs();
    this.#lastReceivedMs = nowMs;
    this.#partialSinceMs = undefined;
    if (this.#isBlocked || this.#isYielding || this.#backlog.length > 0 || this.#isDear) {
      this.#backlog.push(message);
      this.#backlogBytes += message.length;
    } else {
      this.#take(message);
      this.#spend(nowMs);
    }
    this.#updatePause();
  }

  /** Goes on with what came in while there was no budget or no time for it. */
  #work(): void {
    while (this.#isOpen && !this.#isClosing && !this.#isBlocked && !this.#isYielding) {
      const message = this.#backlog.shift();
      if (message === undefined) break;
      this.#backlogBytes -= message.length;
      const startMs = this.#host.nowMs();
      this.#take(message);
      this.#spend(startMs);
      this.#isBlocked = this.#mustWait();
    }
    this.#updatePause();
  }

  get #isDear(): boolean {
    return this.#lastMs > DEAR_MS && !this.#host.turns.isEmpty;
  }

  #spend(startMs: number): void {
    this.#lastMs = this.#host.nowMs() - startMs;
    this.#busyMs += this.#lastMs;
    if (this.#busyMs > SLICE_MS) this.#yield();
  }

  #yield(): void {
    if (this.#isYielding) return;
    this.#isYielding = true;
    this.#host.turns.push(this.#onTurn);
  }

  #take(message: Uint8Array): void {
    const isEnvelope = !this.#assembler.owesBodies;
    const assembled = this.#assembler.push(message);
    switch (assembled.kind) {
      case "incomplete":
        if (isEnvelope) this.#announced(message.length);
        this.#expectNext();
        break;
      case "message":
        this.#expectNext();
        this.#request(assembled.message, isEnvelope ? message.length : 0);
        break;
      case "broken":
        this.refuse(assembled);
        break;
    }
  }

  #request(message: DecodedRequest, envelopeBytes: number): void {
    const { api, correlationId } = message.header;
    if (this.#inFlightIds.has(correlationId)) {
      const reason = `correlation id ${correlationId} is of a request that is not answered yet`;
      this.refuse({ error: "BAD_ENVELOPE", reason, correlationId });
      return;
    }
    this.#inFlightIds.add(correlationId);
    const ownBytes = envelopeBytes + overheadBytesOf(message);
    const sizeBytes = this.#halfBytes + ownBytes;
    this.#halfBytes = 0;
    this.#charge(this.#accountOf(api), ownBytes);
    this.answers.owe(answerBytesOf(api));
    this.#host.onRequest(this, message, sizeBytes);
  }

  /** The envelope of a request with bodies has come: its bodies, once they have room. */
  #announced(envelopeBytes: number): void {
    const account = this.#accountOf(this.#assembler.owedApi ?? API.PRODUCE);
    this.#halfAccount = account;
    this.#halfBytes += envelopeBytes;
    this.#charge(account, envelopeBytes);
    const sizeBytes = this.#assembler.owedBytes;
    if (account.tryReserve(sizeBytes)) return this.#granted(sizeBytes);
    this.#isAwaitingGrant = true;
    const isOpen = () => this.#isOpen;
    account.wait({
      sizeBytes,
      get isWaiting() {
        return isOpen();
      },
      onRoom: () => {
        this.#isAwaitingGrant = false;
        this.#lastReceivedMs = this.#host.nowMs();
        this.#granted(sizeBytes);
        this.#expectNext();
        this.#updatePause();
      },
    });
  }

  #granted(sizeBytes: number): void {
    this.#halfBytes += sizeBytes;
    this.#count(this.#halfAccount, sizeBytes);
  }

  /** What the transport may collect of one message: no more than has room. */
  #expectNext(): void {
    const bodyBytes = this.#isAwaitingGrant ? 0 : this.#assembler.nextBodyBytes;
    const expectedBytes = Math.max(bodyBytes, LIMITS.ENVELOPE_BYTES);
    if (expectedBytes === this.#expectedBytes) return;
    this.#expectedBytes = expectedBytes;
    this.#connection.expect?.(expectedBytes);
  }

  /** What is received and on no account yet; little, see `#expectNext`. */
  #countPartial(nowMs: number): void {
    const { partialBytes = 0 } = this.#connection;
    const isGranted = this.#assembler.owesBodies && !this.#isAwaitingGrant;
    const bytes = this.#isOpen ? this.#backlogBytes + (isGranted ? 0 : partialBytes) : 0;
    const grownBytes = bytes - this.#countedPartialBytes;
    this.#countedPartialBytes = bytes;
    this.#host.accountant.control.add(grownBytes);
    if (partialBytes !== this.#seenPartialBytes) this.#grownMs = nowMs;
    this.#seenPartialBytes = partialBytes;
    if (isGranted || this.#isPaused || partialBytes < PARTIAL_BYTES) this.#partialSinceMs = undefined;
    else this.#partialSinceMs ??= nowMs;
  }

  /** D-24: what was begun must go on: an announced body, a message, a handshake. Our own pause is no silence, and no body is owed in one. */
  #closeIfSilent(nowMs: number, isCrowded: boolean): void {
    if (this.#isPaused) return;
    const silentMs = nowMs - this.#lastReceivedMs;
    const limitMs = LIMITS.OWED_BODY_SILENCE_MS;
    if (this.#assembler.owesBodies) {
      const isSilent = silentMs >= limitMs && nowMs - this.#grownMs >= limitMs;
      if (isSilent || silentMs >= limitMs + (this.#seenPartialBytes / MiB) * 1000)
        this.close(`BODY_MISMATCH: an announced body has not come within ${Math.round(silentMs)} ms`);
    } else if (this.#partialSinceMs !== undefined && nowMs - this.#partialSinceMs >= limitMs) {
      this.close(`BAD_ENVELOPE: a message is not complete after ${limitMs} ms`);
    } else if (this.clientId === undefined && silentMs >= (isCrowded ? CROWDED_HELLO_MS : limitMs)) {
      this.close(`HANDSHAKE_REQUIRED: no first request for ${Math.round(silentMs)} ms`);
    }
  }

  #closed(reason: string): void {
    this.#isOpen = false;
    this.#clearBacklog();
    this.#countPartial(0);
    this.#charge(this.#halfAccount, -this.#halfBytes);
    this.#halfBytes = 0;
    for (const dependent of [...this.dependents]) dependent.onConnectionClosed();
    this.answers.close();
    this.#host.onClosed(this, reason);
  }

  #clearBacklog(): void {
    this.#backlog.clear();
    this.#backlogBytes = 0;
  }

  #mustWait(): boolean {
    if (this.#isAwaitingGrant) return true;
    if (this.#assembler.owesBodies) return false;
    if (this.#inFlightBytes >= this.#host.inFlightBytesMax) return true;
    if (this.answers.mustWait) return true;
    const { produce, control, peers } = this.#host.accountant;
    // What replicas say to each other is what empties the account of produce.
    const clientBytes = this.#inFlightBytes - this.#peerBytes;
    if (this.#peerBytes > CONNECTION_SHARE_BYTES && peers.isFull) return true;
    return clientBytes > CONNECTION_SHARE_BYTES && (produce.isFull || control.isFull);
  }

  #updatePause(): void {
    if (!this.#isOpen || this.#isClosing) return;
    this.#isBlocked = this.#mustWait();
    const hasBacklog = this.#backlog.length > 0;
    // In a turn of its own: we may be in the middle of a request whose answer made the room.
    if (hasBacklog && !this.#isBlocked) this.#yield();
    const mustPause = this.#isBlocked || hasBacklog;
    if (mustPause === this.#isPaused) return;
    this.#isPaused = mustPause;
    if (mustPause) this.#connection.pause();
    else {
      this.#lastReceivedMs = this.#host.nowMs();
      this.#connection.resume();
    }
  }
}
