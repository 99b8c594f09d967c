// Who writes: producers with ids, batches without, and readers, at whoever believes to lead: mostly at the one that does.
import type { Rng } from "../../base/rng.ts";
import { PRODUCERS_MAX } from "../../model/producer-table.ts";
import { SimBatch } from "./batch.ts";
import { SimProducer } from "./producer.ts";
import type { SimReplica } from "./replica.ts";
import type { ReplicationWorld } from "./world.ts";

export class Workload {
  readonly #world: ReplicationWorld;
  readonly #rng: Rng;
  readonly #producers: SimProducer[] = [];
  #ids = 0;

  constructor(world: ReplicationWorld, rng: Rng) {
    this.#world = world;
    this.#rng = rng;
    this.#run();
    const { producersPerPartition, partitions } = world.swarm;
    for (let at = 0; at < producersPerPartition * partitions; at++) this.#open(at % partitions, ++this.#ids);
    if (producersPerPartition > 0) this.#replaceSome();
    if (world.swarm.forgeMeanMs > 0) this.#forge(rng.fork("forged batches"));
    if (world.swarm.trimMeanMs > 0) this.#trim(rng.fork("trims"));
  }

  /** Of those that write to this partition, since when the slowest one waits. */
  waitsSinceMs(partition: number): number | undefined {
    let earliest: number | undefined;
    for (const producer of this.#producers) {
      const sinceMs = producer.partition === partition ? producer.waitsSinceMs : undefined;
      if (sinceMs !== undefined) earliest = Math.min(earliest ?? sinceMs, sinceMs);
    }
    return earliest;
  }

  #open(partition: number, producerId: number, producerEpoch = 0): void {
    const identity = { producerId, producerEpoch, partition };
    this.#producers.push(new SimProducer(this.#world, identity, () => this.#pickLeader(partition)));
  }

  /** A client dies, and another one begins: with an id of its own, or with its id and the next epoch while the old one may go on (fencing). */
  #replaceSome(): void {
    const { isQuiet, swarm } = this.#world;
    if (isQuiet) return;
    this.#world.at(this.#world.exponential(this.#rng, swarm.producerLifeMsMean), () => this.#replaceSome());
    const place = this.#rng.below(this.#producers.length);
    const [old] = this.#producers.splice(place, 1);
    if (old === undefined) return;
    const isSame = this.#rng.chance(0.5);
    if (isSame && !old.isDone) {
      old.isSuperseded = true;
      this.#world.mark("producer superseded");
    }
    // A partition that has forgotten the new epoch cannot refuse the old one: of names, leaders know it from the metadata.
    if (!isSame || this.#rng.chance(0.5) || swarm.producersMax < PRODUCERS_MAX) old.die();
    // What nobody looks after any more writes on for a while, until it is fenced.
    else this.#world.at(this.#rng.below(2_000), () => old.die());
    if (isSame) for (let more = 0; more < 3; more++) old.send(this.#rng);
    this.#open(old.partition, isSame ? old.producerId : ++this.#ids, isSame ? old.producerEpoch + 1 : 0);
  }

  #forge(rng: Rng): void {
    const { isQuiet, swarm } = this.#world;
    if (isQuiet) return;
    this.#world.at(this.#world.exponential(rng, swarm.forgeMeanMs), () => this.#forge(rng));
    if (this.#producers.length > 0) rng.pick(this.#producers).forge(rng);
  }

  /** Anywhere up to what is committed, also inside a batch; often all of it. */
  #trim(rng: Rng): void {
    const { isQuiet, swarm } = this.#world;
    if (isQuiet) return;
    this.#world.at(this.#world.exponential(rng, swarm.trimMeanMs), () => this.#trim(rng));
    const replica = this.#pickLeader(rng.below(swarm.partitions));
    if (replica === undefined) return;
    const { startOffset, highWatermark } = replica.core;
    const toOffset = rng.chance(0.3) ? highWatermark : rng.between(startOffset, highWatermark);
    replica.node.whenRunning(() => replica.trim(toOffset));
  }

  #run(): void {
    const { swarm } = this.#world;
    this.#world.at(this.#world.exponential(this.#rng, swarm.produceMeanMs), () => this.#run());
    if (this.#world.isQuiet) return;
    const partition = this.#rng.below(swarm.partitions);
    const replica = this.#pickLeader(partition);
    replica?.listLatest();
    if (this.#producers.length > 0 && this.#rng.chance(swarm.idempotentChance))
      return this.#rng.pick(this.#producers).send(this.#rng);
    if (replica === undefined) return;
    const acks = this.#rng.chance(swarm.acksOneChance) ? (this.#rng.chance(0.1) ? 0 : 1) : -1;
    const batch = new SimBatch(this.#world.nextBatch(), { recordCount: this.#rng.between(1, 4), acks });
    replica.node.whenRunning(() => replica.produce(batch));
  }

  #pickLeader(partition: number): SimReplica | undefined {
    const { isCalm, controller, swarm, nodes } = this.#world;
    const leader = controller.partitions[partition]?.leader ?? null;
    const isZombieWanted = this.#rng.chance(isCalm ? 0 : swarm.zombieChance);
    const believers: SimReplica[] = [];
    for (const node of nodes) {
      const replica = node.replica(partition);
      if (replica?.core.role !== "leader") continue;
      if (node.nodeId === leader && !isZombieWanted) return replica;
      believers.push(replica);
    }
    return believers.length === 0 ? undefined : this.#rng.pick(believers);
  }
}
