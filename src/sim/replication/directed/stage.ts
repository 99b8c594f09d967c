// Where schedules are played by hand: the same world, in which nothing goes wrong by itself.
import { createRng } from "../../../base/rng.ts";
import type { PartitionImage } from "../../../metadata/image.ts";
import type { RequiredAcks } from "../../../replication/types.ts";
import { SimBatch } from "../batch.ts";
import type { ReplicationInvariant, ReplicationViolation } from "../violation.ts";
import type { SimNode } from "../node.ts";
import type { SimReplica } from "../replica.ts";
import { guarded } from "../run-replication-seed.ts";
import { drawSwarm, FAULTS, type FaultKind, type ReplicationSwarm } from "../swarm.ts";
import { PRODUCERS_MAX } from "../../../model/producer-table.ts";
import { CONTROLLER } from "../place.ts";
import { ReplicationWorld } from "../world.ts";

/** A story that random schedules find seldom: with the planted bug one of `invariants` is broken, without it nothing is. */
export interface DirectedSchedule {
  readonly mutant: string;
  readonly invariants: readonly ReplicationInvariant[];
  readonly options?: Partial<ReplicationSwarm>;
  readonly play: (stage: Stage) => void;
}

const STEP_MS = 0.2;

function quietSwarm(options: Partial<ReplicationSwarm>): ReplicationSwarm {
  return {
    ...drawSwarm(createRng(1)),
    nodes: 3,
    partitions: 1,
    replicationFactor: 3,
    minIsr: undefined,
    faultMeanMs: Object.fromEntries(FAULTS.map((kind) => [kind, 0])) as Record<FaultKind, number>,
    controlDelayMsMean: 0.2,
    controlLossChance: 0,
    controlLateChance: 0,
    metadataDelayMsMean: 0.2,
    isStepwise: true,
    bulkDelayMsMean: 0.2,
    lateBytesChance: 0,
    passesOldSessions: true,
    staleRecordChance: 0,
    holdsBack: false,
    batchesPerAnswer: 10,
    writeMs: 0.05,
    syncMsMean: 0.3,
    slowSyncChance: 0,
    checkpointMsMean: 100,
    deadlineMs: 60_000,
    lagMaxMs: 400,
    backoffMs: 100,
    heartbeatMs: 100,
    sessionMs: 600,
    refusedChance: 0,
    balanceMs: 0,
    producersMax: PRODUCERS_MAX,
    forgeMeanMs: 0,
    trimMeanMs: 0,
    producerExpirationMs: Number.POSITIVE_INFINITY,
    ...options,
  };
}

export class Stage {
  readonly world: ReplicationWorld;

  constructor(options: Partial<ReplicationSwarm> = {}) {
    this.world = new ReplicationWorld(1, quietSwarm(options));
    for (const node of this.world.nodes) node.start();
    this.until(() => this.record !== undefined && this.#isSettled());
  }

  /** Everybody follows node 1, and has been heard of. */
  #isSettled(): boolean {
    const { followers, role } = this.replica(1).core;
    return role === "leader" && followers.every(({ durableEnd }) => durableEnd >= 0);
  }

  get record(): PartitionImage {
    return this.world.controller.partitions[0] as PartitionImage;
  }

  node(number: number): SimNode {
    return this.world.node(number);
  }

  replica(number: number): SimReplica {
    const replica = this.node(number).replica(0);
    if (replica === undefined) throw new RangeError(`node ${number} has no replica now`);
    return replica;
  }

  /** Of one record; `number` may be a leader that is none any more. */
  produce(number: number, acks: RequiredAcks = -1): SimBatch {
    const batch = new SimBatch(this.world.nextBatch(), { recordCount: 1, acks });
    this.replica(number).produce(batch);
    return batch;
  }

  /** Of one record of a producer with an id. */
  send(
    number: number,
    sequence: { readonly producerId: number; readonly producerEpoch: number; readonly sequence: number },
  ): SimBatch {
    const batch = new SimBatch(this.world.nextBatch(), { recordCount: 1, acks: -1 });
    batch.producerId = sequence.producerId;
    batch.producerEpoch = sequence.producerEpoch;
    batch.baseSequence = sequence.sequence;
    batch.message = { number: sequence.sequence };
    this.replica(number).produce(batch);
    return batch;
  }

  /** The same batch, its answer being lost. */
  sendAgain(number: number, sent: SimBatch): SimBatch {
    const batch = new SimBatch(this.world.nextBatch(), { recordCount: sent.recordCount, acks: -1 });
    batch.producerId = sent.producerId;
    batch.producerEpoch = sent.producerEpoch;
    batch.baseSequence = sent.baseSequence;
    batch.isResent = true;
    batch.message = sent.message;
    this.replica(number).produce(batch);
    return batch;
  }

  /** Other records under the numbers of a batch. */
  forge(number: number, sent: SimBatch): SimBatch {
    const batch = new SimBatch(this.world.nextBatch(), { recordCount: sent.recordCount, acks: -1 });
    batch.producerId = sent.producerId;
    batch.producerEpoch = sent.producerEpoch;
    batch.baseSequence = sent.baseSequence;
    batch.message = { number: -1 - (sent.message?.number ?? 0) };
    this.replica(number).produce(batch);
    return batch;
  }

  run(forMs: number): void {
    this.world.runUntil(this.world.timeMs + forMs);
  }

  /** In steps shorter than any message: whoever waits for a moment acts before what follows from it arrives. */
  until(isReached: () => boolean, withinMs = 5_000): void {
    const endMs = this.world.timeMs + withinMs;
    while (!isReached()) {
      if (this.world.timeMs >= endMs) throw new RangeError("the schedule does not come to this point");
      this.run(STEP_MS);
    }
  }

  leads(number: number): void {
    this.until(
      () => this.node(number).replica(0)?.core.role === "leader" && this.replica(number).record === this.record,
    );
  }

  isInSync(number: number): boolean {
    return this.record.isr.some((member) => member === number);
  }

  /** Both ways of the bulk connections of two nodes. */
  holdBetween(one: number, other: number): void {
    this.world.hold(one, other);
    this.world.hold(other, one);
  }

  letGoBetween(one: number, other: number): void {
    this.world.letGo(one, other);
    this.world.letGo(other, one);
  }

  cutFromController(number: number): void {
    this.world.cut(number, CONTROLLER);
    this.world.cut(CONTROLLER, number);
  }

  /** The node, its power and what was not synced are gone. */
  losePower(number: number): void {
    this.node(number).losePower(0);
  }

  /** Its disk too: what comes back is a node with an empty one. */
  wipe(number: number): void {
    this.node(number).replaceDisk();
    this.node(number).start();
  }

  fenced(number: number): void {
    this.until(() => !this.world.controller.image.active.has(this.node(number).nodeId));
  }

  unfenced(number: number): void {
    const { nodeId } = this.node(number);
    this.until(() => {
      const { brokerEpoch } = this.node(number);
      return brokerEpoch !== undefined && this.world.controller.image.active.get(nodeId) === brokerEpoch;
    });
  }
}

/** What the schedule breaks. `name`s of mutants are switched on by the caller. */
export function play({ options, play: story }: DirectedSchedule): ReplicationViolation | undefined {
  const stage = new Stage(options);
  return guarded(stage.world, () => story(stage));
}
