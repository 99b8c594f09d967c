// The leader's side of one follower's session (D-3): its slots, what there is to say about them, and the fetch that waits for it.
//
// An answer goes out with what is ready, in parts of at most 1 MiB, one part a turn. What memory holds is read then and there; what it does not is
// read aside (cold-reads.ts) and joins a later answer. A high watermark that rose alone is told within MARK_MS. What has nothing to say is in no
// queue: thousands of idle partitions cost nothing.
import { assertNever } from "../../base/assert.ts";
import { Ring } from "../../base/ring.ts";
import type { Deadline } from "../../base/deadlines.ts";
import type { ErrorName } from "../../model/errors.ts";
import type { NodeId, Offset } from "../../model/ids.ts";
import type { Verdict } from "../../replication/types.ts";
import type { ReadResult } from "../../storage/types.ts";
import type { API } from "../../wire/native/apis.ts";
import { FIELD_LIMITS } from "../../wire/native/layout.ts";
import { LIMITS } from "../../wire/native/protocol.ts";
import { POSITION_ROW } from "../../wire/native/replication-apis.ts";
import type { ConnectionDependent } from "../connection.ts";
import type { Replica } from "../replica.ts";
import type { Request } from "../request.ts";
import { AnswerPart } from "./answer-part.ts";
import { ColdReads } from "./cold-reads.ts";
import type { Hosted } from "./hosted.ts";
import { type Notice, Slot } from "./slot.ts";
import type { ReplicationDeps, ReplicationSettings } from "./types.ts";

export type ReplicaFetch = Request<typeof API.REPLICA_FETCH>;

/** How long a rise of the high watermark may wait for others, or for batches, to be told with. */
const MARK_MS = 25;
/** A follower asks again as soon as it has taken its answer, or after a back-off shorter than this. */
const SILENT_MAX_MS = 2_000;
/** Less room than this in a part that has bodies is not worth an answer for a partition that has more. */
const CRUMB_BYTES = LIMITS.LOGICAL_MESSAGE_BODY_BYTES / 2;
/** What the metadata of this broker, when it comes, may make good: the slot is held until then. */
const MAY_BE_LATE: ReadonlySet<ErrorName> = new Set(["UNKNOWN_LEADER_EPOCH", "NOT_LEADER_OR_FOLLOWER"]);
const UNKNOWN_SLOT: Notice = { error: "FETCH_SESSION_ID_NOT_FOUND", divergingEpoch: -1, divergingEnd: -1 };

/** The fetch being answered. */
interface Current {
  readonly request: ReplicaFetch;
  readonly bytesMax: number;
  readonly wait: Deadline;
  sentBytes: number;
  /** Parts go out; else it waits. */
  isAnswering: boolean;
}

export class FetchSession implements ConnectionDependent {
  readonly follower: NodeId;
  readonly brokerEpoch: number;
  /** What the follower calls it. */
  readonly name: number;
  /** What cores know it by: rises from session to session. */
  readonly sessionId: number;
  readonly connection: ReplicaFetch["connection"];
  readonly #deps: ReplicationDeps;
  readonly #settings: ReplicationSettings;
  readonly #hosted: Hosted;
  readonly #slots = new Map<number, Slot>();
  readonly #ready = new Ring<Slot>();
  /** Came first, but did not fit into the part before. */
  #carried: Slot | undefined;
  #marked: Slot[] = [];
  #markDeadline: Deadline | undefined;
  /** Slots that have been answered, each at most once, by when they are looked at next. */
  readonly #answered = new Ring<Slot>();
  /** Slots named in requests that this session does not know. */
  readonly #unknownSlots: number[] = [];
  readonly #cold: ColdReads;
  #current: Current | undefined;
  /** Came while the one before was being answered. */
  #next: ReplicaFetch | undefined;
  #isFlushPending = false;
  #isEnded = false;
  onEnded: () => void = () => {};

