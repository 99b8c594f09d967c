// What brokers tell of damaged replicas (D-17), and which of it is committed. Memory of one controller: the next one hears it again.
import { decideDamage, type PartitionRef } from "../../metadata/controller.ts";
import { OttlaError } from "../../model/errors.ts";
import type { NodeId } from "../../model/ids.ts";
import type { Logger } from "../../ports/logger.ts";
import type { BrokerHeartbeatRequest } from "../../wire/native/quorum-apis.ts";
import type { MetadataQuorum } from "../quorum/types.ts";

export interface DamagesDeps {
  readonly quorum: Pick<MetadataQuorum, "propose">;
  readonly logger: Logger;
}

type Report = Pick<BrokerHeartbeatRequest, "nodeId" | "brokerEpoch" | "damaged">;

/** Bound: what the last heartbeat of each broker listed. */
interface Known {
  readonly brokerEpoch: number;
  readonly told: ReadonlySet<string>;
  /** Of these: the partition's record has it. */
  readonly committed: Set<string>;
}

const keyOf = ({ topicId, partition }: PartitionRef): string => `${topicId}-${partition}`;

export class Damages {
  readonly #deps: DamagesDeps;
  readonly #known = new Map<NodeId, Known>();

  constructor(deps: DamagesDeps) {
    this.#deps = deps;
  }

  begin(): void {
    this.#known.clear();
  }

  forget(nodeId: NodeId): void {
    this.#known.delete(nodeId);
  }

  isDamaged(nodeId: NodeId, ref: PartitionRef): boolean {
    return this.#known.get(nodeId)?.told.has(keyOf(ref)) === true;
  }

  /** Resolves when all of the list is committed; rejects with the OttlaError that forbids it. */
  async reported({ nodeId, brokerEpoch, damaged }: Report): Promise<void> {
    const before = this.#known.get(nodeId);
    if (damaged.length === 0 && before === undefined) return;
    const refs = damaged.flatMap(({ topicId, partitions }) =>
      partitions.map((partition): PartitionRef => ({ topicId, partition })),
    );
    const told = new Set(refs.map(keyOf));
    const isSameEpoch = before?.brokerEpoch === brokerEpoch;
    const committed = new Set([...(isSameEpoch ? before.committed : [])].filter((key) => told.has(key)));
    if (told.size === 0) this.#known.delete(nodeId);
    else this.#known.set(nodeId, { brokerEpoch, told, committed });
    const fresh = refs.filter((ref) => !committed.has(keyOf(ref)));
    if (fresh.length === 0) return;
    await this.#commit({ nodeId, brokerEpoch, partitions: fresh });
    for (const ref of fresh) committed.add(keyOf(ref));
  }

  async #commit(wish: { nodeId: NodeId; brokerEpoch: number; partitions: readonly PartitionRef[] }): Promise<void> {
    const { quorum, logger } = this.#deps;
    const decision = await quorum.propose((image) => decideDamage(image, wish));
    if (decision.kind === "refused") throw new OttlaError(decision.error, decision.message);
    const { nodeId, partitions } = wish;
    logger.warn("replicas_damaged", {
      nodeId,
      partitions: partitions.length,
      first: partitions.slice(0, 1).map(keyOf),
    });
  }
}
