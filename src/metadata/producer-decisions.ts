// Decisions about producer ids: blocks of them for brokers, and named producers (P-17, D-28).
import { PRODUCER_EPOCH_MAX } from "../model/batch-header.ts";
import type { NodeId } from "../model/ids.ts";
import { producerNameFault } from "../model/producer-name.ts";
import { type Decision, accepted, refused } from "./decision.ts";
import type { MetadataImage } from "./image.ts";
import type { NamedProducerImage } from "./image-types.ts";
import { NAMED_PRODUCER_IDS_START, PRODUCER_IDS_BLOCK } from "./records.ts";

export interface ProducerIdsWish {
  readonly nodeId: NodeId;
  readonly brokerEpoch: number;
}

/** A block for the broker that is registered in this epoch. */
export function decideProducerIds(image: MetadataImage, { nodeId, brokerEpoch }: ProducerIdsWish): Decision {
  const broker = image.broker(nodeId);
  if (broker?.brokerEpoch !== brokerEpoch) {
    const present = broker === undefined ? "not registered" : `in broker epoch ${broker.brokerEpoch}`;
    return refused("STALE_BROKER_EPOCH", `node ${nodeId} is ${present}, not in ${brokerEpoch}`);
  }
  const firstId = image.producerIds.nextId;
  if (firstId + PRODUCER_IDS_BLOCK > NAMED_PRODUCER_IDS_START)
    return refused("INVALID_REQUEST", `all ${NAMED_PRODUCER_IDS_START} producer ids were given out`);
  const owner = { nodeId, brokerEpoch: broker.brokerEpoch };
  return accepted({ type: "producer-ids", version: 1, ...owner, firstId, count: PRODUCER_IDS_BLOCK });
}

export interface NamedProducerWish {
  readonly name: string;
  /** What the caller goes on from; -1, -1: it begins. */
  readonly producerId: number;
  readonly producerEpoch: number;
  readonly nowMs: number;
  readonly namesMax: number;
  readonly expirationMs: number;
}

export interface NamedProducerDecision {
  readonly decision: Decision;
  /** What the caller is, once the decision is applied; undefined when it was refused. */
  readonly granted: Pick<NamedProducerImage, "producerId" | "producerEpoch"> | undefined;
}

const no = (...args: Parameters<typeof refused>): NamedProducerDecision => ({
  decision: refused(...args),
  granted: undefined,
});

/**
 * A higher epoch for a name, and its id. One that goes on has to be who has the name now; asked for again (an answer was lost), it is given the same
 * epoch.
 */
export function decideNamedProducer(image: MetadataImage, wish: NamedProducerWish): NamedProducerDecision {
  const { name, producerId, producerEpoch, nowMs } = wish;
  const fault = nameFault(wish);
  if (fault !== undefined) return no("INVALID_REQUEST", fault);
  const known = image.producerIds.byName(name);
  const isNew = producerId < 0;
  if (!isNew && known !== undefined && known.fromId === producerId && known.fromEpoch === producerEpoch)
    return { decision: accepted(), granted: known };
  if (!isNew && (known?.producerId !== producerId || known.producerEpoch !== producerEpoch))
    return no("PRODUCER_FENCED", known === undefined ? `there is no producer ${name}` : `producer ${name} has gone on`);
  let forgets: string | null = null;
  if (known === undefined) {
    const room = roomFor(image, wish);
    if (room === undefined)
      return no("PRODUCER_NAMES_FULL", `there are ${image.producerIds.size} named producers, all of them used lately`);
    forgets = room.forgets;
  }
  const isSpent = known === undefined || known.producerEpoch >= PRODUCER_EPOCH_MAX;
  const granted = isSpent
    ? { producerId: image.producerIds.nextNamedId, producerEpoch: 0 }
    : { producerId: known.producerId, producerEpoch: known.producerEpoch + 1 };
  const from = { fromId: isNew ? -1 : producerId, fromEpoch: isNew ? -1 : producerEpoch };
  const decision = accepted({
    type: "named-producer",
    version: 1,
    name,
    ...granted,
    ...from,
    forgets,
    timestampMs: nowMs,
  });
  return { decision, granted };
}

function nameFault({ name, producerId, producerEpoch }: NamedProducerWish): string | undefined {
  if (producerId < 0 !== producerEpoch < 0) return "a producer id comes with an epoch";
  const fault = producerNameFault(name);
  return fault === undefined ? undefined : `a producer's name has ${fault}`;
}

/** Undefined: there is none. */
function roomFor(
  image: MetadataImage,
  { namesMax, expirationMs, nowMs }: NamedProducerWish,
): { readonly forgets: string | null } | undefined {
  if (image.producerIds.size < namesMax) return { forgets: null };
  for (const { name, usedMs } of image.producerIds.named)
    return usedMs + expirationMs <= nowMs ? { forgets: name } : undefined;
  return undefined;
}
