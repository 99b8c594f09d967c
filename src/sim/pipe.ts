// One direction of a simulated connection: chunks wait at the sender, travel in order, wait at a paused receiver.
//
//   send() -> unsent -> (while less than a window is on the way) travelling -> arrived -> onReceive
//
// What the sender cannot put on the way counts as unsent, so a slow or paused receiver is felt at the sending end (N5). What
// meets a cut path or a stalled pipe waits there, and arrives late and in order (N3); where only the way back is cut, bytes
// arrive but are never confirmed, until a window is full.
import { Ring } from "../base/ring.ts";
import type { Rng } from "../base/rng.ts";
import type { Path, Traveller } from "./path.ts";
import type { Incarnation, SimWorld } from "./world.ts";

export interface LinkQuality {
  /** Mean one-way delay; a few packets in a hundred take up to a hundred times as long (N1). */
  readonly delayMs: number;
  /** Bytes per millisecond. */
  readonly bandwidth: number;
  /** Most bytes on the way, as in a TCP window. */
  readonly windowBytes: number;
}

export interface PipeEnds {
  readonly sender: Incarnation;
  readonly receiver: Incarnation;
  readonly label: string;
}

/** A chunk that was sent, or the end of the stream. */
type Parcel =
  | { readonly bytes: Uint8Array; readonly onTaken?: (() => void) | undefined }
  | { readonly closeReason: string };

export interface PipeHandlers {
  onReceive(bytes: Uint8Array): void;
  onEnd(reason: string): void;
  onDrain(): void;
}

/** Above this the sender is told when half of it has gone. */
const HIGH_WATER_BYTES = 256 * 1024;

/** Between two arrivals, so that they are never at one time, where the seed would order them. */
const GAP_MS = 0.0001;

/** Longest that a sender waits before it tries again after the path is open: its timer doubles with each try. */
const RETRANSMIT_MS_MAX = 2000;

export interface PipeOptions {
  readonly rng: Rng;
  readonly ends: PipeEnds;
  readonly path: Path;
  /** Where the confirmations come from. */
  readonly wayBack: Path;
  readonly cutsChunks: boolean;
  readonly handlers: PipeHandlers;
}

export class Pipe implements Traveller {
  readonly #world: SimWorld;
  readonly #rng: Rng;
  readonly #ends: PipeEnds;
  readonly #path: Path;
  readonly #wayBack: Path;
  readonly #cutsChunks: boolean;
  readonly #handlers: PipeHandlers;
  readonly #unsent = new Ring<Parcel>();
  /** Sent, and stuck on the way. */
  readonly #held = new Ring<Parcel>();
  readonly #arrived = new Ring<Parcel>();
  #unsentBytes = 0;
  #travellingBytes = 0;
  /** Delivered, but the sender does not know. */
  #unconfirmedBytes = 0;
  #lastArrivalMs = 0;
  #stalledUntilMs = 0;
  #heldSinceMs = 0;
  #isPaused = false;
  #isCut = false;
  #owesDrain = false;

  constructor(world: SimWorld, options: PipeOptions) {
    this.#world = world;
    this.#rng = options.rng;
    this.#ends = options.ends;
    this.#path = options.path;
    this.#wayBack = options.wayBack;
    this.#cutsChunks = options.cutsChunks;
    this.#handlers = options.handlers;
  }

  get unsentBytes(): number {
    return this.#unsentBytes;
  }

