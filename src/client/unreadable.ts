// Errors of partitions that cannot be reached: one for all of them, which names them.
import { type ErrorName, OttlaError } from "../model/errors.ts";
import type { PartitionMetadata } from "../wire/native/apis.ts";

export interface PartitionFailure {
  readonly topic: string;
  readonly partition: number;
  /** Its message names no partition. */
  readonly error: OttlaError;
}

const NAMES_MAX = 20;

/** Where the partition is known, with what its metadata says of why nobody leads it. */
export function noLeader(topic?: string, partition?: PartitionMetadata): OttlaError {
  if (topic !== undefined && partition !== undefined && partition.leader < 0) {
    if (partition.error === "NO_INTACT_REPLICA") return nobodyIntact(topic, partition);
    if (partition.error === "LEADER_NOT_AVAILABLE") return nobodyUp(topic, partition);
  }
  const hint = "ottla cluster health says which node is down; ottla topic describe <topic> shows the leaders";
  return new OttlaError("NOT_LEADER_OR_FOLLOWER", "no leader", { hint });
}

function nobodyIntact(topic: string, { index, replicas }: PartitionMetadata): OttlaError {
  const message = `no leader: no replica is left that has all that was acknowledged (replicas ${replicas.join(", ")})`;
  const hint = `bring back a node with an intact disk; else ottla partition elect ${topic} ${index} --unclean --yes lets the fullest replica that is not damaged lead: what it lacks is lost then; where all are damaged, delete the topic`;
  return new OttlaError("NO_INTACT_REPLICA", message, { hint });
}

function nobodyUp(topic: string, { isr, elr }: PartitionMetadata): OttlaError {
  const able = [...new Set([...isr, ...elr])];
  const which = able.length === 1 ? `node ${able[0]}` : `one of the nodes ${able.join(", ")}`;
  const hint = `start ${which}; ottla topic describe ${topic} shows the replicas`;
  return new OttlaError("LEADER_NOT_AVAILABLE", `no leader until ${which} is up`, { hint });
}

export const isLeaderless = (code: ErrorName): boolean =>
  code === "NOT_LEADER_OR_FOLLOWER" || code === "LEADER_NOT_AVAILABLE" || code === "NO_INTACT_REPLICA";

/** Nobody has all that was acknowledged any more: no waiting helps, an operator has to decide. */
export const isLost = (partition: Pick<PartitionMetadata, "leader" | "error">): boolean =>
  partition.leader < 0 && partition.error === "NO_INTACT_REPLICA";

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
    errors.find((error) => isLeaderless(error.code)) ??
    errors[0] ??
    noLeader();
  return new OttlaError(cause.code, `${texts.join("; ")}${addition}`, { cause, hint: cause.hint });
}

function listed(names: readonly string[]): string {
  const more = names.length > NAMES_MAX ? ` and ${names.length - NAMES_MAX} partitions more` : "";
  return `${names.slice(0, NAMES_MAX).join(", ")}${more}`;
}
