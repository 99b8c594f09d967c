// The metadata state machine over its log of one: decide, make durable, apply, one proposal after another. (Raft takes the log's place when
// there are more nodes; deciding and applying stay as they are.)
import { type OttlaError, asOttlaError } from "../model/errors.ts";
import type { LeaderEpoch } from "../model/ids.ts";
import { decodeMetadataRecord, encodeMetadataRecord } from "../metadata/codec.ts";
import type { Decision } from "../metadata/controller.ts";
import { MetadataImage } from "../metadata/image.ts";
import type { MetadataRecord } from "../metadata/records.ts";
import type { Clock } from "../ports/clock.ts";
import type { LaneLog } from "../storage/types.ts";

/** Bound: proposals that wait for their turn. */
const PROPOSALS_MAX = 1_000;

export class MetadataLog {
  readonly image = new MetadataImage();
  readonly #lane: LaneLog;
  readonly #clock: Clock;
  /** Called when the log cannot be written, or a record it took cannot be applied: the state machine stops. */
  readonly #onFailed: (error: OttlaError) => void;
  #last: Promise<unknown> = Promise.resolve();
  #pending = 0;
  #isClosed = false;
  #failure: OttlaError | undefined;

  private constructor(lane: LaneLog, clock: Clock, onFailed: (error: OttlaError) => void) {
    this.#lane = lane;
    this.#clock = clock;
    this.#onFailed = onFailed;
  }

  /** Replays the whole log; an unknown or unfitting record refuses the start (D-31). */
  static async open(lane: LaneLog, clock: Clock, onFailed: (error: OttlaError) => void): Promise<MetadataLog> {
    const log = new MetadataLog(lane, clock, onFailed);
    await lane.replay((offset, _epoch, value) => log.image.apply(offset, [decodeMetadataRecord(value, offset)]));
    return log;
  }

  /** Decides on the image as it is when its turn comes; resolves when the records are durable and applied. Never rejects for a refusal. */
  async propose(decide: (image: MetadataImage) => Decision): Promise<Decision> {
    if (this.#isClosed) return { kind: "refused", error: "BROKER_NOT_AVAILABLE", message: "the broker is stopping" };
    if (this.#pending >= PROPOSALS_MAX)
      return { kind: "refused", error: "BUSY", message: "too many metadata changes wait" };
    this.#pending++;
    const turn = this.#last.then(() => this.#take(decide));
    this.#last = turn.catch(() => undefined);
    try {
      return await turn;
    } finally {
      this.#pending--;
    }
  }

  /** Resolves when what was proposed so far is done. */
  async settled(): Promise<void> {
    await this.#last;
  }

  /** Takes no more proposals, finishes those it has. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.settled();
    await this.#lane.close();
  }

  async #take(decide: (image: MetadataImage) => Decision): Promise<Decision> {
    if (this.#failure !== undefined) throw this.#failure;
    const decision = decide(this.image);
    if (decision.kind === "refused" || decision.records.length === 0) return decision;
    try {
      await this.#commit(decision.records);
    } catch (thrown) {
      const error = asOttlaError(thrown);
      if (error.code === "STORAGE_FULL") return { kind: "refused", error: "STORAGE_FULL", message: error.message };
      this.#failure = error;
      this.#onFailed(error);
      throw error;
    }
    return decision;
  }

  async #commit(records: readonly MetadataRecord[]): Promise<void> {
    const first = await this.#lane.append(records.map(encodeMetadataRecord), 0 as LeaderEpoch, this.#clock.wallMs());
    records.forEach((record, index) => this.image.apply(first + index, [record]));
  }
}
