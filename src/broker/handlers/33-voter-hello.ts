// VoterHello: what a node is to the quorum: before there is a cluster, and to find it (D-20).
// Versions: 0.
// Behaviour: answered as soon as the data directory is open.
import type { API } from "../../wire/native/apis.ts";
import { quorumOf } from "../quorum-door.ts";
import type { Request } from "../request.ts";
import type { NodeServices } from "../services.ts";

export async function handleVoterHello(node: NodeServices, request: Request<typeof API.VOTER_HELLO>): Promise<void> {
  request.respond(await quorumOf(node).voterHello(request.body));
}
