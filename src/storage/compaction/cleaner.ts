// The cleaner of a store: one log after another, the one that needs it most first, within a bound of bytes per second (S-34). A log that cannot be
// compacted does not keep the others from it (S-43).
import { assert } from "../../base/assert.ts";
import { CLEANUP } from "../../model/config-values.ts";
import { FileError } from "../../ports/files.ts";
import { isDiskFailure, isPassing } from "../faults.ts";
import { Pace, Stopped } from "../pace.ts";
import type { ReplicaLogImpl } from "../replica-log.ts";
import type { MaintenanceConfig, StorageDeps } from "../types.ts";
import { compact, type PassResult } from "./pass.ts";
import { type Cleanable, cleanableOf, mostUrgent } from "./plan.ts";

/** A log that failed is left alone for so many rests. */
const FAILED_RESTS = 20;

export interface CleanerHost {
  readonly deps: StorageDeps;
  readonly logs: Iterable<ReplicaLogImpl>;
  /** Compaction needs room before it gives some back. */
  readonly isLowOnSpace: boolean;
  onCompacted(result: PassResult, durationMs: number): void;
  onCompactionFailed(): void;
  /** A write or a sync failed (D-13). */
  onCleanerDiskFailed(thrown: unknown): void;
}

interface Candidate {
  readonly log: ReplicaLogImpl;
  readonly cleanable: Cleanable;
  readonly settings: ReplicaLogImpl["segments"]["settings"];
}

export class Cleaner {
  readonly #host: CleanerHost;
  readonly #config: MaintenanceConfig;
  readonly #pace: Pace;
  /** Those whose files wait for a checkpoint. Bound: the logs. */
  readonly #waiting = new Set<ReplicaLogImpl>();
  /** Until when they are left alone. */
  readonly #failed = new WeakMap<ReplicaLogImpl, number>();
  #running: Promise<void> | undefined;

  constructor(host: CleanerHost, config: MaintenanceConfig) {
    this.#host = host;
    this.#config = config;
    this.#pace = new Pace(host.deps.timers, config.cleanerBytesPerSecond);
  }

  start(): void {
    assert(this.#running === undefined, "the cleaner runs");
    this.#running = this.#run();
  }

  /** Resolves when nothing is being read or written any more. */
  async stop(): Promise<void> {
    this.#pace.stop();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#pace.isStopped) {
      const candidate = this.#choose();
      if (candidate === undefined) await this.#pace.sleep(this.#config.cleanerBackoffMs);
      else await this.#compact(candidate);
    }
  }

  #choose(): Candidate | undefined {
    if (this.#host.isLowOnSpace) return undefined;
    const { clock } = this.#host.deps;
    const candidates: Candidate[] = [];
    for (const log of this.#host.logs) {
      const { settings } = log.segments;
      if ((settings.cleanupPolicy & CLEANUP.COMPACT) === 0 || log.damage !== undefined || log.isDeleted) continue;
      if (this.#waiting.has(log) || (this.#failed.get(log) ?? 0) > clock.monoMs()) continue;
      // Those of the last pass are free with the checkpoint behind theirs.
      if (!log.segments.cleanedNames.areFree) continue;
      const { startOffset, highWatermark, cleanedTo } = log;
      const looked = { segments: log.segmentViews(), startOffset, highWatermark, cleanedTo, settings };
      const cleanable = cleanableOf(looked, clock.wallMs());
      if (cleanable !== undefined) candidates.push({ log, cleanable, settings });
    }
    return mostUrgent(candidates);
  }

  async #compact({ log, cleanable }: Candidate): Promise<void> {
    const { deps } = this.#host;
    const startedMs = deps.clock.monoMs();
    const dedupeBytes = this.#config.cleanerDedupeBytes;
    try {
      const result = await compact(log, cleanable, {
        deps,
        dedupeBytes,
        pace: (sizeBytes) => this.#pace.spend(sizeBytes),
        breathe: () => this.#pace.breathe(),
      });
      this.#waiting.add(log);
      void result.isDone.then((isDone) => {
        this.#waiting.delete(log);
        if (!isDone) this.#failed.set(log, deps.clock.monoMs() + this.#config.cleanerBackoffMs);
      });
      const durationMs = deps.clock.monoMs() - startedMs;
      this.#host.onCompacted(result, durationMs);
      const { isDone: _, ...figures } = result;
      deps.logger.debug("log_compacted", { topic: log.topic, partition: log.partition, durationMs, ...figures });
    } catch (thrown) {
      if (!(thrown instanceof Stopped)) this.#onFailed(log, thrown);
    }
  }

  #onFailed(log: ReplicaLogImpl, thrown: unknown): void {
    const { clock, logger } = this.#host.deps;
    this.#failed.set(log, clock.monoMs() + FAILED_RESTS * this.#config.cleanerBackoffMs);
    // Its files went with it, or a read has met damage and told.
    if (log.isDeleted || log.damage !== undefined) return;
    this.#host.onCompactionFailed();
    const error = thrown instanceof Error ? thrown.message : String(thrown);
    logger.warn("log_not_compacted", { topic: log.topic, partition: log.partition, error });
    const isOfDisk = isDiskFailure(thrown) || (thrown instanceof FileError && !isPassing(thrown));
    if (isOfDisk) this.#host.onCleanerDiskFailed(thrown);
  }
}
