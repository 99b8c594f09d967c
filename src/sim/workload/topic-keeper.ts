// Creates the topics of a run, and in some seeds deletes one and creates another in its place.
import type { Rng } from "../../base/rng.ts";
import type { Client } from "../../client/types.ts";
import { asOttlaError } from "../../model/errors.ts";
import type { HistoryEvent } from "../../checkers/history.ts";
import { MARK } from "../marks.ts";
import type { SwarmConfig } from "../swarm.ts";
import type { SimWorld } from "../world.ts";
import { drawTopicLife } from "./topic-lives.ts";
import type { TopicBoard } from "./topics.ts";

export interface KeeperParts {
  readonly world: SimWorld;
  readonly board: TopicBoard;
  readonly record: (event: HistoryEvent) => void;
  readonly wait: (delayMs: number) => Promise<void>;
}

export class TopicKeeper {
  isStopping = false;
  readonly #parts: KeeperParts;
  readonly #swarm: SwarmConfig;
  readonly #rng: Rng;

  constructor(parts: KeeperParts, swarm: SwarmConfig) {
    this.#parts = parts;
    this.#swarm = swarm;
    this.#rng = parts.world.fork("topics");
  }

  async createAll(client: Client): Promise<void> {
    for (let count = 0; count < this.#swarm.topics; count++) await this.createOne(client);
  }

  async createOne(client: Client): Promise<void> {
    while (!(await this.#create(client)));
  }

  async run(client: Client): Promise<void> {
    if (this.#swarm.deleteTopicMs === 0) return;
    while (!this.isStopping) {
      await this.#parts.wait(this.#rng.between(1, this.#swarm.deleteTopicMs * 2));
      if (this.isStopping) return;
      await this.#deleteOne(client);
      while (!this.isStopping && this.#parts.board.live.length < this.#swarm.topics) await this.#create(client);
    }
  }

  /** False when it failed: the name is not used again, the topic may exist or not. */
  async #create(client: Client): Promise<boolean> {
    const { board, world, record } = this.#parts;
    const name = board.nextName();
    const partitions = this.#rng.between(1, this.#swarm.partitionsMax);
    const { replicasMax } = this.#swarm;
    // Mostly as many as may be; a factor that is not said is the cluster's.
    const replicationFactor = this.#rng.chance(0.7) ? replicasMax : this.#rng.between(1, replicasMax);
    const minIsr = this.#rng.chance(0.5)
      ? {}
      : { "min.insync.replicas": `${Math.min(replicationFactor, this.#rng.between(1, 3))}` };
    const life = drawTopicLife(world.fork(`life of ${name}`), this.#swarm.lifeChance);
    const { isCompacted } = life;
    if (isCompacted) record({ type: "topic compacted", timeMs: world.nowMs, topic: name });
    try {
      await client
        .admin()
        .createTopic(name, { partitions, replicationFactor, configs: { ...minIsr, ...life.configs } });
      board.add({ name, partitions, isCompacted });
      return true;
    } catch (thrown) {
      const error = asOttlaError(thrown);
      world.sometimes(`create topic ended ${error.code}`);
      if (error.code === "UNKNOWN_SERVER_ERROR") world.fail(error);
      await this.#parts.wait(100);
      return false;
    }
  }

  async #deleteOne(client: Client): Promise<void> {
    const { board, world, record } = this.#parts;
    const { name } = this.#rng.pick(board.live);
    board.remove(name);
    record({ type: "topic deleting", timeMs: world.nowMs, topic: name });
    try {
      await client.admin().deleteTopic(name, { wait: this.#rng.chance(0.5) });
      world.sometimes(MARK.TOPIC_DELETED);
    } catch (thrown) {
      const error = asOttlaError(thrown);
      world.sometimes(`delete topic ended ${error.code}`);
      if (error.code === "UNKNOWN_SERVER_ERROR") world.fail(error);
    }
  }
}
