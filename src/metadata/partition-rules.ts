// Who is in a partition's ISR and ELR, and who leads it, after a replica has left, come back, or asked: pure rules, applied by every node alike
// (R-53 to R-56, with D-1, D-5 and D-6).
import { mutant } from "../base/mutant.ts";
import type { LeaderEpoch, NodeId } from "../model/ids.ts";
import type { PartitionImage } from "./image-types.ts";

/** A broker that may lead: registered and not fenced. */
export type IsActive = (nodeId: NodeId) => boolean;

/** What a change of a partition decides; epochs follow from it. */
export interface Standing {
  readonly leader: NodeId | null;
  readonly isr: readonly NodeId[];
  readonly elr: readonly NodeId[];
}

/** D-5: what holds where neither the topic nor the cluster says. The majority of the declared replication factor: 1 -> 1, 2 -> 2, 3 -> 2, 5 -> 3. */
export function minIsrOf(replicationFactor: number): number {
  return Math.floor(replicationFactor / 2) + 1;
}

/** D-5: of the declared replication factor, never of the list of replicas, and never more than there are replicas to be. */
export function effectiveMinIsr(replicationFactor: number, ofTopic?: number, ofCluster?: number): number {
  return Math.min(replicationFactor, ofTopic ?? ofCluster ?? minIsrOf(replicationFactor));
}

/**
 * The replica stops counting. It holds all that is committed for as long as no fewer than min ISR others commit more: until then it stays
 * eligible, dead or alive, unless what it had is lost (D-6).
 *
 *   min ISR 2, ISR {1,2,3}: 3 leaves -> ISR {1,2}, ELR {}; 2 leaves -> ISR {1}, ELR {2}; 1 leaves -> ISR {}, ELR {1,2}.
 *   2 has another disk, or damage -> ISR {}, ELR {1}.
 */
export function withoutMember(partition: PartitionImage, nodeId: NodeId, isDataLost: boolean): Standing {
  const isr = partition.isr.filter((member) => member !== nodeId);
  const isLost = isDataLost && !mutant("D-6");
  const isOut = (member: NodeId): boolean => member === nodeId && isLost;
  return { leader: partition.leader, isr, elr: eligible(partition, isr, isOut) };
}

/** The ISR becomes this one, a part of the replicas: those who leave it are eligible while it is smaller than min ISR. */
export function withIsr(partition: PartitionImage, isr: readonly NodeId[]): Standing {
  return { leader: partition.leader, isr, elr: eligible(partition, isr, () => false) };
}

/** In the order of the replicas, so that equal sets are equal bytes. */
function eligible(
  { replicas, isr, elr, minIsr }: PartitionImage,
  after: readonly NodeId[],
  isOut: (nodeId: NodeId) => boolean,
): readonly NodeId[] {
  if (after.length >= minIsr) return NOBODY;
  return replicas.filter((node) => (elr.includes(node) || isr.includes(node)) && !after.includes(node) && !isOut(node));
}

const NOBODY: readonly NodeId[] = [];

/**
 * Whoever leads goes on if it may; else the first replica in the order of assignment that is in the ISR; else, when nobody is, the first that is
 * eligible, which alone is then in sync. Nobody else ever.
 *
 *   ISR {2,3}, leader 1 gone -> leader 2. ISR {}, ELR {1,2}, 2 active -> ISR {2}, ELR {1}, leader 2; with min ISR 1: ELR {}.
 */
export function elected(partition: PartitionImage, standing: Standing, isActive: IsActive): Standing {
  const { replicas, minIsr } = partition;
  const { leader, isr, elr } = standing;
  if (leader !== null && isr.includes(leader) && isActive(leader)) return standing;
  const isClean = (node: NodeId): boolean => mutant("M8") || (isr.length > 0 ? isr : elr).includes(node);
  const heir = replicas.find((node) => isClean(node) && isActive(node));
  if (heir !== undefined && isr.includes(heir)) return { leader: heir, isr, elr };
  if (heir === undefined) return leader === null ? standing : { leader: null, isr, elr };
  return { leader: heir, isr: [heir], elr: minIsr <= 1 ? NOBODY : elr.filter((node) => node !== heir) };
}

