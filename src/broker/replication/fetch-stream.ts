// The follower's side: everything that this broker follows of one leader, over one connection for bulk. A session of slots, so that a fetch names
// only partitions that have something to ask and an answer only those that have something to say; whatever is idle costs nothing.
//
// A fetch waits at the leader until there is something to say. When another partition has to ask meanwhile a second fetch goes out, which ends the
// wait of the first: never more than two at once. A row belongs to the position that was last asked with when its answer is that of this fetch or a
// later one; all other rows are of the past, and are dropped. What a partition does with its row, it does in its own time: a truncation, a
// back-off or a refused write of one is no matter of the others.
import { mutant } from "../../base/mutant.ts";
import { Ring } from "../../base/ring.ts";
import type { Deadline } from "../../base/deadlines.ts";
import type { BrokerConnection } from "../../link/broker-connection.ts";
import { type ErrorName, errorNameOf, type OttlaError } from "../../model/errors.ts";
import type { NodeId, Offset } from "../../model/ids.ts";
import { API } from "../../wire/native/apis.ts";
import { FIELD_LIMITS } from "../../wire/native/layout.ts";
import { DURABLE_ROW, REPLICA_ROW, type ReplicaFetchRequest } from "../../wire/native/replication-apis.ts";
import type { Replica } from "../replica.ts";
import type { FetchedBatch } from "../../replication/types.ts";
import { addRuns } from "./fetched-run.ts";
import type { ReplicationDeps, ReplicationSettings, StreamEffect } from "./types.ts";

type Position = Extract<StreamEffect, { kind: "fetch" }>;
type Report = Extract<StreamEffect, { kind: "report" }>;

/** Longer than any answer that is still worth having: a leader that says nothing at all for so long is cut off. */
const ANSWER_SLACK_MS = 10_000;
/** After a fetch that failed as a whole. */
const HOLD_OFF_MS = 100;
/** A leader that refuses all fetches for this long is told of. */
const REFUSED_MAX_MS = 3_000;
const IN_FLIGHT_MAX = 2;
const ROWS_MAX = FIELD_LIMITS.REPLICA_ROWS;
const SLOT_MAX = 0x7fffffff;
const NO_SLOT = -1;

/** One partition followed here. */
class Followed {
  readonly replica: Replica;
  /** In the present session. */
  slot = NO_SLOT;
  position: Position;
  /** The position is not asked with yet. */
  isDirty = false;
  isQueued = false;
  /** Number of the fetch that asked with the position. */
  askedIn = 0;
  report: Report | undefined;

  constructor(replica: Replica, position: Position) {
    this.replica = replica;
    this.position = position;
  }
}

interface Session {
  readonly connection: BrokerConnection;
  readonly sessionId: number;
  readonly brokerEpoch: number;
  readonly slots: Map<number, Followed>;
  nextSlot: number;
  inFlight: number;
}

interface AnswerRow {
  readonly error: number;
  readonly highWatermark: number;
  readonly logStartOffset: number;
  readonly divergingEpoch: number;
  readonly divergingEnd: number;
}

export class FetchStream {
  readonly leaderId: NodeId;
  readonly #deps: ReplicationDeps;
  readonly #settings: ReplicationSettings;
  readonly #nextSessionId: () => number;
  readonly #followed = new Map<Replica, Followed>();
  /** Positions to ask with. Some may have gone, or be here twice: `isQueued` and `isDirty` decide. */
  readonly #dirty = new Ring<Followed>();
  readonly #removed: number[] = [];
  readonly #reports = new Ring<Followed>();
  #session: Session | undefined;
  #fetchCount = 0;
  /** Since when every fetch was refused; undefined: the last one was not. */
  #refusedSinceMs: number | undefined;
  #isRefusalTold = false;
  #holdOff: Deadline | undefined;
  #isFlushPending = false;
  #isTakingAnswer = false;
  #isClosed = false;

  constructor(
    leaderId: NodeId,
    deps: ReplicationDeps,
    options: { readonly settings: ReplicationSettings; readonly nextSessionId: () => number },
  ) {
    this.leaderId = leaderId;
    this.#deps = deps;
    this.#settings = options.settings;
    this.#nextSessionId = options.nextSessionId;
  }

  get size(): number {
    return this.#followed.size;
  }

