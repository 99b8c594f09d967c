// RegisterBroker: a broker's new incarnation asks to be let in (R-63, D-1, D-6).
// Versions: 0.
// Behaviour: only the controller; answered when the registration is committed. The same incarnation again keeps its epoch.
import type { API } from "../../wire/native/apis.ts";
import { controllerOf } from "../quorum-door.ts";
import type { Request } from "../request.ts";
import type { NodeServices } from "../services.ts";

export async function handleRegisterBroker(
  node: NodeServices,
  request: Request<typeof API.REGISTER_BROKER>,
): Promise<void> {
  request.respond(await controllerOf(node).register(request.body));
}
