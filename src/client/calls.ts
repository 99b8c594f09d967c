// Single requests with retries, to any broker, for everything but produce, fetch and changes of the cluster.
import { asOttlaError, OttlaError } from "../model/errors.ts";
import type { ApiKey, ApiTypes } from "../wire/native/apis.ts";
import type { Alarms } from "../link/alarms.ts";
import { backoffMs } from "../link/backoff.ts";
import type { BrokerConnection } from "../link/broker-connection.ts";
import type { BrokerPool } from "./broker-pool.ts";
import type { Rng } from "../base/rng.ts";

/** For one call that is not produce or fetch, retries included. */
export const CALL_TIMEOUT_MS = 30_000;
/** What one broker gets to answer a question before another is asked; doubled with each try. */
const TRY_TIMEOUT_MS = 3_000;

export interface CallContext {
  readonly alarms: Alarms;
  readonly pool: BrokerPool;
  readonly rng: Rng;
}

export interface CallOptions<K extends ApiKey> {
  /** All tries together. */
  readonly timeoutMs: number;
  /** What the first broker gets; default TRY_TIMEOUT_MS. */
  readonly firstTryMs?: number;
  /** Why this answer will not do and another broker is to be asked. */
  readonly faultOf?: (response: ApiTypes[K]["response"], from: BrokerConnection) => OttlaError | undefined;
}

/** Asks any broker something that may be asked twice. */
export async function callAny<K extends ApiKey>(
  context: CallContext,
  api: K,
  request: ApiTypes[K]["request"],
  options: CallOptions<K>,
): Promise<ApiTypes[K]["response"]> {
  const { alarms, pool } = context;
  const deadlineMs = alarms.nowMs() + options.timeoutMs;
  let tryMs = options.firstTryMs ?? TRY_TIMEOUT_MS;
  return await retrying(context, deadlineMs, async (leftMs) => {
    const failed = () => new OttlaError("CONNECTION_FAILED", "no broker answered in time");
    const connection = await alarms.within(pool.any(), leftMs, failed);
    const thisTryMs = Math.max(1, Math.min(tryMs, deadlineMs - alarms.nowMs()));
    tryMs *= 2;
    try {
      const response = await connection.call(api, request, thisTryMs, { isPatient: true });
      const fault = options.faultOf?.(response, connection);
      if (fault !== undefined) throw fault;
      return response;
    } catch (error) {
      pool.shun(connection);
      throw error;
    }
  });
}

/**
 * Runs `attempt` until it succeeds, fails for good, or the deadline has passed; then rejects with its last error. For good is what is not
 * retriable, and what `isFinal` says.
 */
export async function retrying<T>(
  context: { readonly alarms: Alarms; readonly rng: Rng },
  deadlineMs: number,
  attempt: (leftMs: number) => Promise<T>,
  isFinal: (error: OttlaError) => boolean = () => false,
): Promise<T> {
  for (let count = 1; ; count++) {
    const leftMs = deadlineMs - context.alarms.nowMs();
    try {
      return await attempt(Math.max(1, leftMs));
    } catch (thrown) {
      const error = asOttlaError(thrown);
      const pauseMs = backoffMs(count, context.rng);
      if (!error.retriable || isFinal(error) || context.alarms.nowMs() + pauseMs >= deadlineMs) throw error;
      await context.alarms.sleep(pauseMs);
    }
  }
}
