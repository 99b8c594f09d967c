// One produce request under way: its entries go to their partitions one by one, its answer goes out when the last of them is answered.
import { keepable } from "../base/bytes.ts";
import { asOttlaError, type ErrorName } from "../model/errors.ts";
import { NO_LEADER_EPOCH } from "../model/ids.ts";
import { contentAt } from "../model/producer-table.ts";
import { CLEANUP } from "../model/config-values.ts";
import { keyFault, type OpenedBytes } from "../model/record-keys.ts";
import { type BatchFault, checkProducedBatch, isNumbered, producerAt, recordCountAt } from "../model/record-batch.ts";
import type { RequiredAcks } from "../replication/types.ts";
import type { API, ProduceResponse } from "../wire/native/apis.ts";
import type { Deadline } from "../base/deadlines.ts";
import { lookUpPartition } from "./partition-lookup.ts";
import { misnumbered, shortage, waitedFor } from "./produce-reasons.ts";
import { producerRefusal } from "./producer-refusal.ts";
import { type ProduceAnswer, ProduceEntry, type Replica } from "./replica.ts";
import type { Request } from "./request.ts";
import type { Services } from "./services.ts";

export type ProduceRequestInHand = Request<typeof API.PRODUCE>;
type EntryRow = ProduceRequestInHand["body"]["entries"][number];

const SEQUENCE_ERRORS: ReadonlySet<ErrorName> = new Set<ErrorName>([
  "OUT_OF_ORDER_SEQUENCE_NUMBER",
  "SEQUENCE_NUMBER_TAKEN",
  "INVALID_PRODUCER_EPOCH",
  "UNKNOWN_PRODUCER_ID",
]);

function refused(error: ErrorName, message: string | null = null): ProduceAnswer {
  return { error, outcome: "not appended", baseOffset: undefined, message };
}

export class ProduceOperation {
  readonly request: ProduceRequestInHand;
  readonly acks: RequiredAcks;
  readonly #services: Services;
  readonly #entries: ProduceEntry[];
  readonly #answers: (ProduceAnswer | undefined)[];
  /** Of all its entries for compacted topics. */
  readonly #opened: OpenedBytes = { bytes: 0 };
  #unansweredCount: number;
  #isStarted = false;
  #deadline: Deadline | undefined;
  /** Called once when all entries are answered. */
  onDone: (operation: ProduceOperation) => void = () => {};

  constructor(services: Services, request: ProduceRequestInHand, acks: RequiredAcks) {
    this.#services = services;
    this.request = request;
    this.acks = acks;
    const onAnswer = (entry: ProduceEntry, answer: ProduceAnswer) => this.#answered(entry.index, answer);
    this.#entries = request.takeBodies().map((body, index) => new ProduceEntry(index, body, onAnswer));
    this.#answers = new Array<ProduceAnswer | undefined>(this.#entries.length);
    this.#unansweredCount = this.#entries.length;
  }

  /** From here on it is answered by its deadline, whatever happens. */
  armDeadline(): void {
    const { deadlines, config } = this.#services;
    const budgetMs = this.request.waitBudgetMs(config["request.timeout.ms"], this.request.body.timeoutMs);
    this.#deadline = deadlines.add(budgetMs, () => this.#expire());
  }

  get isDone(): boolean {
    return this.request.isDone;
  }

  /** It waits: nothing beside its batches, which it gives, stays in memory with them (D-26). */
  keep(): readonly Uint8Array[] {
    return this.#entries.map((entry) => (entry.batch = keepable(entry.batch)));
  }

