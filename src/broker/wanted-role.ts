// What the metadata wants this broker to be in a partition, as a pure function of it.
import { mutant } from "../base/mutant.ts";
import type { MetadataImage, PartitionImage } from "../metadata/image.ts";
import type { ErrorName } from "../model/errors.ts";
import type { IncarnationId, NodeId } from "../model/ids.ts";

/** This process under its node id. */
export interface SelfIdentity {
  readonly nodeId: NodeId;
  readonly incarnationId: IncarnationId;
}

export type WantedRole =
  | { readonly kind: "leader" }
  | { readonly kind: "follower" }
  /** Producers and readers are told `error`. */
  | { readonly kind: "stand-by"; readonly error: ErrorName };

const LEADER: WantedRole = { kind: "leader" };
const FOLLOWER: WantedRole = { kind: "follower" };
const NONE: WantedRole = { kind: "stand-by", error: "NOT_LEADER_OR_FOLLOWER" };
const DAMAGED: WantedRole = { kind: "stand-by", error: "STORAGE_ERROR" };

/**
 * D-1: a role is only for the incarnation that the metadata knows: an epoch that was given to one before, or to another process under this node id,
 * is nothing to this one. A fenced broker leads nothing, but it follows.
 */
export function wantedRole(
  image: MetadataImage,
  { nodeId, incarnationId }: SelfIdentity,
  partition: PartitionImage,
  isDamaged: boolean,
): WantedRole {
  if (isDamaged) return DAMAGED;
  const { leader } = partition;
  if (leader === null) return NONE;
  const broker = image.broker(nodeId);
  const isKnown = broker?.incarnationId === incarnationId || mutant("D1-broker");
  if (leader === nodeId) return isKnown && (broker?.isFenced === false || mutant("D1-broker")) ? LEADER : NONE;
  return isKnown ? FOLLOWER : NONE;
}

/**
 * D-17: a damaged replica is dropped and fetched anew once nobody counts on it: another broker leads, and the metadata has it in no list of those who
 * hold what is committed.
 */
export function mayFetchAnew(partition: PartitionImage, nodeId: NodeId): boolean {
  const { leader, isr, elr } = partition;
  return leader !== null && leader !== nodeId && !isr.includes(nodeId) && !elr.includes(nodeId);
}
