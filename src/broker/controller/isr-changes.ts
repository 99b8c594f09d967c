// The controller's side of ISR changes: what all leaders wish at one moment goes into one command.
import { accepted } from "../../metadata/decision.ts";
import { alterPartition, type DamageKnown, PartitionChanges, type Verdict } from "../../metadata/controller.ts";
import type { MetadataImage } from "../../metadata/image.ts";
import { OttlaError } from "../../model/errors.ts";
import type { NodeId } from "../../model/ids.ts";
import type { Logger } from "../../ports/logger.ts";
import type { AlterPartitionRequest, AlterPartitionResponse } from "../../wire/native/replication-apis.ts";
import type { MetadataQuorum } from "../quorum/types.ts";

export interface IsrChangesDeps extends Required<DamageKnown> {
  readonly quorum: Pick<MetadataQuorum, "image" | "propose">;
  readonly logger: Logger;
  /** Runs work that nobody waits for. */
  readonly run: (work: Promise<unknown>) => void;
  /** D-8: it gave leaderships away, because its disk is behind. */
  readonly onMovedAway: (nodeId: NodeId) => void;
}

/** Bound: requests that wait. */
const WAITING_MAX = 2_000;
/** Of one leader, which sends one at a time: more come from connections that it gave up. */
const WAITING_OF_NODE_MAX = 4;
/** Of one command, which has room for these. */
const ENTRIES_MAX = 2_000;

interface Waiting {
  readonly request: AlterPartitionRequest;
  readonly resolve: (response: AlterPartitionResponse) => void;
  readonly reject: (error: unknown) => void;
}

export class IsrChanges {
  readonly #deps: IsrChangesDeps;
  #waiting: Waiting[] = [];
  #isRunning = false;

  constructor(deps: IsrChangesDeps) {
    this.#deps = deps;
  }

  /** Rejects with OttlaError. */
  request(request: AlterPartitionRequest): Promise<AlterPartitionResponse> {
    this.#dropOlder(request.nodeId);
    if (this.#waiting.length >= WAITING_MAX)
      return Promise.reject(new OttlaError("BUSY", `${this.#waiting.length} wishes of leaders wait`));
    return new Promise((resolve, reject) => {
      this.#waiting.push({ request, resolve, reject });
      if (!this.#isRunning) this.#deps.run(this.#work());
    });
  }

  #dropOlder(nodeId: NodeId): void {
    const own = this.#waiting.filter(({ request }) => request.nodeId === nodeId);
    const [oldest] = own;
    if (oldest === undefined || own.length < WAITING_OF_NODE_MAX) return;
    this.#waiting = this.#waiting.filter((waiting) => waiting !== oldest);
    oldest.reject(new OttlaError("BUSY", `node ${nodeId} has sent other wishes since`));
  }

  /** While one command is under way the next ones' wishes gather. */
  async #work(): Promise<void> {
    this.#isRunning = true;
    try {
      while (this.#waiting.length > 0) await this.#decide(this.#take());
    } finally {
      this.#isRunning = false;
    }
  }

  #take(): readonly Waiting[] {
    let count = 0;
    let entries = 0;
    for (const { request } of this.#waiting) {
      entries += request.entries.length;
      if (count > 0 && entries > ENTRIES_MAX) break;
      count++;
    }
    const taken = this.#waiting.slice(0, count);
    this.#waiting = this.#waiting.slice(count);
    return taken;
  }

  async #decide(batch: readonly Waiting[]): Promise<void> {
    let verdicts: readonly (readonly Verdict[])[] = [];
    let changes = new PartitionChanges();
    try {
      const decision = await this.#deps.quorum.propose((image) => {
        changes = new PartitionChanges();
        verdicts = batch.map(({ request }) => this.#verdictsOf(image, request, changes));
        return accepted(...changes.records);
      });
      if (decision.kind === "refused") throw new OttlaError(decision.error, decision.message);
    } catch (thrown) {
      for (const { reject } of batch) reject(thrown);
      if (!(thrown instanceof OttlaError)) throw thrown;
      return;
    }
    if (changes.count > 0) this.#deps.logger.debug("partitions_altered", { changes: changes.count });
    batch.forEach(({ request, resolve }, at) => {
      const entries = (verdicts[at] ?? []).map(({ error }) => ({ error }));
      resolve({ entries });
      this.#noteMoves(request);
    });
  }

  #verdictsOf(image: MetadataImage, request: AlterPartitionRequest, changes: PartitionChanges): readonly Verdict[] {
    const { isDamaged } = this.#deps;
    return request.entries.map((wish) =>
      alterPartition(image, { sender: request, wish, known: { isDamaged }, changes }),
    );
  }

  #noteMoves({ nodeId, entries }: AlterPartitionRequest): void {
    const { quorum, logger, onMovedAway } = this.#deps;
    const moved = entries.filter(({ topicId, partition, wantsMove }) => {
      const leader = quorum.image.topic(topicId)?.partitions[partition]?.leader;
      return wantsMove && leader !== undefined && leader !== nodeId;
    });
    if (moved.length === 0) return;
    logger.info("leaderships_moved", { from: nodeId, partitions: moved.length, reason: "slow disk" });
    onMovedAway(nodeId);
  }
}
