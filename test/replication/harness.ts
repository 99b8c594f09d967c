// A core with short ways to step it, and its effects as short lines.
import type { LeaderEpoch, NodeId, Offset } from "../../src/model/ids.ts";
import { ProducerTable, type SequencedBatch } from "../../src/model/producer-table.ts";
import type { ErrorName } from "../../src/model/errors.ts";
import { PartitionCore } from "../../src/replication/partition-core.ts";
import type {
  Eligible,
  EpochStart,
  FetchedBatch,
  LogEnds,
  PartitionEffect,
  PartitionEvent,
  PartitionRecord,
  RequiredAcks,
  WaitingProduce,
} from "../../src/replication/types.ts";

export const SELF = 1 as NodeId;
export const LAG_MAX_MS = 3_000;
export const BACKOFF_MS = 1_000;
export const EXPIRATION_MS = 60_000;
/** Broker epoch of node n. */
export const brokerEpochOf = (node: number): number => 100 + node;

/** Of a batch whose content is known (B-10). */
const CRC = 5;
export const NO_SEQUENCE = { producerId: -1, producerEpoch: -1, baseSequence: -1, crc: 0, isResent: false };

type Effect = PartitionEffect<string, string>;
type Event = PartitionEvent<string, string>;

export interface RecordOptions {
  readonly leader?: number | null;
  readonly epoch?: number;
  readonly partitionEpoch?: number;
  readonly replicas?: readonly number[];
  readonly isr?: readonly number[];
  readonly elr?: readonly number[];
  readonly minIsr?: number;
  readonly uncleanEpoch?: number;
}

export function recordOf(options: RecordOptions = {}): PartitionRecord {
  const isr = options.isr ?? [SELF];
  return {
    leader: (options.leader === undefined ? SELF : options.leader) as NodeId | null,
    leaderEpoch: (options.epoch ?? 0) as LeaderEpoch,
    partitionEpoch: options.partitionEpoch ?? 0,
    replicas: (options.replicas ?? isr) as readonly NodeId[],
    isr: isr as readonly NodeId[],
    elr: (options.elr ?? []) as readonly NodeId[],
    minIsr: options.minIsr ?? 1,
    uncleanEpoch: options.uncleanEpoch ?? -1,
  };
}

export const endsAt = (end: number, truncations = 0): LogEnds => ({
  endOffset: end as Offset,
  writtenEnd: end as Offset,
  durableEnd: end as Offset,
  truncations,
});

export const epochsOf = (...pairs: readonly (readonly [epoch: number, start: number])[]): EpochStart[] =>
  pairs.map(([epoch, startOffset]) => ({ epoch: epoch as LeaderEpoch, startOffset: startOffset as Offset }));

/** `sequence`: producer id, producer epoch and base sequence of the one batch that it is. */
export function fetchedBatch(base: number, last: number, epoch: number, sequence?: Sequence): FetchedBatch<string> {
  const body = `${base}-${last}`;
  const sequenced = sequence === undefined ? [] : [sequencedBatch(base, last, sequence)];
  return { baseOffset: base as Offset, lastOffset: last as Offset, epoch: epoch as LeaderEpoch, sequenced, body };
}

export type Sequence = readonly [producerId: number, producerEpoch: number, baseSequence: number, crc?: number];

export function sequencedBatch(baseOffset: number, lastOffset: number, sequence: Sequence): SequencedBatch {
  const [producerId, producerEpoch, baseSequence, crc = CRC] = sequence;
  return { producerId, producerEpoch, baseSequence, baseOffset, lastOffset, crc };
}

/** Of a log [start, end) that no producer with an id has written to. */
export function producersAt(end: number, start = end): ProducerTable {
  const producers = new ProducerTable(start);
  producers.advance(end);
  return producers;
}

export interface LoadOptions {
  readonly end?: number;
  readonly start?: number;
  readonly epochs?: readonly EpochStart[];
  readonly highWatermark?: number;
  readonly ends?: LogEnds;
  readonly producers?: ProducerTable;
}

interface FetchOptions {
  readonly last?: number;
  readonly epoch?: number;
  readonly session?: number;
  readonly brokerEpoch?: number;
  readonly isAdded?: boolean;
}

interface FetchedOptions {
  readonly epoch?: number;
  readonly hw?: number;
  readonly batches?: readonly FetchedBatch<string>[];
  readonly diverging?: readonly [epoch: number, end: number];
  readonly error?: ErrorName;
  readonly logStart?: number;
}

export class Bench {
  readonly core: PartitionCore<string, string>;
  nowMs = 10_000;
  eligible: Eligible = new Map([1, 2, 3, 4, 5].map((node) => [node as NodeId, brokerEpochOf(node)]));
  readonly waiting = new Map<string, WaitingProduce<string>>();

