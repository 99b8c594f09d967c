// One direction of a connection through the proxy: bytes in, and, as the fault of the moment has it, later, in pieces, spoilt, or not at all.
import type { Socket } from "node:net";
import type { Rng } from "../../base/rng.ts";
import type { ProxyFault } from "../cluster-types.ts";
import type { ProxyCount } from "./proxy-counts.ts";
import { RecordFrames } from "./proxy-frames.ts";

/** What waits in a lane; beyond it the sender is not read. So much is under way where it comes late, and cannot be told from a buffer of the network where it stalls. */
const QUEUED_BYTES_MAX = 8 << 20;
/** Pieces go one by one: what waits behind more of them would only come late. */
const CHUNKED_BYTES_MAX = 64 << 10;
/** In each turn of the loop; each is a packet of its own. */
const PIECES_A_TURN = 4;

export interface LaneParts {
  readonly from: Socket;
  readonly to: Socket;
  readonly isToNode: boolean;
  readonly rng: Rng;
  readonly count: (what: ProxyCount, by?: number) => void;
  /** Both sides hear a reset. */
  readonly reset: () => void;
}

interface Waiting {
  readonly bytes: Buffer;
  readonly dueMs: number;
}

export class Lane {
  readonly #parts: LaneParts;
  #fault: ProxyFault | undefined;
  /** In the order in which it came; nothing passes what waits before it. */
  readonly #waiting: Waiting[] = [];
  #waitingBytes = 0;
  #timer: NodeJS.Timeout | undefined;
  #next: NodeJS.Immediate | undefined;
  #isEnded = false;
  #hasEndedOut = false;
  /** Of bytes since the fault began. */
  #countedBytes = 0;
  #untilFlipBytes = 0;
  /** Always followed: a fault begins in the middle of a message. */
  readonly #frames = new RecordFrames();

  constructor(parts: LaneParts) {
    this.#parts = parts;
    const { from, to } = parts;
    from.on("data", (bytes: Buffer) => this.#take(bytes));
    from.on("end", () => {
      this.#isEnded = true;
      this.#send();
    });
    to.on("drain", () => this.#send());
  }

  set(fault: ProxyFault | undefined): void {
    this.#fault = fault !== undefined && this.#isMeant(fault) ? fault : undefined;
    this.#countedBytes = 0;
    this.#untilFlipBytes = this.#fault?.kind === "flip" ? this.#drawn(this.#fault.everyBytes) : 0;
    this.#send();
  }

  #isMeant({ direction }: ProxyFault): boolean {
    return direction === "both" || (direction === "to node") === this.#parts.isToNode;
  }

  /** So that about every n-th byte is meant, at no fixed distance. */
  #drawn(everyBytes: number): number {
    return this.#parts.rng.between(1, Math.max(1, everyBytes * 2 - 1));
  }

  #take(bytes: Buffer): void {
    const { to, count, isToNode } = this.#parts;
    count(isToNode ? "bytesToNode" : "bytesFromNode", bytes.length);
    if (this.#isEnded || to.destroyed) return;
    const fault = this.#fault;
    const isRecords = fault?.kind === "flip" && fault.only === "records";
    this.#frames.take(bytes, (from, to) => {
      if (isRecords) this.#flip(bytes.subarray(from, to), fault.everyBytes);
    });
    if (fault === undefined && this.#waiting.length === 0) {
      if (!to.write(bytes)) this.#parts.from.pause();
      return;
    }
    this.#strike(bytes, fault);
  }

  /** Also bytes that came before the fault began may wait here: a fault that ends lets them go. */
  #strike(bytes: Buffer, fault: ProxyFault | undefined): void {
    const { count } = this.#parts;
    switch (fault?.kind) {
      case "delay":
        count("delayed");
        return this.#wait(bytes, performance.now() + fault.delayMs);
      case "chunk":
        return this.#chunk(bytes, fault.bytesMax);
      case "flip":
        if (fault.only === undefined) this.#flip(bytes, fault.everyBytes);
        return this.#wait(bytes, 0);
      case "reset":
      case "half-close":
        return this.#cutAt(bytes, fault);
      case "stall":
        count("stalled");
        return this.#wait(bytes, 0);
      case undefined:
        return this.#wait(bytes, 0);
    }
  }

  #chunk(bytes: Buffer, bytesMax: number): void {
    for (let at = 0; at < bytes.length; at += bytesMax) {
      this.#parts.count("chunks");
      this.#queue(bytes.subarray(at, at + bytesMax), 0);
    }
    this.#send();
  }

  #flip(bytes: Buffer, everyBytes: number): void {
    let at = this.#untilFlipBytes - 1;
    while (at < bytes.length) {
      bytes[at] = (bytes[at] ?? 0) ^ (1 << this.#parts.rng.below(8));
      this.#parts.count("flipped");
      at += this.#drawn(everyBytes);
    }
    this.#untilFlipBytes = at - bytes.length + 1;
  }

  #cutAt(bytes: Buffer, fault: ProxyFault & { readonly kind: "reset" | "half-close" }): void {
    const roomBytes = fault.afterBytes - this.#countedBytes;
    this.#countedBytes += bytes.length;
    if (bytes.length < roomBytes) return this.#wait(bytes, 0);
    if (roomBytes > 0) this.#wait(bytes.subarray(0, roomBytes), 0);
    if (fault.kind === "reset") {
      this.#parts.count("resets");
      this.#parts.reset();
      return;
    }
    this.#parts.count("halfCloses");
    this.#isEnded = true;
    this.#send();
  }

  #wait(bytes: Buffer, dueMs: number): void {
    this.#queue(bytes, dueMs);
    this.#send();
  }

  #queue(bytes: Buffer, dueMs: number): void {
    this.#waiting.push({ bytes, dueMs });
    this.#waitingBytes += bytes.length;
    if (this.#waitingBytes > this.#bytesMax) this.#parts.from.pause();
  }

  /** What is due, as far as the other side takes it. */
  #send(): void {
    const { from, to } = this.#parts;
    let pieces = 0;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    while (this.#waiting.length > 0 && this.#mayGo() && !to.writableNeedDrain) {
      const next = this.#waiting.shift();
      if (next === undefined) break;
      this.#waitingBytes -= next.bytes.length;
      to.write(next.bytes);
      if (this.#fault?.kind === "chunk" && ++pieces >= PIECES_A_TURN && this.#waiting.length > 0)
        return this.#sendNext();
    }
    if (to.writableNeedDrain) return;
    if (this.#waiting.length === 0 && this.#isEnded && !this.#hasEndedOut && this.#fault?.kind !== "stall") {
      this.#hasEndedOut = true;
      to.end();
    }
    if (this.#waitingBytes <= this.#bytesMax && from.isPaused()) from.resume();
    const [first] = this.#waiting;
    if (this.#fault?.kind === "delay" && first !== undefined)
      this.#sendIn(Math.max(1, first.dueMs - performance.now()));
  }

  get #bytesMax(): number {
    return this.#fault?.kind === "chunk" ? CHUNKED_BYTES_MAX : QUEUED_BYTES_MAX;
  }

  #mayGo(): boolean {
    if (this.#fault?.kind === "stall") return false;
    const [first] = this.#waiting;
    return first !== undefined && (this.#fault?.kind !== "delay" || first.dueMs <= performance.now());
  }

  #sendNext(): void {
    clearImmediate(this.#next);
    this.#next = setImmediate(() => this.#send());
  }

  #sendIn(delayMs: number): void {
    this.#timer = setTimeout(() => this.#send(), delayMs);
  }

  close(): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#next);
    this.#waiting.length = 0;
  }
}
