// The ISR changes that leaders here ask of the controller: together in one request, one request at a time, until each is answered or a newer
// record of its partition makes it void. What an answer means is R-32's.
import type { Deadline } from "../../base/deadlines.ts";
import { asOttlaError, type ErrorName } from "../../model/errors.ts";
import { FIELD_LIMITS } from "../../wire/native/layout.ts";
import { LIMITS } from "../../wire/native/protocol.ts";
import type { AlterPartitionRequest } from "../../wire/native/replication-apis.ts";
import type { Replica } from "../replica.ts";
import type { ReplicationDeps, ReplicationSettings, StreamEffect } from "./types.ts";

type Proposal = Extract<StreamEffect, { kind: "propose-isr" }>;
type Entry = readonly [Replica, Proposal];

/** After a request that nobody answered, or that was answered with what may pass. */
const RETRY_MS = { first: 50, longest: 1_000 } as const;
/** The longest that an entry is without its ISR, and that a replica in it is. */
const ENTRY_BYTES = 38;
const MEMBER_BYTES = 15;
/** Of one request but its header: an accepted connection may be cut before it is complete when it grows much longer (Connection.expect). */
const REQUEST_BYTES_MAX = LIMITS.ENVELOPE_BYTES - 1024;

/** The record that these speak of is on its way here, or this broker's own view was late: metadata will tell. */
const METADATA_TELLS: ReadonlySet<ErrorName> = new Set([
  "NONE",
  "FENCED_LEADER_EPOCH",
  "INVALID_UPDATE_VERSION",
  "INVALID_REQUEST",
  "NEW_LEADER_ELECTED",
  "UNKNOWN_TOPIC_ID",
  "UNKNOWN_TOPIC_OR_PARTITION",
]);
/** Proved to be not done: the leader goes back to the ISR of the record. */
const REFUSED: ReadonlySet<ErrorName> = new Set([
  "INELIGIBLE_REPLICA",
  "ELECTION_NOT_NEEDED",
  "ELIGIBLE_LEADERS_NOT_AVAILABLE",
  "PREFERRED_LEADER_NOT_AVAILABLE",
]);

export class IsrChanges {
  readonly #deps: ReplicationDeps;
  readonly #settings: ReplicationSettings;
  /** The newest of each partition. Bound: partitions led here. */
  readonly #waiting = new Map<Replica, Proposal>();
  #isSending = false;
  #isSendPending = false;
  #retry: Deadline | undefined;
  #failures = 0;
  #isStopped = false;

  constructor(deps: ReplicationDeps, settings: ReplicationSettings) {
    this.#deps = deps;
    this.#settings = settings;
  }

  get count(): number {
    return this.#waiting.size;
  }

  propose(replica: Replica, proposal: Proposal): void {
    this.#waiting.set(replica, proposal);
    this.#sendSoon();
  }

  forget(replica: Replica): void {
    this.#waiting.delete(replica);
  }

  stop(): void {
    this.#isStopped = true;
    this.#retry?.cancel();
    this.#waiting.clear();
  }

  #sendSoon(): void {
    if (this.#isSendPending || this.#isSending || this.#retry !== undefined || this.#isStopped) return;
    this.#isSendPending = true;
    this.#deps.defer(() => {
      this.#isSendPending = false;
      this.#send();
    });
  }

  #send(): void {
    const brokerEpoch = this.#deps.brokerEpoch();
    if (this.#isSending || this.#isStopped) return;
    const entries = this.#take();
    if (entries.length === 0) return;
    if (brokerEpoch === null) return this.#again(entries);
    this.#isSending = true;
    const { nodeId } = this.#settings;
    const request: AlterPartitionRequest = { nodeId, brokerEpoch, entries: entries.map(rowOf) };
    this.#deps.controller.alterPartition(request).then(
      (answer) => this.#deps.guard(() => this.#answered(entries, answer.entries)),
      (thrown: unknown) => this.#deps.guard(() => this.#failed(entries, thrown)),
    );
  }

  /** As many as one request takes; what is void by now is dropped. */
  #take(): Entry[] {
    const entries: Entry[] = [];
    let sizeBytes = 0;
    for (const [replica, proposal] of this.#waiting) {
      const entryBytes = ENTRY_BYTES + MEMBER_BYTES * proposal.isr.length;
      if (entries.length === FIELD_LIMITS.ALTERED_PARTITIONS) break;
      if (entries.length > 0 && sizeBytes + entryBytes > REQUEST_BYTES_MAX) break;
      this.#waiting.delete(replica);
      if (!isCurrent(replica, proposal)) continue;
      entries.push([replica, proposal]);
      sizeBytes += entryBytes;
    }
    return entries;
  }

  #answered(entries: readonly Entry[], answers: readonly { readonly error: ErrorName }[]): void {
    this.#isSending = false;
    const unanswered: Entry[] = [];
    for (const [index, entry] of entries.entries()) {
      const error = answers[index]?.error ?? "UNKNOWN_SERVER_ERROR";
      const [replica, { partitionEpoch }] = entry;
      if (METADATA_TELLS.has(error)) continue;
      if (REFUSED.has(error)) this.#deps.replicas.step(replica, { kind: "isr-change-refused", partitionEpoch, error });
      else unanswered.push(entry);
    }
    if (unanswered.length > 0) return this.#again(unanswered);
    this.#failures = 0;
    this.#sendSoon();
  }

  #failed(entries: readonly Entry[], thrown: unknown): void {
    this.#isSending = false;
    const { code, message } = asOttlaError(thrown);
    this.#deps.logger.debug("isr_changes_not_answered", { count: entries.length, code, message });
    this.#again(entries);
  }

  /** Tried again after a while, unless a newer proposal of the same partition came meanwhile. */
  #again(entries: readonly Entry[]): void {
    for (const [replica, proposal] of entries) if (!this.#waiting.has(replica)) this.#waiting.set(replica, proposal);
    if (this.#isStopped || this.#retry !== undefined) return;
    const waitMs = Math.min(RETRY_MS.longest, RETRY_MS.first * 2 ** Math.min(this.#failures++, 10));
    this.#retry = this.#deps.deadlines.add(waitMs, () => {
      this.#retry = undefined;
      this.#deps.guard(() => this.#send());
    });
  }
}

function isCurrent({ core }: Replica, { leaderEpoch, partitionEpoch }: Proposal): boolean {
  return core.isLeader && core.leaderEpoch === leaderEpoch && core.record?.partitionEpoch === partitionEpoch;
}

function rowOf([replica, proposal]: Entry): AlterPartitionRequest["entries"][number] {
  const { topicId, partition } = replica.log;
  const { leaderEpoch, partitionEpoch, isr, wantsMove } = proposal;
  return { topicId, partition, leaderEpoch, partitionEpoch, isr, wantsMove };
}
