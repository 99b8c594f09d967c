// Requests to delete records that wait on one partition together: each is answered once, whatever the others do meanwhile (S-30).
import { expect, test } from "vitest";
import { DeleteRecordsOperation } from "../../src/broker/delete-records.ts";
import type { TopicLimits } from "../../src/broker/effective-configs.ts";
import { ReplicaManager } from "../../src/broker/replica-manager.ts";
import type { Replica } from "../../src/broker/replica.ts";
import type { Services } from "../../src/broker/services.ts";
import { CLEANUP } from "../../src/model/config-values.ts";
import type { NodeId, Offset, TopicId } from "../../src/model/ids.ts";
import { ProducerTable } from "../../src/model/producer-table.ts";
import type { LogStore, ReplicaLog } from "../../src/storage/types.ts";
import type { API } from "../../src/wire/native/apis.ts";
import type { Request } from "../../src/broker/request.ts";
import { EXPIRATION_MS, LAG_MAX_MS, epochsOf, recordOf } from "../replication/harness.ts";

const END = 100;
const FOLLOWER = 2 as NodeId;
const BROKER_EPOCH = 7;
const PAIR = { replicas: [1, 2], isr: [1, 2], minIsr: 2 };
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

function fakeLog(): ReplicaLog {
  const producers = new ProducerTable();
  producers.advance(END);
  const ends = { endOffset: END, writtenEnd: END, durableEnd: END, truncations: 0, highWatermark: END, startOffset: 0 };
  const calls = {
    configure: () => undefined,
    noteHighWatermark: () => undefined,
    advanceStart: () => Promise.resolve(),
  };
  return {
    ...ends,
    ...calls,
    topicId: "t",
    topic: "t",
    partition: 0,
    epochs: epochsOf([0, 0]),
    producers,
  } as unknown as ReplicaLog;
}

class Bench {
  readonly answers = new Map<string, unknown[]>();
  readonly replica: Replica;
  delayed = 0;
  readonly #replicas: ReplicaManager;

  constructor() {
    const guard = (work: () => void) => work();
    const nothing = () => undefined;
    const events = { onRoomChanged: nothing, onDiskFailed: nothing, onUnusable: nothing, onIsrChanged: nothing, guard };
    const clock = { monoMs: () => 0, wallMs: () => 0 };
    const timers = { defer: (work: () => void) => void setImmediate(work), after: () => ({ cancel: nothing }) };
    const deps = { clock, timers, checksum: () => 0, store: {} as LogStore, events };
    const settings = { self: 1 as NodeId, lagMaxMs: LAG_MAX_MS, backoffMs: 1, producerExpirationMs: EXPIRATION_MS };
    this.#replicas = new ReplicaManager(deps as unknown as ConstructorParameters<typeof ReplicaManager>[0], settings);
    this.#replicas.eligible = new Map([[FOLLOWER, BROKER_EPOCH]]);
    this.replica = this.#replicas.open(fakeLog(), { cleanupPolicy: CLEANUP.DELETE } as TopicLimits);
    this.#replicas.lead(this.replica, recordOf(PAIR));
    const { eligible } = this.#replicas;
    const from = { follower: FOLLOWER, brokerEpoch: BROKER_EPOCH, sessionId: 1, leaderEpoch: 0, eligible, nowMs: 0 };
    const asked = { ...from, isAdded: true, fetchOffset: END as Offset, lastFetchedEpoch: 0 };
    this.#replicas.step(this.replica, { kind: "follower-fetch", ...asked });
    this.followerBeginsAt(0);
  }

  followerBeginsAt(startOffset: number): void {
    const { eligible } = this.#replicas;
    const from = { follower: FOLLOWER, brokerEpoch: BROKER_EPOCH, sessionId: 1, leaderEpoch: 0, eligible, nowMs: 0 };
    const report = { ...from, durableEnd: END as Offset, startOffset };
    this.#replicas.step(this.replica, { kind: "durable-report", ...report });
  }

  record(changes: Parameters<typeof recordOf>[0]): void {
    this.#replicas.record(this.replica, recordOf({ ...PAIR, ...changes }));
  }

  /** Deletes what is below. */
  begin(name: string, offset: number): void {
    const told: unknown[] = [];
    this.answers.set(name, told);
    const services = {
      replicas: this.#replicas,
      accountant: { tryDelay: () => ++this.delayed > 0, endDelay: () => void this.delayed-- },
      deadlines: { add: () => ({ cancel: () => undefined }) },
      config: {},
    };
    const request = {
      body: { timeoutMs: 1_000, entries: [{ topicId: "t" as TopicId, partition: 0, offset }] },
      connection: { dependents: new Set() },
      waitBudgetMs: () => 1_000,
      respond: ({ entries }: { readonly entries: readonly { readonly error: string }[] }) =>
        void told.push(entries[0]?.error),
    };
    new DeleteRecordsOperation(
      services as unknown as Services,
      request as unknown as Request<typeof API.DELETE_RECORDS>,
    ).start();
  }
}

test("a raise that cannot be yet, and is tried again before they are told, has nobody answered twice", async () => {
  const bench = new Bench();
  bench.begin("first", 50);
  await turn(); // durable here
  bench.record({ isr: [1], partitionEpoch: 1 });
  // Below min ISR nothing can be told of producers: this one waits, and is tried again at each step.
  bench.begin("further", 60);
  bench.begin("again", 50);
  expect(Object.fromEntries(bench.answers)).toEqual({ first: [], further: [], again: [] });
  expect(bench.replica.core.startOffset).toBe(50);
  bench.followerBeginsAt(50);
  expect(Object.fromEntries(bench.answers)).toEqual({ first: ["NONE"], further: [], again: ["NONE"] });
  expect(bench.delayed).toBe(1);
  bench.record({ partitionEpoch: 2 });
  expect(bench.replica.core.startOffset).toBe(60);
  await turn();
  bench.followerBeginsAt(60);
  expect(bench.answers.get("further")).toEqual(["NONE"]);
  expect(bench.delayed).toBe(0);
});