/**
 * D-5. Raised: what holds from here on. Lowered: fewer may commit from here on, without those that were eligible, so these are no more, in this same
 * change. But while nobody is in the ISR nobody commits: the eligible ones stay, and the election that ends this state clears them where it must.
 */
export function withMinIsr(partition: PartitionImage, minIsr: number): PartitionImage {
  const isLowered = minIsr < partition.minIsr && !mutant("D-5");
  const elr = isLowered && partition.isr.length > 0 ? NOBODY : partition.elr;
  return { ...partition, minIsr, elr, partitionEpoch: partition.partitionEpoch + 1 };
}

export interface ChangeKind {
  readonly isUnclean?: boolean;
  /** The leader epoch rises although the leader stays. */
  readonly isNewEpoch?: boolean;
}

/** A leader epoch is of one leader in one incarnation: every loss and every gain of leadership opens a new one (D-1). */
export function changed(
  partition: PartitionImage,
  standing: Standing,
  { isUnclean = false, isNewEpoch = false }: ChangeKind = {},
): PartitionImage {
  const { leader, isr } = standing;
  const isNew = isNewEpoch || (leader !== partition.leader && !mutant("D-1e"));
  const leaderEpoch = (isNew ? partition.leaderEpoch + 1 : partition.leaderEpoch) as LeaderEpoch;
  const uncleanEpoch = isUnclean ? leaderEpoch : partition.uncleanEpoch;
  const minIsr = mutant("D-5m") ? minIsrOf(isr.length) : partition.minIsr;
  const elr = mutant("D-5m") ? NOBODY : standing.elr;
  const partitionEpoch = partition.partitionEpoch + 1;
  return { ...partition, leader, isr, elr, minIsr, leaderEpoch, uncleanEpoch, partitionEpoch };
}

/**
 * An operator gave up a part of the metadata log: who was in sync by it may not have been the last who was. All are eligible, and what they commit
 * from here on may leave out what was committed before: as after an unclean election (D-9).
 */
export function withEpochsRaised(partition: PartitionImage, by: number): PartitionImage {
  const { replicas, isr, elr } = partition;
  const leaderEpoch = (partition.leaderEpoch + by) as LeaderEpoch;
  return {
    ...partition,
    leader: null,
    isr: NOBODY,
    elr: replicas.filter((node) => isr.includes(node) || elr.includes(node)),
    leaderEpoch,
    uncleanEpoch: leaderEpoch,
    partitionEpoch: partition.partitionEpoch + by,
  };
}

/** What of the image's guarantees does not hold for the partition; undefined when all do. */
export function partitionFault(
  partition: PartitionImage,
  isRegistered: IsActive,
  isActive: IsActive,
): string | undefined {
  const { replicas, isr, elr, leader, minIsr, leaderEpoch, uncleanEpoch } = partition;
  if (replicas.length === 0 || new Set(replicas).size < replicas.length) return "replicas that are none, or one twice";
  const members = [...isr, ...elr];
  if (!members.every((node) => replicas.includes(node) && isRegistered(node)))
    return "an ISR or ELR that is no part of the replicas that are registered";
  if (new Set(members).size < members.length) return "a replica twice in ISR and ELR";
  if (!isr.every(isActive)) return "a fenced broker in the ISR";
  if (minIsr < 1) return "a min ISR of nobody";
  if (isr.length >= minIsr && elr.length > 0) return "an ELR beside an ISR that is large enough";
  if (leader === null ? isr.length > 0 : !isr.includes(leader)) return `${leader ?? "nobody"} may not lead`;
  return uncleanEpoch > leaderEpoch ? "an unclean election in an epoch to come" : undefined;
}
