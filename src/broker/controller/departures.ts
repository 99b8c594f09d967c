// Brokers that stop in order: one that leads nothing any more may go once all others know it, so that clients find the new leaders at once.
import type { BrokerImage, MetadataImage } from "../../metadata/image.ts";
import type { NodeId } from "../../model/ids.ts";

/** One that does not come forward with its metadata holds up nobody for longer. */
const WAIT_MS = 1_000;

interface Departure {
  readonly brokerEpoch: number;
  /** Whoever has applied everything below this knows. */
  readonly end: number;
  readonly sinceMs: number;
}

export class Departures {
  readonly #self: NodeId;
  /** How far each broker has applied the metadata log, as it last told. */
  readonly #applied = new Map<NodeId, { readonly brokerEpoch: number; readonly end: number }>();
  readonly #leaving = new Map<NodeId, Departure>();

  constructor(self: NodeId) {
    this.#self = self;
  }

  begin(): void {
    this.#applied.clear();
    this.#leaving.clear();
  }

  forget(nodeId: NodeId): void {
    this.#applied.delete(nodeId);
    this.#leaving.delete(nodeId);
  }

  applied(nodeId: NodeId, brokerEpoch: number, end: number): void {
    this.#applied.set(nodeId, { brokerEpoch, end });
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
    if (nowMs - sinceMs >= WAIT_MS) return true;
    for (const [other, epoch] of image.active) {
      if (other === nodeId || other === this.#self) continue;
      const known = this.#applied.get(other);
      if (known?.brokerEpoch !== epoch || known.end < end) return false;
    }
    return true;
  }
}
