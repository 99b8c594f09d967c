// One simulated broker: a process that lives, dies, pauses and comes back on a disk that keeps what was synced.
import { mutant } from "../../base/mutant.ts";
import type { Rng } from "../../base/rng.ts";
import type { NodeId } from "../../model/ids.ts";
import type { RestartClaim } from "../../metadata/records.ts";
import { SimDisk } from "./disk.ts";
import { SimJournal } from "./journal.ts";
import { Proposals } from "./proposals.ts";
import { SimReplica } from "./replica.ts";
import { type BulkConnection, Streams } from "./streams.ts";
import type { HeartbeatAnswer, View } from "./controller.ts";
import { CONTROLLER } from "./place.ts";
import type { ReplicationWorld } from "./world.ts";

const TICK_MS = 500;

export class SimNode {
  readonly nodeId: NodeId;
  disk: SimDisk;
  /** Raised at each start and each death: what an earlier life waits for never happens. */
  life = 0;
  isUp = false;
  brokerEpoch: number | undefined;
  journal: SimJournal;
  streams: Streams;
  proposals: Proposals;
  syncFactor = 1;
  isDiskFull = false;
  /** Partitions whose replica here lost what it had, until the controller has been told and counts on it no more. */
  readonly hurt = new Set<number>();
  /** Partition epoch in which the controller learned last that the replica here has lost something. */
  readonly lostIn = new Map<number, number>();
  readonly #world: ReplicationWorld;
  readonly #rng: Rng;
  readonly #skewMs: number;
  readonly #replicas = new Map<number, SimReplica>();
  #incarnation = 0;
  #pausedUntilMs = 0;
  #claim: RestartClaim = "first";
  #appliedEnd = 0;
  #isEpochStored = false;
  #isLeaving = false;
  /** Partitions whose damage was told; the leader epoch that was known here when it was told first. */
  readonly #toldDamage = new Map<number, number>();
  /** Of these: the controller has decided. */
  readonly #knownDamage = new Set<number>();
  /** Left out of one heartbeat: the controller learns that the damage of before has ended. */
  readonly #endedDamage = new Set<number>();
  #isHeartbeatDue = false;
  #heartbeats = 0;
  /** What waits for a paused process to go on. */
  #deferred: (() => void)[] = [];

  constructor(world: ReplicationWorld, nodeId: NodeId, rng: Rng) {
    this.#world = world;
    this.nodeId = nodeId;
    this.#rng = rng;
    this.#skewMs = rng.below(1_000_000);
    this.disk = new SimDisk(1, world.swarm.partitions);
    this.journal = new SimJournal(world, this, rng.fork("journal"));
    this.streams = new Streams(world, this);
    this.proposals = new Proposals(world, this);
  }

  /** Its own monotonic clock. */
  get nowMs(): number {
    return this.#world.timeMs + this.#skewMs;
  }
  get isPaused(): boolean {
    return this.#pausedUntilMs > this.#world.timeMs;
  }
  /** Names one life of the process. */
  get incarnation(): number {
    return this.#incarnation;
  }
  get replicas(): Iterable<SimReplica> {
    return this.#replicas.values();
  }

  replica(partition: number): SimReplica | undefined {
    return this.#replicas.get(partition);
  }

  // --- life and death

