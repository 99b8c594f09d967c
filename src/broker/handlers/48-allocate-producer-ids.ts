// AllocateProducerIds: a block of producer ids for one broker (P-17).
// Versions: 0.
// Behaviour: only the controller; answered when it is committed. STALE_BROKER_EPOCH: register again.
import type { API } from "../../wire/native/apis.ts";
import { controllerOf } from "../quorum-door.ts";
import type { Request } from "../request.ts";
import type { NodeServices } from "../services.ts";

export async function handleAllocateProducerIds(
  node: NodeServices,
  request: Request<typeof API.ALLOCATE_PRODUCER_IDS>,
): Promise<void> {
  request.respond(await controllerOf(node).allocateProducerIds(request.body));
}
