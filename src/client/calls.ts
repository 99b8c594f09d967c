// Single requests with retries: to any broker, for everything but produce and fetch.
import { asOttlaError, OttlaError } from "../model/errors.ts";
import type { ApiKey, ApiTypes } from "../wire/native/apis.ts";
import type { Alarms } from "../link/alarms.ts";
import { backoffMs } from "../link/backoff.ts";
import type { BrokerPool } from "./broker-pool.ts";
import type { Rng } from "../base/rng.ts";

/** For one call that is not produce or fetch, retries included. */
export const CALL_TIMEOUT_MS = 30_000;

export interface CallContext {
  readonly alarms: Alarms;
  readonly pool: BrokerPool;
  readonly rng: Rng;
}

export interface CallOptions {
  /** Retries included. */
  readonly timeoutMs: number;
  /** True: doing it twice is as good as once, so a lost answer is asked for again. */
  readonly isRepeatable: boolean;
}

/** Asks any broker. */
export async function callAny<K extends ApiKey>(
  context: CallContext,
  api: K,
  request: ApiTypes[K]["request"],
  options: CallOptions,
): Promise<ApiTypes[K]["response"]> {
  const { alarms } = context;
  const deadlineMs = alarms.nowMs() + options.timeoutMs;
  return await retrying(context, deadlineMs, async (leftMs) => {
    const failed = () => new OttlaError("CONNECTION_FAILED", "no broker answered in time");
    const connection = await alarms.within(context.pool.any(), leftMs, failed);
    try {
      return await connection.call(api, request, Math.max(1, deadlineMs - alarms.nowMs()));
    } catch (error) {
      throw options.isRepeatable || isKnownUndone(asOttlaError(error)) ? error : new Final(asOttlaError(error));
    }
  });
}

/** Runs `attempt` until it succeeds, fails for good, or the deadline has passed; then rejects with its last error. */
export async function retrying<T>(
  context: { readonly alarms: Alarms; readonly rng: Rng },
  deadlineMs: number,
  attempt: (leftMs: number) => Promise<T>,
): Promise<T> {
  for (let count = 1; ; count++) {
    const leftMs = deadlineMs - context.alarms.nowMs();
    try {
      return await attempt(Math.max(1, leftMs));
    } catch (thrown) {
      if (thrown instanceof Final) throw thrown.error;
      const error = asOttlaError(thrown);
      const pauseMs = backoffMs(count, context.rng);
      if (!error.retriable || context.alarms.nowMs() + pauseMs >= deadlineMs) throw error;
      await context.alarms.sleep(pauseMs);
    }
  }
}

/** Ends `retrying` with its error, however retriable that is. */
class Final {
  readonly error: OttlaError;

  constructor(error: OttlaError) {
    this.error = error;
  }
}

function isKnownUndone(error: OttlaError): boolean {
  return error.code === "BUSY" || error.code === "BROKER_NOT_AVAILABLE" || error.code === "CONNECTION_FAILED";
}
