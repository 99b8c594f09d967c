// Answers to Metadata that are asked for again and again, encoded: what describes thousands of partitions costs a copy, not an encoding.
import type { NodeId } from "../model/ids.ts";
import type { Clock } from "../ports/clock.ts";
import type { MetadataRequest } from "../wire/native/apis.ts";

/** A log's damage shows in the answer and is no change of the image; reads clear the cache when they meet one, for all else this is the delay. */
const FRESH_MS = 1_000;
const ANSWERS_MAX = 8;
/** Shorter ones are made in no time, and would crowd out the others. */
const PAYLOAD_BYTES_MIN = 1024;
/** Requests that name more are not looked for. */
const NAMES_MAX = 4;

type Asked = Pick<MetadataRequest, "topics" | "after"> & {
  /** Of the layout of the answer. */
  readonly version: number;
  readonly pageBytes: number;
  /** It is known before the image changes. */
  readonly controllerId: NodeId | null;
};

export class MetadataAnswers {
  readonly #clock: Clock;
  readonly #answers = new Map<string, { readonly payload: Uint8Array; readonly madeMs: number }>();
  #endOffset = -1;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The encoded payload, made by `make` when none of this image is at hand. */
  get(request: Asked, endOffset: number, make: () => Uint8Array): Uint8Array {
    if (endOffset !== this.#endOffset) this.clear();
    this.#endOffset = endOffset;
    const { topics, after, version, controllerId, pageBytes } = request;
    if (topics !== null && topics.length > NAMES_MAX) return make();
    const key = JSON.stringify([version, pageBytes, controllerId, after, topics]);
    const nowMs = this.#clock.monoMs();
    const known = this.#answers.get(key);
    if (known !== undefined && nowMs - known.madeMs < FRESH_MS) return known.payload;
    const payload = make();
    this.#answers.delete(key);
    if (payload.length < PAYLOAD_BYTES_MIN) return payload;
    this.#answers.set(key, { payload, madeMs: nowMs });
    for (const oldest of this.#answers.keys()) {
      if (this.#answers.size <= ANSWERS_MAX) break;
      this.#answers.delete(oldest);
    }
    return payload;
  }

  clear(): void {
    this.#answers.clear();
  }
}
