// ListOffsets: where a partition starts, ends, or was at a time.
// Versions: 0.
// Behaviour: LATEST = the high watermark, EARLIEST = the log start, a time = the first record at or after it below the high watermark, or
// offset -1 (S-23). LATEST waits up to half a second for what was accepted before it to be committed, so that whoever was told yes with acks 1
// and asks for the end then does not miss it. While a new leader does not know the end yet: OFFSET_NOT_AVAILABLE, but EARLIEST is always answered (S-25),
// and a time that is found below the high watermark that it knows.
import { asOttlaError, type ErrorName } from "../../model/errors.ts";
import { NO_LEADER_EPOCH } from "../../model/ids.ts";
import {
  type API,
  EARLIEST_TIMESTAMP,
  LATEST_TIMESTAMP,
  type ListOffsetsRequest,
  type ListOffsetsResponse,
} from "../../wire/native/apis.ts";
import { untilCommitted } from "../committed-waiter.ts";
import { lookUpPartition } from "../partition-lookup.ts";
import type { Replica } from "../replica.ts";
import type { Request } from "../request.ts";
import type { Services } from "../services.ts";

type Row = ListOffsetsRequest["entries"][number];
type Answer = ListOffsetsResponse["entries"][number];

export async function handleListOffsets(services: Services, request: Request<typeof API.LIST_OFFSETS>): Promise<void> {
  const { connection, body } = request;
  const hasSearch = body.entries.some(({ timestamp }) => timestamp >= 0);
  const dependent = { onConnectionClosed: () => request.drop() };
  connection.dependents.add(dependent);
  try {
    if (hasSearch) await services.scans.inTurn(connection, () => answer(services, request));
    else await answer(services, request);
  } finally {
    connection.dependents.delete(dependent);
  }
}

async function answer(services: Services, request: Request<typeof API.LIST_OFFSETS>): Promise<void> {
  if (request.isDone) return;
  const { entries: rows } = request.body;
  await untilCommitted(services, askedForLatest(services, rows), request.waitBudgetMs(LATEST_WAIT_MS));
  const expiresAtMs = request.receivedMs + request.waitBudgetMs(services.config["request.timeout.ms"]);
  const entries: Answer[] = [];
  for (const row of rows) {
    // D-26: nobody waits for the rest.
    if (request.isDone) return;
    if (services.clock.monoMs() >= expiresAtMs) return request.fail("REQUEST_TIMED_OUT");
    const found = answerOf(services, row);
    entries.push(found instanceof Promise ? await found : found);
  }
  if (!request.isDone) request.respond({ entries });
}

/** One sync, on a disk that is not in trouble. */
const LATEST_WAIT_MS = 500;

function askedForLatest(services: Services, rows: readonly Row[]): Replica[] {
  const replicas: Replica[] = [];
  for (const row of rows) {
    const replica = row.timestamp === LATEST_TIMESTAMP ? services.replicas.find(row.topicId, row.partition) : undefined;
    if (replica !== undefined) replicas.push(replica);
  }
  return replicas;
}

function failed(error: ErrorName): Answer {
  return { error, offset: -1, timestamp: -1, leaderEpoch: NO_LEADER_EPOCH };
}

function answerOf(services: Services, row: Row): Answer | Promise<Answer> {
  const lookup = lookUpPartition(services, row.topicId, row.partition);
  if (lookup.kind === "refused") return failed(lookup.error);
  const { replica } = lookup;
  const { core, log } = replica;
  const refusal = core.refusalOf(NO_LEADER_EPOCH);
  if (refusal !== undefined) return failed(refusal);
  if (row.timestamp === EARLIEST_TIMESTAMP) return at(log.startOffset, epochAtStart(replica));
  const isLatest = row.timestamp === LATEST_TIMESTAMP;
  if (isLatest && !core.knowsLatest) return failed("OFFSET_NOT_AVAILABLE");
  if (isLatest) return at(core.highWatermark, core.leaderEpoch);
  if (row.timestamp < 0) return failed("INVALID_REQUEST");
  return services.scans.run(() => byTimestamp(services, replica, row.timestamp));
}

function at(offset: number, leaderEpoch: number): Answer {
  return { error: "NONE", offset, timestamp: -1, leaderEpoch };
}

function epochAtStart({ log }: Replica): number {
  const oldest = log.epochs[0];
  return oldest !== undefined && oldest.startOffset <= log.startOffset ? oldest.epoch : NO_LEADER_EPOCH;
}

async function byTimestamp(services: Services, { core, log }: Replica, timestamp: number): Promise<Answer> {
  // Each in a turn of its own: what is in memory is searched without waiting for anything.
  await new Promise<void>((resolve) => services.defer(resolve));
  try {
    const { knowsLatest, highWatermark } = core;
    const found = await log.findTimestamp(timestamp, highWatermark);
    if (found === undefined && !knowsLatest) return failed("OFFSET_NOT_AVAILABLE");
    if (found === undefined) return { error: "NONE", offset: -1, timestamp: -1, leaderEpoch: NO_LEADER_EPOCH };
    return { error: "NONE", offset: found.offset, timestamp: found.timestamp, leaderEpoch: found.epoch };
  } catch (thrown) {
    services.metadataAnswers.clear();
    return failed(asOttlaError(thrown).code);
  }
}
