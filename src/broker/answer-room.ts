// What one connection may hold of answers: those being read, and those that its peer has not taken. Bounded for the connection and, by the
// account `unsent`, for all of them together.
import { Ring } from "../base/ring.ts";
import { type Account, SMALL_ANSWER_BYTES } from "./accountant.ts";

interface WaitingAnswer {
  readonly sizeBytes: number;
  /** 0 = the connection is gone. */
  readonly begin: (grantedBytes: number) => void;
}

export class AnswerRoom {
  readonly #connection: { readonly unsentBytes: number };
  readonly #account: Account;
  readonly #unsentBytesMax: number;
  readonly #queue = new Ring<WaitingAnswer>();
  #isClosed = false;
  /** The head of the queue waits for the account. */
  #isHeadWaiting = false;
  #countedUnsentBytes = 0;
  #reservedBytes = 0;
  /** Of answers to requests that were taken and are not answered: small ones, whose size nobody knows before. */
  #owedBytes = 0;
  #drainWorks: (() => void)[] = [];
  #lastSampleBytes = 0;
  #progressMs = 0;
  /** Only the connection's own bound holds: a replica that waits for others' slow readers would stop what they wait for. */
  isOfReplica = false;

  constructor(connection: { readonly unsentBytes: number }, account: Account, unsentBytesMax: number) {
    this.#connection = connection;
    this.#account = account;
    this.#unsentBytesMax = unsentBytesMax;
  }

  /** The peer takes its answers too slowly: send it no more large ones. */
  get isFull(): boolean {
    return this.#isAtBound(this.#connection.unsentBytes);
  }

  /** This peer takes its answers too slowly, or all together do and this one has its share of what waits: take no more requests of it. */
  get mustWait(): boolean {
    const heldBytes = this.#connection.unsentBytes + this.#owedBytes;
    const isShort = this.#account.isFull && !this.isOfReplica;
    return this.#isAtBound(heldBytes) || (isShort && heldBytes > SMALL_ANSWER_BYTES);
  }

  /** Nothing is being read for this peer or waits for it. */
  get isIdle(): boolean {
    return this.#queue.length === 0 && this.#connection.unsentBytes + this.#reservedBytes === 0;
  }

  /** A request was taken whose answer will have about so many bytes; negative when it has been answered. */
  owe(bytes: number): void {
    this.#owedBytes += bytes;
    this.#account.add(bytes);
  }

  /**
   * Room for an answer that is to be read, to be given back by `release`. All of `sizeBytes`; or fewer, when all peers together hold too much but
   * this one nothing, for an answer that must then be no larger; or undefined: `acquire`, and wait in turn.
   */
  tryAcquire(sizeBytes: number, maySmall: boolean): number | undefined {
    const heldBytes = this.#connection.unsentBytes + this.#reservedBytes;
    if (this.#queue.length > 0 || this.#isAtBound(heldBytes)) return undefined;
    if (this.#account.tryReserve(sizeBytes)) {
      this.#reservedBytes += sizeBytes;
      return sizeBytes;
    }
    const smallBytes = Math.min(sizeBytes, SMALL_ANSWER_BYTES);
    if (!maySmall || heldBytes + smallBytes > SMALL_ANSWER_BYTES) return undefined;
    this.adjust(smallBytes);
    return smallBytes;
  }

  /** Resolves with `sizeBytes` when there is room, in turn; with 0 when the connection is gone. */
  acquire(sizeBytes: number): Promise<number> {
    return new Promise((begin) => {
      this.#queue.push({ sizeBytes, begin });
      this.#beginWaiting();
    });
  }

  /** What was acquired turns out to be more or less. */
  adjust(bytes: number): void {
    this.#reservedBytes += bytes;
    this.#account.add(bytes);
  }

  release(sizeBytes: number): void {
    this.adjust(-sizeBytes);
    this.#beginWaiting();
  }

  /** Runs the work once there is room under the connection's own bound again, or the connection is gone. */
  whenDrained(work: () => void): void {
    this.#drainWorks.push(work);
  }

  /** After a send. */
  count(): void {
    const unsentBytes = this.#isClosed ? 0 : this.#connection.unsentBytes;
    const grownBytes = unsentBytes - this.#countedUnsentBytes;
    if (grownBytes === 0) return;
    this.#countedUnsentBytes = unsentBytes;
    this.#account.add(grownBytes);
  }

  /** Looks again: after a drain and at each sweep. */
  settle(): void {
    this.count();
    if (this.#drainWorks.length > 0 && (this.#isClosed || !this.isFull)) {
      const works = this.#drainWorks;
      this.#drainWorks = [];
      for (const work of works) work();
    }
    this.#beginWaiting();
  }

  /** How long the peer has taken nothing of what waits for it, as far as the sweeps saw. */
  stalledMs(nowMs: number): number {
    const { unsentBytes } = this.#connection;
    if (unsentBytes === 0 || unsentBytes < this.#lastSampleBytes || this.#lastSampleBytes === 0)
      this.#progressMs = nowMs;
    this.#lastSampleBytes = unsentBytes;
    return nowMs - this.#progressMs;
  }

  close(): void {
    this.#isClosed = true;
    this.settle();
  }

  #beginWaiting(): void {
    for (let head = this.#queue.peek(); head !== undefined; head = this.#queue.peek()) {
      if (this.#isClosed) this.#begin(0);
      else if (this.#isHeadWaiting || this.#isAtBound(this.#connection.unsentBytes + this.#reservedBytes)) return;
      else if (this.#account.tryReserve(head.sizeBytes)) this.#begin(head.sizeBytes);
      else return this.#waitForAccount(head.sizeBytes);
    }
  }

  #begin(grantedBytes: number): void {
    this.#reservedBytes += grantedBytes;
    this.#queue.shift()?.begin(grantedBytes);
  }

  #waitForAccount(sizeBytes: number): void {
    this.#isHeadWaiting = true;
    const isOpen = () => !this.#isClosed;
    this.#account.wait({
      sizeBytes,
      get isWaiting() {
        return isOpen();
      },
      onRoom: () => {
        this.#isHeadWaiting = false;
        this.#begin(sizeBytes);
        this.#beginWaiting();
      },
    });
  }

  /** A little below the bound, so that envelopes and small answers still fit under it. */
  #isAtBound(bytes: number): boolean {
    return bytes * 16 >= this.#unsentBytesMax * 15;
  }
}
