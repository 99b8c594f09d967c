// A partition in one word, as listings and tables say it. Pure.
import type { PartitionInfo } from "../client/types.ts";

export const PARTITION_WORDS = [
  "ok",
  /** Replicas are missing in the ISR. */
  "under-replicated",
  /** So many that writes are refused. */
  "below-min-isr",
  /** Served, with a fault. */
  "faulty",
  /** Nobody leads it until a replica that may lead is up. */
  "leaderless",
  /** No replica is left that has all that was acknowledged. */
  "lost",
] as const;
export type PartitionWord = (typeof PARTITION_WORDS)[number];

export function stateOfPartition(
  partition: Pick<PartitionInfo, "error" | "leader" | "replicas" | "isr" | "minIsr">,
): PartitionWord {
  const { error, leader, replicas, isr, minIsr } = partition;
  if (leader < 0) return error === "NO_INTACT_REPLICA" ? "lost" : "leaderless";
  if (isr.length < minIsr) return "below-min-isr";
  if (error !== "NONE") return "faulty";
  return isr.length < replicas.length ? "under-replicated" : "ok";
}

/** The worst of them; "ok" of none. */
export function worstOf(words: Iterable<PartitionWord>): PartitionWord {
  let worst = 0;
  for (const word of words) worst = Math.max(worst, PARTITION_WORDS.indexOf(word));
  return PARTITION_WORDS[worst] ?? "ok";
}
