// Whatever happens to a replica, and in whatever order: each request that waits on it is answered once, with what is true, and nothing of it is left.
import { expect, test } from "vitest";
import { createRng, type Rng } from "../../src/base/rng.ts";
import { Deadlines } from "../../src/base/deadlines.ts";
import { Accountant } from "../../src/broker/accountant.ts";
import { DeleteRecordsOperation } from "../../src/broker/delete-records.ts";
import type { TopicLimits } from "../../src/broker/effective-configs.ts";
import { ProduceIntake } from "../../src/broker/produce-intake.ts";
import { ProduceOperation } from "../../src/broker/produce-operation.ts";
import { ReplicaManager } from "../../src/broker/replica-manager.ts";
import type { Replica } from "../../src/broker/replica.ts";
import type { Services } from "../../src/broker/services.ts";
import { CLEANUP } from "../../src/model/config-values.ts";
import { type ErrorName, OttlaError } from "../../src/model/errors.ts";
import type { LeaderEpoch, NodeId, Offset, TopicId } from "../../src/model/ids.ts";
import { ProducerTable } from "../../src/model/producer-table.ts";
import type { LogStore, ReplicaLog } from "../../src/storage/types.ts";
import { LAG_MAX_MS, recordOf } from "../replication/harness.ts";
import { batchOf, makeWorld } from "./support.ts";

const RUNS = 250;
const STEPS = 150;
const FOLLOWER = 2 as NodeId;
const BROKER_EPOCH = 7;
const TOPIC = "t" as TopicId;
const { checksum } = makeWorld().world;
const nothing = () => undefined;
const THEIRS = batchOf(["theirs"]);
const VALUE = /value \d+/;
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

interface Row {
  readonly error: string;
  readonly outcome: string;
  readonly baseOffset: number;
}

type Epochs = { epoch: LeaderEpoch; startOffset: Offset }[];

/** Its work ends when the test says so, well or not. */
class FakeLog {
  readonly topicId = TOPIC;
  readonly topic = "t";
  readonly partition = 0;
  readonly pending: { readonly done: () => void; readonly failed: (error: OttlaError) => void }[] = [];
  producers = new ProducerTable();
  startOffset = 0;
  endOffset = 0;
  writtenEnd = 0;
  durableEnd = 0;
  highWatermark = 0;
  truncations = 0;
  epochs: Epochs = [];
  damage: { readonly reason: string } | undefined;

  configure = nothing;
  noteHighWatermark = nothing;

  /** What one batch of one record says, by its offset. */
  readonly values = new Map<number, string>();

  append(batch: Uint8Array, lastOffset: number, epoch: number): void {
    this.open(epoch);
    this.values.set(lastOffset, VALUE.exec(Buffer.from(batch).toString("latin1"))?.[0] ?? "");
    this.endOffset = lastOffset + 1;
  }

  open(epoch: number): void {
    if ((this.epochs.at(-1)?.epoch ?? -1) < epoch)
      this.epochs.push({ epoch: epoch as LeaderEpoch, startOffset: this.endOffset as Offset });
  }

  later(): Promise<void> {
    return new Promise((done, failed) => this.pending.push({ done, failed }));
  }

  async advanceStart(toOffset: number): Promise<void> {
    this.startOffset = toOffset;
    await this.later();
  }

  async truncate(toOffset: number): Promise<void> {
    await this.later();
    this.dropFrom(toOffset);
    this.truncations++;
  }

  dropFrom(end: number): void {
    this.endOffset = end;
    for (const offset of this.values.keys()) if (offset >= end) this.values.delete(offset);
    this.writtenEnd = Math.min(this.writtenEnd, end);
    this.durableEnd = Math.min(this.durableEnd, end);
    this.epochs = this.epochs.filter(({ startOffset }) => startOffset < end || end === 0);
  }
}

class Bench {
  readonly told = new Map<string, string[]>();
  readonly accountant = new Accountant({ produceBytes: 2 ** 30, unsentBytes: 1, delayedRequests: 50 }, nothing);
  readonly timers: (() => void)[] = [];
  readonly intake: ProduceIntake;
  readonly store = {
    hasRoom: true,
    isLowOnSpace: false,
    resetLog: (log: ReplicaLog, at: Offset) => this.#reset(log, at),
  };
  readonly connections: Set<{ onConnectionClosed(): void }>[] = [];
  readonly manager: ReplicaManager;
  nowMs = 0;
  log = new FakeLog();
  replica: Replica;
  epoch = 0;
  partitionEpoch = 0;
  session = 0;
  count = 0;
  readonly #deadlines: Deadlines;
  readonly #rng: Rng;

