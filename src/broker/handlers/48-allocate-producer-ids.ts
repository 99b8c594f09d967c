// AllocateProducerIds: a block of producer ids for one broker (P-17).
// Versions: 0.
// Behaviour: only the controller; answered when it is committed. STALE_BROKER_EPOCH: register again.
import { OttlaError } from "../../model/errors.ts";
import type { API } from "../../wire/native/apis.ts";
import type { Request } from "../request.ts";
import type { NodeServices } from "../services.ts";

export async function handleAllocateProducerIds(
  _node: NodeServices,
  _request: Request<typeof API.ALLOCATE_PRODUCER_IDS>,
): Promise<void> {
  throw new OttlaError("BROKER_NOT_AVAILABLE", "not yet");
}