  constructor(
    request: ReplicaFetch,
    parts: {
      readonly sessionId: number;
      readonly deps: ReplicationDeps;
      readonly settings: ReplicationSettings;
      readonly hosted: Hosted;
    },
  ) {
    const { nodeId, brokerEpoch, sessionId: name } = request.body;
    this.follower = nodeId;
    this.brokerEpoch = brokerEpoch;
    this.name = name;
    this.sessionId = parts.sessionId;
    this.connection = request.connection;
    this.#deps = parts.deps;
    this.#settings = parts.settings;
    this.#hosted = parts.hosted;
    const { clock, deadlines, guard } = this.#deps;
    const bytesMax = Math.min(this.#settings.partitionBytesMax, LIMITS.LOGICAL_MESSAGE_BODY_BYTES);
    const { answers } = this.connection;
    // Bound: one session of each registered broker, on one connection each.
    answers.isOfReplica = true;
    const onRead = (slot: Slot, error: ErrorName | undefined): void => this.#onRead(slot, error);
    this.#cold = new ColdReads({ clock, deadlines, guard, answers, bytesMax, onRead });
    this.connection.dependents.add(this);
  }

  /** Whatever it asks, the one before it waits no longer. */
  take(request: ReplicaFetch): void {
    if (this.#next !== undefined) return request.fail("INVALID_REQUEST", "two fetches of this session wait already");
    if (this.#current === undefined) return this.#begin(request);
    this.#next = request;
    if (!this.#current.isAnswering) this.#answer(true);
  }

  find(slotId: number): Slot | undefined {
    return this.#slots.get(slotId);
  }

  onConnectionClosed(): void {
    this.end("FETCH_SESSION_ID_NOT_FOUND");
  }

  /** Nothing of it counts any more. */
  end(error: ErrorName): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.connection.dependents.delete(this);
    this.connection.answers.isOfReplica = false;
    this.#current?.wait.cancel();
    this.#markDeadline?.cancel();
    this.#cold.close();
    for (const request of [this.#current?.request, this.#next]) request?.fail(error);
    this.#current = undefined;
    this.#next = undefined;
    const { follower, sessionId } = this;
    const nowMs = this.#deps.clock.monoMs();
    for (const slot of this.#slots.values()) {
      slot.state = "silent";
      this.#hosted.detach(slot);
      const { replica } = slot;
      if (replica !== undefined)
        this.#deps.replicas.step(replica, { kind: "session-ended", follower, sessionId, nowMs });
    }
    this.#slots.clear();
    this.onEnded();
  }

  /** More of the partition is written. */
  onReadable(slot: Slot): void {
    if (slot.state === "active" && slot.isReadable) this.#setReady(slot);
  }

  onHighWatermark(slot: Slot): void {
    if (slot.state !== "active" || slot.isReady || slot.isMarked) return;
    slot.isMarked = true;
    this.#marked.push(slot);
    this.#markDeadline ??= this.#deps.deadlines.add(MARK_MS, () => {
      this.#markDeadline = undefined;
      this.#deps.guard(() => this.#tellMarks());
    });
  }

  /** What waits below it hears what became of that (S-32); the others with the next marks. */
  onLogStart(slot: Slot): void {
    if (slot.state !== "active" || slot.replica === undefined) return;
    if (slot.fromOffset < slot.replica.core.startOffset) this.#judge(slot);
    else this.onHighWatermark(slot);
  }

  /** The replica is here now, or has another role or epoch. */
  onRole(slot: Slot): void {
    if (slot.state !== "silent") this.#judge(slot);
  }

  /** The partition is not asked for any more under this number. */
  remove(slotId: number): void {
    const slot = this.#slots.get(slotId);
    if (slot === undefined) return;
    this.#slots.delete(slotId);
    slot.state = "silent";
    slot.notice = undefined;
    this.#cold.release(slot);
    this.#hosted.detach(slot);
  }

  #begin(request: ReplicaFetch): void {
    const { removed, added, positions, maxWaitMs, maxBytes } = request.body;
    for (const slotId of removed) this.remove(slotId);
    for (const row of added) this.#add(row);
    for (let at = 0; at < positions.length; at += POSITION_ROW.WIDTH) this.#place(positions, at);
    this.#lookAtSilent();
    const waitMs = request.waitBudgetMs(this.#settings.waitMaxMs, maxWaitMs);
    const wait = this.#deps.deadlines.add(waitMs, () => this.#deps.guard(() => this.#waited(request)));
    const bytesMax = Math.min(maxBytes, this.#settings.responseBytesMax);
    this.#current = { request, bytesMax, wait, sentBytes: 0, isAnswering: false };
    if (this.#hasReady) this.#answer(false);
  }

  #add(row: ReplicaFetch["body"]["added"][number]): void {
    this.remove(row.slot);
    const slot = new Slot(this, row);
    if (this.#hosted.attach(slot)) this.#slots.set(slot.id, slot);
  }

  #place(positions: readonly number[], at: number): void {
    const slotId = positions[at + POSITION_ROW.SLOT] as number;
    const slot = this.#slots.get(slotId);
    if (slot === undefined) {
      this.#unknownSlots.push(slotId);
      return;
    }
    slot.leaderEpoch = positions[at + POSITION_ROW.LEADER_EPOCH] as number;
    slot.fetchOffset = positions[at + POSITION_ROW.FETCH_OFFSET] as number;
    slot.lastFetchedEpoch = positions[at + POSITION_ROW.LAST_FETCHED_EPOCH] as number;
    this.#judge(slot);
  }

  /** Its row is said: nothing more before it asks again. */
  #silence(slot: Slot): void {
    slot.state = "silent";
    slot.silentSinceMs = this.#deps.clock.monoMs();
    if (!slot.isWatched) this.#watch(slot);
  }

  #watch(slot: Slot): void {
    slot.isWatched = true;
    slot.lookAtMs = slot.silentSinceMs + SILENT_MAX_MS;
    this.#answered.push(slot);
  }

  /**
   * A row that was lost leaves a slot of which each side believes that the other speaks next. So a follower that has not asked again for long is told
   * that its slot is gone, and names the partition anew, whenever it wants it.
   */
  #lookAtSilent(): void {
    const nowMs = this.#deps.clock.monoMs();
    for (let slot = this.#answered.peek(); slot !== undefined && slot.lookAtMs <= nowMs; slot = this.#answered.peek()) {
      this.#answered.shift();
      slot.isWatched = false;
      if (slot.state !== "silent" || this.#slots.get(slot.id) !== slot) continue;
      if (nowMs - slot.silentSinceMs < SILENT_MAX_MS) {
        this.#watch(slot);
        continue;
      }
      this.remove(slot.id);
      this.#unknownSlots.push(slot.id);
    }
  }

  /** The core says what the slot's position is worth. */
  #judge(slot: Slot): void {
    const { replica, leaderEpoch, lastFetchedEpoch, isAdded } = slot;
    slot.notice = undefined;
    this.#cold.release(slot);
    if (replica === undefined) {
      slot.state = "held";
      return;
    }
    const { follower, brokerEpoch, sessionId } = this;
    const { clock, replicas } = this.#deps;
    const found = replicas.step(replica, {
      kind: "follower-fetch",
      follower,
      brokerEpoch,
      sessionId,
      isAdded,
      leaderEpoch,
      fetchOffset: slot.fetchOffset as Offset,
      lastFetchedEpoch,
      eligible: this.#deps.eligible(),
      nowMs: clock.monoMs(),
    });
    if (found !== undefined) this.#judged(slot, found.verdict);
  }

  #judged(slot: Slot, verdict: Verdict): void {
    switch (verdict.kind) {
      case "read":
        slot.state = "active";
        slot.isAdded = false;
        slot.fromOffset = verdict.fromOffset;
        slot.mustAnswer ||= verdict.isFirst;
        if (slot.mustAnswer || slot.isReadable) this.#setReady(slot);
        else if (hasRisen(slot)) this.onHighWatermark(slot);
        return;
      case "diverging":
        slot.isAdded = false;
        this.#notify(slot, { error: "NONE", divergingEpoch: verdict.epoch, divergingEnd: verdict.endOffset });
        return;
      case "refused":
        if (MAY_BE_LATE.has(verdict.error)) slot.state = "held";
        else this.#notify(slot, { error: verdict.error, divergingEpoch: -1, divergingEnd: -1 });
        return;
      default:
        assertNever(verdict);
    }
  }

