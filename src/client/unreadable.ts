// Errors of partitions that cannot be reached: one for all of them, which names them.
import { OttlaError } from "../model/errors.ts";

export interface PartitionFailure {
  readonly topic: string;
  readonly partition: number;
  /** Its message names no partition. */
  readonly error: OttlaError;
}

const NAMES_MAX = 20;

export function noLeader(): OttlaError {
  const hint = "ottla cluster health says which node is down; ottla topic describe <topic> shows the leaders";
  return new OttlaError("NOT_LEADER_OR_FOLLOWER", "no leader", { hint });
}

/** What counts most gives code and hint: what no retry can help, then a partition without leader. */
export function failureOfPartitions(failures: readonly PartitionFailure[], addition = ""): OttlaError {
  const byReason = new Map<string, string[]>();
  for (const { topic, partition, error } of failures) {
    const names = byReason.get(error.message);
    if (names === undefined) byReason.set(error.message, [`${topic}-${partition}`]);
    else names.push(`${topic}-${partition}`);
  }
  const texts = [...byReason].map(([reason, names]) => `${listed(names)}: ${reason}`);
  const errors = failures.map(({ error }) => error);
  const cause =
    errors.find((error) => !error.retriable) ??
    errors.find((error) => error.code === "NOT_LEADER_OR_FOLLOWER") ??
    errors[0] ??
    noLeader();
  return new OttlaError(cause.code, `${texts.join("; ")}${addition}`, { cause, hint: cause.hint });
}

function listed(names: readonly string[]): string {
  const more = names.length > NAMES_MAX ? ` and ${names.length - NAMES_MAX} partitions more` : "";
  return `${names.slice(0, NAMES_MAX).join(", ")}${more}`;
}
