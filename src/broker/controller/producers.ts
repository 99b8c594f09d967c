// The controller's side of producer ids: blocks for brokers (P-17), and named producers, whose predecessors are fenced everywhere before the
// answer is given (invariant 24).
import { type Decision, decideNamedProducer, decideProducerIds } from "../../metadata/controller.ts";
import { mutant } from "../../base/mutant.ts";
import type { MetadataImage } from "../../metadata/image.ts";
import { OttlaError } from "../../model/errors.ts";
import type { NodeId } from "../../model/ids.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Logger } from "../../ports/logger.ts";
import type {
  AllocateProducerIdsRequest,
  AllocateProducerIdsResponse,
  InitProducerIdRequest,
  InitProducerIdResponse,
} from "../../wire/native/producer-apis.ts";
import type { ChangeSource, MetadataQuorum } from "../quorum/types.ts";
import type { AppliedEnds } from "./applied-ends.ts";

export interface ProducersDeps {
  readonly quorum: Pick<MetadataQuorum, "image" | "propose">;
  readonly applied: Pick<AppliedEnds, "whenKnown">;
  readonly clock: Clock;
  readonly logger: Logger;
}

export interface ProducerNames {
  readonly namesMax: number;
  readonly expirationMs: number;
}

export interface NamedInit extends InitProducerIdRequest {
  readonly name: string;
}

export class Producers {
  readonly #deps: ProducersDeps;
  readonly #names: ProducerNames;
  /** Whose block is under way. Bound: one of each broker. */
  readonly #allocating = new Set<NodeId>();

  constructor(deps: ProducersDeps, names: ProducerNames) {
    this.#deps = deps;
    this.#names = names;
  }

  /** Rejects with OttlaError. */
  async allocate(request: AllocateProducerIdsRequest): Promise<AllocateProducerIdsResponse> {
    const { nodeId, brokerEpoch } = request;
    const { quorum } = this.#deps;
    // Before it takes the broker's place: who does not know its epoch is not the broker.
    if (quorum.image.broker(nodeId)?.brokerEpoch !== brokerEpoch) assertTaken(decideProducerIds(quorum.image, request));
    if (this.#allocating.has(nodeId))
      throw new OttlaError("BUSY", `node ${nodeId} is being given producer ids already`);
    this.#allocating.add(nodeId);
    try {
      return await this.#allocate(request);
    } finally {
      this.#allocating.delete(nodeId);
    }
  }

  async #allocate(request: AllocateProducerIdsRequest): Promise<AllocateProducerIdsResponse> {
    const { nodeId } = request;
    const decide = (image: MetadataImage) => decideProducerIds(image, request);
    const decision = assertTaken(await this.#deps.quorum.propose(decide, `producer ids of node ${nodeId}`));
    const [record] = decision.records;
    if (record?.type !== "producer-ids") throw new OttlaError("UNKNOWN_SERVER_ERROR", "a block of ids is one record");
    const { firstId, count } = record;
    this.#deps.logger.debug("producer_ids_given", { nodeId, firstId, count });
    return { firstId, count };
  }

  /**
   * Rejects with OttlaError. Answered when every unfenced broker has applied the record: from then on nobody appends anything of an older epoch. One
   * that does not answer is waited for until it is fenced.
   */
  async init(
    { name, producerId, producerEpoch }: NamedInit,
    timeoutMs: number,
    source: ChangeSource,
  ): Promise<InitProducerIdResponse> {
    const { quorum, applied, clock, logger } = this.#deps;
    let granted: InitProducerIdResponse | undefined;
    const decision = assertTaken(
      await quorum.propose((image) => {
        const wish = { name, producerId, producerEpoch, nowMs: clock.wallMs(), ...this.#names };
        const decided = decideNamedProducer(image, wish);
        granted = decided.granted;
        return decided.decision;
      }, source),
    );
    if (granted === undefined) throw new OttlaError("UNKNOWN_SERVER_ERROR", "a named producer is granted an epoch");
    const { producerId: id, producerEpoch: epoch } = granted;
    if (decision.records.length > 0) logger.info("producer_named", { name, producerId: id, producerEpoch: epoch });
    if (!mutant("I24w")) await applied.whenKnown(quorum.image.endOffset, timeoutMs);
    return { producerId: id, producerEpoch: epoch };
  }
}

function assertTaken(decision: Decision): Extract<Decision, { kind: "records" }> {
  if (decision.kind === "refused") throw new OttlaError(decision.error, decision.message);
  return decision;
}