  constructor(rng: Rng) {
    this.#rng = rng;
    const clock = { monoMs: () => this.nowMs, wallMs: () => this.nowMs };
    const timers = {
      after: (_: number, work: () => void) => (this.timers.push(work), { cancel: nothing }),
      defer: setImmediate,
    };
    this.#deadlines = new Deadlines({ clock, timers });
    this.intake = new ProduceIntake({ store: this.store as unknown as LogStore, accountant: this.accountant });
    const events = {
      onRoomChanged: nothing,
      onDiskFailed: nothing,
      onIsrChanged: nothing,
      onUnusable: (replica: Replica, error: OttlaError | undefined) => this.#unusable(replica, error),
      guard: (work: () => void) => work(),
    };
    const deps = { clock, timers, checksum, store: this.store, events };
    const settings = { self: 1 as NodeId, lagMaxMs: LAG_MAX_MS, backoffMs: 1 };
    this.manager = new ReplicaManager(deps as unknown as ConstructorParameters<typeof ReplicaManager>[0], settings);
    this.manager.eligible = new Map([[FOLLOWER, BROKER_EPOCH]]);
    this.replica = this.#open();
  }

  #open(): Replica {
    return this.manager.open(this.log as unknown as ReplicaLog, LIMITS);
  }

  async #reset(_: ReplicaLog, fromOffset: Offset): Promise<ReplicaLog> {
    await this.log.later();
    this.log = new FakeLog();
    this.log.producers = new ProducerTable(fromOffset);
    Object.assign(this.log, {
      startOffset: fromOffset,
      endOffset: fromOffset,
      writtenEnd: fromOffset,
      durableEnd: fromOffset,
      highWatermark: fromOffset,
    });
    return this.log as unknown as ReplicaLog;
  }

  #unusable(replica: Replica, error: OttlaError | undefined): void {
    if (error === undefined) this.manager.standBy(replica, "STORAGE_ERROR");
    else this.manager.close(replica, "STORAGE_ERROR");
  }

  #services(): Services {
    const { manager, accountant, store } = this;
    const known = { topic: () => ({ partitions: [{ leader: 1 }], name: "t" }) };
    return {
      nodeId: 1,
      config: { "request.timeout.ms": 1_000 },
      clock: { monoMs: () => this.nowMs },
      quorum: { image: known, controllerId: 1 },
      topics: { failureOf: nothing },
      metrics: {
        corruptBatches: { add: nothing },
        duplicateBatches: { add: nothing },
        outOfOrderBatches: { add: nothing },
        bytesIn: { add: nothing },
        recordsIn: { add: nothing },
      },
      replicas: manager,
      deadlines: this.#deadlines,
      accountant,
      store,
      checksum,
    } as unknown as Services;
  }

  #request(body: unknown, rows: (entries: never) => string, bodies: readonly Uint8Array[] = []) {
    const name = `${++this.count}`;
    const told: string[] = [];
    this.told.set(name, told);
    const dependents = new Set<{ onConnectionClosed(): void }>();
    this.connections.push(dependents);
    const request = {
      isDone: false,
      body,
      connection: { dependents },
      takeBodies: () => bodies,
      waitBudgetMs: (boundMs: number) => boundMs,
      end: (what: string) => {
        told.push(what);
        request.isDone = true;
      },
      respond: ({ entries }: { readonly entries: never }) => request.end(rows(entries)),
      fail: (error: ErrorName) => request.end(error),
      drop: () => request.end("dropped"),
    };
    return request;
  }

  produce(): void {
    const acks = this.#rng.pick([1, -1, -1] as const);
    const producer = this.#rng.chance(0.3)
      ? { producerId: 5, producerEpoch: 0, baseSequence: this.#rng.below(4) }
      : undefined;
    const entries = [{ topicId: TOPIC, partition: 0, leaderEpoch: -1, isResent: false }];
    const value = producer === undefined ? `value ${this.count + 1} ` : "again";
    const request = this.#request(
      { acks, timeoutMs: 1_000, entries },
      ([row]: readonly Row[]) => this.#truth(value.trim(), acks, row as Row),
      [batchOf([value], producer === undefined ? {} : { producer: producer as never })],
    );
    if (!this.intake.take(new ProduceOperation(this.#services(), request as never, producer === undefined ? acks : -1)))
      request.fail("BUSY");
  }

  /** What the client is told, and why it is not true. */
  #truth(value: string, acks: number, { error, outcome, baseOffset }: Row): string {
    const told = `${error} ${outcome}`;
    const { values, writtenEnd } = this.log;
    const isThere = [...values.values()].includes(value);
    if (outcome === "not appended" && isThere) return `${told}, but it is in the log`;
    if (outcome !== "appended" || value === "again") return told;
    if (values.get(baseOffset) !== value) return `${told}, but something else is there`;
    const end = acks === 1 ? writtenEnd : this.replica.core.highWatermark;
    return baseOffset < end ? told : `${told}, but too soon`;
  }

  deleteRecords(): void {
    const entries = [
      {
        topicId: TOPIC,
        partition: 0,
        offset: this.#rng.pick([-1, this.#rng.below(this.replica.core.highWatermark + 1)]),
      },
    ];
    const rows = ([row]: readonly { readonly error: string }[]) => `${row?.error}`;
    new DeleteRecordsOperation(this.#services(), this.#request({ timeoutMs: 1_000, entries }, rows) as never).start();
  }

  written(): void {
    const { log, replica } = this;
    if (replica.core.isCutting || log.writtenEnd === log.endOffset) return;
    log.writtenEnd = this.#rng.between(log.writtenEnd, log.endOffset);
    this.manager.onWritten(log as unknown as ReplicaLog, log.writtenEnd as Offset, log.truncations);
  }

  durable(): void {
    const { log, replica } = this;
    if (replica.core.isCutting) return;
    log.durableEnd = this.#rng.between(log.durableEnd, log.endOffset);
    log.writtenEnd = Math.max(log.writtenEnd, log.durableEnd);
    this.manager.onDurable(log as unknown as ReplicaLog, log.durableEnd as Offset, log.truncations);
  }

  refused(): void {
    const { log, replica } = this;
    if (replica.core.isCutting || log.writtenEnd === log.endOffset) return;
    log.dropFrom(this.#rng.between(log.writtenEnd, log.endOffset - 1));
    this.manager.onRefused(log as unknown as ReplicaLog, log.endOffset as Offset, log.truncations);
  }

  works(): void {
    const work = this.log.pending.shift();
    if (this.#rng.chance(0.9)) work?.done();
    else work?.failed(new OttlaError("STORAGE_ERROR", "it cannot be read"));
  }

  damaged(): void {
    this.log.damage = { reason: "rot" };
    this.manager.onDamaged(this.log as unknown as ReplicaLog);
  }

  expire(): void {
    this.nowMs += this.#rng.pick([10, 400, 1_100]);
    for (const work of this.timers.splice(0)) work();
  }

  disconnect(): void {
    for (const dependent of [...this.#rng.pick([...this.connections, new Set<never>()])])
      dependent.onConnectionClosed();
  }

  room(): void {
    this.store.hasRoom = !this.store.hasRoom;
    if (this.store.hasRoom) this.intake.drain();
  }

  get hasRole(): boolean {
    return this.replica.record !== undefined && !this.replica.isDropped;
  }

  /** As the reconciler does it. */
  reopen(): void {
    if (this.hasRole && this.#rng.chance(0.7)) return;
    this.manager.close(this.replica, "UNKNOWN_TOPIC_OR_PARTITION");
    if (this.replica.busy !== undefined) return;
    if (this.log.damage !== undefined) this.log = new FakeLog();
    this.replica = this.#open();
  }

  lead(): void {
    const { replica, log } = this;
    if (replica.isDropped || replica.busy !== undefined || replica.damage !== undefined) return;
    this.epoch += this.#rng.pick([1, 1, 2]);
    this.manager.standBy(replica, "NOT_LEADER_OR_FOLLOWER");
    log.open(this.epoch);
    this.manager.epochOpened(replica, this.epoch as LeaderEpoch);
    this.manager.lead(replica, this.#record());
  }

  follow(): void {
    const { replica } = this;
    if (replica.isDropped || replica.busy !== undefined || replica.damage !== undefined) return;
    this.epoch += this.#rng.pick([1, 1, 1, 2]);
    this.manager.follow(replica, { ...this.#record(), leader: FOLLOWER });
  }

  #record() {
    const isr = this.#rng.pick([[1, 2], [1, 2], [1]]);
    return recordOf({ replicas: [1, 2], isr, minIsr: 2, epoch: this.epoch, partitionEpoch: ++this.partitionEpoch });
  }

  record(): void {
    if (this.manager.led.has(this.replica)) this.manager.record(this.replica, this.#record());
  }

  /** The follower asks and reports, or the leader answers. */
  peer(): void {
    const { core } = this.replica;
    const { eligible } = this.manager;
    const nowMs = this.nowMs;
    if (core.isLeader) {
      const from = {
        follower: FOLLOWER,
        brokerEpoch: BROKER_EPOCH,
        sessionId: 1,
        leaderEpoch: core.leaderEpoch,
        eligible,
        nowMs,
      };
      const fetchOffset = this.#rng.between(core.highWatermark, core.writtenEnd) as Offset;
      const lastFetchedEpoch = core.epochs.findLast(({ startOffset }) => startOffset < fetchOffset)?.epoch ?? -1;
      this.manager.step(this.replica, {
        kind: "follower-fetch",
        ...from,
        isAdded: false,
        fetchOffset,
        lastFetchedEpoch,
      });
      const startOffset = this.#rng.pick([0, core.startOffset]);
      this.manager.step(this.replica, { kind: "durable-report", ...from, durableEnd: fetchOffset, startOffset });
    } else if (core.isFollower) this.#answer();
  }

  #answer(): void {
    const { core } = this.replica;
    const asked = {
      kind: "fetched",
      leaderEpoch: this.epoch,
      fetchOffset: core.endOffset,
      batches: [],
      nowMs: this.nowMs,
    } as const;
    const highWatermark = this.#rng.between(core.startOffset, core.endOffset) as Offset;
    const nothingKnown = { highWatermark: -1 as Offset, logStartOffset: -1 as Offset };
    const epoch = core.epochs.at(-1)?.epoch ?? -1;
    const endOffset = this.#rng.between(core.highWatermark, core.endOffset) as Offset;
    const theirs = {
      baseOffset: core.endOffset,
      lastOffset: core.endOffset,
      epoch: this.epoch as LeaderEpoch,
      sequenced: [],
    };
    const answers = [
      () => ({ ...asked, highWatermark, logStartOffset: 0 as Offset, batches: [{ ...theirs, body: THEIRS }] }),
      () => ({ ...asked, highWatermark, logStartOffset: 0 as Offset }),
      () => ({ ...asked, highWatermark, logStartOffset: 0 as Offset }),
      () => ({ ...asked, ...nothingKnown, diverging: { epoch, endOffset } }),
      () => ({
        ...asked,
        highWatermark: -1 as Offset,
        logStartOffset: (core.endOffset + 5) as Offset,
        error: "OFFSET_OUT_OF_RANGE" as const,
      }),
    ];
    this.manager.step(this.replica, this.#rng.pick(answers)());
  }

  /** Everything that is under way ends, and the broker stops. */
  async stop(): Promise<void> {
    this.manager.close(this.replica, "UNKNOWN_TOPIC_OR_PARTITION");
    this.intake.abandonAll("BROKER_NOT_AVAILABLE");
    for (let round = 0; round < 5; round++) {
      for (const work of this.log.pending.splice(0)) work.done();
      await turn();
    }
  }
}

const LIMITS = { cleanupPolicy: CLEANUP.DELETE, maxMessageBytes: 2 ** 20, segmentBytes: 2 ** 20 } as TopicLimits;
const ACTS = [
  ...["produce", "produce", "produce", "written", "durable", "durable", "peer", "peer", "peer", "works", "works"],
  ...[
    "deleteRecords",
    "deleteRecords",
    "record",
    "refused",
    "expire",
    "disconnect",
    "room",
    "reopen",
    "lead",
    "follow",
    "record",
    "damaged",
  ],
] as const;
/** What ends all that waits: seldom, or nothing ever comes about. */
const RARE: ReadonlySet<string> = new Set(["damaged", "reopen", "lead", "follow", "disconnect"]);
/** Each comes about in some run. */
const EXPECTED = [
  ...[
    "NONE appended",
    "STORAGE_FULL not appended",
    "REQUEST_TIMED_OUT not appended",
    "BROKER_NOT_AVAILABLE not appended",
  ],
  ...["NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT", "STORAGE_ERROR"].map((error) => `${error} unknown`),
  ...["NONE", "REQUEST_TIMED_OUT", "NOT_LEADER_OR_FOLLOWER", "dropped"],
];
type Act = (typeof ACTS)[number] & keyof Bench;

test("each request is answered once, and nothing is left of it", async () => {
  const answers = new Set<string>();
  for (let seed = 1; seed <= RUNS; seed++) {
    const rng = createRng(seed);
    const bench = new Bench(rng);
    const done: string[] = [];
    bench.lead();
    try {
      for (let step = 0; step < STEPS; step++) {
        const act = rng.pick(ACTS) as Act;
        if (RARE.has(act) && bench.hasRole && rng.chance(0.85)) continue;
        done.push(act);
        (bench[act] as () => void).call(bench);
        if (rng.chance(0.5)) await turn();
      }
      await bench.stop();
    } catch (thrown) {
      throw new Error(`seed ${seed}: ${done.join(" ")}`, { cause: thrown });
    }
    const wrong = [...bench.told].filter(([, told]) => told.length !== 1 || told[0]?.includes("but"));
    expect([seed, wrong, bench.accountant.delayedCount]).toEqual([seed, [], 0]);
    expect([...bench.replica.startWaiters, ...bench.replica.waiters]).toEqual([]);
    for (const [told = ""] of bench.told.values()) answers.add(told);
  }
  for (const told of EXPECTED) expect(answers).toContain(told);
});
