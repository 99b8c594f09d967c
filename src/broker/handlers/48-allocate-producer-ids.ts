// AllocateProducerIds: a block of producer ids for one broker (P-17).
// Versions: 0.
// Behaviour: only the controller; answered when it is committed, to a connection that said in its Hello that it is the broker's. STALE_BROKER_EPOCH:
// register again. BUSY: another block for the same broker is under way.
import type { API } from "../../wire/native/apis.ts";
import { OttlaError } from "../../model/errors.ts";
import { nodeName } from "../node-name.ts";
import { controllerOf } from "../quorum-door.ts";
import type { Request } from "../request.ts";
import type { NodeServices } from "../services.ts";

export async function handleAllocateProducerIds(
  node: NodeServices,
  request: Request<typeof API.ALLOCATE_PRODUCER_IDS>,
): Promise<void> {
  const { clientId } = request.connection;
  const { nodeId } = request.body;
  if (clientId !== nodeName(nodeId))
    throw new OttlaError("INVALID_REQUEST", `this is not a connection of node ${nodeId}`);
  request.respond(await controllerOf(node).allocateProducerIds(request.body));
}
