// Replication between this broker and the others: a stream to each leader that it follows (fetch-stream.ts), a session of each follower that it leads
// (follower-sessions.ts), and the ISR changes on their way to the controller (isr-changes.ts). It carries; the cores decide.
import { assertNever } from "../../base/assert.ts";
import type { NodeId } from "../../model/ids.ts";
import type { Replica } from "../replica.ts";
import type { ReplicaFetch } from "./fetch-session.ts";
import { FetchStream } from "./fetch-stream.ts";
import { type DurableReport, FollowerSessions } from "./follower-sessions.ts";
import { IsrChanges } from "./isr-changes.ts";
import type { PartitionRole, ReplicationCalls, ReplicationDeps, ReplicationSettings, StreamEffect } from "./types.ts";

/** Names the wish for connections. */
const WISH = "followed leaders";

export class Replication implements ReplicationCalls {
  readonly #deps: ReplicationDeps;
  readonly #settings: ReplicationSettings;
  readonly #sessions: FollowerSessions;
  readonly #isrChanges: IsrChanges;
  /** Bound: brokers. */
  readonly #streams = new Map<NodeId, FetchStream>();
  readonly #streamOf = new Map<Replica, FetchStream>();
  readonly #unwatch: () => void;
  #sessionCount = 0;
  #isStopped = false;

  constructor(deps: ReplicationDeps, settings: ReplicationSettings) {
    this.#deps = deps;
    this.#settings = settings;
    this.#sessions = new FollowerSessions(deps, settings);
    this.#isrChanges = new IsrChanges(deps, settings);
    this.#unwatch = deps.links.watch({
      onConnected: (nodeId) => this.#deps.guard(() => this.#streams.get(nodeId)?.start()),
      onLost: (nodeId) => this.#deps.guard(() => this.#streams.get(nodeId)?.onLost()),
    });
  }

  /** For metrics and tests. */
  get counts(): {
    readonly streams: number;
    readonly followed: number;
    readonly sessions: number;
    readonly isrChanges: number;
  } {
    return {
      streams: this.#streams.size,
      followed: this.#streamOf.size,
      sessions: this.#sessions.count,
      isrChanges: this.#isrChanges.count,
    };
  }

  onEffect(replica: Replica, effect: StreamEffect): void {
    if (this.#isStopped) return;
    switch (effect.kind) {
      case "fetch":
        this.#streamTo(effect.leaderId, replica).ask(replica, effect);
        return;
      case "report":
        this.#streamOf.get(replica)?.report(replica, effect);
        return;
      case "propose-isr":
        this.#isrChanges.propose(replica, effect);
        return;
      default:
        assertNever(effect);
    }
  }

  onRole(replica: Replica, role: PartitionRole): void {
    if (role !== "follower") this.#unfollow(replica);
    this.#sessions.onRole(replica);
  }

  onReadable(replica: Replica): void {
    this.#sessions.onReadable(replica);
  }

  onHighWatermark(replica: Replica): void {
    this.#sessions.onHighWatermark(replica);
  }

  onLogStart(replica: Replica): void {
    this.#sessions.onLogStart(replica);
  }

  forget(replica: Replica): void {
    this.#unfollow(replica);
    this.#sessions.forget(replica);
    this.#isrChanges.forget(replica);
  }

  onBrokersChanged(): void {
    this.#sessions.onBrokersChanged();
    for (const stream of this.#streams.values()) {
      // A leader that came back need not wait for a back-off.
      this.#deps.links.nudge(stream.leaderId);
      stream.onEpochChanged();
    }
  }

  onRoomChanged(): void {
    for (const stream of this.#streams.values()) stream.onRoom();
  }

  /** ReplicaFetch of a follower. */
  fetch(request: ReplicaFetch): void {
    if (this.#isStopped) return request.fail("BROKER_NOT_AVAILABLE");
    this.#sessions.fetch(request);
  }

  /** DurableReport of a follower. */
  report(request: DurableReport): void {
    if (this.#isStopped) return request.drop();
    this.#sessions.report(request);
  }

  stop(): void {
    if (this.#isStopped) return;
    this.#isStopped = true;
    this.#unwatch();
    this.#isrChanges.stop();
    for (const stream of this.#streams.values()) stream.close();
    this.#streams.clear();
    this.#streamOf.clear();
    this.#sessions.endAll("BROKER_NOT_AVAILABLE");
  }

  #streamTo(leaderId: NodeId, replica: Replica): FetchStream {
    const present = this.#streamOf.get(replica);
    if (present?.leaderId === leaderId) return present;
    if (present !== undefined) this.#leave(present, replica);
    let stream = this.#streams.get(leaderId);
    const isNew = stream === undefined;
    stream ??= this.#newStream(leaderId);
    this.#streamOf.set(replica, stream);
    if (isNew) this.#wantConnections();
    return stream;
  }

  #newStream(leaderId: NodeId): FetchStream {
    const nextSessionId = (): number => ++this.#sessionCount;
    const stream = new FetchStream(leaderId, this.#deps, { settings: this.#settings, nextSessionId });
    this.#streams.set(leaderId, stream);
    // In a turn of its own: the first partition is not in it yet.
    this.#deps.defer(() => {
      if (this.#streams.get(leaderId) !== stream) return;
      this.#deps.links.nudge(leaderId);
      stream.start();
    });
    return stream;
  }

  #unfollow(replica: Replica): void {
    const stream = this.#streamOf.get(replica);
    if (stream === undefined) return;
    this.#streamOf.delete(replica);
    this.#leave(stream, replica);
  }

  #leave(stream: FetchStream, replica: Replica): void {
    stream.remove(replica);
    // In a later turn: roles change one by one, and the next may follow the same leader again.
    if (stream.size === 0) this.#deps.defer(() => this.#closeIfEmpty(stream));
  }

  #closeIfEmpty(stream: FetchStream): void {
    if (stream.size > 0 || this.#streams.get(stream.leaderId) !== stream) return;
    stream.close();
    this.#streams.delete(stream.leaderId);
    this.#wantConnections();
  }

  #wantConnections(): void {
    this.#deps.links.want(WISH, this.#streams.keys());
  }
}
