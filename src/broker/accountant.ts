// Bounded memory (D-26, invariant 43): every byte that a peer can make the broker hold is on a named account with a cap. An account may
// be overdrawn by what was already on its way; while it is full, whoever fills it stops reading its socket.

export class Account {
  readonly name: string;
  readonly capBytes: number;
  /** Called when a full account has fallen to three quarters: not at once, or a socket would flap with every answer. */
  onRoom: () => void = () => {};
  #usedBytes = 0;
  #wasFull = false;

  constructor(name: string, capBytes: number) {
    this.name = name;
    this.capBytes = capBytes;
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  get isFull(): boolean {
    return this.#usedBytes >= this.capBytes;
  }

  /** A negative amount gives back. */
  add(bytes: number): void {
    this.#usedBytes += bytes;
    if (this.isFull) this.#wasFull = true;
    else if (this.#wasFull && this.#usedBytes * 4 <= this.capBytes * 3) {
      this.#wasFull = false;
      this.onRoom();
    }
  }
}

/** The accounts of one broker. Tail cache and journal-pinned bytes are storage's own. */
export class Accountant {
  /** Requests received and not yet answered. */
  readonly requests: Account;
  /** Answers that peers have not taken yet. */
  readonly unsent: Account;
  readonly delayedMax: number;
  #delayedCount = 0;

  constructor(caps: { readonly requestBytes: number; readonly unsentBytes: number; readonly delayedRequests: number }) {
    this.requests = new Account("requests", caps.requestBytes);
    this.unsent = new Account("unsent", caps.unsentBytes);
    this.delayedMax = caps.delayedRequests;
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
