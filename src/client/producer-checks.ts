// What a producer's options and those of its calls take, and which of them do not go together.
import { OttlaError } from "../model/errors.ts";
import { producerNameFault } from "../model/producer-name.ts";
import type { TopicMetadata } from "../wire/native/apis.ts";
import {
  aBoolean,
  aDuration,
  aFunction,
  anInteger,
  aSignal,
  aText,
  type Check,
  type Checks,
  oneOf,
} from "./options.ts";
import type { ProducerOptions, SendOptions } from "./types.ts";

const ACKS = oneOf(0, 1, "all");
const aProducerName: Check = (value) => aText(value) ?? producerNameFault(value as string);

export const CHECKS: Checks<ProducerOptions> = {
  acks: ACKS,
  idempotent: aBoolean,
  name: aProducerName,
  lingerMs: aDuration("zero"),
  batchBytes: anInteger(1),
  compression: oneOf("none", "gzip", "snappy", "lz4", "zstd"),
  deliveryTimeoutMs: aDuration(),
  requestTimeoutMs: aDuration(),
  bufferBytes: anInteger(1),
  maxInFlight: anInteger(1),
  partitioner: aFunction,
  onBatch: aFunction,
};
export const SEND_CHECKS: Checks<SendOptions> = { acks: ACKS, signal: aSignal };
export const FLUSH_CHECKS: Checks<{ signal?: AbortSignal }> = { signal: aSignal };
export const CLOSE_CHECKS: Checks<{ timeoutMs?: number }> = { timeoutMs: aDuration("zero") };

/** A name that fences nobody, or numbers that no batch carries. */
export function refuseFalsePromise({ name, idempotent, acks = "all" }: ProducerOptions): void {
  const isNumbered = idempotent !== false && acks === "all";
  if (name !== undefined && !isNumbered)
    throw new OttlaError("INVALID_REQUEST", 'producer: name goes with idempotent: true and acks: "all" only');
  if (idempotent === true && !isNumbered)
    throw new OttlaError("INVALID_REQUEST", 'producer: idempotent: true goes with acks: "all" only');
}

export const unfenced = (): OttlaError =>
  new OttlaError("INVALID_REQUEST", 'send: a producer with a name sends with acks: "all" only', {
    hint: "nothing would keep what is sent with acks 0 or 1 apart from the sends of its successor: take a producer without a name for it",
  });

/** Records of compacted topics have a key: without one, nothing says which record takes the place of which. */
export class KeyRule {
  #topic: TopicMetadata | undefined;
  #needsKey = false;

  /** Throws INVALID_RECORD. Where the topic's own settings do not say that it is compacted, its leader decides. */
  check(topic: TopicMetadata, key: Uint8Array | null): void {
    if (key !== null) return;
    // Asked for each record: the answer is kept for as long as the metadata are the same.
    if (topic !== this.#topic) {
      this.#topic = topic;
      this.#needsKey = isCompacted(topic);
    }
    if (!this.#needsKey) return;
    throw new OttlaError("INVALID_RECORD", `a record without a key: cleanup.policy of ${topic.name} has compact`, {
      hint: "give each record a key (CLI: -K :)",
      outcome: "not appended",
    });
  }
}

function isCompacted({ configs }: TopicMetadata): boolean {
  const policy = configs.find(({ key }) => key === "cleanup.policy")?.value ?? "";
  return policy.split(",").some((word) => word.trim() === "compact");
}
