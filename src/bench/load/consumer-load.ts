// Connections that read: a topic that is there, over and over (consume), or what is being produced meanwhile (e2e).
import type { Client, Consumer, RecordBatchView } from "../../client/types.ts";
import type { PaceClock } from "./pace.ts";
import { StampReader } from "./payload.ts";
import { Received } from "./received.ts";
import type { Recorder } from "./recorder.ts";
import type { LoadPlan } from "./types.ts";

export interface ConsumerParts {
  readonly plan: LoadPlan;
  readonly client: Client;
  readonly recorder: Recorder;
  readonly clock: PaceClock;
  readonly partitions: readonly number[];
}

/** Which partitions a connection reads: its share of all, or with more connections than partitions one of them. */
export function partitionsOf(number: number, connections: number, partitions: number): number[] {
  if (connections > partitions) return [number % partitions];
  const all = Array.from({ length: partitions }, (_, partition) => partition);
  return all.filter((partition) => partition % connections === number);
}

/** Reads its partitions from the start to their end, and again, until the measured time is over. */
export class ReplayLoad {
  readonly #parts: ConsumerParts;
  readonly #consumer: Consumer;

  constructor(parts: ConsumerParts) {
    const { client, plan, partitions } = parts;
    this.#parts = parts;
    this.#consumer = client.consumer({ topics: [plan.topic], partitions, from: "start" });
  }

  async run(): Promise<void> {
    const { recorder, clock } = this.#parts;
    // A broker that never answers must not hold the end up.
    const watch = setInterval(() => {
      if (clock.nowMs() >= recorder.untilMs) void this.#consumer.close();
    }, 100);
    try {
      let askedMs = clock.nowMs();
      for await (const batch of this.#consumer.batches()) {
        const nowMs = clock.nowMs();
        if (nowMs >= recorder.untilMs) break;
        const bytes = valueBytesOf(batch);
        if (recorder.isMeasured(askedMs, nowMs)) {
          recorder.timed(nowMs - askedMs, nowMs, 1);
          recorder.counted(nowMs, batch.recordCount, bytes);
        }
        this.#rewind(batch);
        askedMs = clock.nowMs();
      }
    } finally {
      clearInterval(watch);
      await this.#consumer.close();
    }
  }

  #rewind({ topic, partition, highWatermark }: RecordBatchView): void {
    const position = this.#consumer.position(topic, partition);
    if (position !== undefined && position >= highWatermark) this.#consumer.seek(topic, partition, "start");
  }
}

/** Looks at every record, as whoever reads them does. */
function valueBytesOf(batch: RecordBatchView): number {
  let bytes = 0;
  for (const { value } of batch) bytes += value?.length ?? 0;
  return bytes;
}

/** Reads stamped records as they come; the time of each is from when it was due. */
export class FollowLoad {
  readonly #parts: ConsumerParts;
  readonly #consumer: Consumer;
  readonly #received: Received;
  readonly #stamp = new StampReader();
  /** Where to end, by partition; undefined while producers are at work. */
  #ends: Map<number, number> | undefined;
  #reading: Promise<void> | undefined;

  constructor(parts: ConsumerParts) {
    const { client, plan, partitions } = parts;
    this.#parts = parts;
    this.#received = new Received(plan.connections);
    this.#consumer = client.consumer({ topics: [plan.topic], partitions, from: "start" });
  }

  start(): void {
    this.#reading = this.#read();
    // Told by `drain`, or by the end of the process.
    this.#reading.catch(() => undefined);
  }

  async #read(): Promise<void> {
    const { plan, recorder, clock } = this.#parts;
    for await (const batch of this.#consumer.batches()) {
      const nowMs = clock.nowMs();
      for (const { value } of batch) {
        if (!this.#stamp.read(value)) throw new RangeError(`a record of ${batch.topic}-${batch.partition} is not ours`);
        const { connection, sequence, dueMs } = this.#stamp;
        recorder.took(dueMs, nowMs, 1, value?.length ?? 0);
        if (plan.isChecked) this.#received.take(batch.partition, connection, sequence);
      }
      this.#endWhenThere();
    }
  }

  /** Reads up to these ends; resolves to the partitions where that did not come about in time. */
  async drain(ends: ReadonlyMap<number, number>, timeoutMs: number): Promise<number[]> {
    this.#ends = new Map(ends);
    this.#endWhenThere();
    const limit = setTimeout(() => void this.#consumer.close(), timeoutMs);
    await this.#reading;
    clearTimeout(limit);
    return [...this.#ends.keys()];
  }

  #endWhenThere(): void {
    if (this.#ends === undefined) return;
    const { plan } = this.#parts;
    for (const [partition, endOffset] of this.#ends)
      if (endOffset === 0 || (this.#consumer.position(plan.topic, partition) ?? 0) >= endOffset)
        this.#ends.delete(partition);
    if (this.#ends.size === 0) void this.#consumer.close();
  }

  received() {
    return this.#received.summary();
  }
}
