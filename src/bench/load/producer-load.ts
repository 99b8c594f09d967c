// One connection that produces: its own client, by schedule or as fast as there is room.
import type { BatchReport, Client, Producer } from "../../client/types.ts";
import { OttlaError } from "../../model/errors.ts";
import type { LatencyHistogram } from "../histogram.ts";
import { Lane } from "./lanes.ts";
import { type PaceClock, paceClosed, paceOpen } from "./pace.ts";
import type { Payload } from "./payload.ts";
import type { Recorder } from "./recorder.ts";
import { type LoadPlan, NOT_SENT, type PartitionCount, type SentLane, type Span } from "./types.ts";

/** Bound over all connections: bytes that wait for room or an answer. */
const BUFFER_BYTES_MAX = 512 * 1024 * 1024;
/** How long what is under way at the end of the measured time may take. */
const DRAIN_MS = 30_000;
/** A record's share of its batch beside its value: lengths and differences. */
const RECORD_OVERHEAD_BYTES = 8;

export interface ProducerParts {
  readonly plan: LoadPlan;
  readonly number: number;
  readonly client: Client;
  readonly recorder: Recorder;
  readonly clock: PaceClock;
  readonly late: LatencyHistogram;
  /** Of all connections of the process. */
  readonly payload: Payload;
}

export class ProducerLoad {
  readonly #parts: ProducerParts;
  readonly #lanes = new Map<number, Lane>();
  readonly #producer: Producer;
  /** Records that go to one partition before the next one has its turn. */
  readonly #turn: number;
  #partition: number;
  #inTurn = 0;

  constructor(parts: ProducerParts) {
    const { plan, number, client } = parts;
    this.#parts = parts;
    this.#partition = number % plan.partitions;
    this.#turn = turnOf(plan);
    const shareBytes = Math.floor(BUFFER_BYTES_MAX / plan.connections);
    this.#producer = client.producer({
      acks: plan.acks,
      batchBytes: plan.batchBytes,
      lingerMs: plan.lingerMs,
      maxInFlight: plan.inFlight,
      // Room for what is under way and for one batch that grows; never less than two.
      bufferBytes: Math.max(2 * plan.batchBytes, Math.min(shareBytes, (plan.inFlight + 1) * plan.batchBytes)),
      onBatch: (report) => this.#onBatch(report),
    });
  }

  async prepare(): Promise<void> {
    await this.#producer.prepare(this.#parts.plan.topic);
  }

  /** Resolves when everything that it sent has its answer, or was given up. */
  async run(span: Span): Promise<void> {
    const { plan, recorder, clock, number } = this.#parts;
    const untilMs = () => recorder.untilMs;
    const giveUpMs = () => untilMs() + DRAIN_MS;
    // A broker that never answers must not hold the end up: closing makes room.
    const watch = setInterval(() => {
      if (clock.nowMs() >= (plan.mode === "open" ? giveUpMs() : untilMs()))
        void this.#producer.close({ timeoutMs: DRAIN_MS });
    }, 100);
    try {
      if (plan.mode === "closed") await paceClosed({ clock, untilMs, send: (dueMs) => this.#send(dueMs) });
      else {
        const intervalMs = (plan.connections * 1000) / plan.ratePerSecond;
        // Connections take turns, so that the whole is as even as one of them.
        const firstMs = span.beginMs + (number / plan.connections) * intervalMs;
        const send = (dueMs: number) => this.#sendOpen(dueMs);
        recorder.missed(NOT_SENT, await paceOpen({ clock, firstMs, intervalMs, untilMs, giveUpMs, send }));
      }
    } catch (thrown) {
      if (!(thrown instanceof OttlaError && thrown.code === "CLOSED")) throw thrown;
    } finally {
      clearInterval(watch);
    }
    await this.#producer.close({ timeoutMs: DRAIN_MS });
  }

  #sendOpen(dueMs: number): Promise<void> | undefined {
    const { clock, late, recorder } = this.#parts;
    const nowMs = clock.nowMs();
    if (recorder.isMeasured(dueMs, nowMs)) late.record(nowMs - dueMs);
    return this.#send(dueMs);
  }

  #send(dueMs: number): Promise<void> | undefined {
    const { plan, number, payload } = this.#parts;
    if (this.#inTurn++ === this.#turn) {
      this.#partition = (this.#partition + 1) % plan.partitions;
      this.#inTurn = 1;
    }
    const lane = this.#lane(this.#partition);
    const isStamped = plan.verb === "e2e";
    const stamp = { connection: number, sequence: lane.next, dueMs };
    const value = isStamped ? payload.stamped(stamp) : payload.next();
    const room = this.#producer.enqueue(plan.topic, { value, partition: lane.partition });
    lane.sent(dueMs);
    return room;
  }

  #lane(partition: number): Lane {
    let lane = this.#lanes.get(partition);
    if (lane === undefined) this.#lanes.set(partition, (lane = new Lane(partition)));
    return lane;
  }

  #onBatch({ partition, recordCount, error }: BatchReport): void {
    const { plan, recorder, clock } = this.#parts;
    const nowMs = clock.nowMs();
    this.#lane(partition).answered(recordCount, error !== undefined, (dueMs, count) => {
      if (error !== undefined) recorder.failed(error.code, dueMs, nowMs, count);
      else if (plan.verb === "produce") recorder.took(dueMs, nowMs, count, count * plan.recordBytes);
    });
  }

  acknowledged(): PartitionCount[] {
    return [...this.#lanes.values()].map(({ partition, acknowledged }) => [partition, acknowledged] as const);
  }

  sentLanes(): SentLane[] {
    return [...this.#lanes.values()].map((lane) => lane.summary(this.#parts.number));
  }
}

/** As records without a key do: a batch's worth, or what comes while a batch waits for more. */
function turnOf({ batchBytes, recordBytes, mode, ratePerSecond, connections, lingerMs }: LoadPlan): number {
  const fitting = Math.max(1, Math.floor(batchBytes / (recordBytes + RECORD_OVERHEAD_BYTES)));
  if (mode === "closed") return fitting;
  return Math.max(1, Math.min(fitting, Math.ceil((ratePerSecond / connections / 1000) * lingerMs)));
}
