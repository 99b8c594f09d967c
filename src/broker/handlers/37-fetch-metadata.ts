// FetchMetadata: an observer pulls what is committed (D-21).
// Versions: 0.
// Behaviour: any node that has the log answers: entries, a piece of a snapshot where the log begins later, or nothing after `maxWaitMs`. Of one
// connection one after another, each when there is room for its answer (D-26).
import type { API } from "../../wire/native/apis.ts";
import { quorumOf } from "../quorum-door.ts";
import type { Request } from "../request.ts";
import type { NodeServices } from "../services.ts";

type Pull = Request<typeof API.FETCH_METADATA>;

export async function handleFetchMetadata(node: NodeServices, request: Pull): Promise<void> {
  if (!node.accountant.tryDelay()) return request.fail("BUSY", "too many requests wait");
  try {
    await node.scans.inTurn(request.connection, () => pull(node, request));
  } finally {
    node.accountant.endDelay();
  }
}

async function pull(node: NodeServices, request: Pull): Promise<void> {
  if (!request.connection.isOpen) return request.drop();
  const { response, bodies } = await quorumOf(node).fetchMetadata(request.body);
  const sizeBytes = bodies.reduce((sum, body) => sum + body.length, 0);
  const { answers } = request.connection;
  if (sizeBytes > 0 && (await answers.acquire(sizeBytes)) === 0) return request.drop();
  if (request.isDone) return answers.release(sizeBytes);
  // From here on these bytes are counted as unsent ones.
  answers.adjust(-sizeBytes);
  request.respond(response, bodies);
  answers.release(0);
}
