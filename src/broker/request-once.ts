// A change of the metadata that is asked for again, since its answer was lost, is done once (Raft paper, section 8): its request id goes into the
// log with it.
import { mutant } from "../base/mutant.ts";
import type { Decision } from "../metadata/controller.ts";
import type { MetadataImage } from "../metadata/image.ts";
import { OttlaError } from "../model/errors.ts";
import type { TopicId, Uuid } from "../model/ids.ts";

/** One change of one request. */
export class Once {
  readonly #requestId: Uuid | null;
  /** An earlier try was applied: what the change asked for has happened, whatever there is now. */
  isRepeated = false;
  /** The topic that the earlier try created. */
  topicId: TopicId | null = null;

  /** `changes`: how many the request has; only a single one can be known again. */
  constructor(requestId: Uuid | null, changes: number) {
    if (requestId !== null && changes !== 1)
      throw new OttlaError("INVALID_REQUEST", "a request id goes with a single change");
    this.#requestId = requestId;
  }

  decide(image: MetadataImage, decide: (image: MetadataImage) => Decision): Decision {
    const requestId = this.#requestId;
    if (requestId === null || mutant("M38d")) return decide(image);
    const earlier = image.requestOf(requestId);
    this.isRepeated = earlier !== undefined;
    this.topicId = earlier?.topicId ?? null;
    if (this.isRepeated) return { kind: "records", records: [] };
    const decision = decide(image);
    if (decision.kind === "refused") return decision;
    const created = decision.records.find((record) => record.type === "topic");
    const topicId = created?.topicId ?? null;
    return { kind: "records", records: [{ type: "request", version: 1, requestId, topicId }, ...decision.records] };
  }
}
