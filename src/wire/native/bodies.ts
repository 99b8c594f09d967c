// Bodies beside the envelope: which ride inside it, which follow as messages of their own, and how a long answer is cut into
// parts (D-24).
import { assert } from "../../base/assert.ts";
import { EMPTY_BYTES, keepable } from "../../base/bytes.ts";
import type { Plain, PlainOut } from "./msgpack.ts";
import { LIMITS } from "./protocol.ts";

/** Inline bodies of one envelope together: what the longest fetch answer leaves free of the 64 KiB. */
const INLINE_TOTAL_BYTES = 16 * 1024;

export interface BodyPlan {
  /** Second-last field of the envelope: a length for each body that follows, the bytes of each that is inside. */
  readonly announcement: readonly PlainOut[];
  readonly following: readonly Uint8Array[];
}

const NO_BODIES: BodyPlan = { announcement: [], following: [] };

/** Small bodies of a small message go inside: one message instead of two is worth more than the copy. */
export function planBodies(bodies: readonly Uint8Array[]): BodyPlan {
  if (bodies.length === 0) return NO_BODIES;
  const announcement: PlainOut[] = [];
  const following: Uint8Array[] = [];
  let inlineBytes = 0;
  for (const body of bodies) {
    const { length } = body;
    const isInline = length <= LIMITS.INLINE_BODY_BYTES && inlineBytes + length <= INLINE_TOTAL_BYTES;
    announcement.push(isInline || length === 0 ? body : length);
    if (isInline) inlineBytes += length;
    else if (length > 0) following.push(body);
  }
  return { announcement, following };
}

export interface BodyFault {
  readonly error: "BAD_ENVELOPE" | "FRAME_TOO_LARGE";
  readonly reason: string;
}

/** Collects the bodies of one logical message on the receiver's side. */
export class BodyCollector {
  readonly bodies: Uint8Array[] = [];
  totalBytes = 0;
  readonly #owedAt: number[] = [];
  readonly #owedBytes: number[] = [];
  #next = 0;
  #owedTotalBytes = 0;

  get owesBodies(): boolean {
    return this.#next < this.#owedAt.length;
  }

  /** Bytes of the bodies that are announced and not here. */
  get owedTotalBytes(): number {
    return this.#owedTotalBytes;
  }

  /** Length of the next owed body. */
  get nextOwedBytes(): number {
    return this.#owedBytes[this.#next] ?? 0;
  }

  /**
   * Takes the announcement, or says what is wrong with it. Nothing is kept before all of it has been checked. D-24: several bodies are at most
   * 1 MiB together, one alone at most `bodyBytesMax`.
   */
  announce(plain: Plain, bodyBytesMax: number): BodyFault | undefined {
    if (!Array.isArray(plain)) return { error: "BAD_ENVELOPE", reason: "bodies are not an array" };
    const items = plain as readonly Plain[];
    if (items.length > LIMITS.BODIES) return { error: "BAD_ENVELOPE", reason: `more than ${LIMITS.BODIES} bodies` };
    const max = items.length > 1 ? Math.min(bodyBytesMax, LIMITS.LOGICAL_MESSAGE_BODY_BYTES) : bodyBytesMax;
    for (let index = 0; index < items.length; index++) {
      const fault = this.#announceOne(items[index] as Plain);
      if (fault !== undefined) return { error: "BAD_ENVELOPE", reason: fault };
      if (this.totalBytes > max) return { error: "FRAME_TOO_LARGE", reason: tooMuch(items.length, max) };
    }
    return undefined;
  }

  #announceOne(item: Plain): string | undefined {
    if (item instanceof Uint8Array) {
      if (item.length > LIMITS.INLINE_BODY_BYTES)
        return `an inline body of more than ${LIMITS.INLINE_BODY_BYTES} bytes`;
      this.bodies.push(item);
      this.totalBytes += item.length;
      return undefined;
    }
    if (typeof item !== "number" || item < 1) return "a body is neither a length nor bytes";
    this.#owedAt.push(this.bodies.length);
    this.#owedBytes.push(item);
    this.#owedTotalBytes += item;
    this.bodies.push(EMPTY_BYTES);
    this.totalBytes += item;
    return undefined;
  }

  /** Takes the next owed body; the reason when its length is another. */
  take(body: Uint8Array): string | undefined {
    assert(this.owesBodies, "no body is owed");
    const expectedBytes = this.#owedBytes[this.#next] as number;
    if (body.length !== expectedBytes)
      return `a message of ${body.length} bytes where a body of ${expectedBytes} was announced`;
    // D-26: until the last one is here it may take long, and what else came with this one is on no account.
    this.bodies[this.#owedAt[this.#next] as number] = this.#next + 1 < this.#owedAt.length ? keepable(body) : body;
    this.#owedTotalBytes -= expectedBytes;
    this.#next++;
    return undefined;
  }
}

function tooMuch(bodies: number, max: number): string {
  return bodies > 1 ? `${bodies} bodies of more than ${max} bytes together` : `a body of more than ${max} bytes`;
}

export interface IndexRange {
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
}

/**
 * Cuts a long answer into parts: consecutive entries with at most `maxBytes` of bodies and at most LIMITS.BODIES entries each;
 * an entry that alone is larger makes a part of its own. No entries make one empty part.
 */
export function splitBodies(
  sizes: readonly number[],
  maxBytes: number = LIMITS.LOGICAL_MESSAGE_BODY_BYTES,
): IndexRange[] {
  const parts: IndexRange[] = [];
  let start = 0;
  let partBytes = 0;
  for (let index = 0; index < sizes.length; index++) {
    const sizeBytes = sizes[index] as number;
    const isFull = index > start && (partBytes + sizeBytes > maxBytes || index - start === LIMITS.BODIES);
    if (isFull) {
      parts.push({ start, end: index });
      start = index;
      partBytes = 0;
    }
    partBytes += sizeBytes;
  }
  parts.push({ start, end: sizes.length });
  return parts;
}
