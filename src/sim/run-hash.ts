// The fingerprint of a run: everything that happened, folded into 64 bits. Two runs of one seed must agree on it.
import type { Checksum } from "../ports/checksum.ts";

const CHECKPOINT_EVENTS = 10_000;

/** Two 32-bit lanes with different multipliers; the order of what is folded matters. */
export class RunHash {
  readonly checkpoints: string[] = [];
  readonly #checksum: Checksum;
  #low = 0x9e3779b9;
  #high = 0x85ebca6b;
  readonly #names = new Map<string, number>();
  #events = 0;

  constructor(checksum: Checksum) {
    this.#checksum = checksum;
  }

  get events(): number {
    return this.#events;
  }

  /** 16 hexadecimal digits. */
  get value(): string {
    return (this.#high >>> 0).toString(16).padStart(8, "0") + (this.#low >>> 0).toString(16).padStart(8, "0");
  }

  u32(value: number): void {
    this.#low = Math.imul(this.#low ^ value, 0x01000193) ^ (this.#low >>> 15);
    this.#high = Math.imul(this.#high ^ (value + this.#low), 0x5bd1e995) ^ (this.#high >>> 13);
  }

  number(value: number): void {
    const whole = Math.floor(value);
    this.u32(whole >>> 0);
    this.u32(Math.floor(whole / 0x100000000));
    this.u32(Math.round((value - whole) * 0x40000000));
  }

  /** For names of which there are few: each is remembered. */
  text(value: string): void {
    let sum = this.#names.get(value);
    if (sum === undefined) {
      sum = value.length;
      for (let at = 0; at < value.length; at++) sum = Math.imul(sum ^ value.charCodeAt(at), 0x01000193);
      this.#names.set(value, sum);
    }
    this.u32(sum);
  }

  bytes(value: Uint8Array): void {
    this.u32(this.#checksum.crc32c(value));
    this.u32(value.length);
  }

  /** Counts one event as folded. */
  endEvent(): void {
    this.#events++;
    if (this.#events % CHECKPOINT_EVENTS === 0) this.checkpoints.push(this.value);
  }
}
