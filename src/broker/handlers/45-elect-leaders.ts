// ElectLeaders: an operator's elections: of first replicas, of one in sync that is named, or of replicas that may lack
// committed records.
// Versions: 0.
// Behaviour: only the controller; answered when it is committed. Each partition by itself. Unclean elections need a partition that nobody leads, and
// choose the first replica that is active and not damaged unless one is named; each is an event in the log of the controller.
import type { API } from "../../wire/native/apis.ts";
import { controllerOf } from "../quorum-door.ts";
import type { Request } from "../request.ts";
import type { NodeServices } from "../services.ts";

export async function handleElectLeaders(
  node: NodeServices,
  request: Request<typeof API.ELECT_LEADERS>,
): Promise<void> {
  request.respond(await controllerOf(node).electLeaders(request.body, request.connection));
}
