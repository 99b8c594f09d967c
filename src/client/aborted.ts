// AbortSignal beside a promise.
import { OttlaError } from "../model/errors.ts";

/** Settles as `promise` does, or rejects with ABORTED. */
export function orAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const abort = () => reject(new OttlaError("ABORTED"));
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    // Both outcomes go to the caller.
    void promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
