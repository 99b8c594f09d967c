// Under which id and epoch a producer numbers its batches: asked for when it is first needed, and again when only a new epoch goes on.
//
// Without a name each partition counts its own epochs on from the id: nobody else has it. With a name the cluster gives the epochs, and every leader
// refuses what is of an older one: the epoch is raised only when nothing of the producer is under way or in doubt (D-28).
import { PRODUCER_EPOCH_MAX } from "../model/batch-header.ts";
import { asOttlaError, OttlaError } from "../model/errors.ts";
import { API, type InitProducerIdRequest, type InitProducerIdResponse } from "../wire/native/apis.ts";
import { backoffMs } from "../link/backoff.ts";
import { callAny } from "./calls.ts";
import type { ClientContext } from "./context.ts";
import { changeAtController } from "./controller.ts";
import type { ProducerIdentity } from "./sequences.ts";

export interface ProducerIdsOptions {
  readonly name: string | undefined;
  /** Somebody waits for an id. */
  readonly isWanted: () => boolean;
  /** With a name: something of the producer is under way or in doubt. */
  readonly isOpen: () => boolean;
  readonly onReady: () => void;
  /** `isFinal`: the next try cannot do better. Otherwise it is made by itself. */
  readonly onFailure: (error: OttlaError, isFinal: boolean) => void;
}

/** All tries at one controller, or of one round of brokers; then it begins anew for as long as somebody waits. */
const ROUND_TIMEOUT_MS = 10_000;

export class ProducerIds {
  readonly #context: ClientContext;
  readonly #options: ProducerIdsOptions;
  #current: ProducerIdentity | undefined;
  /** An id of another cluster may be somebody else's in this one. */
  #clusterId: string | undefined;
  #isFetching = false;
  /** A named producer's partition has asked for a higher epoch. */
  #isRaising = false;
  #fenced: OttlaError | undefined;
  #isClosed = false;

  constructor(context: ClientContext, options: ProducerIdsOptions) {
    this.#context = context;
    this.#options = options;
  }

  /** Another producer has the name: for ever. */
  get fenced(): OttlaError | undefined {
    return this.#fenced;
  }

  get isNamed(): boolean {
    return this.#options.name !== undefined;
  }

  /** Nothing may begin before the epoch is raised. */
  get isRaising(): boolean {
    return this.#isRaising;
  }

  /** What a partition that is without begins with; undefined: it is on its way, `onReady` tells. */
  first(): ProducerIdentity | undefined {
    if (this.#isUsable) return this.#current;
    if (this.#isRaising) this.raise();
    else this.want();
    return undefined;
  }

  /** What a partition goes on with that cannot go on with these; undefined: as above. */
  after(spent: ProducerIdentity): ProducerIdentity | undefined {
    if (this.isNamed) {
      if (!this.isOld(spent)) this.#isRaising = true;
      return this.first();
    }
    if (this.#isOfThisCluster && spent.producerEpoch < PRODUCER_EPOCH_MAX)
      return { ...spent, producerEpoch: spent.producerEpoch + 1 };
    if (this.#current?.producerId === spent.producerId) this.#current = undefined;
    return this.first();
  }

  /** There is a higher epoch by now. */
  isOld({ producerId, producerEpoch }: ProducerIdentity): boolean {
    const current = this.#current;
    return (
      this.isNamed &&
      current !== undefined &&
      (current.producerId !== producerId || current.producerEpoch !== producerEpoch)
    );
  }

  fence(error: OttlaError): OttlaError {
    this.#fenced ??= new OttlaError("PRODUCER_FENCED", `${this.#options.name ?? ""}: ${error.message}`);
    return this.#fenced;
  }

  want(): void {
    if (this.#isFetching || this.#isClosed || this.#fenced !== undefined) return;
    if (this.#isUsable) return;
    this.#isFetching = true;
    void this.#fetch();
  }

  get #isUsable(): boolean {
    return this.#current !== undefined && this.#isOfThisCluster && !this.#isRaising;
  }

  /** The first id may come before the cluster is known. */
  get #isOfThisCluster(): boolean {
    const { clusterId } = this.#context.pool;
    this.#clusterId ??= clusterId;
    return this.#clusterId === clusterId;
  }

  /** Asks for the higher epoch, once nothing is open. */
  raise(): void {
    if (this.#isRaising && !this.#options.isOpen()) this.want();
  }

  close(): void {
    this.#isClosed = true;
  }

  /** Never rejects. */
  async #fetch(): Promise<void> {
    const { alarms, rng } = this.#context;
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#ask();
        break;
      } catch (thrown) {
        const error = asOttlaError(thrown);
        if (this.#isClosed || error.code === "CLOSED") break;
        if (error.code === "PRODUCER_FENCED") this.fence(error);
        this.#options.onFailure(this.#fenced ?? error, !error.retriable);
        if (!error.retriable || !this.#options.isWanted()) break;
      }
      await alarms.sleep(backoffMs(attempt, rng)).catch(() => this.close());
      if (this.#isClosed) break;
    }
    this.#isFetching = false;
    if (!this.#isClosed && this.#current !== undefined && !this.#isRaising) this.#options.onReady();
  }

  async #ask(): Promise<void> {
    const { name } = this.#options;
    const { pool } = this.#context;
    const held = name !== undefined && this.#isOfThisCluster ? this.#current : undefined;
    const request = {
      name: name ?? null,
      producerId: held?.producerId ?? -1,
      producerEpoch: held?.producerEpoch ?? -1,
    };
    const { producerId, producerEpoch } = await this.#request(request);
    this.#current = { producerId, producerEpoch };
    this.#clusterId = pool.clusterId;
    this.#isRaising = false;
  }

  #request(request: InitProducerIdRequest): Promise<InitProducerIdResponse> {
    const timeoutMs = ROUND_TIMEOUT_MS;
    if (request.name === null) return callAny(this.#context, API.INIT_PRODUCER_ID, request, { timeoutMs });
    return changeAtController(this.#context, API.INIT_PRODUCER_ID, request, { timeoutMs, isRepeatable: () => true });
  }
}
