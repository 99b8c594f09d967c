// Bounded memory (D-26, invariant 43): every byte that a peer can make the broker hold is on a named account with a cap. The policy (in words
// for clients: docs/protocol.md, "Flow control"):
//
// - `produce`: produce requests received and not answered, bodies from their announcement on. Bodies that do not fit are not granted: their
//   connection is not read until it is its turn. One whose bodies are granted is never paused before they are there, and has 10 s (and 1 s
//   for each MiB that came) for each: so every grant ends, and the account always gets room again.
// - `peers`: Raft messages, fetches and wishes for ISRs of other nodes, bodies from their announcement on, by the same rule: a flood of produce never
//   holds them back.
// - `control`: all other requests received and not answered, and bytes of messages that are not complete.
// - `unsent`: answers that are being read or that the peers have not taken. While it is full, who holds more than a small answer of it is not
//   read. A large answer waits for room before it is read; when there is none it may first be a small one, if nothing else of its connection is
//   held. A peer that takes nothing for a minute while others wait is cut. Answers to replicas count, but wait for their own connection only.
//
// Nothing small ever waits for a full account: a connection that holds less than CONNECTION_SHARE_BYTES of requests is read all the same, and
// an answer of at most SMALL_ANSWER_BYTES is read all the same. So each account is bounded by its cap plus a share for each connection, and one
// peer's load, however large, never keeps another's Hello, Metadata or short fetch from being answered.
import { assert } from "../base/assert.ts";
import { Ring } from "../base/ring.ts";

/** Requests that one connection may have in the broker whatever the accounts say. */
export const CONNECTION_SHARE_BYTES = 64 * 1024;
/** Answers up to this never wait for room. */
export const SMALL_ANSWER_BYTES = 64 * 1024;
/** More than this at once is large: all large ones together leave half of the account to the others. */
const LARGE_BYTES = 1024 * 1024;

/** Waits for room: when there is, the bytes are put on the account and `onRoom` is called, once, in a turn of its own. */
export interface RoomWaiter {
  readonly sizeBytes: number;
  /** False: it waits no more, and is passed over. */
  readonly isWaiting: boolean;
  onRoom(): void;
}

type Defer = (work: () => void) => void;

/** A few messages of each peer: more than their windows let be on the way at once. */
const PEER_BYTES_MAX = 64 * 1024 * 1024;

export class Account {
  readonly name: string;
  readonly capBytes: number;
  /** Called, in a turn of its own, when a full account has fallen to three quarters: not at once, or a socket would flap with every answer. */
  onRoom: () => void = () => {};
  readonly #defer: Defer;
  readonly #small = new Ring<RoomWaiter>();
  readonly #large = new Ring<RoomWaiter>();
  #usedBytes = 0;
  #wasFull = false;
  #isLookPending = false;

  constructor(name: string, capBytes: number, defer: Defer) {
    this.name = name;
    this.capBytes = capBytes;
    this.#defer = defer;
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  get isFull(): boolean {
    return this.#usedBytes >= this.capBytes;
  }

  /** Somebody waits for room. */
  get isWaitedFor(): boolean {
    return this.#small.length + this.#large.length > 0;
  }

  /** Unconditional: for what is held already. A negative amount gives back. */
  add(bytes: number): void {
    this.#usedBytes += bytes;
    assert(this.#usedBytes >= 0, "more was given back to an account than was put on it");
    if (this.isFull) this.#wasFull = true;
    else if (bytes < 0 && (this.#wasFull || this.isWaitedFor)) this.#lookLater();
  }

  /** False: wait in turn. */
  tryReserve(bytes: number): boolean {
    if (this.#queueOf(bytes).length > 0 || !this.#hasRoomFor(bytes)) return false;
    this.add(bytes);
    return true;
  }

  wait(waiter: RoomWaiter): void {
    this.#queueOf(waiter.sizeBytes).push(waiter);
    this.#lookLater();
  }

  #queueOf(bytes: number): Ring<RoomWaiter> {
    return bytes > LARGE_BYTES ? this.#large : this.#small;
  }

  /** What could never fit beside anything else goes when a quarter is used: it overdraws, but it cannot wait for ever. */
  #hasRoomFor(bytes: number): boolean {
    const limitBytes = bytes > LARGE_BYTES ? this.capBytes / 2 : this.capBytes;
    return this.#usedBytes + bytes <= limitBytes || this.#usedBytes * 4 <= this.capBytes;
  }

  /** Never inside the call that gave back: whoever gives back may be in the middle of its own accounts. */
  #lookLater(): void {
    if (this.#isLookPending) return;
    this.#isLookPending = true;
    this.#defer(() => this.#look());
  }

  #look(): void {
    this.#isLookPending = false;
    this.#grant(this.#small);
    this.#grant(this.#large);
    if (!this.#wasFull || this.#usedBytes * 4 > this.capBytes * 3) return;
    this.#wasFull = false;
    this.onRoom();
  }

  #grant(queue: Ring<RoomWaiter>): void {
    for (let head = queue.peek(); head !== undefined; head = queue.peek()) {
      if (head.isWaiting && !this.#hasRoomFor(head.sizeBytes)) return;
      queue.shift();
      if (!head.isWaiting) continue;
      this.add(head.sizeBytes);
      head.onRoom();
    }
  }
}

/** The accounts of one broker. Tail cache and journal-pinned bytes are storage's own. */
export class Accountant {
  readonly produce: Account;
  readonly peers: Account;
  readonly control: Account;
  readonly unsent: Account;
  readonly delayedMax: number;
  #delayedCount = 0;

  /** `defer` runs work in a later turn. */
  constructor(
    caps: { readonly produceBytes: number; readonly unsentBytes: number; readonly delayedRequests: number },
    defer: Defer,
  ) {
    this.produce = new Account("produce", caps.produceBytes, defer);
    this.peers = new Account("peers", Math.min(caps.produceBytes, PEER_BYTES_MAX), defer);
    this.control = new Account("control", caps.produceBytes, defer);
    this.unsent = new Account("unsent", caps.unsentBytes, defer);
    this.delayedMax = caps.delayedRequests;
  }

  /** Requests of all kinds. */
  get requestBytes(): number {
    return this.produce.usedBytes + this.peers.usedBytes + this.control.usedBytes;
  }

  get delayedCount(): number {
    return this.#delayedCount;
  }

  /** Takes a place for a request that waits for an event; false when all are taken. */
  tryDelay(): boolean {
    if (this.#delayedCount >= this.delayedMax) return false;
    this.#delayedCount++;
    return true;
  }

  /** Takes a place beyond the bound, for work that can no longer be refused. */
  forceDelay(): void {
    this.#delayedCount++;
  }

  endDelay(): void {
    this.#delayedCount--;
  }
}
