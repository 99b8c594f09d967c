// The controller's side of producer ids: blocks for brokers (P-17), and named producers, whose predecessors are fenced everywhere before the
// answer is given (invariant 24).
import { type Decision, decideNamedProducer, decideProducerIds } from "../../metadata/controller.ts";
import { Gate } from "../../base/gate.ts";
import { mutant } from "../../base/mutant.ts";
import { OttlaError } from "../../model/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Logger } from "../../ports/logger.ts";
import type {
  AllocateProducerIdsRequest,
  AllocateProducerIdsResponse,
  InitProducerIdRequest,
  InitProducerIdResponse,
} from "../../wire/native/producer-apis.ts";
import type { MetadataQuorum } from "../quorum/types.ts";
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

/** Bound: names that are being given out. However many are asked for, other changes of the metadata wait for no more than so many records. */
const NAMES_AT_ONCE = 32;
/** Bound: calls for a name, with those that wait for their turn. */
const CALLS_MAX = 2_000;
/** Bound: blocks of ids that are asked for. A broker asks for one at a time. */
const BLOCKS_MAX = 100;

export class Producers {
  readonly #deps: ProducersDeps;
  readonly #names: ProducerNames;
  readonly #gate = new Gate(NAMES_AT_ONCE);
  #callCount = 0;
  #blockCount = 0;
  readonly #blockGate = new Gate(1);

  constructor(deps: ProducersDeps, names: ProducerNames) {
    this.#deps = deps;
    this.#names = names;
  }

  /** Rejects with OttlaError. */
  async allocate(request: AllocateProducerIdsRequest): Promise<AllocateProducerIdsResponse> {
    if (this.#blockCount >= BLOCKS_MAX) throw new OttlaError("BUSY", `${this.#blockCount} calls wait for producer ids`);
    this.#blockCount++;
    try {
      return await this.#blockGate.run(() => this.#allocate(request));
    } finally {
      this.#blockCount--;
    }
  }

  async #allocate(request: AllocateProducerIdsRequest): Promise<AllocateProducerIdsResponse> {
    const decision = assertTaken(
      await this.#deps.quorum.propose((image) => decideProducerIds(image, request), "client"),
    );
    const [record] = decision.records;
    if (record?.type !== "producer-ids") throw new OttlaError("UNKNOWN_SERVER_ERROR", "a block of ids is one record");
    const { firstId, count } = record;
    this.#deps.logger.debug("producer_ids_given", { nodeId: request.nodeId, firstId, count });
    return { firstId, count };
  }

  /**
   * Rejects with OttlaError. Answered when every unfenced broker has applied the record: from then on nobody appends anything of an older epoch. One
   * that does not answer is waited for until it is fenced.
   */
  async init(request: NamedInit, timeoutMs: number): Promise<InitProducerIdResponse> {
    const { clock } = this.#deps;
    if (this.#callCount >= CALLS_MAX)
      throw new OttlaError("BUSY", `${this.#callCount} calls wait for a producer's name`);
    const endMs = clock.monoMs() + timeoutMs;
    this.#callCount++;
    try {
      return await this.#gate.run(() => this.#give(request, endMs - clock.monoMs()));
    } finally {
      this.#callCount--;
    }
  }

  async #give({ name, producerId, producerEpoch }: NamedInit, timeoutMs: number): Promise<InitProducerIdResponse> {
    const { quorum, applied, clock, logger } = this.#deps;
    if (timeoutMs <= 0) throw new OttlaError("REQUEST_TIMED_OUT", "it waited for other producers to get their names");
    let granted: InitProducerIdResponse | undefined;
    const decision = assertTaken(
      await quorum.propose((image) => {
        const wish = { name, producerId, producerEpoch, nowMs: clock.wallMs(), ...this.#names };
        const decided = decideNamedProducer(image, wish);
        granted = decided.granted;
        return decided.decision;
      }, "client"),
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
