// What became of a batch, put into the error that its sender is told.
import { type ErrorName, OttlaError, type Outcome } from "../model/errors.ts";
import type { PartitionMetadata } from "../wire/native/apis.ts";
import type { Lane } from "./lane.ts";

/** The error, saying of which partition it is. */
export function named({ topic, partition }: Lane, error: OttlaError): OttlaError {
  const { code, message, cause } = error;
  const hint = error.hint.replaceAll("<topic>", topic);
  return new OttlaError(code, `${topic}-${partition}: ${message}`, { hint, cause });
}

export function withOutcome(error: OttlaError, outcome: Outcome): OttlaError {
  return new OttlaError(error.code, error.message, { outcome, hint: error.hint, cause: error.cause });
}

/** What a broker answered for one batch. */
export function answeredError(entry: {
  readonly error: ErrorName;
  readonly outcome: Outcome;
  readonly message: string | null;
}): OttlaError {
  const { error, outcome, message } = entry;
  if (outcome === "unknown" && error === "NOT_LEADER_OR_FOLLOWER") {
    return new OttlaError(error, "the leader changed while the batch waited for its replicas", {
      hint: LEADER_CHANGED_HINT,
    });
  }
  const detail = message === null ? "" : `: ${message}`;
  return new OttlaError(error, `${new OttlaError(error).message}${detail}`);
}

/** Refused for its numbers after an attempt that may have been taken: why, and what is to be done. `gap`: what became of an earlier batch. */
export function lost(error: OttlaError, gap: OttlaError | undefined): OttlaError {
  if (error.code !== "OUT_OF_ORDER_SEQUENCE_NUMBER") return error;
  const why = gap === undefined ? "the partition misses an earlier batch" : "an earlier batch was given up";
  return new OttlaError(error.code, `${why}, and nothing behind it is taken any more: perhaps this one was before`, {
    cause: gap ?? error,
    hint: LOST_HINT,
  });
}

const LOST_HINT =
  "look in the partition before you send it again; later sends go on in a new epoch by themselves. A longer deliveryTimeoutMs makes this rare";

const LEADER_CHANGED_HINT =
  "the new leader may have it or not: look before you send it again. Later batches go to the new leader by themselves";

/** Why a batch that was sent is not acknowledged yet, as far as metadata tell. */
export function awaited({ acks }: Lane, partition: PartitionMetadata | undefined): string {
  if (partition === undefined || partition.leader < 0) return "";
  const leader = `node ${partition.leader}, which leads it, has not answered`;
  if (acks !== -1) return `: ${leader}`;
  return `: ${leader}; with acks=all it waits for the replicas in sync (${partition.isr.join(", ")})`;
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