  constructor(self: number = SELF) {
    const times = { lagMaxMs: LAG_MAX_MS, backoffMs: BACKOFF_MS, producerExpirationMs: EXPIRATION_MS };
    this.core = new PartitionCore({ self: self as NodeId, ...times });
  }

  step(event: Event): string[] {
    const effects = this.core.step(event);
    for (const effect of effects)
      if ((effect.kind === "append" || effect.kind === "duplicate") && effect.waiting !== undefined)
        this.waiting.set(effect.token, effect.waiting);
    return effects.map(lineOf);
  }

  load(options: LoadOptions = {}): string[] {
    const { end = 0, start = 0, epochs = [], highWatermark = start } = options;
    const ends = options.ends ?? endsAt(end);
    return this.step({
      kind: "load",
      ends,
      startOffset: start as Offset,
      epochs,
      highWatermark: highWatermark as Offset,
      producers: options.producers ?? producersAt(ends.endOffset, start),
    });
  }

  /** As a host does it: opens the epoch, then leads. */
  lead(options: RecordOptions = {}): string[] {
    const record = recordOf(options);
    this.step({ kind: "stand-by", error: "NOT_LEADER_OR_FOLLOWER" });
    this.step({ kind: "epoch-opened", leaderEpoch: record.leaderEpoch });
    return this.step({ kind: "lead", record, eligible: this.eligible, nowMs: this.nowMs });
  }

  follow(options: RecordOptions = {}): string[] {
    return this.step({ kind: "follow", record: recordOf({ leader: 2, isr: [1, 2], ...options }), nowMs: this.nowMs });
  }

  record(options: RecordOptions): string[] {
    return this.step({ kind: "record", record: recordOf(options), eligible: this.eligible, nowMs: this.nowMs });
  }

  produce(token: string, acks: RequiredAcks, recordCount = 1, allowsBelowMinIsr = false): string[] {
    return this.step({ ...NO_SEQUENCE, kind: "produce", token, recordCount, acks, leaderEpoch: -1, allowsBelowMinIsr });
  }

  /** With acks=all, of a producer with an id. */
  send(token: string, recordCount: number, sequence: Sequence, acks: RequiredAcks = -1, isResent = false): string[] {
    const [producerId, producerEpoch, baseSequence, crc = CRC] = sequence;
    const known = { producerId, producerEpoch, baseSequence, crc, isResent };
    return this.step({ ...known, kind: "produce", token, recordCount, acks, leaderEpoch: -1 });
  }

  written(end: number, truncations = 0): string[] {
    return this.step({ kind: "written", endOffset: end as Offset, truncations });
  }

  durable(end: number, truncations = 0): string[] {
    return this.step({ kind: "durable", endOffset: end as Offset, truncations });
  }

  refused(from: number, truncations = 0, epochs?: readonly EpochStart[]): string[] {
    const event = { kind: "refused", fromOffset: from as Offset, truncations, nowMs: this.nowMs } as const;
    return this.step(epochs === undefined ? event : { ...event, epochs });
  }

  deadline(token: string): string[] {
    return this.step({ kind: "deadline", waiting: this.waiting.get(token) as WaitingProduce<string> });
  }

  /** Appends, writes and syncs so many records with acks 0. */
  grow(count: number): string[] {
    this.produce("grow", 0, count);
    return this.durable(this.core.endOffset);
  }

  /** A follower's position. */
  fetch(follower: number, offset: number, options: FetchOptions = {}): string[] {
    const { brokerEpoch = brokerEpochOf(follower), session = 1, isAdded = false } = options;
    const { epoch = this.core.leaderEpoch, last = this.core.epochs.at(-1)?.epoch ?? -1 } = options;
    return this.step({
      kind: "follower-fetch",
      follower: follower as NodeId,
      brokerEpoch,
      sessionId: session,
      isAdded,
      leaderEpoch: epoch,
      fetchOffset: offset as Offset,
      lastFetchedEpoch: last,
      eligible: this.eligible,
      nowMs: this.nowMs,
    });
  }

  report(
    follower: number,
    durableEnd: number,
    options: Omit<FetchOptions, "last" | "isAdded"> & { readonly start?: number } = {},
  ): string[] {
    const { brokerEpoch = brokerEpochOf(follower), session = 1, epoch = this.core.leaderEpoch, start = 0 } = options;
    return this.step({
      kind: "durable-report",
      follower: follower as NodeId,
      brokerEpoch,
      sessionId: session,
      leaderEpoch: epoch,
      durableEnd: durableEnd as Offset,
      startOffset: start,
      eligible: this.eligible,
      nowMs: this.nowMs,
    });
  }

  /** Fetches at `end` and has it all durable. */
  holds(follower: number, end: number): string[] {
    return [...this.fetch(follower, end), ...this.report(follower, end)];
  }