  /** Checks and appends every entry; a failed one leaves the others alone (B-20). */
  start(): void {
    this.#isStarted = true;
    if (this.#entries.length === 0) return this.#finish();
    for (const entry of this.#entries) {
      if (this.#answers[entry.index] !== undefined) continue;
      const refusal = this.#startEntry(entry, this.request.body.entries[entry.index]);
      if (refusal !== undefined) entry.onAnswer(entry, refusal);
    }
    if (this.acks === 0) this.#finish();
  }

  /** Answers what is unanswered: "unknown" where it was appended already. */
  abandon(error: ErrorName): void {
    for (const entry of this.#entries) {
      if (this.#answers[entry.index] !== undefined) continue;
      if (entry.waiting === undefined) this.#refuse(entry, error);
      else if (error === "REQUEST_TIMED_OUT" && entry.replica !== undefined) this.#expireEntry(entry, entry.replica);
      else entry.onAnswer(entry, { error, outcome: "unknown", baseOffset: undefined, message: null });
    }
    if (this.acks === 0 || this.#entries.length === 0) this.#finish();
  }

  /** Whatever still holds it, the bytes are on no account any more. */
  #refuse(entry: ProduceEntry, error: ErrorName): void {
    entry.onAnswer(entry, refused(error));
    entry.releaseBatch();
  }

  #expire(): void {
    this.abandon("REQUEST_TIMED_OUT");
  }

  #expireEntry(entry: ProduceEntry, replica: Replica): void {
    if (entry.waiting !== undefined)
      this.#services.replicas.step(replica, { kind: "deadline", waiting: entry.waiting });
  }

  /** In the order of B-17. Nothing of a refused entry is left anywhere. */
  #startEntry(entry: ProduceEntry, row: EntryRow | undefined): ProduceAnswer | undefined {
    const { acks } = this;
    const { services, batch } = { services: this.#services, batch: entry.batch };
    if (row === undefined) return refused("INVALID_REQUEST", "a body without an entry");
    const lookup = lookUpPartition(services, row.topicId, row.partition);
    if (lookup.kind === "refused") return refused(lookup.error, lookup.message);
    if (row.leaderEpoch < NO_LEADER_EPOCH) return refused("INVALID_REQUEST", `a leader epoch of ${row.leaderEpoch}`);
    const { replica } = lookup;
    const { allowsBelowMinIsr } = replica.limits;
    const needsMinIsr = acks === -1 || !allowsBelowMinIsr;
    // What is in the log already needs nobody: whether a numbered batch is, the core can tell.
    const refusal = replica.core.produceRefusalOf(row.leaderEpoch, needsMinIsr && !isNumbered(batch));
    if (refusal !== undefined) return refused(refusal, refusal === "NOT_ENOUGH_REPLICAS" ? shortage(replica) : null);
    if (services.store.isLowOnSpace) return refused("STORAGE_FULL");
    const { checksum, codecs } = services;
    const { maxMessageBytes: maxBytes, segmentBytes, cleanupPolicy } = replica.limits;
    const fault = checkProducedBatch(batch, { maxBytes, segmentBytes, checksum });
    if (fault !== undefined) return this.#faulty(fault);
    const sequence = producerAt(batch, 0);
    const unwanted = producerRefusal(services, sequence, acks);
    if (unwanted !== undefined) return refused(unwanted.error, unwanted.message);
    // Last, as it may cost most.
    const keyless =
      (cleanupPolicy & CLEANUP.COMPACT) === 0 ? undefined : keyFault(batch, { codecs, maxBytes, opened: this.#opened });
    if (keyless !== undefined) return this.#faulty(keyless);
    entry.replica = replica;
    entry.batch = keepable(batch);
    const recordCount = recordCountAt(batch, 0);
    const { leaderEpoch, isResent } = row;
    const sizeBytes = batch.length;
    const whom = { token: entry, acks, leaderEpoch, allowsBelowMinIsr };
    const crc = contentAt(batch, 0);
    services.replicas.step(replica, { kind: "produce", ...whom, recordCount, ...sequence, crc, isResent });
    this.#count(entry, sizeBytes, recordCount);
    return undefined;
  }

  #faulty({ error, message }: BatchFault): ProduceAnswer {
    if (error === "CORRUPT_MESSAGE") this.#services.metrics.corruptBatches.add(1);
    return refused(error, message);
  }

  #count({ index, isDuplicate }: ProduceEntry, sizeBytes: number, recordCount: number): void {
    const { metrics } = this.#services;
    const answer = this.#answers[index];
    if (isDuplicate) return metrics.duplicateBatches.add(1);
    if (answer?.error === "OUT_OF_ORDER_SEQUENCE_NUMBER" || answer?.error === "SEQUENCE_NUMBER_TAKEN")
      metrics.outOfOrderBatches.add(1);
    if (answer?.outcome === "not appended") return;
    metrics.bytesIn.add(sizeBytes);
    metrics.recordsIn.add(recordCount);
  }

  #answered(index: number, answer: ProduceAnswer): void {
    if (this.#answers[index] !== undefined) return;
    this.#answers[index] = answer.message === null ? { ...answer, message: this.#reasonOf(index, answer) } : answer;
    this.#unansweredCount--;
    if (this.#unansweredCount === 0 && (this.#isStarted || this.acks !== 0)) this.#finish();
  }

  /** The core answers by code; what people want to know is who is missing. */
  #reasonOf(index: number, { error }: ProduceAnswer): string | null {
    const { replica, waiting, batch } = this.#entries[index] ?? {};
    if (replica === undefined) return null;
    if (batch !== undefined && SEQUENCE_ERRORS.has(error) && isNumbered(batch))
      return misnumbered(replica, producerAt(batch, 0));
    if (error === "NOT_ENOUGH_REPLICAS") return shortage(replica);
    if (waiting === undefined) return null;
    if (error === "NOT_ENOUGH_REPLICAS_AFTER_APPEND") return shortage(replica);
    if (error !== "REQUEST_TIMED_OUT") return null;
    const { nodeId, clock, quorum } = this.#services;
    return waitedFor(replica, waiting, {
      nodeId,
      nowMs: clock.monoMs(),
      hasController: quorum.controllerId !== null,
    });
  }

  #finish(): void {
    if (this.request.isDone) return;
    this.#deadline?.cancel();
    if (this.acks === 0) this.request.drop();
    else this.#respond();
    this.onDone(this);
  }

  #respond(): void {
    try {
      this.request.respond({ entries: this.#entries.map((entry) => this.#rowOf(entry)) });
    } catch (thrown) {
      this.request.fail("UNKNOWN_SERVER_ERROR", asOttlaError(thrown).message);
      throw thrown;
    }
  }

  #rowOf(entry: ProduceEntry): ProduceResponse["entries"][number] {
    const answer = this.#answers[entry.index] ?? refused("UNKNOWN_SERVER_ERROR");
    return {
      error: answer.error,
      outcome: answer.outcome,
      baseOffset: answer.baseOffset ?? -1,
      logStartOffset: entry.replica?.core.startOffset ?? -1,
      message: answer.message,
    };
  }
}
