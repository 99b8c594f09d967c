// Ending the damage of a replica without dropping it (D-17): the segments that are not what was written are fetched from the partition's leader, below its
// high watermark, as a consumer would. Whatever cannot be repaired so is fetched anew as a whole.
import { Gate } from "../base/gate.ts";
import type { PartitionImage } from "../metadata/image.ts";
import { asOttlaError, OttlaError } from "../model/errors.ts";
import type { NodeId, Offset } from "../model/ids.ts";
import type { Logger } from "../ports/logger.ts";
import type { LogRepair, ReplicaLog } from "../storage/types.ts";
import { API } from "../wire/native/apis.ts";
import { LIMITS } from "../wire/native/protocol.ts";
import type { PeerLinks } from "./quorum/peers.ts";
import type { Replica } from "./replica.ts";

const FETCH_TIMEOUT_MS = 10_000;
/** Each holds a fetch of at most 1 MiB, or one batch, and what its writer has not written. */
const REPAIRS_AT_ONCE = 2;
/** Troubles of the leader or of the way to it, one after another, before the whole log is fetched anew. */
const ATTEMPTS_MAX = 10;

export interface ReplicaRepairDeps {
  /** Those for bulk. */
  readonly links: Pick<PeerLinks, "ask">;
  readonly logger: Logger;
}

export class ReplicaRepair {
  readonly #deps: ReplicaRepairDeps;
  readonly #gate = new Gate(REPAIRS_AT_ONCE);
  readonly #attempts = new WeakMap<ReplicaLog, number>();

  constructor(deps: ReplicaRepairDeps) {
    this.#deps = deps;
  }

  /** True: the log is whole. False: it cannot be made whole this way. Rejects when it may be tried again later. */
  repair(replica: Replica, partition: PartitionImage): Promise<boolean> {
    return this.#gate.run(() => this.#repair(replica, partition));
  }

  async #repair(replica: Replica, { leader, leaderEpoch }: PartitionImage): Promise<boolean> {
    const { log, topicName: topic } = replica;
    const repair = replica.coreDamage === undefined ? log.beginRepair() : undefined;
    if (repair === undefined || leader === null) return false;
    const told = { topic, partition: log.partition, leader, offset: repair.nextOffset };
    try {
      await this.#fill(repair, log, { leader, leaderEpoch });
      const isWhole = await repair.finish();
      this.#attempts.delete(log);
      this.#deps.logger.warn(isWhole ? "replica_repaired" : "replica_not_repaired", told);
      return isWhole;
    } catch (thrown) {
      await repair.giveUp();
      const error = asOttlaError(thrown);
      const attempts = (this.#attempts.get(log) ?? 0) + 1;
      this.#attempts.set(log, attempts);
      const mayPass = error.code !== "STORAGE_ERROR" && error.code !== "OFFSET_OUT_OF_RANGE" && attempts < ATTEMPTS_MAX;
      this.#deps.logger.warn("replica_not_repaired", { ...told, code: error.code, message: error.message });
      if (mayPass) throw error;
      return false;
    }
  }

  async #fill(
    repair: LogRepair,
    log: ReplicaLog,
    from: { readonly leader: NodeId; readonly leaderEpoch: number },
  ): Promise<void> {
    for (let offset = repair.nextOffset; offset !== undefined; offset = repair.nextOffset) {
      await repair.take(await this.#fetch(log, from, offset));
    }
  }

  async #fetch(
    { topicId, partition }: ReplicaLog,
    { leader, leaderEpoch }: { readonly leader: NodeId; readonly leaderEpoch: number },
    offset: Offset,
  ): Promise<Uint8Array> {
    const maxBytes = LIMITS.LOGICAL_MESSAGE_BODY_BYTES;
    const entries = [{ topicId, partition, leaderEpoch, offset, maxBytes }];
    const request = { maxWaitMs: 0, minBytes: 0, maxBytes, entries };
    const { links } = this.#deps;
    const { response, bodies } = await links.ask(leader, API.FETCH, request, { timeoutMs: FETCH_TIMEOUT_MS });
    const entry = response.entries[0];
    const error = entry?.error ?? "NOT_LEADER_OR_FOLLOWER";
    // Damage of the leader is not this replica's.
    if (error !== "NONE")
      throw new OttlaError(error === "STORAGE_ERROR" ? "NOT_LEADER_OR_FOLLOWER" : error, `fetching offset ${offset}`);
    const body = bodies[entry?.body ?? -1];
    if (body === undefined || body.length === 0)
      throw new OttlaError("OFFSET_NOT_AVAILABLE", `the leader gave nothing from offset ${offset} on`);
    return body;
  }
}
