// Fetch: whole record batches from offsets on, below the high watermark (invariant 11).
// Versions: 0.
// Behaviour: answers at once when there are `minBytes`, an error, or no entries; otherwise when enough came or `maxWaitMs` passed. Sizes as
// S-20: the first batch found comes whole even when it is larger than every limit; after it, limits are hard. Entries are read in the
// order asked, so a client that asks in rotation starves none. One entry gets at most 1 MiB (or one batch) an answer, and a long answer goes
// out in parts (D-24). Between high watermark and log end: empty. Below the log start or above the end: OFFSET_OUT_OF_RANGE (S-17).
import type { API, FetchRequest } from "../../wire/native/apis.ts";
import { LIMITS } from "../../wire/native/protocol.ts";
import { FetchOperation } from "../fetch-operation.ts";
import type { Request } from "../request.ts";
import type { Services } from "../services.ts";

export function handleFetch(services: Services, request: Request<typeof API.FETCH>): Promise<void> {
  const { config, purgatory } = services;
  const { body } = request;
  const roomBytes = Math.min(config["connection.unsent.bytes"], Math.floor(config["unsent.bytes"] / 2));
  const maxBytes = Math.max(0, Math.min(body.maxBytes, config["fetch.max.bytes"], roomBytes));
  // S-21: never wait for more than may be answered.
  const minBytes = Math.min(body.minBytes, maxBytes);
  const waitMs = request.waitBudgetMs(config["fetch.max.wait.ms"], body.maxWaitMs);
  const answerBytesMax = Math.max(Math.min(maxBytes, entryBytesOf(body)), batchBytesMax(services, body));
  return purgatory.run(new FetchOperation(services, request, { minBytes, maxBytes, answerBytesMax, waitMs }));
}

function entryBytesOf({ entries }: FetchRequest): number {
  let entryBytes = 0;
  for (const entry of entries) {
    entryBytes += Math.max(0, Math.min(entry.maxBytes, LIMITS.LOGICAL_MESSAGE_BODY_BYTES));
  }
  return entryBytes;
}

/** The longest batch that may come whole though the limits are lower. Looked up only where a topic takes longer ones than usual. */
function batchBytesMax({ config, replicas }: Services, { entries }: FetchRequest): number {
  const usualBytes = config["max.message.bytes"];
  if (replicas.messageBytesMax <= usualBytes) return usualBytes;
  let bytesMax = 0;
  for (const { topicId, partition } of entries)
    bytesMax = Math.max(bytesMax, replicas.find(topicId, partition)?.limits.maxMessageBytes ?? 0);
  return bytesMax;
}
