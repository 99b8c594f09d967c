// The bulk connections of one broker: as a follower one to each leader, as a leader one from each follower. In a connection order holds; between
// two of them nothing does (N3).
import type { NodeId } from "../../model/ids.ts";
import type { PartitionEffect } from "../../replication/types.ts";
import type { SimBatch } from "./batch.ts";
import type { SimNode } from "./node.ts";
import type { ReplicationWorld } from "./world.ts";

export type FetchPosition = Extract<PartitionEffect<SimBatch, SimBatch>, { kind: "fetch" }>;
export type DurableReport = Extract<PartitionEffect<SimBatch, SimBatch>, { kind: "report" }>;

/** From one incarnation of a follower to one of a leader. */
export class BulkConnection {
  readonly follower: SimNode;
  readonly leader: SimNode;
  readonly followerLife: number;
  readonly leaderLife: number;
  readonly brokerEpoch: number;
  readonly sessionId: number;
  isBroken = false;
  readonly #world: ReplicationWorld;
  #toLeaderMs = 0;
  #toFollowerMs = 0;

  constructor(
    world: ReplicationWorld,
    parts: { readonly follower: SimNode; readonly leader: SimNode; readonly brokerEpoch: number },
  ) {
    this.#world = world;
    this.follower = parts.follower;
    this.leader = parts.leader;
    this.followerLife = parts.follower.life;
    this.leaderLife = parts.leader.life;
    this.brokerEpoch = parts.brokerEpoch;
    this.sessionId = world.nextSession();
  }

  toLeader(act: () => void): void {
    const { timeMs, swarm } = this.#world;
    this.#toLeaderMs = Math.max(this.#toLeaderMs, timeMs + this.#world.delayMs(swarm.bulkDelayMsMean));
    this.#arrive(this.leader, this.#toLeaderMs - timeMs, act);
  }

  toFollower(act: () => void): void {
    const { timeMs, swarm } = this.#world;
    this.#toFollowerMs = Math.max(this.#toFollowerMs, timeMs + this.#world.delayMs(swarm.bulkDelayMsMean));
    this.#arrive(this.follower, this.#toFollowerMs - timeMs, act);
  }

  /** Both sides find out, each after a while. */
  break(): void {
    if (this.isBroken) return;
    this.isBroken = true;
    const { network } = this.#world;
    this.#world.at(network.below(300), () => this.#runs(this.follower, () => this.follower.streams.broke(this)));
    this.#world.at(network.below(2000), () => this.#runs(this.leader, () => this.leader.streams.ended(this)));
  }

  #arrive(to: SimNode, delayMs: number, act: () => void): void {
    const world = this.#world;
    const from = to === this.leader ? this.follower : this.leader;
    world.at(delayMs, () => {
      if (world.keep(from.nodeId, to.nodeId, () => this.#runs(to, act))) return;
      if (world.isCut(from.nodeId, to.nodeId) || !this.#isAlive(to)) this.break();
      if (!this.isBroken) return this.#runs(to, act);
      if (!world.network.chance(world.swarm.lateBytesChance)) return;
      world.at(world.network.below(8000), () => {
        world.mark("late bytes");
        this.#runs(to, act);
      });
    });
  }

  #runs(node: SimNode, act: () => void): void {
    if (this.#isAlive(node)) node.whenRunning(act);
  }

  #isAlive(node: SimNode): boolean {
    return node.isUp && node.life === (node === this.leader ? this.leaderLife : this.followerLife);
  }
}

/** Lives as long as the process. */
export class Streams {
  readonly #world: ReplicationWorld;
  readonly #node: SimNode;
  /** To leaders; null: being opened. */
  readonly #outgoing = new Map<NodeId, BulkConnection | null>();
  /** From followers: the newest of each, also when it has ended. */
  readonly #incoming = new Map<NodeId, BulkConnection>();
  /** Partitions whose slot the leader knows, of the present connections. */
  readonly #added = new Map<NodeId, Set<number>>();

  constructor(world: ReplicationWorld, node: SimNode) {
    this.#world = world;
    this.#node = node;
  }