  sessionEnded(follower: number, session = 1): string[] {
    return this.step({
      kind: "session-ended",
      follower: follower as NodeId,
      sessionId: session,
      nowMs: this.nowMs,
    });
  }

  refusedChange(partitionEpoch: number, error: ErrorName): string[] {
    return this.step({ kind: "isr-change-refused", partitionEpoch, error });
  }

  /** The leader's answer to the present position, or to one at `offset`. */
  fetched(options: FetchedOptions = {}, offset: number = this.core.endOffset): string[] {
    const { epoch = this.core.leaderEpoch, hw = -1, batches = [], diverging, error, logStart = 0 } = options;
    return this.step({
      kind: "fetched",
      leaderEpoch: epoch,
      fetchOffset: offset as Offset,
      highWatermark: hw,
      logStartOffset: logStart,
      batches,
      diverging: diverging && { epoch: diverging[0], endOffset: diverging[1] as Offset },
      error,
      nowMs: this.nowMs,
    });
  }

  truncated(end: number, truncations: number, epochs: readonly EpochStart[]): string[] {
    return this.step({ kind: "truncated", ends: endsAt(end, truncations), epochs });
  }

  carry(to: number, options: { readonly wallMs?: number; readonly mayExpire?: boolean } = {}): string[] {
    const { wallMs = 1_000, mayExpire = true } = options;
    return this.step({ kind: "carry-producers", toOffset: to as Offset, wallMs, mayExpire });
  }

  raiseStart(to: number): string[] {
    return this.step({ kind: "raise-start", toOffset: to as Offset });
  }

  tick(afterMs = 0): string[] {
    this.nowMs += afterMs;
    return this.step({ kind: "tick", eligible: this.eligible, nowMs: this.nowMs });
  }
}

export function lineOf(effect: Effect): string {
  switch (effect.kind) {
    case "append":
      return `append ${effect.token} [${effect.baseOffset}, ${effect.lastOffset}] epoch ${effect.leaderEpoch}`;
    case "duplicate":
      return `duplicate ${effect.token} of ${effect.waiting?.baseOffset ?? "what is committed"}`;
    case "answer":
      return `answer ${effect.token} ${effect.error} ${effect.outcome} ${effect.baseOffset ?? "-"}`;
    case "high-watermark":
      return `hw ${effect.highWatermark}`;
    case "append-fetched":
      return `append-fetched ${effect.batches.map(({ body }) => body).join(" ")}`;
    case "append-told": {
      const { told, baseOffset, leaderEpoch } = effect;
      const ids = told.producers.map(({ producerId }) => producerId).join(" ");
      return `append ${told.kind} ${ids} [${baseOffset}] epoch ${leaderEpoch}`;
    }
    case "log-start":
      return `log-start ${effect.startOffset}`;
    case "truncate":
      return `truncate ${effect.toOffset}`;
    case "restart-log":
      return `restart-log ${effect.fromOffset}`;
    case "fetch":
      return `fetch ${effect.fetchOffset} last ${effect.lastFetchedEpoch} of node ${effect.leaderId} epoch ${effect.leaderEpoch}${effect.isFirst ? " first" : ""}`;
    case "report":
      return `report ${effect.durableEnd} epoch ${effect.leaderEpoch}${effect.startOffset > 0 ? ` start ${effect.startOffset}` : ""}`;
    case "propose-isr": {
      const members = effect.isr.map(({ nodeId, brokerEpoch }) => `${nodeId}@${brokerEpoch}`).join(" ");
      return `propose ${members} in ${effect.leaderEpoch}/${effect.partitionEpoch}${effect.wantsMove ? " move" : ""}`;
    }
    case "fetch-verdict": {
      const { verdict } = effect;
      if (verdict.kind === "refused") return `verdict ${verdict.error}`;
      if (verdict.kind === "diverging") return `verdict diverging ${verdict.epoch} ${verdict.endOffset}`;
      return `verdict read [${verdict.fromOffset}, ${verdict.limitOffset})${verdict.isFirst ? " first" : ""}`;
    }
    case "damaged":
      return `damaged: ${effect.reason}`;
  }
}

/** A core that leads a log [0, end) of one epoch, all durable. */
export function leader(options: RecordOptions & { readonly end?: number } = {}): Bench {
  const bench = new Bench();
  const end = options.end ?? 0;
  bench.load({ end, epochs: end > 0 ? epochsOf([0, 0]) : [] });
  bench.lead({ epoch: 1, ...options });
  return bench;
}

/** Nobody counts on this replica. */
export const UNCOUNTED = { isr: [2], replicas: [SELF, 2] } as const;

/** A core that follows node 2 in epoch 3, with a log [0, end). */
export function follower(options: LoadOptions & RecordOptions = {}): Bench {
  const bench = new Bench();
  bench.load(options);
  bench.follow({ epoch: 3, ...options });
  return bench;
}