  /** The partition is followed here, and asks from this position on next. */
  ask(replica: Replica, position: Position): void {
    let followed = this.#followed.get(replica);
    if (followed === undefined) {
      followed = new Followed(replica, position);
      this.#followed.set(replica, followed);
    }
    followed.position = position;
    if (position.isFirst) this.#releaseSlot(followed);
    this.#markDirty(followed);
    if (!this.#isTakingAnswer) this.#flushSoon();
  }

  /** Told once a turn, in one message for all partitions. */
  report(replica: Replica, report: Report): void {
    const followed = this.#followed.get(replica);
    if (followed === undefined || this.#session === undefined) return;
    if (followed.report === undefined) this.#reports.push(followed);
    followed.report = report;
    this.#flushSoon();
  }

  remove(replica: Replica): void {
    const followed = this.#followed.get(replica);
    if (followed === undefined) return;
    this.#followed.delete(replica);
    followed.isDirty = false;
    this.#releaseSlot(followed);
  }

  /** Connected, or connected anew: a session of its own. */
  onConnected(connection: BrokerConnection): void {
    this.#endSession();
    const brokerEpoch = this.#deps.brokerEpoch();
    if (this.#isClosed || brokerEpoch === null) return;
    const sessionId = this.#nextSessionId();
    this.#session = { connection, sessionId, brokerEpoch, slots: new Map(), nextSlot: 0, inFlight: 0 };
    // The leader knows nothing of these replicas: each core gives its position again, once it has one (D-3).
    const nowMs = this.#deps.clock.monoMs();
    for (const { replica } of [...this.#followed.values()])
      this.#deps.replicas.step(replica, { kind: "session-started", nowMs });
    this.#flushSoon();
  }

  onLost(): void {
    this.#endSession();
    // Connections that are lost are told of by the link.
    if (!this.#isRefusalTold) this.#refusedSinceMs = undefined;
  }

  /** This broker's epoch may be another one: what is asked and told under the old one does not count any more. */
  onEpochChanged(): void {
    const session = this.#session;
    if (session !== undefined && session.brokerEpoch !== this.#deps.brokerEpoch()) this.onConnected(session.connection);
    else this.start();
  }

  onRoom(): void {
    this.#flushSoon();
  }

  /** Begins a session if there is none and there is a connection. */
  start(): void {
    if (this.#session !== undefined || this.#holdOff !== undefined) return;
    const connection = this.#deps.links.connectionTo(this.leaderId);
    if (connection !== undefined) this.onConnected(connection);
  }

  close(): void {
    this.#isClosed = true;
    this.#endSession();
    this.#followed.clear();
  }

  #endSession(): void {
    this.#holdOff?.cancel();
    this.#holdOff = undefined;
    this.#session = undefined;
    this.#removed.length = 0;
    this.#reports.clear();
    for (const followed of this.#followed.values()) {
      followed.slot = NO_SLOT;
      followed.report = undefined;
    }
  }

  #markDirty(followed: Followed): void {
    followed.isDirty = true;
    if (followed.isQueued) return;
    followed.isQueued = true;
    this.#dirty.push(followed);
  }

  #releaseSlot(followed: Followed): void {
    if (followed.slot === NO_SLOT) return;
    this.#session?.slots.delete(followed.slot);
    this.#removed.push(followed.slot);
    followed.slot = NO_SLOT;
  }

  /** Whatever a turn brings goes out together at its end. */
  #flushSoon(): void {
    if (this.#isFlushPending || this.#session === undefined) return;
    this.#isFlushPending = true;
    this.#deps.defer(() => {
      this.#isFlushPending = false;
      this.#flush();
    });
  }

  #flush(): void {
    this.#fetch();
    this.#sendReports();
  }

  /** Asks, if there is a position to ask with, or nobody waits at the leader yet. */
  #fetch(): void {
    const session = this.#session;
    if (session === undefined || this.#followed.size === 0 || !this.#deps.hasRoom()) return;
    if (session.inFlight >= IN_FLIGHT_MAX) return;
    const asked = this.#takeDirty(session);
    if (asked === undefined && session.inFlight > 0) return;
    const request: ReplicaFetchRequest = {
      nodeId: this.#settings.nodeId,
      brokerEpoch: session.brokerEpoch,
      sessionId: session.sessionId,
      maxWaitMs: this.#settings.waitMaxMs,
      maxBytes: this.#settings.responseBytesMax,
      added: asked?.added ?? [],
      positions: asked?.positions ?? [],
      removed: this.#removed.splice(0, ROWS_MAX),
    };
    this.#send(session, request);
  }

  #takeDirty(session: Session): Pick<ReplicaFetchRequest, "added" | "positions"> | undefined {
    if (this.#dirty.length === 0) return undefined;
    const added: ReplicaFetchRequest["added"][number][] = [];
    const positions: number[] = [];
    const fetchNumber = this.#fetchCount + 1;
    for (let rows = 0; rows < ROWS_MAX; ) {
      const followed = this.#dirty.shift();
      if (followed === undefined) break;
      followed.isQueued = false;
      if (!followed.isDirty) continue;
      followed.isDirty = false;
      rows++;
      if (followed.slot === NO_SLOT) added.push(this.#addSlot(session, followed));
      followed.askedIn = fetchNumber;
      const { leaderEpoch, fetchOffset, lastFetchedEpoch } = followed.position;
      positions.push(followed.slot, leaderEpoch, fetchOffset, lastFetchedEpoch);
    }
    return positions.length === 0 ? undefined : { added, positions };
  }

  #addSlot(session: Session, followed: Followed): ReplicaFetchRequest["added"][number] {
    followed.slot = session.nextSlot++;
    session.slots.set(followed.slot, followed);
    const { topicId, partition } = followed.replica.log;
    return { slot: followed.slot, topicId, partition };
  }

  #send(session: Session, request: ReplicaFetchRequest): void {
    const fetchNumber = ++this.#fetchCount;
    const isCurrent = (): boolean => this.#session === session;
    session.inFlight++;
    session.connection.request(
      API.REPLICA_FETCH,
      { request, bodies: [], timeoutMs: this.#settings.waitMaxMs + ANSWER_SLACK_MS },
      {
        onAnswer: (response, bodies, isLast) => {
          if (!isCurrent()) return;
          this.#refusedSinceMs = undefined;
          this.#isRefusalTold = false;
          this.#deps.guard(() => this.#answered(session, { rows: response.rows, bodies, isLast, fetchNumber }));
        },
        onFailure: (error) => {
          if (isCurrent()) this.#deps.guard(() => this.#failed(error));
        },
      },
    );
  }

  #answered(
    session: Session,
    part: {
      readonly rows: readonly number[];
      readonly bodies: readonly Uint8Array[];
      readonly isLast: boolean;
      readonly fetchNumber: number;
    },
  ): void {
    this.#isTakingAnswer = true;
    try {
      this.#takeRows(session, part);
    } finally {
      this.#isTakingAnswer = false;
    }
    if (part.isLast) session.inFlight--;
    if (this.#session !== session) return this.#flushSoon();
    if (session.nextSlot >= SLOT_MAX) this.onConnected(session.connection);
    else if (part.isLast) this.#fetch();
  }

  #takeRows(
    session: Session,
    part: { readonly rows: readonly number[]; readonly bodies: readonly Uint8Array[]; readonly fetchNumber: number },
  ): void {
    const { rows, bodies, fetchNumber } = part;
    for (let at = 0, next = 0; at + REPLICA_ROW.WIDTH <= rows.length; at = next) {
      const slotId = rows[at + REPLICA_ROW.SLOT] as number;
      // Rows of one slot that follow each other bring batches that do.
      const found: Uint8Array[] = [];
      for (next = at; rows[next + REPLICA_ROW.SLOT] === slotId; next += REPLICA_ROW.WIDTH) {
        const body = bodies[rows[next + REPLICA_ROW.BODY] as number];
        if (body !== undefined) found.push(body);
      }
      const followed = session.slots.get(slotId);
      const isOfPosition = followed?.isDirty === false && fetchNumber >= followed.askedIn;
      if (followed === undefined || !isOfPosition) continue;
      const row: AnswerRow = {
        error: rows[at + REPLICA_ROW.ERROR] as number,
        highWatermark: rows[at + REPLICA_ROW.HIGH_WATERMARK] as number,
        logStartOffset: rows[at + REPLICA_ROW.LOG_START_OFFSET] as number,
        divergingEpoch: rows[at + REPLICA_ROW.DIVERGING_EPOCH] as number,
        divergingEnd: rows[at + REPLICA_ROW.DIVERGING_END] as number,
      };
      if (row.error === 0) this.#takeBatches(followed, row, found);
      else this.#tell(followed, row, { error: this.#errorOf(followed, row), runs: [] });
    }
  }

  /** What one batch is wrong in is no reason to take the others: the partition asks again (B-19). */
  #takeBatches(followed: Followed, row: AnswerRow, bodies: readonly Uint8Array[]): void {
    const { checksum, counters, logger } = this.#deps;
    // Came too late: nothing of it is kept, and it is asked for again when there is room. So the store's bound is passed by one partition's answer.
    if (bodies.length > 0 && !this.#deps.hasRoom()) return this.#markDirty(followed);
    const runs: FetchedBatch<Uint8Array>[] = [];
    let fault: string | undefined;
    for (const body of bodies) {
      counters.bytesIn.add(body.length);
      fault ??= addRuns(runs, body, checksum);
    }
    if (fault === undefined) return this.#tell(followed, row, { error: undefined, runs });
    const { topic, partition } = followed.replica.log;
    const { fetchOffset } = followed.position;
    logger.warn("fetched_batches_refused", { topic, partition, fetchOffset, leader: this.leaderId, why: fault });
    this.#tell(followed, row, { error: "CORRUPT_MESSAGE", runs: [] });
  }

  #errorOf(followed: Followed, row: AnswerRow): ErrorName {
    const error = errorNameOf(row.error);
    // The leader keeps no slot for what it does not know: it is named again with the next position.
    if (error === "FETCH_SESSION_ID_NOT_FOUND" || error === "UNKNOWN_TOPIC_ID") {
      this.#session?.slots.delete(followed.slot);
      followed.slot = NO_SLOT;
    }
    return error;
  }