  /** The process is gone: its peers find out. */
  die(): void {
    for (const connection of this.#outgoing.values()) connection?.break();
    for (const connection of this.#incoming.values()) connection.break();
  }

  /** The broker epoch is another one: so are the sessions. */
  restart(): void {
    for (const connection of this.#outgoing.values()) connection?.break();
  }

  breakSome(): void {
    for (const connection of this.#outgoing.values()) if (this.#world.network.chance(0.6)) connection?.break();
  }

  // --- as a follower

  fetch(partition: number, position: FetchPosition): void {
    const { leaderId } = position;
    for (const [other, added] of this.#added) if (other !== leaderId) added.delete(partition);
    const connection = this.#outgoing.get(leaderId);
    if (connection === undefined) return this.#open(leaderId);
    if (connection === null || connection.isBroken) return;
    const added = this.#added.get(leaderId) as Set<number>;
    const isAdded = position.isFirst || !added.has(partition);
    added.add(partition);
    this.#world.trace(
      () =>
        `${this.#node.nodeId} -> ${leaderId} p${partition} fetch ${position.fetchOffset} epoch ${position.leaderEpoch}, last ${position.lastFetchedEpoch}${isAdded ? " (added)" : ""}`,
    );
    connection.toLeader(() => connection.leader.streams.onFetch(connection, { partition, position, isAdded }));
  }

  report(partition: number, leaderId: NodeId | null, report: DurableReport): void {
    const connection = leaderId === null ? undefined : this.#outgoing.get(leaderId);
    if (connection === undefined || connection === null || connection.isBroken) return;
    this.#world.trace(() => `${this.#node.nodeId} -> ${leaderId} p${partition} reports ${report.durableEnd}`);
    connection.toLeader(() => connection.leader.streams.onReport(connection, partition, report));
  }

  #open(leaderId: NodeId): void {
    this.#outgoing.set(leaderId, null);
    const node = this.#node;
    const { life } = node;
    const world = this.#world;
    const retry = (): void => world.at(20 + world.network.below(200), attempt);
    const attempt = (): void => {
      if (node.life !== life) return;
      if (!node.follows(leaderId)) {
        this.#outgoing.delete(leaderId);
        return;
      }
      const leader = world.node(leaderId);
      const isReached = !world.isCut(node.nodeId, leaderId) && !world.isCut(leaderId, node.nodeId);
      const { brokerEpoch } = node;
      if (!leader.isUp || !isReached || brokerEpoch === undefined || node.isPaused) return retry();
      const connection = new BulkConnection(world, { follower: node, leader, brokerEpoch });
      this.#outgoing.set(leaderId, connection);
      this.#added.set(leaderId, new Set());
      node.sessionStarted(leaderId);
    };
    world.at(world.delayMs(world.swarm.bulkDelayMsMean), attempt);
  }

  broke(connection: BulkConnection): void {
    const leaderId = connection.leader.nodeId;
    if (this.#outgoing.get(leaderId) !== connection) return;
    this.#outgoing.delete(leaderId);
    if (this.#node.follows(leaderId)) this.#open(leaderId);
  }

  isPresent(connection: BulkConnection): boolean {
    return this.#outgoing.get(connection.leader.nodeId) === connection;
  }

  // --- as a leader

  ended(connection: BulkConnection): void {
    this.#node.sessionEnded(connection);
  }

  onFetch(
    connection: BulkConnection,
    request: { readonly partition: number; readonly position: FetchPosition; readonly isAdded: boolean },
  ): void {
    if (!this.#accept(connection)) return;
    this.#node.replica(request.partition)?.serving.serve({ connection, ...request });
  }

  onReport(connection: BulkConnection, partition: number, report: DurableReport): void {
    if (!this.#accept(connection)) return;
    this.#node.replica(partition)?.reported(connection, report);
  }

  /** (brokerEpoch, sessionId) only rises: what belongs to an earlier session is known to be late. */
  #accept(connection: BulkConnection): boolean {
    const follower = connection.follower.nodeId;
    const present = this.#incoming.get(follower);
    if (present === connection) return true;
    const isOlder =
      present !== undefined &&
      (connection.brokerEpoch < present.brokerEpoch ||
        (connection.brokerEpoch === present.brokerEpoch && connection.sessionId < present.sessionId));
    if (isOlder) {
      this.#world.mark("old session refused");
      this.#world.trace(
        () =>
          `${this.#node.nodeId} knows better than session ${connection.brokerEpoch}/${connection.sessionId} of ${follower}: ${present.brokerEpoch}/${present.sessionId}`,
      );
      return this.#world.swarm.passesOldSessions;
    }
    this.#incoming.set(follower, connection);
    if (present !== undefined) this.#node.sessionEnded(present);
    return true;
  }
}
