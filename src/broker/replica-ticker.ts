// Twice a second: every core that keeps time is told what time it is, and what the replicas of this broker look like goes to the metrics.
import type { Clock } from "../ports/clock.ts";
import type { TimerHandle, Timers } from "../ports/timers.ts";
import type { BrokerMetrics } from "./metrics.ts";
import type { Replica } from "./replica.ts";
import type { ReplicaManager } from "./replica-manager.ts";

const TICK_MS = 500;

export interface ReplicaTickerDeps {
  readonly replicas: ReplicaManager;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly metrics: BrokerMetrics;
  /** Once per tick, after the cores. */
  readonly onTick: () => void;
  readonly guard: (work: () => void) => void;
}

/** Of the partitions led here. */
export interface ReplicaSummary {
  /** Fewer replicas are in sync than there are. */
  readonly underReplicated: number;
  /** Fewer replicas are in sync than min.insync.replicas. */
  readonly belowMinIsr: number;
}

export class ReplicaTicker {
  readonly #deps: ReplicaTickerDeps;
  #timer: TimerHandle | undefined;

  constructor(deps: ReplicaTickerDeps) {
    this.#deps = deps;
  }

  start(): void {
    this.#timer = this.#deps.timers.after(TICK_MS, () => {
      this.start();
      this.#deps.guard(() => this.#tick());
    });
  }

  stop(): void {
    this.#timer?.cancel();
  }

  #tick(): void {
    const { replicas, clock, metrics, onTick } = this.#deps;
    const nowMs = clock.monoMs();
    const { eligible } = replicas;
    for (const replica of replicas.all)
      if (keepsTime(replica, replicas.led, nowMs)) replicas.step(replica, { kind: "tick", eligible, nowMs });
    const { underReplicated, belowMinIsr } = summaryOf(replicas.led);
    metrics.producers.set(producersOf(replicas.led));
    metrics.underReplicated.set(underReplicated);
    metrics.belowMinIsr.set(belowMinIsr);
    metrics.replicationLagMax.set(lagMaxOf(replicas.led, nowMs));
    onTick();
  }
}

/** A leader without followers waits for nobody; a follower only where something has to be tried again. */
function keepsTime(replica: Replica, led: ReadonlySet<Replica>, nowMs: number): boolean {
  const { record, core } = replica;
  if (record === undefined) return false;
  if (led.has(replica)) return record.replicas.length > 1;
  return core.retryAtMs !== undefined && core.retryAtMs <= nowMs;
}

export function summaryOf(led: Iterable<Replica>): ReplicaSummary {
  let underReplicated = 0;
  let belowMinIsr = 0;
  for (const { record } of led) {
    if (record === undefined || record.isr.length === record.replicas.length) continue;
    underReplicated++;
    if (record.isr.length < record.minIsr) belowMinIsr++;
  }
  return { underReplicated, belowMinIsr };
}

/** Idempotent producers that they remember. */
function producersOf(led: Iterable<Replica>): number {
  let count = 0;
  for (const { core } of led) count += core.producers.size;
  return count;
}

/** Most records that a follower of any of them lacks. */
function lagMaxOf(led: Iterable<Replica>, nowMs: number): number {
  let lagMax = 0;
  for (const { record, core } of led) {
    if (record === undefined || record.replicas.length === 1) continue;
    // Where all is committed and all are in sync nobody lacks anything.
    if (core.highWatermark === core.endOffset && record.isr.length === record.replicas.length) continue;
    for (const { endOffset, nodeId } of core.describe(nowMs).replicas)
      if (nodeId !== record.leader && endOffset >= 0) lagMax = Math.max(lagMax, core.endOffset - endOffset);
  }
  return lagMax;
}
