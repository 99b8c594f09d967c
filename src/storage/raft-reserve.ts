// Room that the metadata log gives up on a full disk, so that what keeps the quorum going can still be written (D-18, D-19).
import type { Clock } from "../ports/clock.ts";
import type { Files } from "../ports/files.ts";
import type { Logger } from "../ports/logger.ts";
import { datasync, isNotFound, isPassing, RETRY_AFTER_MS } from "./faults.ts";
import { emptyFile, withFile } from "./file-work.ts";
import { join, RESERVE } from "./paths.ts";

/** Some thousand small entries. */
const RESERVE_BYTES = 256 * 1024;
/** It is made again when this much is free: what it takes must not be what the next write lacks. */
const FREE_BYTES = 4 * RESERVE_BYTES;

interface ReserveDeps {
  readonly files: Files;
  readonly clock: Clock;
  readonly logger: Logger;
}

export class RaftReserve {
  readonly #deps: ReserveDeps;
  readonly #directory: string;
  readonly #path: string;
  #isHeld = false;
  #triedAtMs = Number.NEGATIVE_INFINITY;

  constructor(deps: ReserveDeps, directory: string) {
    this.#deps = deps;
    this.#directory = directory;
    this.#path = join(directory, RESERVE);
  }

  /** True when room was made; rejects with what is final. Its file tells, not what was made since the start: on a disk that was full then nothing was. */
  async giveUp(): Promise<boolean> {
    this.#isHeld = false;
    this.#triedAtMs = this.#deps.clock.monoMs();
    try {
      const bytes = await emptyFile(this.#deps.files, this.#path);
      if (bytes > 0) this.#deps.logger.warn("metadata_reserve_given_up", { bytes });
      return bytes > 0;
    } catch (thrown) {
      if (!isPassing(thrown) && !isNotFound(thrown)) throw thrown;
      // Somebody may have removed it: then there is no more room than there was.
      this.#deps.logger.warn("metadata_reserve_missing", { error: String(thrown) });
      return false;
    }
  }

  /** Makes it, at most once a second, if there is room for more than it. Rejects only with what is final. */
  async ensure(): Promise<void> {
    const nowMs = this.#deps.clock.monoMs();
    if (this.#isHeld || nowMs - this.#triedAtMs < RETRY_AFTER_MS) return;
    this.#triedAtMs = nowMs;
    try {
      if ((await this.#freeBytes()) >= FREE_BYTES) await this.#make();
    } catch (thrown) {
      if (!isPassing(thrown)) throw thrown;
      this.#deps.logger.warn("metadata_reserve_not_made", { error: String(thrown) });
    }
  }

  async #freeBytes(): Promise<number> {
    try {
      return await this.#deps.files.freeBytes(this.#directory);
    } catch (thrown) {
      this.#deps.logger.warn("free_space_unknown", { error: String(thrown) });
      return 0;
    }
  }

  async #make(): Promise<void> {
    await withFile(this.#deps.files, { path: this.#path, mode: "open-or-create" }, async (handle) => {
      const size = await handle.size();
      if (size < RESERVE_BYTES) await handle.write(size, [new Uint8Array(RESERVE_BYTES - size)]);
      await datasync(handle);
      this.#isHeld = true;
    });
  }
}
