// BrokerHeartbeat: a broker lives, says what it has done, and may ask to go.
// Versions: 0.
// Behaviour: only the controller; answered at once, but for a broker that wants to go: when it leads nothing any more. STALE_BROKER_EPOCH:
// register again.
import type { API } from "../../wire/native/apis.ts";
import { controllerOf } from "../quorum-door.ts";
import type { Request } from "../request.ts";
import type { NodeServices } from "../services.ts";

export async function handleBrokerHeartbeat(
  node: NodeServices,
  request: Request<typeof API.BROKER_HEARTBEAT>,
): Promise<void> {
  request.respond(await controllerOf(node).heartbeat(request.body));
}
