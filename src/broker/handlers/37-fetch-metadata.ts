// FetchMetadata: an observer pulls what is committed (D-21).
// Versions: 0.
// Behaviour: any node that has the log answers: entries, a piece of a snapshot where the log begins later, or nothing after `maxWaitMs`.
import type { API } from "../../wire/native/apis.ts";
import { quorumOf } from "../quorum-door.ts";
import type { Request } from "../request.ts";
import type { NodeServices } from "../services.ts";

export async function handleFetchMetadata(
  node: NodeServices,
  request: Request<typeof API.FETCH_METADATA>,
): Promise<void> {
  if (!node.accountant.tryDelay()) return request.fail("BUSY", "too many requests wait");
  try {
    const { response, bodies } = await quorumOf(node).fetchMetadata(request.body);
    request.respond(response, bodies);
  } finally {
    node.accountant.endDelay();
  }
}