  start(): void {
    if (this.isUp) throw new RangeError(`node ${this.nodeId} runs`);
    const { disk } = this;
    this.life++;
    this.isUp = true;
    this.#deferred = [];
    this.#incarnation++;
    this.journal = new SimJournal(this.#world, this, this.#rng.fork(`journal ${this.life}`));
    this.streams = new Streams(this.#world, this);
    this.proposals = new Proposals(this.#world, this);
    this.#claim = claimOf(disk);
    disk.cleanMarker = undefined;
    this.brokerEpoch = undefined;
    this.#appliedEnd = 0;
    this.#isEpochStored = false;
    this.#isLeaving = false;
    this.#isHeartbeatDue = false;
    this.#forgetDamage();
    this.#world.mark(`start: ${this.#claim}`);
    this.#world.trace(() => `node ${this.nodeId} starts (${this.#claim})`);
    this.#after(1 + this.#rng.below(30), () => this.#recovered());
  }

  /** D-13: what the kernel showed is on the platter from here on. */
  #recovered(): void {
    const { disk } = this;
    disk.sync(disk.kernel.length);
    disk.hadPowerLoss = false;
    this.#world.checker.lost(this.nodeId);
    for (const partition of this.#world.controller.partitionsOn(this.nodeId))
      this.#replicas.set(partition, new SimReplica(this.#world, this, partition));
    this.#register();
    this.#after(this.#rng.below(TICK_MS), () => this.#tick());
    this.#after(this.#rng.below(this.#world.swarm.checkpointMsMean), () => this.#checkpoint());
    this.#poll();
  }

  /** The process dies, the kernel lives. */
  kill(): void {
    if (!this.isUp) return;
    this.#world.trace(() => `node ${this.nodeId} dies`);
    this.journal.die();
    this.streams.die();
    this.isUp = false;
    this.life++;
    this.#pausedUntilMs = 0;
    this.#deferred = [];
    this.#replicas.clear();
    this.#world.controller.died(this);
  }

  losePower(kept?: number): void {
    this.kill();
    this.#world.trace(() => `node ${this.nodeId} loses power`);
    this.disk.losePower(this.#rng, kept);
    this.#world.checker.lost(this.nodeId);
  }

  /** Its disk is gone with all that was on it; there is a new one. */
  replaceDisk(disk = new SimDisk(this.disk.directory + 1, this.#world.swarm.partitions)): void {
    this.kill();
    for (const partition of this.#world.controller.partitionsOn(this.nodeId)) this.hurt.add(partition);
    this.disk = disk;
  }

  pause(forMs: number): void {
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, this.#world.timeMs + forMs);
  }

  resume(): void {
    this.#pausedUntilMs = Math.min(this.#pausedUntilMs, this.#world.timeMs);
    if (this.#deferred.length > 0) this.#wakeLater();
  }

  /** Now, or when a paused process goes on, in order; never in another life. */
  whenRunning(act: () => void): void {
    if (!this.isPaused && this.#deferred.length === 0) return act();
    this.#deferred.push(act);
    if (this.#deferred.length === 1) this.#wakeLater();
  }

  #wakeLater(): void {
    const { life } = this;
    this.#world.at(Math.max(0, this.#pausedUntilMs - this.#world.timeMs), () => {
      if (this.life !== life || this.#deferred.length === 0) return;
      if (this.isPaused) return this.#wakeLater();
      const acts = this.#deferred;
      this.#deferred = [];
      for (const act of acts) if (this.life === life) act();
    });
  }

  #after(delayMs: number, act: () => void): void {
    const { life } = this;
    this.#world.at(delayMs, () => {
      if (this.life === life) this.whenRunning(act);
    });
  }

  // --- the controller (R-62 to R-64, D-6)

  #toController(act: () => void): void {
    this.#world.control(this.nodeId, CONTROLLER, act);
  }

  #register(): void {
    if (this.brokerEpoch !== undefined) return;
    const { nodeId, incarnation, disk } = this;
    const wish = {
      nodeId,
      incarnation,
      directory: disk.directory,
      restart: this.#claim,
      storedBrokerEpoch: disk.brokerEpoch,
    };
    const { life } = this;
    this.#toController(() => {
      // The connection of a dead process is closed: a registration is never read that late.
      if (this.life !== life) return;
      this.#world.controller.register(wish, (brokerEpoch) =>
        this.#world.control(CONTROLLER, nodeId, () => {
          if (this.life === life) this.whenRunning(() => this.#registered(brokerEpoch));
        }),
      );
    });
    this.#after(200 + this.#rng.below(300), () => this.#register());
  }

  #registered(brokerEpoch: number): void {
    if (this.brokerEpoch !== undefined) return;
    this.brokerEpoch = brokerEpoch;
    this.#isEpochStored = false;
    this.streams.restart();
    this.#applied();
    this.#after(this.#world.exponential(this.#rng, this.#world.swarm.syncMsMean), () => {
      if (this.brokerEpoch !== brokerEpoch) return;
      this.disk.brokerEpoch = Math.max(brokerEpoch, this.disk.brokerEpoch ?? -1);
      this.#isEpochStored = true;
      this.#heartbeat();
    });
  }

  #heartbeat(): void {
    const { brokerEpoch, nodeId } = this;
    if (brokerEpoch === undefined) return;
    const damages = this.#damages();
    const ended = [...this.#endedDamage];
    const damaged = damages.map(({ partition }) => partition);
    for (const { partition, wanted } of damages)
      if (!this.#toldDamage.has(partition)) this.#toldDamage.set(partition, wanted?.leaderEpoch ?? -1);
    const beat = {
      nodeId,
      brokerEpoch,
      appliedEnd: this.#appliedEnd,
      isEpochStored: this.#isEpochStored && !this.#isHarmful(),
      wantsShutdown: this.#isLeaving,
      damaged,
      sequence: ++this.#heartbeats,
    };
    const { life } = this;
    this.#toController(() =>
      this.#world.controller.heartbeat(beat, (answer) =>
        this.#world.control(CONTROLLER, nodeId, () => {
          if (this.life !== life) return;
          this.whenRunning(() => this.#heard(brokerEpoch, { damaged, ended, answer }));
        }),
      ),
    );
    this.#after(this.#world.swarm.heartbeatMs, () => {
      if (this.brokerEpoch === brokerEpoch && !this.#isHeartbeatDue) this.#heartbeat();
      this.#isHeartbeatDue = false;
    });
  }

  #heard(
    brokerEpoch: number,
    told: {
      readonly damaged: readonly number[];
      readonly ended: readonly number[];
      readonly answer: HeartbeatAnswer;
    },
  ): void {
    if (this.brokerEpoch !== brokerEpoch) return;
    const { answer } = told;
    if (answer === "stale") {
      this.#world.mark("registers again");
      this.brokerEpoch = undefined;
      this.#forgetDamage();
      this.#register();
      return;
    }
    for (const partition of told.ended) this.#endedDamage.delete(partition);
    for (const partition of told.damaged) if (this.#toldDamage.has(partition)) this.#knownDamage.add(partition);
    for (const replica of this.#replicas.values()) if (replica.isDamaged) replica.lookAgain();
    if (answer === "may stop" && this.#isLeaving) this.#stopped();
  }

  heartbeatSoon(): void {
    if (this.brokerEpoch === undefined || this.#isHeartbeatDue) return;
    this.#isHeartbeatDue = true;
    this.#after(0.01, () => this.#heartbeat());
  }

  /** And what was decided is known here: a leader epoch in which the replica has said nothing yet. */
  isDamageKnown(partition: number, leaderEpoch: number): boolean {
    const toldIn = this.#toldDamage.get(partition);
    const isDecided = toldIn !== undefined && this.#knownDamage.has(partition);
    return isDecided && (leaderEpoch > toldIn || mutant("D-17e"));
  }

  damageEnded(partition: number): void {
    this.#knownDamage.delete(partition);
    if (this.#toldDamage.delete(partition)) this.#endedDamage.add(partition);
  }

  /** Another broker epoch: told anew. */
  #forgetDamage(): void {
    this.#toldDamage.clear();
    this.#knownDamage.clear();
    this.#endedDamage.clear();
  }

  #damages(): SimReplica[] {
    return [...this.#replicas.values()].filter(
      ({ isDamaged, partition }) => isDamaged && !this.#endedDamage.has(partition),
    );
  }

  /** Once unfenced it may be elected wherever it counts: not where it is damaged (D-17). */
  #isHarmful(): boolean {
    for (const { isDamaged, wanted } of this.#replicas.values())
      if (isDamaged && (wanted?.isr.includes(this.nodeId) === true || wanted?.elr.includes(this.nodeId) === true))
        return true;
    return false;
  }

  /** The controller knows of this disk, whatever the one before had. What is damaged on it is told later. */
  forgiven(): void {
    for (const partition of this.hurt) if (this.disk.logs[partition]?.isDamaged !== true) this.isForgiven(partition);
  }

  isForgiven(partition: number): void {
    if (!this.hurt.delete(partition)) return;
    this.lostIn.set(partition, this.#world.controller.partitions[partition]?.partitionEpoch ?? 0);
    this.#world.checker.lost(this.nodeId);
  }

  // --- an ordered stop

  leave(): void {
    if (!this.isUp || this.brokerEpoch === undefined) return;
    this.#isLeaving = true;
    this.heartbeatSoon();
  }

  /** It was thought better of. */
  stay(): void {
    this.#isLeaving = false;
  }

  #stopped(): void {
    this.#world.mark("stopped in order");
    const { disk, brokerEpoch } = this;
    this.journal.die();
    disk.sync(disk.kernel.length);
    this.kill();
    disk.cleanMarker = brokerEpoch;
  }

  // --- metadata

  /** Records that were committed come here, in their order. */
  metadata(end: number): void {
    if (!this.isUp || end <= this.#appliedEnd) return;
    const from = this.#world.swarm.isStepwise ? this.#appliedEnd + 1 : end;
    for (let at = from; at <= end; at++) {
      this.#appliedEnd = at;
      this.#applied();
    }
  }

  /** D-1: nothing counts that is older than this incarnation's own registration. */
  #applied(): void {
    const { brokerEpoch } = this;
    if (brokerEpoch === undefined || this.#appliedEnd <= brokerEpoch) return;
    const view = this.#world.controller.view(this.#appliedEnd);
    const self = view.brokers.get(this.nodeId);
    const isGiven = self?.brokerEpoch === brokerEpoch && !self.isFenced;
    for (const replica of this.#replicas.values()) this.#show(view, replica, isGiven);
  }

  #show(view: View, replica: SimReplica, isGiven: boolean): void {
    const record = view.partitions[replica.partition];
    if (record === undefined) return;
    this.proposals.superseded(replica.partition, record);
    replica.onRecord(record, { isGiven, eligible: view.eligible });
  }

  /** What was pushed may have been lost. */
  #poll(): void {
    const world = this.#world;
    this.#after(150 + this.#rng.below(200), () => {
      if (!world.isCut(this.nodeId, CONTROLLER) && !world.isCut(CONTROLLER, this.nodeId) && world.controller.isThere)
        this.metadata(world.controller.end);
      this.#poll();
    });
  }

  // --- replicas

  follows(leaderId: NodeId): boolean {
    for (const replica of this.#replicas.values())
      if (replica.isFollower && replica.record?.leader === leaderId) return true;
    return false;
  }

  sessionStarted(leaderId: NodeId): void {
    for (const replica of this.#replicas.values())
      if (replica.isFollower && replica.record?.leader === leaderId) replica.sessionStarted();
  }

  sessionEnded(connection: BulkConnection): void {
    for (const replica of this.#replicas.values()) replica.sessionEnded(connection);
  }

  #tick(): void {
    for (const replica of this.#replicas.values()) replica.tick();
    this.#after(TICK_MS, () => this.#tick());
  }

  #checkpoint(): void {
    for (const replica of this.#replicas.values()) replica.checkpoint();
    this.#after(this.#world.exponential(this.#rng, this.#world.swarm.checkpointMsMean), () => this.#checkpoint());
  }
}

/** D-6: what the disk itself can tell. */
function claimOf({ brokerEpoch, cleanMarker, hadPowerLoss }: SimDisk): RestartClaim {
  if (brokerEpoch === undefined) return "first";
  if (cleanMarker === brokerEpoch) return "clean";
  return hadPowerLoss ? "power-loss" : "process-death";
}
