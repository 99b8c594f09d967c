// How far each broker has applied the metadata log, as its heartbeats tell, and who waits for all of them to know something.
import { OttlaError } from "../../model/errors.ts";
import type { NodeId } from "../../model/ids.ts";
import type { MetadataImage } from "../../metadata/image.ts";
import type { TimerHandle, Timers } from "../../ports/timers.ts";

export interface AppliedEndsDeps {
  readonly quorum: { readonly image: MetadataImage };
  readonly timers: Timers;
}

/** Bound: calls that wait. */
const WAITING_MAX = 2_000;

interface Waiting {
  readonly end: number;
  readonly timer: TimerHandle;
  readonly resolve: () => void;
  readonly reject: (error: OttlaError) => void;
}

export class AppliedEnds {
  readonly #self: NodeId;
  readonly #deps: AppliedEndsDeps;
  readonly #ends = new Map<NodeId, { readonly brokerEpoch: number; readonly end: number }>();
  readonly #waiting = new Set<Waiting>();

  constructor(deps: AppliedEndsDeps, self: NodeId) {
    this.#deps = deps;
    this.#self = self;
  }

  /** A new controller knows nothing of before. */
  begin(): void {
    this.#ends.clear();
  }

  /** Nobody is told any more here. */
  end(): void {
    for (const waiting of [...this.#waiting])
      this.#settle(waiting, new OttlaError("NOT_CONTROLLER", "this node is not the controller any more"));
  }

  forget(nodeId: NodeId): void {
    this.#ends.delete(nodeId);
  }

  told(nodeId: NodeId, brokerEpoch: number, end: number): void {
    this.#ends.set(nodeId, { brokerEpoch, end });
    this.look();
  }

  /** Every unfenced broker, but for `except`, has applied everything below `end`. A fenced one leads only after it has applied more than that. */
  isKnown(end: number, except?: NodeId): boolean {
    for (const [nodeId, brokerEpoch] of this.#deps.quorum.image.active) {
      if (nodeId === except || nodeId === this.#self) continue;
      const known = this.#ends.get(nodeId);
      if (known?.brokerEpoch !== brokerEpoch || known.end < end) return false;
    }
    return true;
  }

  /** Rejects with OttlaError after `timeoutMs`, or when this node is the controller no more. */
  whenKnown(end: number, timeoutMs: number): Promise<void> {
    if (this.isKnown(end)) return Promise.resolve();
    if (this.#waiting.size >= WAITING_MAX)
      return Promise.reject(new OttlaError("BUSY", `${this.#waiting.size} calls wait for brokers to know`));
    return new Promise((resolve, reject) => {
      const expire = () => {
        const behind = this.#behind(end).join(", ");
        this.#settle(waiting, new OttlaError("REQUEST_TIMED_OUT", `it waited for nodes ${behind} to hear of it`));
      };
      const waiting: Waiting = { end, timer: this.#deps.timers.after(timeoutMs, expire), resolve, reject };
      this.#waiting.add(waiting);
    });
  }

  /** Brokers may have been fenced. */
  look(): void {
    if (this.#waiting.size === 0) return;
    for (const waiting of [...this.#waiting]) if (this.isKnown(waiting.end)) this.#settle(waiting, undefined);
  }

  #behind(end: number): readonly NodeId[] {
    return [...this.#deps.quorum.image.active.keys()].filter(
      (nodeId) => nodeId !== this.#self && (this.#ends.get(nodeId)?.end ?? -1) < end,
    );
  }

  #settle(waiting: Waiting, error: OttlaError | undefined): void {
    if (!this.#waiting.delete(waiting)) return;
    waiting.timer.cancel();
    if (error === undefined) waiting.resolve();
    else waiting.reject(error);
  }
}
