// What a leader owes its followers: positions that wait for more, or for the leader's role, and the answers to them.
import type { ErrorName } from "../../model/errors.ts";
import type { LeaderEpoch, NodeId, Offset } from "../../model/ids.ts";
import type { FetchedBatch, Verdict } from "../../replication/types.ts";
import { type SimBatch, sequencedOf } from "./batch.ts";
import type { SimReplica } from "./replica.ts";
import type { BulkConnection, FetchPosition } from "./streams.ts";
import type { ReplicationWorld } from "./world.ts";

/** A follower's position at its leader. */
export interface Request {
  readonly connection: BulkConnection;
  readonly position: FetchPosition;
  readonly isAdded: boolean;
}

interface Parked extends Request {
  readonly fromOffset: number;
  sentHighWatermark: number;
  sentStart: number;
}

/** Shape: one position of each follower, parked, or held back; a newer one takes its place. */
export class Serving {
  readonly #world: ReplicationWorld;
  readonly #replica: SimReplica;
  readonly #parked = new Map<NodeId, Parked>();
  #heldBack: Request[] = [];
  #isNotifying = false;

  constructor(world: ReplicationWorld, replica: SimReplica) {
    this.#world = world;
    this.#replica = replica;
  }

  /** The role is another one: each position is looked at again. */
  roleChanged(): void {
    const again: Request[] = [...this.#parked.values(), ...this.#heldBack];
    this.#parked.clear();
    this.#heldBack = [];
    for (const request of again) this.serve(request);
  }

  /** What waits below the log start hears what became of that. */
  startRaised(): void {
    const { startOffset } = this.#replica.core;
    for (const request of [...this.#parked.values()]) if (request.fromOffset < startOffset) this.serve(request);
  }

  ended(connection: BulkConnection): void {
    const follower = connection.follower.nodeId;
    if (this.#parked.get(follower)?.connection === connection) this.#parked.delete(follower);
    this.#heldBack = this.#heldBack.filter((request) => request.connection !== connection);
  }

  serve(request: Request): void {
    const { connection, position, isAdded } = request;
    const { follower, brokerEpoch, sessionId } = connection;
    const known = this.#parked.get(follower.nodeId);
    // Held back, and overtaken by a newer session.
    if (known !== undefined && known.connection.sessionId > sessionId) return;
    this.#heldBack = this.#heldBack.filter((other) => other.connection.follower !== follower);
    const verdict = this.#replica.ask({
      kind: "follower-fetch",
      follower: follower.nodeId,
      brokerEpoch,
      sessionId,
      isAdded,
      leaderEpoch: position.leaderEpoch,
      fetchOffset: position.fetchOffset,
      lastFetchedEpoch: position.lastFetchedEpoch,
      eligible: this.#replica.eligible,
      nowMs: this.#replica.node.nowMs,
    });
    this.#parked.delete(follower.nodeId);
    this.#obey(request, verdict);
  }

  #obey(request: Request, verdict: Verdict): void {
    switch (verdict.kind) {
      case "read":
        return this.#read(
          { ...request, fromOffset: verdict.fromOffset, sentHighWatermark: -1, sentStart: -1 },
          verdict.isFirst,
        );
      case "diverging":
        this.#world.mark("divergence told");
        return this.#reply(request, { diverging: { epoch: verdict.epoch, endOffset: verdict.endOffset } });
      case "refused": {
        const { error } = verdict;
        this.#world.mark(`fetch refused: ${error}`);
        const isWaiting = error === "UNKNOWN_LEADER_EPOCH" || error === "NOT_LEADER_OR_FOLLOWER";
        if (isWaiting && this.#world.swarm.holdsBack) this.#heldBack.push(request);
        else this.#reply(request, { error });
        return;
      }
    }
  }

  #read(request: Parked, isFirst: boolean): void {
    const { core, log } = this.#replica;
    const batches = log.read(request.fromOffset, core.writtenEnd, this.#world.swarm.batchesPerAnswer);
    const follower = request.connection.follower.nodeId;
    if (batches.length === 0) this.#parked.set(follower, request);
    if (batches.length === 0 && !isFirst) return;
    request.sentHighWatermark = core.highWatermark;
    request.sentStart = core.startOffset;
    this.#reply(request, { batches });
  }

  #reply(
    { connection, position }: Request,
    answer: {
      readonly batches?: readonly SimBatch[];
      readonly diverging?: { readonly epoch: number; readonly endOffset: Offset };
      readonly error?: ErrorName;
    },
  ): void {
    const { core, nodeId, partition } = this.#replica;
    const isData = answer.batches !== undefined;
    const batches = (answer.batches ?? []).map(
      (body): FetchedBatch<SimBatch> => ({
        baseOffset: body.baseOffset as Offset,
        lastOffset: (body.endOffset - 1) as Offset,
        epoch: body.epoch as LeaderEpoch,
        sequenced: body.producerId < 0 && body.told === undefined ? [] : [sequencedOf(body)],
        body,
      }),
    );
    const { fetchOffset, leaderEpoch } = position;
    const highWatermark = isData ? core.highWatermark : -1;
    const logStartOffset = core.startOffset;
    const { diverging, error } = answer;
    this.#world.trace(
      () =>
        `${nodeId} -> ${connection.follower.nodeId} p${partition} answers ${fetchOffset}: ${error ?? (diverging === undefined ? `${batches.length} batches, mark ${highWatermark}` : `diverging ${diverging.epoch}, ${diverging.endOffset}`)}`,
    );
    connection.toFollower(() => {
      const { follower } = connection;
      if (!follower.streams.isPresent(connection) && !this.#world.swarm.passesOldSessions) return;
      follower.replica(partition)?.step({
        kind: "fetched",
        leaderEpoch,
        fetchOffset,
        highWatermark,
        logStartOffset,
        batches,
        diverging,
        error,
        nowMs: follower.nowMs,
      });
    });
  }

  /** Whoever waits for more hears of it; of a high watermark alone a little later, many rises at once. */
  notify(): void {
    const { core } = this.#replica;
    if (this.#parked.size === 0 || core.role !== "leader") return;
    const { writtenEnd, highWatermark, startOffset } = core;
    for (const [follower, request] of this.#parked) {
      if (writtenEnd > request.fromOffset) {
        this.#parked.delete(follower);
        this.#read(request, false);
      } else if (highWatermark > request.sentHighWatermark || startOffset > request.sentStart)
        this.#tellHighWatermark();
    }
  }

  #tellHighWatermark(): void {
    if (this.#isNotifying) return;
    this.#isNotifying = true;
    const { core, node } = this.#replica;
    const { life } = node;
    this.#world.at(this.#world.network.below(25), () => {
      if (node.life !== life) return;
      node.whenRunning(() => {
        this.#isNotifying = false;
        const { highWatermark, startOffset, role } = core;
        if (role !== "leader") return;
        for (const request of this.#parked.values()) {
          if (request.sentHighWatermark >= highWatermark && request.sentStart >= startOffset) continue;
          request.sentHighWatermark = highWatermark;
          request.sentStart = startOffset;
          this.#reply(request, { batches: [] });
        }
      });
    });
  }
}
