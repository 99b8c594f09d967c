// Retention: one timer for all partitions led here. Each is looked at without opening a file; followers take the log start from their leader.
import type { Clock } from "../ports/clock.ts";
import type { Logger } from "../ports/logger.ts";
import type { Counter } from "../ports/metrics.ts";
import type { TimerHandle, Timers } from "../ports/timers.ts";
import { type RetentionPass, type RetentionVerdict, retained, wholeSegmentsTo } from "../storage/retention.ts";
import { raiseLogStart } from "./log-starts.ts";
import type { Replica } from "./replica.ts";
import type { ReplicaManager } from "./replica-manager.ts";

/** The first pass comes no later than this (S-11). */
const FIRST_MS_MAX = 30_000;
/** Partitions looked at in one turn. */
const TURN_MAX = 256;
/** D-23: the wall clock went so much further, either way, than time did. */
const CLOCK_JUMP_MS = 3_600_000;

export interface RetentionDeps {
  readonly replicas: ReplicaManager;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly logger: Logger;
  readonly counters: { readonly bySize: Counter; readonly byTime: Counter };
  readonly guard: (work: () => void) => void;
}

/**
 * D-23: a clock that jumps over an hour may be wrong, and what it would delete is gone for good. So from then on each log loses at most one segment a
 * pass by time, until a pass finds no more than one that is old enough. Size knows no clock.
 *
 * Example: retention.ms 7 d, a segment a day; the clock jumps ahead by a year
 *            pass 1 to 6 -> one segment each; whoever looks has half an hour at the default interval for six of seven days
 */
export class RetentionLoop {
  readonly #deps: RetentionDeps;
  readonly #everyMs: number;
  /** Clocks at the last pass. */
  #last: { readonly wallMs: number; readonly monoMs: number } | undefined;
  /** Jumps of the clock that were seen. */
  #jumps = 0;
  /** Which of them each log has caught up with: also one that is led here only after them has to. */
  readonly #caughtUp = new WeakMap<Replica, number>();
  #timer: TimerHandle | undefined;
  #isStopped = false;

  constructor(deps: RetentionDeps, everyMs: number) {
    this.#deps = deps;
    this.#everyMs = everyMs;
  }

  start(): void {
    this.#last = this.#now();
    this.#after(Math.min(this.#everyMs, FIRST_MS_MAX));
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
  }

  #after(delayMs: number): void {
    this.#timer = this.#deps.timers.after(delayMs, () => this.#deps.guard(() => this.#pass()));
  }

  #now(): { readonly wallMs: number; readonly monoMs: number } {
    const { clock } = this.#deps;
    return { wallMs: clock.wallMs(), monoMs: clock.monoMs() };
  }

  #pass(): void {
    const { replicas, logger } = this.#deps;
    const now = this.#now();
    const last = this.#last ?? now;
    this.#last = now;
    const jumpMs = Math.round(now.wallMs - last.wallMs - (now.monoMs - last.monoMs));
    if (Math.abs(jumpMs) > CLOCK_JUMP_MS) {
      logger.warn("clock_jumped", { jumpMs, nowMs: now.wallMs });
      this.#jumps++;
    }
    this.#look([...replicas.led], 0, now.wallMs);
  }

  /** Some of them a turn. */
  #look(led: readonly Replica[], from: number, nowMs: number): void {
    if (this.#isStopped) return;
    const end = Math.min(led.length, from + TURN_MAX);
    for (let at = from; at < end; at++) this.#lookAt(led[at] as Replica, nowMs);
    if (end === led.length) this.#after(this.#everyMs);
    else this.#deps.timers.defer(() => this.#deps.guard(() => this.#look(led, end, nowMs)));
  }

  #lookAt(replica: Replica, nowMs: number): void {
    const { core, limits, damage } = replica;
    const isOff = limits.retentionMs < 0 && limits.retentionBytes < 0;
    if (isOff || !core.isLeader || damage !== undefined || core.startOffset === core.highWatermark) return;
    // What is told of producers would be told again, only to be deleted again.
    if (core.startOffset >= core.producers.toldFrom) return;
    const isPaced = (this.#caughtUp.get(replica) ?? 0) < this.#jumps;
    const pass = { nowMs, byTimeMax: isPaced ? 1 : Number.POSITIVE_INFINITY };
    const verdict = verdictOn(replica, pass);
    if (isPaced && verdict.putOff === 0) this.#caughtUp.set(replica, this.#jumps);
    if (verdict.startOffset > core.startOffset) this.#let(replica, verdict, pass);
  }

  #let(replica: Replica, { startOffset, bySize, byTime, putOff }: RetentionVerdict, pass: RetentionPass): void {
    const { replicas, logger, counters } = this.#deps;
    const { topicName: topic, log } = replica;
    logger.info("retention", { topic, partition: log.partition, startOffset, bySize, byTime, putOff });
    counters.bySize.add(bySize);
    counters.byTime.add(byTime);
    raiseLogStart(replicas, replica, {
      toOffset: startOffset,
      // D-23: nobody is forgotten by a clock that jumped.
      mayExpire: pass.byTimeMax > 1,
      // By then compaction may have made one of several segments, and less of all, or the topic may be kept for longer.
      dueTo: () => wholeSegmentsTo(log.segmentViews(), Math.min(startOffset, verdictOn(replica, pass).startOffset)),
    });
  }
}

function verdictOn({ core, log, limits }: Replica, pass: RetentionPass): RetentionVerdict {
  const { startOffset, highWatermark, endOffset } = core;
  return retained({ segments: log.segmentViews(), startOffset, highWatermark, endOffset }, limits, pass);
}
