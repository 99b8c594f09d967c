// Requests that only the controller can carry out: changes of the cluster, and reads that must not be old. Who the controller is may
// change at any moment, so it is looked for again until the call's deadline.
//
// A change that was sent and not answered may have taken effect, or may still do so. It is sent again only where a second time is as
// good as once: the controller knows its request id, or it names a state rather than a step. From then on an error of the call is no
// proof that nothing happened, and says so (`outcome` unknown).
import { asOttlaError, type ErrorName, OttlaError } from "../model/errors.ts";
import { type Uuid, UUID_BYTES, uuidFromBytes } from "../model/ids.ts";
import type { Rng } from "../base/rng.ts";
import { API, type ApiKey, type ApiTypes, type MetadataResponse } from "../wire/native/apis.ts";
import { backoffMs } from "../link/backoff.ts";
import type { BrokerConnection } from "../link/broker-connection.ts";
import { type CallContext, callAny } from "./calls.ts";

/** What the controller gets to answer before it is looked for again; doubled with each try. */
const TRY_TIMEOUT_MS = 3_000;
/** To ask who the controller is, and to connect to it. */
const FIND_TIMEOUT_MS = 3_000;
const CONNECT_TIMEOUT_MS = 2_000;
/** Brokers that are asked in vain for a controller. */
const ASKED_MAX = 8;

interface ControllerCall {
  /** All tries together. */
  readonly timeoutMs: number;
}

export interface ChangeCall<K extends ApiKey> extends ControllerCall {
  /** What the first try gets; for what takes long. */
  readonly tryTimeoutMs?: number;
  /** The error that an answer carries inside; "NONE" = none. */
  readonly refusalOf?: (response: ApiTypes[K]["response"]) => {
    readonly error: ErrorName;
    readonly message: string | null;
  };
  /** In this version of the api, a try without an answer may be made again. */
  readonly isRepeatable: (version: number) => boolean;
}

type Tried<K extends ApiKey> =
  | { readonly kind: "done"; readonly response: ApiTypes[K]["response"] }
  /** `isDoubtful`: it may have been carried out, or may still be. */
  | { readonly kind: "failed"; readonly error: OttlaError; readonly isDoubtful: boolean; readonly version: number };

/** The same in every try of one change, and of no other. */
export function drawRequestId(rng: Rng): Uuid {
  const bytes = new Uint8Array(UUID_BYTES);
  rng.fill(bytes);
  return uuidFromBytes(bytes);
}

/**
 * Asks for brokers and controller: any broker, and, while they name no controller, each that can be reached once. One that names none may
 * be cut off from the others, which may have one.
 */
export async function refreshCluster(context: CallContext, timeoutMs: number): Promise<MetadataResponse> {
  const request = { topics: [], after: null, barrier: false };
  const asked = new Set<BrokerConnection>();
  const seen: { newest: MetadataResponse | undefined } = { newest: undefined };
  const faultOf = (answer: MetadataResponse, from: BrokerConnection): OttlaError | undefined => {
    context.pool.learn(answer, from);
    if (seen.newest === undefined || answer.metadataEnd > seen.newest.metadataEnd) seen.newest = answer;
    if (answer.controllerId >= 0 || asked.has(from) || asked.size >= ASKED_MAX) return undefined;
    asked.add(from);
    return new OttlaError("BROKER_NOT_AVAILABLE", "the broker knows of no controller");
  };
  try {
    const response = await callAny(context, API.METADATA, request, { timeoutMs, faultOf });
    return response.controllerId >= 0 ? response : (seen.newest ?? response);
  } catch (error) {
    if (seen.newest === undefined) throw error;
    return seen.newest;
  }
}

/** A read that is not old. Rejects with the last error. */
export function readAtController<K extends ApiKey>(
  context: CallContext,
  api: K,
  request: ApiTypes[K]["request"],
  call: ControllerCall,
): Promise<ApiTypes[K]["response"]> {
  return atController(context, api, request, { ...call, isRead: true, isRepeatable: () => true });
}

/** A connection to this broker and no other. */
export async function connectToNode(
  context: CallContext,
  nodeId: number,
  timeoutMs: number,
): Promise<BrokerConnection> {
  const { alarms, pool } = context;
  if (pool.linkOfNode(nodeId) === undefined) await refreshCluster(context, Math.min(timeoutMs, FIND_TIMEOUT_MS));
  const link = pool.linkOfNode(nodeId);
  if (link === undefined) throw new OttlaError("BROKER_ID_NOT_REGISTERED", `no broker ${nodeId} is registered`);
  const late = () => new OttlaError("CONNECTION_FAILED", `${link.address}: broker ${nodeId} takes no connection`);
  return await alarms.within(link.get(), Math.min(timeoutMs, CONNECT_TIMEOUT_MS), late);
}

/** Rejects with the last error. Its `outcome` is "unknown" if the change may have been made all the same; else nothing was, for sure. */
export function changeAtController<K extends ApiKey>(
  context: CallContext,
  api: K,
  request: ApiTypes[K]["request"],
  call: ChangeCall<K>,
): Promise<ApiTypes[K]["response"]> {
  return atController(context, api, request, { ...call, isRead: false });
}

type AnyCall<K extends ApiKey> = ChangeCall<K> & { readonly isRead: boolean };

