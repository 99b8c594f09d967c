// Brokers that stop in order: one that leads nothing any more may go once all others know it, so that clients find the new leaders at once.
import type { BrokerImage, MetadataImage } from "../../metadata/image.ts";
import type { NodeId } from "../../model/ids.ts";
import type { AppliedEnds } from "./applied-ends.ts";

/** One that does not come forward with its metadata holds up nobody for longer. */
const WAIT_MS = 1_000;

interface Departure {
  readonly brokerEpoch: number;
  /** Whoever has applied everything below this knows. */
  readonly end: number;
  readonly sinceMs: number;
}

export class Departures {
  readonly #applied: Pick<AppliedEnds, "isKnown">;
  readonly #leaving = new Map<NodeId, Departure>();

  constructor(applied: Pick<AppliedEnds, "isKnown">) {
    this.#applied = applied;
  }

  begin(): void {
    this.#leaving.clear();
  }

  forget(nodeId: NodeId): void {
    this.#leaving.delete(nodeId);
  }

  /** It is heard of in this epoch. */
  heard(nodeId: NodeId, brokerEpoch: number): void {
    if (this.#leaving.get(nodeId)?.brokerEpoch !== brokerEpoch) this.#leaving.delete(nodeId);
  }

  /** `broker`: fenced, as the image says. */
  mayGo(image: MetadataImage, { nodeId, brokerEpoch }: BrokerImage, nowMs: number): boolean {
    let departure = this.#leaving.get(nodeId);
    if (departure?.brokerEpoch !== brokerEpoch) {
      departure = { brokerEpoch, end: image.endOffset, sinceMs: nowMs };
      this.#leaving.set(nodeId, departure);
    }
    const { end, sinceMs } = departure;
    return nowMs - sinceMs >= WAIT_MS || this.#applied.isKnown(end, nodeId);
  }
}
