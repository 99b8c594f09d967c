// How the deletion of topics ends: when every broker that can be waited for has told that its logs are gone, the name is free; those that could
// not be waited for owe it, and settle it when they are back. What brokers tell is state, told again and again: a new controller hears it too.
import { type Decision, decideRemoval, decideSettled } from "../../metadata/controller.ts";
import type { MetadataImage } from "../../metadata/image.ts";
import type { MetadataRecordType } from "../../metadata/records.ts";
import type { NodeId, TopicId } from "../../model/ids.ts";
import type { Applied, MetadataQuorum } from "../quorum/types.ts";

export interface DeletionsDeps {
  readonly quorum: Pick<MetadataQuorum, "image" | "propose">;
  /** Runs work that nobody waits for. */
  readonly run: (work: Promise<unknown>) => void;
}

/** After these a broker that was waited for may be one that is not. */
const LOSSES: ReadonlySet<MetadataRecordType> = new Set([
  "fence-broker",
  "register-broker",
  "unregister-broker",
  "unsafe-recovery",
]);

/** Bound: names freed by proposals under way. */
const AT_ONCE = 256;

export class Deletions {
  readonly #deps: DeletionsDeps;
  /** Topics being deleted, with those that told that they have nothing of it. */
  readonly #going = new Map<TopicId, Set<NodeId>>();
  readonly #underWay = new Set<TopicId>();
  readonly #settling = new Set<NodeId>();

  constructor(deps: DeletionsDeps) {
    this.#deps = deps;
  }

  begin(): void {
    this.#going.clear();
    for (const { topicId, isDeleting } of this.#deps.quorum.image.topics)
      if (isDeleting) this.#going.set(topicId, new Set());
  }

  onApplied({ records, isReset }: Applied, isActive: boolean): void {
    if (isReset) this.begin();
    let hasLost = isReset;
    for (const record of records) {
      if (record.type === "delete-topic") {
        const told = new Set<NodeId>();
        this.#going.set(record.topicId, told);
        if (isActive) this.#look(record.topicId, told);
      } else if (record.type === "topic-removed") this.#going.delete(record.topicId);
      else if (LOSSES.has(record.type)) hasLost = true;
    }
    if (hasLost && isActive) this.look();
  }

  reported(nodeId: NodeId, topicIds: readonly TopicId[]): void {
    const { image } = this.#deps.quorum;
    const settled: TopicId[] = [];
    for (const topicId of topicIds) {
      const told = this.#going.get(topicId);
      if (told !== undefined) {
        told.add(nodeId);
        this.#look(topicId, told);
      } else if (image.tombstone(topicId)?.owed.includes(nodeId) === true) settled.push(topicId);
    }
    if (settled.length > 0 && !this.#settling.has(nodeId)) this.#deps.run(this.#settle(nodeId, settled));
  }

  /** Something may have ended the wait. */
  look(): void {
    for (const [topicId, told] of this.#going) this.#look(topicId, told);
  }

  #look(topicId: TopicId, told: ReadonlySet<NodeId>): void {
    if (this.#underWay.has(topicId) || this.#underWay.size >= AT_ONCE) return;
    const decide = (image: MetadataImage): Decision => decideRemoval(image, topicId, told);
    const now = decide(this.#deps.quorum.image);
    if (now.kind === "refused" || now.records.length === 0) return;
    this.#underWay.add(topicId);
    // Refused or not: the next look sees what is left to do. Behind all of the cluster's own: many may come at once, and a free name is not urgent.
    this.#deps.run(this.#deps.quorum.propose(decide, this).finally(() => this.#underWay.delete(topicId)));
  }

  async #settle(nodeId: NodeId, topicIds: readonly TopicId[]): Promise<void> {
    this.#settling.add(nodeId);
    try {
      await this.#deps.quorum.propose((image) => decideSettled(image, { nodeId, topicIds }));
    } finally {
      this.#settling.delete(nodeId);
    }
  }
}