async function atController<K extends ApiKey>(
  context: CallContext,
  api: K,
  request: ApiTypes[K]["request"],
  call: AnyCall<K>,
): Promise<ApiTypes[K]["response"]> {
  const { alarms, pool, rng } = context;
  const deadlineMs = alarms.nowMs() + call.timeoutMs;
  let tryMs = call.tryTimeoutMs ?? TRY_TIMEOUT_MS;
  let isDoubtful = false;
  let leaderless: OttlaError | undefined;
  for (let count = 1; ; count++) {
    const tried = await tryOnce(context, api, request, { ...call, deadlineMs, tryMs });
    if (tried.kind === "done") return tried.response;
    isDoubtful ||= tried.isDoubtful && !call.isRead;
    // Once a broker has said that nobody leads, that is the reason, and not that the last look for one was cut short.
    if (tried.error.code === "NOT_CONTROLLER") leaderless = tried.error;
    const error = tried.error.code === "CONNECTION_FAILED" ? (leaderless ?? tried.error) : tried.error;
    const pauseMs = backoffMs(count, rng);
    const isLate = alarms.nowMs() + pauseMs >= deadlineMs;
    const mayTryAgain = isPassing(tried.error.code) && (!tried.isDoubtful || call.isRepeatable(tried.version));
    // Also where it was the last try: the next call must not begin with one that is silent.
    if (isPassing(tried.error.code) && tried.error.code !== "BUSY") pool.forgetController();
    if (isLate || !mayTryAgain) throw verdict(error, { isDoubtful, isLate: isLate && mayTryAgain, ...call });
    tryMs *= 2;
    await alarms.sleep(pauseMs).catch((thrown: unknown) => {
      throw verdict(asOttlaError(thrown), { isDoubtful, isLate: false, ...call });
    });
  }
}

async function tryOnce<K extends ApiKey>(
  context: CallContext,
  api: K,
  request: ApiTypes[K]["request"],
  call: AnyCall<K> & { readonly deadlineMs: number; readonly tryMs: number },
): Promise<Tried<K>> {
  const { alarms, pool } = context;
  let connection: BrokerConnection;
  try {
    connection = await connect(context, call.deadlineMs);
  } catch (thrown) {
    return { kind: "failed", error: asOttlaError(thrown), isDoubtful: false, version: 0 };
  }
  const version = connection.versionOf(api) ?? 0;
  const timeoutMs = Math.max(1, Math.min(call.tryMs, call.deadlineMs - alarms.nowMs()));
  const tried = await ask(connection, api, request, timeoutMs);
  if (tried.kind === "failed") {
    if (!tried.isFromBroker) pool.shun(connection);
    return { ...tried, version, isDoubtful: !tried.isFromBroker || isVague(tried.error.code) };
  }
  const { error, message } = call.refusalOf?.(tried.response) ?? { error: "NONE" };
  if (error === "NONE") return tried;
  return { kind: "failed", error: new OttlaError(error, message ?? undefined), isDoubtful: isVague(error), version };
}

type Asked<K extends ApiKey> =
  | { readonly kind: "done"; readonly response: ApiTypes[K]["response"] }
  | { readonly kind: "failed"; readonly error: OttlaError; readonly isFromBroker: boolean };

function ask<K extends ApiKey>(
  connection: BrokerConnection,
  api: K,
  request: ApiTypes[K]["request"],
  timeoutMs: number,
): Promise<Asked<K>> {
  return new Promise((resolve) => {
    connection.request(
      api,
      { request, bodies: [], timeoutMs, isPatient: true },
      {
        onAnswer: (response) => resolve({ kind: "done", response }),
        onFailure: (error, isFromBroker) => resolve({ kind: "failed", error, isFromBroker }),
      },
    );
  });
}

async function connect(context: CallContext, deadlineMs: number): Promise<BrokerConnection> {
  const { alarms, pool } = context;
  const leftMs = (mostMs: number) => Math.max(1, Math.min(mostMs, deadlineMs - alarms.nowMs()));
  if (pool.controller === undefined) await refreshCluster(context, leftMs(FIND_TIMEOUT_MS));
  const link = pool.controller;
  if (link === undefined)
    throw new OttlaError("NOT_CONTROLLER", "there is no controller now: no broker leads the quorum");
  const late = () => new OttlaError("CONNECTION_FAILED", `${link.address}: the controller takes no connection`);
  return await alarms.within(link.get(), leftMs(CONNECT_TIMEOUT_MS), late);
}

/** Another controller, or the same one a little later, may do it. */
function isPassing(code: ErrorName): boolean {
  switch (code) {
    case "NOT_CONTROLLER":
    case "BROKER_NOT_AVAILABLE":
    case "BUSY":
    case "CONNECTION_FAILED":
    case "CONNECTION_LOST":
    case "REQUEST_TIMED_OUT":
      return true;
    default:
      return false;
  }
}

/** Said by a broker that does not know itself what became of the change. */
function isVague(code: ErrorName): boolean {
  return code === "REQUEST_TIMED_OUT" || code === "UNKNOWN_SERVER_ERROR";
}

function verdict(
  error: OttlaError,
  {
    isDoubtful,
    isLate,
    timeoutMs,
  }: { readonly isDoubtful: boolean; readonly isLate: boolean; readonly timeoutMs: number },
): OttlaError {
  if (!isDoubtful) return error;
  const hint =
    "see whether it was done before you try again: ottla topic ls, ottla topic describe, ottla quorum status";
  if (isLate) {
    const message = `not answered within ${timeoutMs} ms (${error.message}): it may have been carried out, or may still be`;
    return new OttlaError("REQUEST_TIMED_OUT", message, { outcome: "unknown", cause: error, hint });
  }
  const doubt =
    isPassing(error.code) || isVague(error.code) ? "it" : "an earlier try of this call was not answered and";
  const message = `${error.message} (${doubt} may have been carried out)`;
  return new OttlaError(error.code, message, { outcome: "unknown", cause: error, hint });
}
