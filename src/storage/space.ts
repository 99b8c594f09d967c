// Room on the disk: the low-space mark, polled, and the reserve, really allocated bytes that are given up when the disk is
// full so that checkpoints, truncations and deletions still fit (D-18).
import { mutant } from "../base/mutant.ts";
import type { Clock } from "../ports/clock.ts";
import type { Files } from "../ports/files.ts";
import type { Logger } from "../ports/logger.ts";
import type { TimerHandle, Timers } from "../ports/timers.ts";
import type { OttlaError } from "../model/errors.ts";
import { datasync, diskFailed, isNotFound, isPassing } from "./faults.ts";
import { join, RESERVE } from "./paths.ts";
import { emptyFile, withFile } from "./file-work.ts";

const POLL_EVERY_MS = 1000;
const POLL_EVERY_BYTES = 64 * 1024 * 1024;
const RESERVE_CHUNK_BYTES = 1024 * 1024;
/** After a write met a full disk, this much must be free before appends are tried again, whatever the mark is. */
const FREE_AFTER_FULL_BYTES = 64 * 1024;

interface SpaceDeps {
  readonly files: Files;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly logger: Logger;
}

interface SpaceConfig {
  readonly directory: string;
  readonly lowBytes: number;
  readonly reserveBytes: number;
}

interface SpaceEvents {
  onChange(): void;
  /** Also a reserve that cannot be synced: the next sync that fails would be of something that matters (D-13). */
  onDiskFailed(error: OttlaError): void;
}

export class SpaceWatch {
  readonly #deps: SpaceDeps;
  readonly #config: SpaceConfig;
  readonly #events: SpaceEvents;
  #isLow = false;
  #wasFull = false;
  #hasReserve = false;
  #making: Promise<void> | undefined;
  #givingUp: Promise<boolean> | undefined;
  #polling: Promise<void> | undefined;
  #polledAtMs: number;
  #bytesSincePoll = 0;
  #timer: TimerHandle | undefined;
  #isStopped = false;

  constructor(deps: SpaceDeps, config: SpaceConfig, events: SpaceEvents) {
    this.#deps = deps;
    this.#config = config;
    this.#events = events;
    this.#polledAtMs = deps.clock.monoMs();
  }

  get isLow(): boolean {
    return this.#isLow;
  }

  /** First look; makes the reserve in the background. */
  async start(): Promise<void> {
    await this.poll();
    this.#makeReserve();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#timer?.cancel();
    await this.#polling;
    await this.#making;
  }

  onWritten(sizeBytes: number): void {
    this.#bytesSincePoll += sizeBytes;
    if (this.#bytesSincePoll < POLL_EVERY_BYTES && this.#deps.clock.monoMs() - this.#polledAtMs < POLL_EVERY_MS) return;
    void this.poll();
  }

  /** A write met a full disk. */
  onFull(): void {
    this.#wasFull = true;
    this.#setLow(true);
  }

  poll(): Promise<void> {
    this.#polling ??= this.#poll().finally(() => {
      this.#polling = undefined;
      this.#pollLater();
    });
    return this.#polling;
  }

  /** Also when nothing is written: others fill the disk too, and a broker that is low on space is given no partitions. */
  #pollLater(): void {
    if (this.#isStopped) return;
    this.#timer?.cancel();
    this.#timer = this.#deps.timers.after(POLL_EVERY_MS, () => void this.poll());
  }

  async #poll(): Promise<void> {
    this.#bytesSincePoll = 0;
    this.#polledAtMs = this.#deps.clock.monoMs();
    try {
      const free = await this.#deps.files.freeBytes(this.#config.directory);
      const needed = this.#wasFull ? Math.max(this.#config.lowBytes, FREE_AFTER_FULL_BYTES) : this.#config.lowBytes;
      if (free >= needed) this.#wasFull = false;
      this.#setLow(free < needed);
      if (!this.#isLow && !this.#hasReserve && free >= needed + this.#config.reserveBytes) this.#makeReserve();
    } catch (thrown) {
      this.#deps.logger.warn("free_space_unknown", { error: String(thrown) });
    }
  }

  #setLow(isLow: boolean): void {
    if (isLow) this.#pollLater();
    if (isLow === this.#isLow) return;
    this.#isLow = isLow;
    this.#events.onChange();
  }

  /** True when room was made. Whoever asks meanwhile waits for the same. */
  giveUpReserve(): Promise<boolean> {
    this.onFull();
    this.#givingUp ??= this.#giveUpReserve().finally(() => {
      this.#givingUp = undefined;
    });
    return this.#givingUp;
  }

  /** Its file tells, not what was made since the start: on a disk that was full then nothing was. */
  async #giveUpReserve(): Promise<boolean> {
    await this.#making;
    this.#hasReserve = false;
    try {
      const bytes = await this.#emptyReserve();
      if (bytes > 0) this.#deps.logger.warn("disk_reserve_given_up", { bytes });
      return bytes > 0;
    } catch {
      return false;
    }
  }

  /** Gives how much it held. */
  async #emptyReserve(): Promise<number> {
    try {
      return await emptyFile(this.#deps.files, join(this.#config.directory, RESERVE));
    } catch (thrown) {
      if (isNotFound(thrown)) return 0;
      throw thrown;
    }
  }

  #makeReserve(): void {
    if (mutant("D-18") || this.#making !== undefined || this.#hasReserve || this.#isLow || this.#isStopped) return;
    this.#making = this.#fillReserve()
      .catch((thrown: unknown) => {
        if (!isPassing(thrown)) return this.#events.onDiskFailed(diskFailed(thrown));
        this.#deps.logger.warn("disk_reserve_not_made", { error: String(thrown) });
        return this.#emptyReserve().then(
          () => undefined,
          () => undefined,
        );
      })
      .finally(() => {
        this.#making = undefined;
      });
  }

  async #fillReserve(): Promise<void> {
    const { directory, reserveBytes } = this.#config;
    await withFile(this.#deps.files, { path: join(directory, RESERVE), mode: "open-or-create" }, async (handle) => {
      const zeros = new Uint8Array(Math.min(RESERVE_CHUNK_BYTES, reserveBytes));
      for (let at = await handle.size(); at < reserveBytes; at += zeros.length) {
        if (this.#isStopped) return;
        await handle.write(at, [zeros.subarray(0, Math.min(zeros.length, reserveBytes - at))]);
      }
      await datasync(handle);
      this.#hasReserve = reserveBytes > 0;
    });
  }
}