  #notify(slot: Slot, notice: Notice): void {
    slot.state = "active";
    slot.notice = notice;
    this.#setReady(slot);
  }

  #setReady(slot: Slot): void {
    if (slot.isReady || slot.isCold || this.#isEnded) return;
    slot.isReady = true;
    this.#ready.push(slot);
    this.#flushSoon();
  }

  get #hasReady(): boolean {
    return this.#ready.length > 0 || this.#carried !== undefined || this.#unknownSlots.length > 0;
  }

  /** Whatever a turn brings is answered together at its end. */
  #flushSoon(): void {
    if (this.#isFlushPending || this.#current === undefined || this.#current.isAnswering) return;
    this.#isFlushPending = true;
    this.#deps.defer(() => {
      this.#isFlushPending = false;
      if (this.#hasReady && this.#current?.isAnswering === false) this.#answer(false);
    });
  }

  #waited(request: ReplicaFetch): void {
    if (this.#current?.request === request && !this.#current.isAnswering) this.#answer(true);
  }

  #tellMarks(): void {
    const marked = this.#marked;
    this.#marked = [];
    for (const slot of marked) {
      slot.isMarked = false;
      if (slot.state === "active" && hasRisen(slot)) this.#setReady(slot);
    }
  }

  #onRead(slot: Slot, error: ErrorName | undefined): void {
    if (this.#isEnded || slot.state !== "active") return;
    if (error !== undefined) this.#notify(slot, { error, divergingEpoch: -1, divergingEnd: -1 });
    else if (slot.isReadable || slot.mustAnswer) this.#setReady(slot);
  }

  /** The next part of the answer; `mustEnd`: also with nothing. */
  #answer(mustEnd: boolean): void {
    const current = this.#current;
    if (current === undefined || this.#isEnded) return;
    const { answers } = this.connection;
    if (answers.isFull) {
      current.isAnswering = true;
      return answers.whenDrained(() => this.#answer(mustEnd));
    }
    const part = new AnswerPart();
    this.#fill(part, current.bytesMax - current.sentBytes);
    if (part.isEmpty && !mustEnd && !current.isAnswering) return;
    current.sentBytes += part.sizeBytes;
    this.#deps.counters.bytesOut.add(part.sizeBytes);
    const isLast = !this.#hasReady || current.sentBytes >= current.bytesMax;
    const response = { rows: part.rows };
    const onTaken = (): void => part.release();
    if (!isLast) {
      current.isAnswering = true;
      current.request.respondPart(response, part.bodies, onTaken);
      return this.#deps.defer(() => this.#answer(true));
    }
    this.#current = undefined;
    current.wait.cancel();
    current.request.respond(response, part.bodies, onTaken);
    this.#beginNext();
  }

  #beginNext(): void {
    const next = this.#next;
    this.#next = undefined;
    if (next !== undefined) this.#begin(next);
  }

  #fill(part: AnswerPart, bytesMax: number): void {
    for (const slotId of this.#unknownSlots.splice(0, FIELD_LIMITS.REPLICA_ROWS))
      part.addNotice(slotId, UNKNOWN_SLOT, undefined);
    while (!part.isFull) {
      const slot = this.#carried ?? this.#ready.shift();
      this.#carried = undefined;
      if (slot === undefined) break;
      if (this.#addRow(part, slot, bytesMax - part.sizeBytes)) continue;
      this.#carried = slot;
      break;
    }
    this.#fillMarks(part);
  }

  /** Marks that wait go with whatever is sent anyway. */
  #fillMarks(part: AnswerPart): void {
    if (part.isEmpty || this.#marked.length === 0) return;
    const marked = this.#marked;
    this.#marked = [];
    for (const slot of marked) {
      if (part.isFull) {
        this.#marked.push(slot);
        continue;
      }
      slot.isMarked = false;
      const { replica } = slot;
      if (replica !== undefined && slot.state === "active" && !slot.isReady && hasRisen(slot))
        part.addMark(slot, replica);
    }
  }

  /** False: it does not fit into this part any more. */
  #addRow(part: AnswerPart, slot: Slot, leftBytes: number): boolean {
    const { replica, notice } = slot;
    if (slot.state === "active" && notice !== undefined) {
      slot.notice = undefined;
      this.#silence(slot);
      part.addNotice(slot.id, notice, replica);
    } else if (slot.state === "active" && replica !== undefined && isLedAsAsked(slot, replica)) {
      const result = this.#read(part, slot, { replica, leftBytes });
      if (result === "no room") return false;
      if (result !== undefined && result.sizeBytes > 0) {
        part.addBatches(slot, replica, result);
        this.#silence(slot);
        this.#cold.release(slot);
      } else if (slot.mustAnswer || hasRisen(slot)) {
        part.addMark(slot, replica);
      }
    }
    slot.isReady = false;
    return true;
  }

  /** undefined: there is nothing, or it is read aside. */
  #read(
    part: AnswerPart,
    slot: Slot,
    { replica, leftBytes }: { readonly replica: Replica; readonly leftBytes: number },
  ): ReadResult | "no room" | undefined {
    if (!slot.isReadable) return undefined;
    const isFirst = part.sizeBytes === 0;
    const maxBytes = Math.min(this.#settings.partitionBytesMax, part.leftBytes, Math.max(0, leftBytes));
    if (slot.cold?.fromOffset === slot.fromOffset) {
      const { result } = slot.cold;
      return isFirst || result.sizeBytes <= maxBytes ? result : "no room";
    }
    if (!isFirst && maxBytes === 0) return "no room";
    if (!replica.log.isInMemory(slot.fromOffset)) {
      this.#cold.add(slot);
      return undefined;
    }
    const limitOffset = replica.core.writtenEnd;
    const result = replica.log.read(slot.fromOffset, { limitOffset, maxBytes, atLeastOne: isFirst });
    // What memory holds is given at once; what else comes as a promise is a log that gives nothing, which its role will tell.
    if (result instanceof Promise) {
      this.#cold.await(slot, result);
      return undefined;
    }
    if (isFirst) return result;
    // A crumb at the end of a part would silence the slot: better all that it may have, in the next part.
    const isCrumb = result.nextOffset < limitOffset && part.leftBytes < CRUMB_BYTES && leftBytes > part.leftBytes;
    if (result.sizeBytes > 0 && !isCrumb) return result;
    result.release?.();
    return "no room";
  }
}

/** False: the role changed, and the slot is judged anew. */
function isLedAsAsked(slot: Slot, { core }: Replica): boolean {
  return core.isLeader && core.leaderEpoch === slot.leaderEpoch;
}

function hasRisen({ replica, sentHighWatermark, sentStartOffset }: Slot): boolean {
  if (replica === undefined) return false;
  const { highWatermark, startOffset } = replica.core;
  return highWatermark > sentHighWatermark || startOffset > sentStartOffset;
}