  #tell(
    followed: Followed,
    row: AnswerRow,
    outcome: { readonly error: ErrorName | undefined; readonly runs: readonly FetchedBatch<Uint8Array>[] },
  ): void {
    const { leaderEpoch, fetchOffset } = followed.position;
    const isDiverging = row.divergingEpoch >= 0 || row.divergingEnd >= 0;
    this.#deps.replicas.step(followed.replica, {
      kind: "fetched",
      leaderEpoch,
      fetchOffset,
      highWatermark: row.highWatermark as Offset,
      logStartOffset: row.logStartOffset as Offset,
      batches: outcome.runs,
      diverging: isDiverging ? { epoch: row.divergingEpoch, endOffset: row.divergingEnd as Offset } : undefined,
      error: outcome.error,
      nowMs: this.#deps.clock.monoMs(),
    });
  }

  /** The fetch as a whole. What it asked with is asked again, in a new session. */
  #failed(error: OttlaError): void {
    this.#tellFailure(error);
    this.#endSession();
    if (error.code === "REQUEST_TIMED_OUT") return this.#deps.links.renew(this.leaderId);
    this.#holdOff = this.#deps.deadlines.add(HOLD_OFF_MS, () => {
      this.#holdOff = undefined;
      this.#deps.guard(() => this.start());
    });
  }

  #tellFailure({ code, message }: OttlaError): void {
    const { logger, clock } = this.#deps;
    const leader = this.leaderId;
    logger.debug("replica_fetch_failed", { leader, code, message });
    const nowMs = clock.monoMs();
    this.#refusedSinceMs ??= nowMs;
    const forMs = Math.round(nowMs - this.#refusedSinceMs);
    if (this.#isRefusalTold || forMs < REFUSED_MAX_MS) return;
    this.#isRefusalTold = true;
    logger.warn("replica_fetches_refused", { leader, partitions: this.size, code, message, forMs });
  }

  #sendReports(): void {
    const session = this.#session;
    if (session === undefined) return;
    while (this.#reports.length > 0) {
      const rows: number[] = [];
      while (rows.length < ROWS_MAX * DURABLE_ROW.WIDTH) {
        const followed = this.#reports.shift();
        if (followed === undefined) break;
        this.#addReport(followed, rows);
      }
      if (rows.length === 0) continue;
      const { sessionId, brokerEpoch } = session;
      const request = { nodeId: this.#settings.nodeId, brokerEpoch, sessionId, rows };
      session.connection.tell(API.DURABLE_REPORT, request, []);
    }
  }

  #addReport(followed: Followed, rows: number[]): void {
    const { report, slot, position, replica } = followed;
    followed.report = undefined;
    if (report === undefined || slot === NO_SLOT || report.leaderEpoch !== position.leaderEpoch) return;
    // A log that was cut since has lost what was reported of it.
    const durableEnd = mutant("M3") ? report.durableEnd : Math.min(report.durableEnd, replica.log.durableEnd);
    rows.push(slot, report.leaderEpoch, durableEnd, report.startOffset);
  }
}
