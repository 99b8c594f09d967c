// Who numbers batches: producer ids and their epochs (P-17, D-28).
import type { NodeId } from "../../model/ids.ts";

/** From a client: without a name to any broker, with one to the controller (others refuse with NOT_CONTROLLER). */
export interface InitProducerIdRequest {
  /** null: an id that nobody had before, in epoch 0. A name: the id that the name has, in an epoch that is higher than any before. */
  readonly name: string | null;
  /**
   * -1 with -1: the caller has none; of a named one, whoever had the name before is fenced. A named producer that goes on in a new epoch says what it
   * has, and is answered PRODUCER_FENCED when that is not the present one.
   */
  readonly producerId: number;
  readonly producerEpoch: number;
}
export interface InitProducerIdResponse {
  readonly producerId: number;
  readonly producerEpoch: number;
}

/** From a broker to the controller: ids for it alone to hand out, never given before. */
export interface AllocateProducerIdsRequest {
  readonly nodeId: NodeId;
  readonly brokerEpoch: number;
}
/** The ids from `firstId` on, `count` of them; answered when that is committed. */
export interface AllocateProducerIdsResponse {
  readonly firstId: number;
  readonly count: number;
}
