// AlterPartition: a leader wishes for another ISR of its partitions, or for another leader (R-31, R-34, D-8).
// Versions: 0.
// Behaviour: only the controller. Answered when what is granted is committed; the leader acts on it when it has applied it. Wishes of several leaders go
// into one command. Each partition by itself; a request as a whole fails only with what says that nothing of it, or nobody knows what, was done.
import type { API } from "../../wire/native/apis.ts";
import { controllerOf } from "../quorum-door.ts";
import type { Request } from "../request.ts";
import type { NodeServices } from "../services.ts";

export async function handleAlterPartition(
  node: NodeServices,
  request: Request<typeof API.ALTER_PARTITION>,
): Promise<void> {
  request.respond(await controllerOf(node).alterPartition(request.body));
}
