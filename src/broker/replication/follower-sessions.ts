// The fetch sessions of all followers of this broker's partitions, one of each follower: what comes late of an older session, or of a broker epoch
// that is not the registered one, changes nothing (N3, R-23).
import type { ErrorName } from "../../model/errors.ts";
import type { NodeId, Offset } from "../../model/ids.ts";
import type { API } from "../../wire/native/apis.ts";
import { DURABLE_ROW } from "../../wire/native/replication-apis.ts";
import type { Replica } from "../replica.ts";
import type { Request } from "../request.ts";
import { FetchSession, type ReplicaFetch } from "./fetch-session.ts";
import { Hosted } from "./hosted.ts";
import type { ReplicationDeps, ReplicationSettings } from "./types.ts";

export type DurableReport = Request<typeof API.DURABLE_REPORT>;

/** What a follower calls its newest session, and the last that was refused since because it was called less. */
interface Newest {
  readonly brokerEpoch: number;
  readonly name: number;
  refused: { readonly connection: ReplicaFetch["connection"]; readonly name: number } | undefined;
}

/**
 * Shape:     a follower names its sessions by numbers that rise; cores know a session by a number of ours, which only rises whatever is named how.
 * Invariant: a session that was begun before another one never takes its place.
 * Example:   newest 7 (on another connection, or forged, or garbled on its way)
 *              fetch of 5 on connection a -> refused: it may have been under way for long
 *              fetch of 5 on connection a -> refused: sent along with the one before
 *              fetch of 6 on connection a -> taken: it was begun by who had heard of the refusal, so it is newer than 7
 */
export class FollowerSessions {
  readonly #deps: ReplicationDeps;
  readonly #settings: ReplicationSettings;
  readonly #hosted: Hosted;
  readonly #sessions = new Map<NodeId, FetchSession>();
  /** Replicas with another role since the last look. */
  readonly #changed = new Set<Replica>();
  /** Of each follower, also when it is over. Bound: nodes that were registered. */
  readonly #newest = new Map<NodeId, Newest>();
  #sessionCount = 0;

  constructor(deps: ReplicationDeps, settings: ReplicationSettings) {
    this.#deps = deps;
    this.#settings = settings;
    this.#hosted = new Hosted((topicId, partition) => deps.replicas.find(topicId, partition));
  }

  get count(): number {
    return this.#sessions.size;
  }

  fetch(request: ReplicaFetch): void {
    const { nodeId, brokerEpoch } = request.body;
    const registered = this.#deps.brokerEpochOf(nodeId);
    if (nodeId === this.#settings.nodeId) return request.fail("INVALID_REQUEST", "this is node itself");
    // One above the registered one is forged, or the metadata here is late: the follower asks again in a moment.
    if (registered !== brokerEpoch)
      return request.fail("STALE_BROKER_EPOCH", `node ${nodeId} is registered as ${registered ?? "nothing"}`);
    const session = this.#sessionOf(request);
    if (session === undefined) return request.fail("FETCH_SESSION_ID_NOT_FOUND", "a newer session has begun");
    session.take(request);
  }

  /** One-way: what does not count is dropped. */
  report(request: DurableReport): void {
    const { nodeId, brokerEpoch, sessionId, rows } = request.body;
    const session = this.#sessions.get(nodeId);
    const isOfSession =
      session?.connection === request.connection && session.brokerEpoch === brokerEpoch && session.name === sessionId;
    if (session === undefined || !isOfSession) return request.drop();
    const eligible = this.#deps.eligible();
    const nowMs = this.#deps.clock.monoMs();
    for (let at = 0; at < rows.length; at += DURABLE_ROW.WIDTH) {
      const replica = session.find(rows[at + DURABLE_ROW.SLOT] as number)?.replica;
      if (replica === undefined) continue;
      this.#deps.replicas.step(replica, {
        kind: "durable-report",
        follower: nodeId,
        brokerEpoch,
        sessionId: session.sessionId,
        leaderEpoch: rows[at + DURABLE_ROW.LEADER_EPOCH] as number,
        durableEnd: rows[at + DURABLE_ROW.DURABLE_END] as Offset,
        startOffset: rows[at + DURABLE_ROW.LOG_START_OFFSET] as number,
        eligible,
        nowMs,
      });
    }
    request.drop();
  }

  onReadable(replica: Replica): void {
    for (const slot of this.#hosted.of(replica)) slot.session.onReadable(slot);
  }

  onHighWatermark(replica: Replica): void {
    for (const slot of this.#hosted.of(replica)) slot.session.onHighWatermark(slot);
  }

  /** In a later turn, as roles: a core is being stepped. */
  onLogStart(replica: Replica): void {
    if (this.#sessions.size === 0) return;
    this.#deps.defer(() => {
      for (const slot of [...this.#hosted.of(replica)]) slot.session.onLogStart(slot);
    });
  }

  /** In a later turn: roles change by the thousand, and inside the work of their own replicas. */
  onRole(replica: Replica): void {
    if (this.#sessions.size === 0) return;
    if (this.#changed.size === 0) this.#deps.defer(() => this.#judgeChanged());
    this.#changed.add(replica);
  }

  forget(replica: Replica): void {
    this.#changed.delete(replica);
    this.#hosted.forget(replica);
  }

  /** Who is registered anew, or not any more, has no session here. */
  onBrokersChanged(): void {
    for (const session of [...this.#sessions.values()]) {
      const registered = this.#deps.brokerEpochOf(session.follower);
      if (registered !== session.brokerEpoch) session.end("STALE_BROKER_EPOCH");
    }
  }

  endAll(error: ErrorName): void {
    for (const session of [...this.#sessions.values()]) session.end(error);
  }

  #judgeChanged(): void {
    const changed = [...this.#changed];
    this.#changed.clear();
    for (const replica of changed) {
      this.#hosted.adopt(replica);
      for (const slot of [...this.#hosted.of(replica)]) slot.session.onRole(slot);
    }
  }

  /** undefined: the request is of a session that is over. */
  #sessionOf(request: ReplicaFetch): FetchSession | undefined {
    const { nodeId, brokerEpoch, sessionId: name } = request.body;
    const present = this.#sessions.get(nodeId);
    const newest = this.#newest.get(nodeId);
    if (newest?.brokerEpoch === brokerEpoch) {
      if (name === newest.name && present?.connection === request.connection) return present;
      if (name <= newest.name && !hasHeard(newest, request)) {
        newest.refused = { connection: request.connection, name };
        return undefined;
      }
    }
    this.#newest.set(nodeId, { brokerEpoch, name, refused: undefined });
    return this.#begin(request, present);
  }

  #begin(request: ReplicaFetch, present: FetchSession | undefined): FetchSession {
    const { nodeId } = request.body;
    present?.end("FETCH_SESSION_ID_NOT_FOUND");
    // Nobody listens there any more, and what it has not taken is memory.
    if (present !== undefined && present.connection !== request.connection) present.connection.destroy();
    const sessionId = ++this.#sessionCount;
    const session = new FetchSession(request, {
      sessionId,
      deps: this.#deps,
      settings: this.#settings,
      hosted: this.#hosted,
    });
    this.#sessions.set(nodeId, session);
    session.onEnded = () => {
      if (this.#sessions.get(nodeId) === session) this.#sessions.delete(nodeId);
    };
    return session;
  }
}

/** It was sent by who knows that the one before it on this connection was refused. */
function hasHeard({ refused }: Newest, { connection, body }: ReplicaFetch): boolean {
  return refused?.connection === connection && body.sessionId > refused.name;
}
