// UnregisterBroker: a dead broker off the list.
// Versions: 0.
// Behaviour: only the controller; answered when it is committed. Refused with INVALID_REQUEST while the broker is unfenced, heard of, or a member
// of the quorum, and, unless forced, while it has a replica of any partition.
import type { API } from "../../wire/native/apis.ts";
import { controllerOf, quorumOf } from "../quorum-door.ts";
import type { Request } from "../request.ts";
import type { NodeServices } from "../services.ts";

export async function handleUnregisterBroker(
  node: NodeServices,
  request: Request<typeof API.UNREGISTER_BROKER>,
): Promise<void> {
  const members = () => quorumOf(node).status.voters.map(({ nodeId }) => nodeId);
  await controllerOf(node).unregister(request.body, members, request.connection);
  request.respond({});
}