  /** The bytes are the sender's own until they go on the way: whoever uses them again before `onTaken` sends something else. */
  send(bytes: Uint8Array, onTaken?: () => void): void {
    if (this.#isCut) return;
    this.#unsent.push({ bytes, onTaken });
    this.#unsentBytes += bytes.length;
    if (this.#unsentBytes > HIGH_WATER_BYTES) this.#owesDrain = true;
    this.#fill();
  }

  /** The receiver's onEnd comes after everything sent before. */
  end(closeReason: string): void {
    this.#unsent.push({ closeReason });
    this.#fill();
  }

  /** Nothing arrives any more, whatever is on the way. */
  cut(): void {
    this.#isCut = true;
  }

  /** N3: what is under way, and what follows, arrives this much later at the earliest. */
  stall(durationMs: number): void {
    this.#stalledUntilMs = this.#world.nowMs + durationMs;
  }

  /** What is late comes now. */
  hurry(): void {
    this.#stalledUntilMs = 0;
    if (this.#held.length > 0 && !this.#path.isCut) this.#releaseIn(0);
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    if (this.#arrived.length > 0) this.#schedule("resume", 0, () => this.#deliver());
  }

  #fill(): void {
    const { quality } = this.#path;
    while (this.#unsent.length > 0 && this.#travellingBytes < quality.windowBytes) {
      const parcel = this.#unsent.shift();
      if (parcel === undefined) break;
      if ("bytes" in parcel) {
        this.#unsentBytes -= parcel.bytes.length;
        for (const piece of this.#pieces(parcel.bytes)) this.#dispatch({ bytes: piece }, piece.length, quality);
        parcel.onTaken?.();
      } else this.#dispatch(parcel, 0, quality);
    }
    if (this.#owesDrain && this.#unsentBytes <= HIGH_WATER_BYTES / 2) {
      this.#owesDrain = false;
      this.#world.schedule({ delayMs: 0, kind: "drain", owner: this.#ends.sender, detail: this.#ends.label }, () =>
        this.#handlers.onDrain(),
      );
    }
  }

  /** Copies. A byte stream arrives in any pieces; a message arrives whole. */
  #pieces(bytes: Uint8Array): Uint8Array[] {
    if (!this.#cutsChunks || bytes.length === 0) return [bytes.slice()];
    const pieces: Uint8Array[] = [];
    const isTiny = this.#rng.chance(0.1);
    for (let at = 0; at < bytes.length; ) {
      const size = this.#rng.between(1, isTiny && pieces.length < 64 ? 3 : bytes.length - at);
      pieces.push(bytes.slice(at, at + size));
      at += size;
    }
    return pieces;
  }

  #dispatch(parcel: Parcel, sizeBytes: number, quality: LinkQuality): void {
    this.#travellingBytes += sizeBytes;
    const start = Math.max(this.#world.nowMs, this.#lastArrivalMs - quality.delayMs);
    const arrivalMs = Math.max(
      this.#lastArrivalMs + GAP_MS,
      start + this.#delayMs(quality) + sizeBytes / quality.bandwidth,
    );
    this.#lastArrivalMs = arrivalMs;
    const payload = "bytes" in parcel ? parcel.bytes : undefined;
    this.#schedule("receive", arrivalMs - this.#world.nowMs, () => this.#arrive(parcel), payload);
  }

  #arrive(parcel: Parcel): void {
    if (this.#held.length > 0) {
      this.#held.push(parcel);
      return;
    }
    const stallMs = this.#stalledUntilMs - this.#world.nowMs;
    if (this.#path.isCut || stallMs > 0) {
      this.#held.push(parcel);
      this.#heldSinceMs = this.#world.nowMs;
      if (this.#path.isCut) this.#path.whenOpen(this);
      else this.#releaseIn(stallMs);
      return;
    }
    this.#arrived.push(parcel);
    if (!this.#isPaused) this.#deliver();
  }

  /** The path of what is held, or of the confirmations, is open again. */
  pathOpened(): void {
    if (this.#isCut) return;
    const waitMs = Math.min(this.#world.nowMs - this.#heldSinceMs, RETRANSMIT_MS_MAX);
    if (this.#held.length > 0 && !this.#path.isCut) this.#releaseIn((this.#rng.u32() / 2 ** 32) * waitMs);
    if (this.#unconfirmedBytes === 0 || this.#wayBack.isCut) return;
    this.#travellingBytes -= this.#unconfirmedBytes;
    this.#unconfirmedBytes = 0;
    this.#fill();
  }

  #releaseIn(delayMs: number): void {
    this.#schedule("retransmit", delayMs, () => {
      if (this.#path.isCut) {
        this.#path.whenOpen(this);
        return;
      }
      for (let parcel = this.#held.shift(); parcel !== undefined; parcel = this.#held.shift())
        this.#arrived.push(parcel);
      if (!this.#isPaused) this.#deliver();
    });
  }

  #delayMs(quality: LinkQuality): number {
    const uniform = (this.#rng.u32() + 1) / 2 ** 32;
    const tail = this.#rng.chance(0.02) ? this.#rng.between(2, 100) : 1;
    return quality.delayMs * (0.5 - Math.log(uniform) * 0.5) * tail;
  }

  #deliver(): void {
    while (this.#arrived.length > 0 && !this.#isPaused && !this.#isCut) {
      const parcel = this.#arrived.shift();
      if (parcel === undefined) return;
      if ("bytes" in parcel) {
        this.#confirm(parcel.bytes.length);
        this.#handlers.onReceive(parcel.bytes);
      } else this.#handlers.onEnd(parcel.closeReason);
    }
    if (!this.#isCut) this.#fill();
  }

  #confirm(sizeBytes: number): void {
    if (!this.#wayBack.isCut) {
      this.#travellingBytes -= sizeBytes;
      return;
    }
    this.#unconfirmedBytes += sizeBytes;
    this.#wayBack.whenOpen(this);
  }

  #schedule(kind: string, delayMs: number, run: () => void, payload?: Uint8Array): void {
    this.#world.schedule({ delayMs, kind, owner: this.#ends.receiver, payload, detail: this.#ends.label }, () => {
      if (!this.#isCut) run();
    });
  }
}
