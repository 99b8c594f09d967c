// One simulated client process: it lives, dies and is started again; a named one may also be started while another with its name still runs.
import type { Rng } from "../../base/rng.ts";
import type { Client } from "../../client/types.ts";
import { type PartitionName, partitionName } from "../../checkers/history.ts";
import { MARK, RARE_MARK } from "../marks.ts";
import type { ClientPlan } from "../swarm.ts";
import { ClientLife, type ClientParts, type Liver } from "./client-life.ts";
import type { TopicPlan } from "./topics.ts";

export type { ClientParts } from "./client-life.ts";

interface Place {
  readonly topic: TopicPlan;
  readonly partition: number;
}

type Change = "none" | "death" | "takeover" | "fenced";

export class SimClient implements Liver {
  readonly name: string;
  /** Batches told to be appended. */
  batches = 0;
  /** Records acknowledged. */
  acknowledged = 0;
  isStopping = false;
  /** It dies no more, and nobody takes its name. */
  isSafe = false;
  isCalm = false;
  /** Of those that `reach` was called with. */
  readonly unreached = new Set<PartitionName>();
  readonly #parts: ClientParts;
  readonly #plan: ClientPlan;
  readonly #rng: Rng;
  #life: ClientLife;
  #lives = 1;

  constructor(name: string, parts: ClientParts, plan: ClientPlan) {
    this.name = name;
    this.#parts = parts;
    this.#plan = plan;
    this.#rng = parts.world.fork(`lives of ${name}`);
    this.#life = new ClientLife(0, this, { parts, plan });
  }

  onBatch(): void {
    this.batches++;
  }

  onAcknowledged(): void {
    this.acknowledged++;
  }

  connect(): Promise<Client> {
    return this.#life.connect();
  }

  wait(delayMs: number): Promise<void> {
    return this.#life.wait(delayMs);
  }

  async close(): Promise<void> {
    await this.#life.close();
  }

  /** Produces and consumes until `isStopping`, in one life after another; resolves when all sends of those that were not killed have ended. */
  async run(): Promise<void> {
    const running: Promise<void>[] = [];
    for (;;) {
      const life = this.#life;
      const end = life.run();
      running.push(end);
      const change = await Promise.race([
        this.#change(life),
        life.fenced.then((): Change => "fenced"),
        end.then((): Change => "none"),
      ]);
      if (change === "none" || this.isStopping) break;
      if (change === "death") {
        void running.pop();
        life.kill();
      } else if (change === "takeover") this.#parts.world.sometimes(MARK.TAKEN_OVER);
      else this.#parts.world.sometimes(RARE_MARK.FENCED_BY_NOBODY);
      this.#life = new ClientLife(this.#lives++, this, { parts: this.#parts, plan: this.#plan });
      if (change !== "death") running.push(end.then(() => life.close()));
    }
    await Promise.all(running);
  }

  /** What becomes of this life next. */
  async #change(life: ClientLife): Promise<Change> {
    const { deathMs, isNamed } = this.#plan;
    if (deathMs === 0) return new Promise(() => undefined);
    await this.#later(-Math.log((this.#rng.u32() + 1) / 2 ** 32) * deathMs);
    // Which of two came first can be told only from a claim that has ended.
    while (isNamed && !life.hasAcknowledged && !this.isSafe) await this.#later(100);
    if (this.isSafe) return new Promise(() => undefined);
    return isNamed && this.#rng.chance(0.5) ? "takeover" : "death";
  }

  /** Of the world, not of a process. */
  #later(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.#parts.world.schedule({ delayMs, kind: "client's fate", detail: this.name }, resolve);
    });
  }

  /** Resolves when each of these partitions has acknowledged a record, or has gone away, is lost, or is expected to take none any more. */
  async reach(places: readonly Place[], isExpected: (place: Place) => boolean): Promise<void> {
    const client = await this.connect();
    const producer = client.producer({ acks: "all", deliveryTimeoutMs: 10_000, requestTimeoutMs: 2000 });
    const how = { acks: "all", isNumbered: true } as const;
    await Promise.all(
      places.map(async (place) => {
        const { topic, partition } = place;
        const { board, isLost } = this.#parts;
        const isThere = (): boolean =>
          board.has(topic.name) && !isLost({ topic: topic.name, partition }) && isExpected(place);
        const name = partitionName({ topic: topic.name, partition });
        this.unreached.add(name);
        while (isThere() && !(await this.#life.sendTo(producer, topic, { partition, ...how }))) await this.wait(100);
        this.unreached.delete(name);
      }),
    );
    await producer.close();
  }
}
