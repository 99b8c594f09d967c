// What became of a batch, put into the error that its sender is told.
import { type ErrorName, OttlaError, type Outcome } from "../model/errors.ts";
import type { Lane } from "./produce-batch.ts";

/** The error, saying of which partition it is. */
export function named({ topic, partition }: Lane, error: OttlaError): OttlaError {
  const { code, message, cause } = error;
  const hint = error.hint.replace("ottla topic describe shows", `ottla topic describe ${topic} shows`);
  return new OttlaError(code, `${topic}-${partition}: ${message}`, { hint, cause });
}

export function withOutcome(error: OttlaError, outcome: Outcome): OttlaError {
  return new OttlaError(error.code, error.message, { outcome, hint: error.hint, cause: error.cause });
}

/** The broker refused the request as a whole, before it looked at the batches; of other errors nothing is known. */
export function outcomeOfRefusal(code: ErrorName): Outcome {
  switch (code) {
    case "BUSY":
    case "BROKER_NOT_AVAILABLE":
    case "UNSUPPORTED_VERSION":
    case "INVALID_REQUEST":
    case "INVALID_REQUIRED_ACKS":
    case "BAD_ENVELOPE":
    case "BODY_MISMATCH":
    case "FRAME_TOO_LARGE":
    case "UNKNOWN_API":
    case "HANDSHAKE_REQUIRED":
      return "not appended";
    default:
      return "unknown";
  }
}
