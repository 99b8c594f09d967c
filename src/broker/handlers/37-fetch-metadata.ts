// FetchMetadata: an observer pulls what is committed (D-21).
// Versions: 0.
// Behaviour: any node that has the log answers: entries, a piece of a snapshot where the log begins later, or nothing after `maxWaitMs`. Of one
// connection one after another, each when there is room for its answer (D-26), a short one at once.
import type { API } from "../../wire/native/apis.ts";
import { SMALL_ANSWER_BYTES } from "../accountant.ts";
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
  const missingBytes = await answerIfRoom(node, request);
  if (missingBytes === 0) return;
  // D-26: for a peer that takes no answers none is kept; it is pulled again when there is room. One that takes them gets a short one at once.
  const { answers } = request.connection;
  const granted = answers.tryAcquire(missingBytes, true) ?? (await answers.acquire(missingBytes));
  if (granted === 0) return request.drop();
  try {
    const maxBytes = Math.min(request.body.maxBytes, granted);
    const { response, bodies } = await quorumOf(node).fetchMetadata({ ...request.body, maxBytes });
    if (!request.isDone) request.respond(response, bodies);
  } finally {
    answers.release(granted);
  }
}

/** How many bytes there is no room for; 0: it is answered. */
async function answerIfRoom(node: NodeServices, request: Pull): Promise<number> {
  const { response, bodies } = await quorumOf(node).fetchMetadata(request.body);
  const sizeBytes = bodies.reduce((sum, body) => sum + body.length, 0);
  const { answers } = request.connection;
  const granted = sizeBytes === 0 ? 0 : answers.tryAcquire(sizeBytes, sizeBytes <= SMALL_ANSWER_BYTES);
  if (granted === undefined) return sizeBytes;
  if (!request.isDone) request.respond(response, bodies);
  answers.release(granted);
  return 0;
}
