// What errors say about the client's picture of the cluster.
import type { ErrorName, OttlaError } from "../model/errors.ts";

/**
 * The metadata may be old (a leader that hangs, or is cut off from its replicas, may have been replaced and be the last to know): ask again
 * before trying again.
 */
export function isStale(code: ErrorName): boolean {
  switch (code) {
    case "UNKNOWN_TOPIC_OR_PARTITION":
    case "UNKNOWN_TOPIC_ID":
    case "NOT_LEADER_OR_FOLLOWER":
    case "LEADER_NOT_AVAILABLE":
    case "NO_INTACT_REPLICA":
    case "NOT_ENOUGH_REPLICAS":
    case "NOT_ENOUGH_REPLICAS_AFTER_APPEND":
    case "FENCED_LEADER_EPOCH":
    case "UNKNOWN_LEADER_EPOCH":
    case "CONNECTION_LOST":
    case "CONNECTION_FAILED":
    case "BROKER_NOT_AVAILABLE":
    case "REQUEST_TIMED_OUT":
      return true;
    default:
      return false;
  }
}

/** So many refusals in a row: a leader that refuses again and again, for whatever reason, may have been replaced and not know it. */
export const DOUBTED_FROM = 3;

/** What is stored there cannot be read: seldom a matter of waiting. */
export function isDamage(code: ErrorName): boolean {
  return code === "STORAGE_ERROR" || code === "CORRUPT_MESSAGE";
}

export function isTopicGone(code: ErrorName): boolean {
  return code === "UNKNOWN_TOPIC_OR_PARTITION" || code === "UNKNOWN_TOPIC_ID";
}

/** The controller itself said so: no broker that lags, and no cluster without a controller. */
export function isConfirmedGone(error: OttlaError): boolean {
  return isTopicGone(error.code) && error.cause === undefined;
}

/** Looking on for a leader, clients ask for all partitions at once: their tries fall on common moments. */
const TOGETHER_MS = 250;
const TOGETHER_FROM = 4;
/** As often as that at first, while a new leader is about to be elected, for about 5 s; then as the back-off says. */
const OFTEN_UNTIL = 24;

/** How long to wait before the try after `failureCount` failures, instead of `waitMs`. */
export function togetherMs(waitMs: number, nowMs: number, failureCount: number): number {
  if (failureCount < TOGETHER_FROM) return waitMs;
  const leastMs = failureCount < OFTEN_UNTIL ? Math.min(waitMs, TOGETHER_MS / 2) : waitMs;
  return Math.ceil((nowMs + leastMs) / TOGETHER_MS) * TOGETHER_MS - nowMs;
}

/** Answers in a row that must say so before a topic that was there counts as gone; its name may be about to be made anew. */
export const MISSING_MAX = 5;
