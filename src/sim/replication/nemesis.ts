// The faults of one seed: each kind at its own random times, each undone after a while.
import { assertNever } from "../../base/assert.ts";
import type { Rng } from "../../base/rng.ts";
import type { NodeId } from "../../model/ids.ts";
import type { SimDisk } from "./disk.ts";
import type { SimNode } from "./node.ts";
import type { SimReplica } from "./replica.ts";
import { FAULTS, type FaultKind } from "./swarm.ts";
import { CONTROLLER } from "./place.ts";
import type { Moment, ReplicationWorld } from "./world.ts";

export class ReplicationNemesis {
  readonly faults = new Map<FaultKind, number>();
  readonly #world: ReplicationWorld;
  readonly #rng: Rng;
  /** A copy of a disk as it was in an earlier incarnation. */
  readonly #copies = new Map<NodeId, SimDisk>();
  #isOver = false;

  constructor(world: ReplicationWorld, rng: Rng) {
    this.#world = world;
    this.#rng = rng;
    world.onDelicate = (replica, moment) => this.#maybeCrashAt(replica, moment);
    for (const kind of FAULTS) if (world.swarm.faultMeanMs[kind] > 0) this.#schedule(kind);
  }

  stop(): void {
    this.#isOver = true;
  }

  #schedule(kind: FaultKind): void {
    const delayMs = this.#world.exponential(this.#rng, this.#world.swarm.faultMeanMs[kind]);
    this.#world.at(delayMs, () => {
      if (this.#isOver) return;
      if (this.#world.controller.hasTopic) {
        this.faults.set(kind, (this.faults.get(kind) ?? 0) + 1);
        this.#world.trace(() => `FAULT ${kind}`);
        this.#inflict(kind);
      }
      this.#schedule(kind);
    });
  }

  #later(meanMs: number, act: () => void): void {
    this.#world.at(this.#world.exponential(this.#rng, meanMs), () => {
      if (!this.#isOver) act();
    });
  }

  #leader(): SimNode | undefined {
    const leaders = this.#world.controller.partitions.flatMap(({ leader }) => (leader === null ? [] : [leader]));
    return leaders.length === 0 ? undefined : this.#world.node(this.#rng.pick(leaders));
  }

  #inflict(kind: FaultKind): void {
    const one = this.#rng.pick(this.#world.nodes);
    switch (kind) {
      case "isolate":
        return this.#partition((from, to) => from === one.nodeId || to === one.nodeId);
      case "halves": {
        const side = new Set<number>(this.#world.nodes.filter(() => this.#rng.chance(0.5)).map(({ nodeId }) => nodeId));
        if (this.#rng.chance(0.5)) side.add(CONTROLLER);
        return this.#partition((from, to) => side.has(from) !== side.has(to));
      }
      case "oneWay": {
        const isDeaf = this.#rng.chance(0.5);
        return this.#partition((from, to) => (isDeaf ? to : from) === one.nodeId);
      }
      case "fromController":
        return this.#partition((from, to) => Math.min(from, to) === CONTROLLER && Math.max(from, to) === one.nodeId);
      case "breakLinks":
        return one.isUp ? one.streams.breakSome() : undefined;
      case "crash":
        return this.#crash(one);
      case "crashLeader":
        return this.#crash(this.#leader() ?? one);
      case "powerLoss":
        return this.#losePower([one]);
      case "powerLossOfAll":
        return this.#losePower(this.#world.nodes.filter(() => this.#rng.chance(0.8)));
      case "quickRestart":
        return this.#crash(one, 2);
      case "restartInOrder":
        return this.#restartInOrder(one);
      case "pause":
        return this.#pause(one);
      case "pauseLeader":
        return this.#pause(this.#leader() ?? one);
      case "slowDisk":
        return this.#slowDown(this.#rng.chance(0.5) ? (this.#leader() ?? one) : one);
      case "fullDisk":
        one.isDiskFull = true;
        return this.#later(500, () => {
          one.isDiskFull = false;
        });
      case "wipe":
        return this.#wipe(one);
      case "oldDisk":
        return this.#bringOldDisk(one);
      case "damage":
        return this.#damage(one);
      case "controllerOutage":
        return this.#world.controller.outage(this.#rng.between(50, 4000));
      case "minIsr":
        return this.#world.controller.setMinIsr(this.#rng.between(1, 3));
      case "preferred":
        this.#world.controller.elect(this.#anyPartition(), "preferred");
        return;
      case "unclean":
        return this.#electUncleanly();
      default:
        return assertNever(kind);
    }
  }

  #anyPartition(): number {
    return this.#rng.below(this.#world.swarm.partitions);
  }

  #partition(isCut: (from: number, to: number) => boolean): void {
    const ids = [CONTROLLER, ...this.#world.nodes.map(({ nodeId }) => nodeId)];
    for (const from of ids) for (const to of ids) if (from !== to && isCut(from, to)) this.#world.cut(from, to);
    this.#later(this.#rng.pick([300, 2000]), () => this.#world.heal());
  }

  // --- processes and power

  #crash(node: SimNode, restartMs = this.#rng.pick([5, 200, 2000])): void {
    if (!node.isUp) return;
    node.kill();
    this.#restartLater(node, restartMs);
  }

  #restartLater(node: SimNode, meanMs: number): void {
    this.#later(meanMs, () => {
      if (!node.isUp) node.start();
    });
  }

  #losePower(nodes: readonly SimNode[]): void {
    for (const node of nodes) {
      if (this.#rng.chance(0.3)) this.#keepCopy(node);
      const wasUp = node.isUp;
      node.losePower();
      if (wasUp) this.#restartLater(node, this.#rng.pick([5, 200, 2000]));
    }
  }

  #restartInOrder(node: SimNode): void {
    node.leave();
    this.#later(2500, () => {
      if (node.isUp) node.kill();
      node.start();
    });
  }

  #pause(node: SimNode): void {
    node.pause(this.#rng.pick([20, 300, this.#rng.between(500, 6000)]));
  }

  #maybeCrashAt(replica: SimReplica, moment: Moment): void {
    const { crashAtLead, crashAtTruncate, crashAtReport, syncMsMean } = this.#world.swarm;
    const chance = { lead: crashAtLead, truncate: crashAtTruncate, report: crashAtReport }[moment];
    if (this.#isOver || !this.#rng.chance(chance)) return;
    const { node, life } = replica;
    this.#later(moment === "lead" ? 30 : syncMsMean, () => {
      if (node.life !== life) return;
      this.#world.mark(`crash at ${moment}`);
      if (this.#rng.chance(0.5)) this.#crash(node, 20);
      else this.#losePower([node]);
    });
  }

  // --- disks

  #slowDown(node: SimNode): void {
    node.syncFactor = this.#rng.pick([10, 100, 1000]);
    this.#later(this.#rng.pick([1000, 5000]), () => {
      node.syncFactor = 1;
    });
  }

  /**
   * The fault atlas: what `node` has of the partition may be destroyed while somebody else who counts has everything, and can come back with it.
   */
  #mayLose(node: SimNode, partition: number): boolean {
    if (this.#world.swarm.goesBeyondAtlas) return true;
    const record = this.#world.controller.partitions[partition];
    if (record === undefined) return false;
    return [...record.isr, ...record.elr].some(
      (member) => member !== node.nodeId && !this.#world.node(member).hurt.has(partition),
    );
  }

  #mayLoseAll(node: SimNode): boolean {
    return this.#world.controller.partitionsOn(node.nodeId).every((partition) => this.#mayLose(node, partition));
  }

  #replaceDisk(node: SimNode, disk?: SimDisk): void {
    node.replaceDisk(disk);
    this.#restartLater(node, 300);
  }

  #wipe(node: SimNode): void {
    if (!this.#mayLoseAll(node)) return;
    this.#world.mark("disk wiped");
    this.#copies.delete(node.nodeId);
    this.#replaceDisk(node);
  }

  #keepCopy(node: SimNode): void {
    if (node.disk.brokerEpoch !== undefined) this.#copies.set(node.nodeId, node.disk.copy());
  }

  /** Only a copy of an earlier incarnation: one of the present incarnation nobody can tell from the disk itself (D-6). */
  #bringOldDisk(node: SimNode): void {
    const copy = this.#copies.get(node.nodeId);
    const confirmed = this.#world.controller.image.broker(node.nodeId)?.confirmedEpoch;
    if (copy === undefined || confirmed === undefined || confirmed === null) return this.#keepCopy(node);
    const isOld = copy.directory === node.disk.directory && (copy.brokerEpoch ?? -1) < confirmed;
    if (!isOld || !this.#mayLoseAll(node)) return;
    this.#world.mark("old disk");
    this.#copies.delete(node.nodeId);
    this.#replaceDisk(node, copy);
  }

  #damage(node: SimNode): void {
    const partition = this.#anyPartition();
    const replica = node.replica(partition);
    if (!this.#mayLose(node, partition)) return;
    node.hurt.add(partition);
    const log = node.disk.logs[partition];
    this.#world.trace(() => `node ${node.nodeId} p${partition} rots`);
    if (log !== undefined) log.isDamaged = true;
    if (replica !== undefined) node.whenRunning(() => replica.damage("rot"));
  }

  // --- operators

  /** Nobody leads: an operator chooses somebody, or anybody. */
  #electUncleanly(): void {
    const partition = this.#anyPartition();
    const { replicas = [] } = this.#world.controller.partitions[partition] ?? {};
    if (replicas.length > 0)
      this.#world.controller.elect(partition, "unclean", this.#rng.chance(0.5) ? null : this.#rng.pick(replicas));
  }
}
