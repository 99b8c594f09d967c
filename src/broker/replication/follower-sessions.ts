// The fetch sessions of all followers of this broker's partitions, one of each follower. (broker epoch, session id) of a follower only rises: what
// comes late of an older session changes nothing (N3, R-23).
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

export class FollowerSessions {
  readonly #deps: ReplicationDeps;
  readonly #settings: ReplicationSettings;
  readonly #hosted: Hosted;
  readonly #sessions = new Map<NodeId, FetchSession>();
  /** Replicas with another role since the last look. */
  readonly #changed = new Set<Replica>();
  /** The newest of each follower, also when it is over. Bound: nodes that were registered. */
  readonly #newest = new Map<NodeId, { readonly brokerEpoch: number; readonly sessionId: number }>();

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
    if (registered === undefined || registered > brokerEpoch)
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
      session?.connection === request.connection &&
      session.brokerEpoch === brokerEpoch &&
      session.sessionId === sessionId;
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
        sessionId,
        leaderEpoch: rows[at + DURABLE_ROW.LEADER_EPOCH] as number,
        durableEnd: rows[at + DURABLE_ROW.DURABLE_END] as Offset,
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
      if (registered === undefined || registered > session.brokerEpoch) session.end("STALE_BROKER_EPOCH");
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
    const { nodeId, brokerEpoch, sessionId } = request.body;
    const present = this.#sessions.get(nodeId);
    const newest = this.#newest.get(nodeId);
    const rise = newest === undefined ? 1 : brokerEpoch - newest.brokerEpoch || sessionId - newest.sessionId;
    if (rise < 0) return undefined;
    if (rise === 0) return present?.connection === request.connection ? present : undefined;
    present?.end("FETCH_SESSION_ID_NOT_FOUND");
    this.#newest.set(nodeId, { brokerEpoch, sessionId });
    const session = new FetchSession(request, {
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
