// The scrub (D-16, D-17): everything in segment files is read again and checked at least once a period, as fast as its bound allows, so that rot is found
// while another replica still has what was lost. One loop a store, one segment at a time; nothing is held for a log.
//
// A segment is opened by its name: a handle that is open still hides that the file is gone.
import { assert } from "../base/assert.ts";
import { FileError } from "../ports/files.ts";
import { isPassing, isUnreadable } from "./faults.ts";
import { Pace, Stopped, WAIT_MS_MIN } from "./pace.ts";
import type { ReplicaLogImpl } from "./replica-log.ts";
import type { Segment } from "./segment.ts";
import type { MaintenanceConfig, StorageDeps } from "./types.ts";

/** A start has other things to do first. */
const FIRST_PASS_MS_MAX = 60_000;
const FIRST_PASS_PART = 10;

export interface ScrubHost {
  readonly deps: StorageDeps;
  readonly logs: Iterable<ReplicaLogImpl>;
  onScrubbed(sizeBytes: number): void;
  onScrubPass(durationMs: number): void;
  /** A defect. */
  onScrubFailed(thrown: unknown): void;
}

export class Scrub {
  readonly #host: ScrubHost;
  readonly #config: MaintenanceConfig;
  readonly #pace: Pace;
  #running: Promise<void> | undefined;

  constructor(host: ScrubHost, config: MaintenanceConfig) {
    this.#host = host;
    this.#config = config;
    this.#pace = new Pace(host.deps.timers, config.scrubBytesPerSecond);
  }

  start(): void {
    assert(this.#running === undefined, "the scrub runs");
    this.#running = this.#run().catch((thrown: unknown) => this.#host.onScrubFailed(thrown));
  }

  /** Resolves when nothing is being read any more. */
  async stop(): Promise<void> {
    this.#pace.stop();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { scrubPeriodMs } = this.#config;
    const { clock, logger } = this.#host.deps;
    await this.#pace.sleep(Math.min(FIRST_PASS_MS_MAX, scrubPeriodMs / FIRST_PASS_PART));
    while (!this.#pace.isStopped) {
      const startedMs = clock.monoMs();
      await this.#pass();
      const durationMs = clock.monoMs() - startedMs;
      if (this.#pace.isStopped) return;
      this.#host.onScrubPass(durationMs);
      if (durationMs > scrubPeriodMs) logger.warn("scrub_is_late", { durationMs, periodMs: scrubPeriodMs });
      await this.#pace.sleep(Math.max(scrubPeriodMs - durationMs, WAIT_MS_MIN));
    }
  }

  async #pass(): Promise<void> {
    for (const log of [...this.#host.logs]) {
      for (const segment of [...log.segments.all]) {
        if (this.#pace.isStopped) return;
        await this.#segment(log, segment);
      }
    }
  }

  async #segment(log: ReplicaLogImpl, segment: Segment): Promise<void> {
    const { cuts } = segment;
    const { truncations } = log;
    const isThere = (): boolean =>
      !log.isDeleted &&
      log.damage === undefined &&
      segment.cuts === cuts &&
      log.truncations === truncations &&
      log.segments.all.includes(segment);
    if (!isThere()) return;
    try {
      await log.segments.verify(segment, { isThere, onRead: (sizeBytes) => this.#onRead(sizeBytes) });
      // The next checkpoint writes it again.
      if (isThere() && (await log.segments.indexes.refresh(segment)))
        this.#host.deps.logger.warn("index_made_anew", { segment: segment.path });
    } catch (thrown) {
      if (thrown instanceof Stopped) return;
      // While files change their names one of them may be missing.
      await log.segments.swapping;
      if (!isThere() || isPassing(thrown)) return;
      if (!isUnreadable(thrown) && !(thrown instanceof FileError)) throw thrown;
      segment.isSuspect = true;
      log.markDamaged(thrown, segment.base);
    }
  }

  async #onRead(sizeBytes: number): Promise<void> {
    this.#pace.throwIfStopped();
    this.#host.onScrubbed(sizeBytes);
    await this.#pace.spend(sizeBytes);
  }
}
