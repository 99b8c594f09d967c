// Adopt: the founder of a cluster tells the other founding voters what they are (D-20).
// Versions: 0.
// Behaviour: answered when it is durable here.
import type { API } from "../../wire/native/apis.ts";
import { quorumOf } from "../quorum-door.ts";
import type { Request } from "../request.ts";
import type { NodeServices } from "../services.ts";

export async function handleAdopt(node: NodeServices, request: Request<typeof API.ADOPT>): Promise<void> {
  await quorumOf(node).adopt(request.body);
  request.respond({});
}
