// Keeps appends in flight on the logs of one store and tells when they are written or durable: the load of the benchmarks of storage alone.
import type { LeaderEpoch, Offset, PartitionIndex, TopicId } from "../src/model/ids.ts";
import { uuidFromBytes } from "../src/model/ids.ts";
import { assignOffsets, recordCountAt } from "../src/model/record-batch.ts";
import { RecordBatchBuilder } from "../src/model/records.ts";
import { openLogStore } from "../src/storage/log-store.ts";
import type { LogStore, ReplicaLog, StorageConfig, StorageDeps } from "../src/storage/types.ts";

/** A batch of records of 100 bytes, of at most so many bytes in all. */
export function makeBatch(deps: StorageDeps, batchBytes: number): Uint8Array {
  const builder = new RecordBatchBuilder({ limitBytes: batchBytes });
  const value = new Uint8Array(100).fill(7);
  while (builder.tryAppend({ key: null, value, headers: [], timestamp: 1000 }));
  return builder.build({ compression: "none", codecs: deps.codecs, checksum: deps.checksum });
}

/** Of what is acknowledged: by the write of the journal, or by its sync. */
export type WaitsFor = "written" | "durable";

interface Lane {
  readonly log: ReplicaLog;
  sent: number;
  acknowledged: number;
}

/** A store of some logs under load: one batch, over and over, `inFlight` at once on each log. Logs that are there already hold only such batches. */
export class StoreFeeder {
  readonly store: LogStore;
  readonly logs: readonly ReplicaLog[];
  readonly #lanes = new Map<ReplicaLog, Lane>();
  readonly #batch: Uint8Array;
  readonly #recordCount: number;
  #inFlight = 1;
  /** Batches on each log, those that were there included. */
  #most = 0;
  /** Made before they are wanted. */
  readonly #ready: Uint8Array[] = [];
  #open = 0;
  #done: () => void = () => undefined;

  private constructor(
    store: LogStore,
    logs: readonly ReplicaLog[],
    options: { batch: Uint8Array; waitsFor: WaitsFor },
  ) {
    this.store = store;
    this.logs = logs;
    this.#batch = options.batch;
    this.#recordCount = recordCountAt(this.#batch, 0);
    for (const log of logs) {
      this.#most = log.endOffset / this.#recordCount;
      this.#lanes.set(log, { log, sent: this.#most, acknowledged: this.#most });
    }
    const { waitsFor } = options;
    store.listen({
      onWritten: (log, endOffset) => (waitsFor === "written" ? this.#acknowledge(log, endOffset) : undefined),
      onDurable: (log, endOffset) => (waitsFor === "durable" ? this.#acknowledge(log, endOffset) : undefined),
      onRoomChanged: () => this.#feedAll(),
      onDamaged: (log) => fail(new Error(log.damage?.reason)),
      onRefused: () => fail(new Error("the disk is full")),
      onDiskFailed: fail,
    });
  }

  static async open(
    deps: StorageDeps,
    config: StorageConfig,
    load: { readonly partitions: number; readonly batchBytes: number; readonly waitsFor: WaitsFor },
  ): Promise<StoreFeeder> {
    const store = await openLogStore(deps, config);
    const topicId: TopicId = uuidFromBytes(new Uint8Array(16).fill(1));
    const logs: ReplicaLog[] = [];
    for (let partition = 0; partition < load.partitions; partition++)
      logs.push(await store.createLog({ topicId, topic: "bench", partition: partition as PartitionIndex }));
    return new StoreFeeder(store, logs, { batch: makeBatch(deps, load.batchBytes), waitsFor: load.waitsFor });
  }

  get batchBytes(): number {
    return this.#batch.length;
  }

  /** Makes the batches of so many on each log, as connections would have brought them. */
  makeReady(batchesPerLog: number): void {
    for (let left = batchesPerLog * this.#lanes.size - this.#ready.length; left > 0; left--)
      this.#ready.push(this.#batch.slice());
  }

  /** So many more batches on each log; resolves when all are acknowledged. */
  run(batchesPerLog: number, inFlight: number): Promise<void> {
    this.#most += batchesPerLog;
    this.#inFlight = inFlight;
    this.#open = this.#lanes.size;
    return new Promise((resolve) => {
      this.#done = resolve;
      this.#feedAll();
    });
  }

  #feedAll(): void {
    for (const lane of this.#lanes.values()) this.#feed(lane);
  }

  #feed(lane: Lane): void {
    const { log } = lane;
    while (lane.sent < this.#most && lane.sent - lane.acknowledged < this.#inFlight && this.store.hasRoom) {
      const batch = this.#ready.pop() ?? this.#batch.slice();
      assignOffsets(batch, log.endOffset, 0);
      log.append(batch, (log.endOffset + this.#recordCount - 1) as Offset, 0 as LeaderEpoch);
      lane.sent++;
    }
  }

  #acknowledge(log: ReplicaLog, endOffset: number): void {
    const lane = this.#lanes.get(log);
    if (lane === undefined || lane.acknowledged === this.#most) return;
    lane.acknowledged = endOffset / this.#recordCount;
    if (lane.acknowledged < this.#most) return this.#feed(lane);
    this.#open--;
    if (this.#open === 0) this.#done();
  }
}

function fail(error: Error): never {
  throw error;
}
